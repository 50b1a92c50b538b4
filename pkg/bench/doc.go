// Package bench measures servers of the lightwallet protocol side by side, and checks their answers while it does.
//
// A run asks every target in turn within each round, so that what disturbs the machine disturbs all of them alike; what it gives is a
// Result: per scenario, case and target the values of every round, with what was wrong in Faults. A fast wrong answer is a fault and
// fails the run. Reports (tables, plots, comparisons) are drawn from a Result alone, so that an old one can be drawn again.
//
// A target may be started and stopped by the run itself (StartOptions), for the scenarios index and restart and then for all others. Each is
// a process group of its own, which ends with the run, however that ends. The scenarios tip, reorg and mempool talk to the node behind the
// targets (NodeOptions), which mines and moves its chain for them; what targets serve then is held against what the node says.
//
// The package knows the protocol and the network, and neither our index nor our server: any server can be a target.
package bench
