// Package lightwallet serves the wallet protocol, the gRPC service cash.z.wallet.sdk.rpc.CompactTxStreamer, from a chain.Source.
//
// It knows the protocol: which answer a request deserves, its byte orders, its status codes and its limits. It does not know where
// blocks come from: a Source may be an index, a Zebra node, or both joined. What only the node can tell comes through Node.
//
// Ranges of blocks leave as runs of finished gRPC frames, many messages in one write (frames.go); everything else is plain grpc-go.
//
// The package starts no goroutine: a handler runs on the one that grpc-go made for its call, and ends when the call's context does.
//
// Invariants:
//
//	W1  Every call ends with a code from status.go; UNKNOWN never leaves, and INTERNAL means a bug of ours.
//	W2  A range ends with OK only after every block from its start to its end was handed to the transport, each linked to the one before.
//	W3  A height never loses bits: it is a uint64 until it is known to be at most chain.MaxHeight.
//	W4  A stream holds at most maxQueuedRuns runs that the client has not taken yet, and one more that waits to be queued.
//	W5  Every View is closed and every Frames released, whatever way a call ends; only runs that grpc-go has queued when a connection
//	    breaks may be left to the garbage collector.
//	W6  What costs the node's processor waits its turn (costly.go), blocks that the index lacks included, and no turn is held while a
//	    client reads.
package lightwallet
