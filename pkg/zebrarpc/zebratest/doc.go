// Package zebratest is a simulated Zebra: a scripted block chain (Chain) served over HTTP (Node) the way zebrad 7.0.0 serves its own.
// Unit tests, the demo and the benchmarks talk to it instead of a real node.
//
// It answers the JSON-RPC methods that tell of the chain's position and of blocks: getblock (verbosity 0 and 1), getblockheader,
// getblockhash, getbestblockhash, getbestblockheightandhash, getblockcount, getblockchaininfo and getinfo, with Zebra's member names
// and order, error codes and texts, HTTP statuses, cookie authentication, request limits and versions of JSON-RPC. Besides, there are
// getrawtransaction, getrawmempool and sendrawtransaction with a small mempool (mempool.go), the address methods, the trees, what a node
// says of itself (nodeinfo.go), and what makes a regtest chain grow and move: generate, generatetoaddress, invalidateblock and
// reconsiderblock (mining.go, branches.go). Any other method is unknown to it (-32601): those that control a node, and of those that read
// gettxout, rpc.discover and the ones about addresses that are not transparent. The tests TestShapesMatchZebrad, TestMempoolMatchesZebrad
// and TestMiningMatchesZebrad ask a real zebrad and a Node the same questions and compare the replies, so what is answered here is pinned
// to the real thing.
//
// Not modelled, and answered with constants of the right type: difficulty, the rate of solutions, the subsidy, the value pools and the supply, the disk size, and the
// Sapling and Orchard roots that a block does not itself contain. No block is verified: a Chain takes what it is given; and no transaction but
// for its format, so that a test makes sendrawtransaction refuse one by a Fault. Of getrawtransaction's verbose result the members that
// repeat the transaction are left out, and its third parameter is not read.
//
// Prune makes a Node one that keeps only its newest blocks, which no zebrad 7.0.0 is, but a node made from it.
//
// A Chain holds what tests need of its blocks in memory. On a Base, such as a longchain.Chain, it holds the newest ones alone.
//
// A Fault makes a Node misbehave on purpose: late, dropped, refused, cut off, wrong.
//
// A Chain starts no goroutine. A Node has one, its HTTP server, from Start to Stop. Both may be used by many goroutines at once.
package zebratest
