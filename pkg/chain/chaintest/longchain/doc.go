// Package longchain makes chains of thousands to millions of blocks that follow from a seed, and gives any block of them at once without
// holding the chain in memory.
//
// A block's contents depend on the kind of chain, the seed, the length and the height alone, and only its header names the block below.
// So the hashes are found in one pass when a chain is first opened, and kept in a file; blocks are built when they are asked for.
// The file costs 44 bytes a block, 8 for finding it by its hash, and 8 for finding each transaction by its id; memory costs nothing a block.
//
// With a hash for every page alone, any block would cost the hashing of up to a page of headers, and every second of it would be taken from
// the indexer that is being measured on the same machine.
//
// The blocks have valid links, Merkle roots, tree sizes and transaction ids, and the contents parse strictly: points are on their curves
// (chaintest.Points says where they come from: they are computed, not copied), field elements and amounts are in range. Proofs,
// signatures, ciphertexts, scripts' hashes and spent outputs are random bytes, solutions too, and no block meets its difficulty. Field
// "commitments" of the header is random, but zeros at Heartwood's activation, as the rules want it.
//
// # The kinds
//
// The upgrades are activated at fixed parts of the length, about where the test network has them, so that every chain goes through all
// formats: versions 1, 3, 4, 5 and 6.
//
//   - TestnetLike: 99 of 100 blocks have nothing but a coinbase, 55 % of these with two outputs and 45 % with four.
//   - MainnetLike: few transactions a block, transparent ones only before Sapling, then Sapling, Orchard and Ironwood as they came. For an
//     eighth of the chain after NU5 every eighth block has 1 to 2 MB of Sapling spends and outputs, as in the spam of 2022. From NU7 on,
//     blocks come every 25 seconds, and one of 64 has 330 Ironwood actions.
//
// The transactions of the spam are 64 that come again and again with other signatures, so that hashing them costs next to nothing:
// their ids are unique, their nullifiers and notes are not. No other part of a chain repeats.
//
// # The file
//
// All numbers are little-endian. Each checksum is CRC-32C.
//
//	Part     Field          Bytes  What
//	head     magic          8      "ZSLCHAIN"
//	         version        4      of the generator: another one makes other blocks
//	         kind           1      1 TestnetLike, 2 MainnetLike
//	         without NU7    1      0 or 1
//	         zero           2
//	         seed           8
//	         blocks         4
//	         dense blocks   4
//	         bytes          8      of all blocks
//	         transactions   8
//	         runs           4
//	         checksum       4      of the head
//	page     record × 1024  44     hash, then the sizes of the Sapling, Orchard and Ironwood trees; fewer in the last page
//	         checksum       4      of the page
//	run      of what        4      1 block hashes, 2 transaction ids
//	         count          4      entries
//	         entry × count  8      height, then the first four bytes of hash or id as a big-endian number; ascending
//	         checksum       4      of the run
//
// A Chain starts goroutines only in Open, which waits for them. It may be used by many goroutines at once.
package longchain
