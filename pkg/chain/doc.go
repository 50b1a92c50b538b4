// Package chain knows the words and the wire formats of the Zcash block chain, and nothing of where blocks come from or go to.
//
// It holds the small types that every other package shares (Height, Hash, BlockID, Pool, TreeSizes), the parser of blocks and
// transactions (versions 1 to 6), the transaction ids (SHA-256d, ZIP 244 and the version 6 digests), the Merkle root, the encoder
// that turns a raw block into finished bytes of the wallet protocol's CompactBlock, the one function that cuts such bytes to what a
// client asked for (Project), and the Source and View contracts through which blocks are read.
//
// It starts no goroutine, does no input or output, and compiles in no consensus branch id and no activation height: an upgrade that
// keeps the transaction formats needs no new release.
//
// Invariants that the rest of the program relies on:
//
//	I1  Hashes and txids are in internal byte order, the order in which they are hashed; only String and the Parse functions reverse.
//	I2  CompactBlock fields are written in ascending field number, zero values left out, chainMetadata (field 8) last and always present.
//	I3  The stored bytes of a block are exactly the answer for the default projection (all shielded pools, empty transactions dropped).
//	I4  Parsing never panics, and never allocates more than a constant factor of the input's length.
package chain
