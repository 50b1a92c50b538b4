// Package envelope reads JSON-RPC requests and words replies the way zebrad 7.0.0 does: versions 1.0 and 2.0 and the version-less
// flavour of bitcoind and lightwalletd, batches of version 2.0, and the HTTP around them. It executes nothing.
//
// The JSON-RPC server and the simulated Zebra both use it, so that the recorded answers of a real node, to which the latter is held,
// pin the former too.
package envelope
