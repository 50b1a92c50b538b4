package zebratest

import (
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// Base is a chain that a Chain can stand on without holding a block of it in memory; longchain.Chain is one. It never changes, and is safe
// for concurrent use.
type Base interface {
	// Len is how many blocks there are, genesis included.
	Len() int
	// At returns the hash of the block at height h, below Len, and the tree sizes at its end.
	At(h chain.Height) (chain.Hash, chain.TreeSizes, error)
	// HeightOf and HeightOfTransaction return where a block or a transaction is, false when it is nowhere.
	HeightOf(hash chain.Hash) (h chain.Height, ok bool, err error)
	HeightOfTransaction(id chain.TxID) (h chain.Height, ok bool, err error)
	// Append appends the raw block of a height, which may be Len or more, on top of prev. Branch 0 gives the blocks of the base itself,
	// any other branch others.
	Append(dst []byte, h chain.Height, prev chain.Hash, branch uint64) []byte
}

// Changeable is how many of the newest blocks of a Base a Chain keeps for itself, so that they can be replaced: more than Zebra rolls back.
const Changeable = 1100

// Like is the Kind of a base's own blocks.
func Like(base Base) Kind {
	return func(_ *chaintest.Builder, dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
		return base.Append(dst, h, prev, seed)
	}
}

// stand puts an empty chain on its base.
func (c *Chain) stand() error {
	c.first = max(0, c.base.Len()-Changeable)
	c.runs = []run{{kind: Like(c.base)}}
	for h := c.first; h < c.base.Len(); h++ {
		hash, sizes, err := c.base.At(chain.Height(h))
		if err != nil {
			return err
		}
		c.blocks = append(c.blocks, block{hash, sizes})
		c.heights[hashKey(hash)] = chain.Height(h)
	}
	return nil
}

// length is how many blocks the chain has. The caller holds c.mu or c.script.
func (c *Chain) length() int { return c.first + len(c.blocks) }

// block returns the block at height h, which must be below length. The caller holds c.mu or c.script.
func (c *Chain) block(h chain.Height) (block, error) {
	if int(h) >= c.first {
		return c.blocks[int(h)-c.first], nil
	}
	hash, sizes, err := c.base.At(h)
	return block{hash, sizes}, err
}

// baseHeight finds a block below those that the chain keeps itself.
func (c *Chain) baseHeight(hash chain.Hash) (chain.Height, error) {
	if c.base == nil {
		return 0, fmt.Errorf("hash %s: %w", hash, errNoBlock)
	}
	h, ok, err := c.base.HeightOf(hash)
	if err == nil && (!ok || int(h) >= c.first) {
		err = errNoBlock
	}
	if err != nil {
		return 0, fmt.Errorf("hash %s: %w", hash, err)
	}
	return h, nil
}

// baseTransaction finds a transaction there.
func (c *Chain) baseTransaction(id chain.TxID) (h chain.Height, ok bool, err error) {
	if c.base == nil {
		return 0, false, nil
	}
	h, ok, err = c.base.HeightOfTransaction(id)
	return h, ok && int(h) < c.first, err
}
