package chain

import (
	"encoding/hex"
	"errors"
	"fmt"
)

// TreeState is what a wallet starts from instead of reading a pool's whole history: the note commitment trees at the END of one block,
// as Zebra's z_gettreestate gives them.
//
// A tree is the lower-case hex of zcashd's incremental "CommitmentTree" (RPC "finalState"): left leaf, right leaf, and the parents on
// the right edge from the bottom up, each an optional node of 32 bytes. EmptyTree is the tree of a pool without notes, active or not.
type TreeState struct {
	ID   BlockID
	Time uint32 // of the block's header, Unix seconds

	Sapling, Orchard, Ironwood string
}

// EmptyTree is the encoding of a tree without leaves: no left leaf, no right leaf, no parents.
const EmptyTree = "000000"

// SubtreeLeaves is how many leaves a subtree has whose root wallets ask for: 2^16.
const SubtreeLeaves = 1 << 16

// SubtreeRoot is the root of one complete subtree of 2^16 leaves of a pool's note commitment tree.
type SubtreeRoot struct {
	Root       [32]byte // the bytes of z_getsubtreesbyindex "root", not reversed
	Completing BlockID  // the block whose outputs filled the last leaf
}

// Of returns the size of one pool's tree, 0 for the transparent pool, which has none.
func (s TreeSizes) Of(p Pool) uint32 {
	switch p {
	case Sapling:
		return s.Sapling
	case Orchard:
		return s.Orchard
	case Ironwood:
		return s.Ironwood
	}
	return 0
}

// Sizes counts the leaves of the three trees. The error names the pool whose tree cannot be read.
func (s *TreeState) Sizes() (sizes TreeSizes, err error) {
	if sizes.Sapling, err = TreeSize(s.Sapling); err != nil {
		return TreeSizes{}, fmt.Errorf("%s tree: %w", Sapling, err)
	}
	if sizes.Orchard, err = TreeSize(s.Orchard); err != nil {
		return TreeSizes{}, fmt.Errorf("%s tree: %w", Orchard, err)
	}
	if sizes.Ironwood, err = TreeSize(s.Ironwood); err != nil {
		return TreeSizes{}, fmt.Errorf("%s tree: %w", Ironwood, err)
	}
	return sizes, nil
}

// maxParents: a tree of depth 32 has its leaves at level 0 and its root at level 32, so the right edge has parents at levels 1 to 31.
const maxParents = 31

// TreeSize counts the leaves of a tree that is encoded as in a TreeState. The error says where the encoding is not one of a tree.
func TreeSize(tree string) (uint32, error) {
	raw, err := hex.DecodeString(tree)
	if err != nil {
		return 0, err
	}
	r := reader{buf: raw}
	left, right := r.optionalNode("left leaf"), r.optionalNode("right leaf")
	if right && !left {
		r.fail("right leaf", 1, errors.New("there is no left one"))
	}
	var size uint64
	for _, leaf := range []bool{left, right} {
		if leaf {
			size++
		}
	}
	at := r.pos
	parents := r.count(1, "parents")
	if parents > maxParents {
		r.fail("parents", at, fmt.Errorf("%d of at most %d", parents, maxParents))
	}
	for i := 0; i < parents && r.err == nil; i++ {
		if r.optionalNode("parent") {
			size += 2 << i
		}
	}
	if size > 0 && !left {
		r.fail("left leaf", 0, errors.New("there is none, but a parent"))
	}
	if size > 1<<32-1 { // the very last leaf of a tree does not fit into the protocol's sizes either
		r.fail("parents", at, fmt.Errorf("%d leaves do not fit into 32 bits", size))
	}
	r.end(len(raw), "tree")
	if r.err != nil {
		return 0, r.err
	}
	return uint32(size), nil
}

// optionalNode reads 0, or 1 and the 32 bytes of a node, and tells which.
func (r *reader) optionalNode(what string) bool {
	at := r.pos
	b := r.take(1, what)
	if b == nil || b[0] == 0 {
		return false
	}
	if b[0] != 1 {
		r.fail(what, at, fmt.Errorf("byte %d where 0 or 1 belongs", b[0]))
		return false
	}
	return r.take(32, what) != nil
}
