// Package indexer listens to the gRPC server for indexers inside Zebra (rpc.indexer_listen_addr), for one thing: to hear of a new tip
// before the next poll would find it.
//
// It knows nothing of JSON-RPC. What it hears is a hint: what the tip is, zebrarpc.Client.Watch alone says, which polls as ever and is
// merely woken. So whatever this stream does (it may be refused, hang, send garbage, end, flood, or be another node's) costs latency at
// most.
//
// Goroutines: Run works in its caller's; the gRPC client's own are gone when it returns.
//
// Invariants:
//
//	I1  A message is passed on only if it names a block: 32 bytes of hash and a height that can be.
//	I2  At most one message in leastGap is read, however many come: what they cause is bounded by that.
//	I3  A stream that failed is tried again after a pause that doubles from firstPause to lastPause.
//	I4  Coming and going are logged once each, not at every try.
package indexer
