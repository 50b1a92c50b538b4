// Package passthrough answers from Zebra what the index cannot answer, and joins the two into the one Source that wallets see.
//
// Zebra is the chain.Source whose blocks are fetched, verified and encoded on the way, with the same encoder as the index and so with
// the same bytes. Joined takes the heights that the index has from the index and the rest from Zebra; which of the two answers a height
// is decided by one pure function, source, and nowhere else. Handlers never ask.
//
// The package keeps no block, but a few tree states and the subtree roots that Zebra has told. It starts one short-lived goroutine per
// range read from Zebra (for the tree sizes of the range's first block and the hash of its highest) and some per list of subtree roots (for the blocks that completed
// them), which the call waits for before it ends. Joined.Run, which asks ahead for tree states, runs in its caller's goroutine.
//
// Invariants:
//
//	P1  A View's tip is fixed when it is opened, and a block of the tip's height is yielded only if it is the tip.
//	P2  Every yielded block's parent is the block yielded before it (after it, descending), also across the joint of index and Zebra.
//	P3  An error ends a range. A block's hash is vouched for by its child in the range, or by Zebra's word on the highest block: a range
//	    that ends without an error was right to the byte.
//	P4  Trees are of the view's own block, bound by its hash, and an unreadable tree is an error, never an empty one.
package passthrough
