// Package chaintest builds serialized blocks and transactions in the real formats, for tests, benchmarks and the demonstration.
//
// What it builds parses, has the right lengths everywhere, and hashes to the Merkle root in its header; keys, proofs, signatures and
// solutions are random bytes, so no node would accept it.
// With Points, which Tx explains, at least every parser takes it. Everything follows from a seed: the same arguments give the same bytes.
// It does not read what it has written: expected values come from elsewhere, or from a test's own slow reader.
package chaintest
