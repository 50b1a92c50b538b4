package chain

import "fmt"

// checkMerkleRoot computes the root of the txids, which stand side by side in leaves, and compares it with the block header's.
// It works in place. An odd level repeats its last node; a block that contains such a repetition itself is refused, since it
// could have been made from another block with the same root (CVE-2012-2459).
func checkMerkleRoot(leaves []byte, want [32]byte) error {
	for len(leaves) > 32 {
		parents := leaves[:0]
		for len(leaves) > 32 {
			if string(leaves[:32]) == string(leaves[32:64]) {
				return fmt.Errorf("%w: the block repeats transactions", ErrMerkleRoot)
			}
			node := sha256d(leaves[:64])
			parents = append(parents, node[:]...)
			leaves = leaves[64:]
		}
		if len(leaves) == 32 {
			var pair [64]byte
			copy(pair[:32], leaves)
			copy(pair[32:], leaves)
			node := sha256d(pair[:])
			parents = append(parents, node[:]...)
		}
		leaves = parents
	}
	if got := [32]byte(leaves); got != want {
		return fmt.Errorf("%w: the header says %s, the transactions give %s", ErrMerkleRoot, displayHex(want), displayHex(got))
	}
	return nil
}
