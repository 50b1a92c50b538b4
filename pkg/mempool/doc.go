// Package mempool keeps a copy of a Zebra node's mempool for all wallets that ask: one poller, whatever their number.
//
// It knows what is in the mempool and when that was so, and fetches and parses each transaction once. It does not know what wallets
// ask, nor how Zebra is asked: a Node does that.
//
// Run is the only goroutine that asks the node, with a few helpers that it waits for, and is owned by its caller. It polls while
// somebody follows the mempool or has asked for it a moment ago, and is idle otherwise.
//
// Invariants:
//
//	M1  A snapshot is one answer of the node: every id in it, at most MaxAge old, and not older than the last Refresh.
//	M2  A transaction that cannot be parsed stays in the snapshot, without a compact form; it is counted and fails nothing.
//	M3  A follower gets each transaction that any snapshot after its call shows, once, until the tip differs from that at its call.
//	    Followers share nothing that they could take from each other.
//	M4  Snapshots and transactions do not change once published. What is kept of the mempool stays under Options.MaxBytes, and what
//	    does not fit is left out and counted; only a follower whose reader stalls keeps more alive.
package mempool
