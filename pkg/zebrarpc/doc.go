// Package zebrarpc asks a Zebra node over JSON-RPC: single typed questions, whole ranges of blocks, and what the tip is.
//
// It knows HTTP, JSON and Zebra's habits, and gives out the types of package chain: hashes leave it in internal byte order, blocks
// leave it parsed, verified against their own Merkle root and encoded. It does not check that blocks link to each other, keeps no
// block, and does not know what wallets ask.
//
// Who goes first at Zebra is decided in one place (permits.go): single questions before bulk, the two bulk classes sharing the rest
// evenly, the clients of one class sharing its part evenly, and so the iterations of a client. How much is read ahead is decided there too. Questions about transparent
// addresses, which cost Zebra much, are the exception: few are asked at one time, and bulk goes on beside them (patience.go).
//
// Goroutines: Watch runs in its caller's. An iteration of Blocks runs its workers while it lasts and has ended them when it
// returns, however it ends; so does a step of AddressTransactions. Close leaves none behind once all calls have returned.
//
// Invariants:
//
//	I1  Every error about Zebra is an *Error that names URL, method and height or hash, and never a secret.
//	I2  Passing errors match chain.ErrUnavailable; answerable and fatal ones do not.
//	I3  Blocks yields every block before the first that could not be had, in order, and then that one's error.
//	I4  At most MaxInFlight requests are at Zebra; bulk among them stays under the present bulk limit.
//	I5  Bodies in flight and blocks read ahead stay under Options.ReadAhead, but for the block that each iteration needs next and
//	    a small share that no iteration is denied.
//	I6  Values of the JSON parser never leave the function that decodes a reply: they die with the next one.
//	I7  What an address method yields is bounded, however long the history: parts of the range, pages of outputs.
package zebrarpc
