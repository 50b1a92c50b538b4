// Package index keeps the compact form of the whole best chain in one Badger database, grows it from a Node, and reads it back as a
// chain.Source.
//
// A Store holds three kinds of blocks. Sealed blocks lie deeper than SealDepth and never change: many of them share a segment row,
// whose bytes are what the wire sends, and a transparent row for what only some requests ask for. Recent blocks have a row each,
// keyed by height and hash, so that two chains can lie side by side. The layouts are drawn in docs/format.md.
//
// A Builder is the only writer. Its Run owns every goroutine of this package that is not Badger's, and follows the node: find the
// fork, rewind, connect, seal. It knows the node through the Node interface and nothing of Zebra.
//
// Check verifies an index that no process has open, Store.Check the one in use; Repair makes right what Check finds, with blocks of a
// BestChain. All three are the same checker over the rows, and Repair writes through the one commit function like a Builder.
//
// Invariants, which Check verifies on disk and the tests in memory:
//
//	I1  The tip and the rows it names move in one transaction: a crash leaves the one or the other, never half.
//	I2  Heights are dense: segments cover 0 to sealed-1, recent rows sealed to the tip, and each block's parent is the block below it.
//	I3  A sealed block leaves the index only with all above its segment, by a cut, and only for a chain that has proved real (ADR 10).
//	I4  A View reads the chain it was opened on until it is closed: rows that left the best chain are deleted only after that. Of sealed
//	    blocks that were cut off it gets ErrReorged.
//	I5  Bytes that do not match their CRC-32C are never served: their heights count as not indexed.
package index
