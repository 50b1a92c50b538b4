// Package benchchain is the command `bench chain`: it serves a large synthetic chain as Zebra does, for whoever wants to measure an indexer
// without a node and months of blocks.
//
// It is a room of its own because it links the simulated node, which must not reach what `start` runs.
package benchchain
