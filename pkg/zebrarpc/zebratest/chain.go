package zebratest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// Kind appends the raw block of a height on top of its parent. It must be a pure function of h, prev and seed: a Chain keeps no bytes of
// such blocks but builds them again whenever they are asked for. b is working memory.
type Kind func(b *chaintest.Builder, dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte

// Small blocks are like nearly all of the test network's: a coinbase alone, 1.6 kB.
func Small(b *chaintest.Builder, dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
	return b.Small(dst, h, prev, seed)
}

// Mixed blocks have transactions of every version with parts in every pool.
func Mixed(b *chaintest.Builder, dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
	return b.Mixed(dst, h, prev, seed)
}

// DenseV4 blocks have 550 kB of Sapling spends and outputs.
func DenseV4(b *chaintest.Builder, dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
	return b.DenseV4(dst, h, prev, seed)
}

// DenseV6 blocks have as many Ironwood actions as NU7 allows, 1.07 MB.
func DenseV6(b *chaintest.Builder, dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
	return b.DenseV6(dst, h, prev, seed)
}

// ChainOptions describe a new Chain. The zero value is a main network with all upgrades early.
type ChainOptions struct {
	Network Network
	// Genesis is the raw block of height 0. When nil, one is built, a different one for each network.
	Genesis []byte
	// Upgrades in height order, also ones that nobody has heard of; Pending is ignored. When nil, chaintest.Upgrades.
	Upgrades []chain.Upgrade
	// Base, when not nil, is what the chain begins with instead of Genesis. Its blocks are built when they are asked for.
	Base Base
}

// Chain is the best chain of a simulated node: genesis and what a script put on top. Like Zebra it serves its best chain only, so
// replaced blocks are forgotten. A Chain is safe for concurrent use, and every change is seen by readers as a whole.
type Chain struct {
	network  Network
	upgrades []chain.Upgrade
	base     Base // nil: the chain holds all blocks itself
	first    int  // the height from which on it does

	script sync.Mutex // held by whoever changes the chain, also while new blocks are built

	mu      sync.RWMutex // guards what follows; only holders of script write
	blocks  []block      // by height, from first on
	runs    []run        // where their bytes come from, by first height
	heights map[uint64]chain.Height
	seed    uint64 // of the last run, so that each branch differs from all before it
	forks   uint64 // how many chains were forked off, so that they differ from each other

	indexing sync.Mutex // guards what follows, and is taken before script
	index    *transparentIndex
	located  *transactionIndex

	orphans []orphan // guarded by script: blocks that were replaced
}

// block is what is kept of every height.
type block struct {
	hash  chain.Hash
	sizes chain.TreeSizes // at the end of the block
}

// run is a stretch of heights that were added together.
type run struct {
	first chain.Height
	kind  Kind
	seed  uint64
	raw   [][]byte // instead of kind: the bytes themselves
}

// NewChain returns a chain of one block, genesis.
func NewChain(o ChainOptions) (*Chain, error) {
	c := &Chain{network: o.Network, upgrades: o.Upgrades, base: o.Base, heights: make(map[uint64]chain.Height)}
	if c.upgrades == nil {
		c.upgrades = chaintest.Upgrades()
	}
	switch {
	case o.Base != nil:
		return c, c.stand()
	case o.Genesis != nil:
		return c, c.Append(o.Genesis)
	}
	// The networks' genesis blocks must differ: the seed sees to that.
	c.seed = uint64(o.Network) << 56
	return c, c.Extend(1, Small)
}

// Extend builds n more blocks on the tip.
func (c *Chain) Extend(n int, kind Kind) error { return c.Reorg(0, n, kind) }

// Reorg replaces the last depth blocks by n others, in one step. n may be smaller than depth, or equal: a switch at the same height.
// Genesis cannot be replaced, nor can blocks of a Base below the newest Changeable.
func (c *Chain) Reorg(depth, n int, kind Kind) error {
	c.script.Lock()
	defer c.script.Unlock()
	keep, err := c.below(depth)
	if err != nil {
		return err
	}
	r := run{first: chain.Height(keep), kind: kind, seed: c.seed + 1}
	return c.replace(keep, r, n)
}

// Append puts raw blocks on the tip as they are: blocks of other chains, whose parent is not the tip, are taken too.
func (c *Chain) Append(raw ...[]byte) error {
	c.script.Lock()
	defer c.script.Unlock()
	keep, err := c.below(0)
	if err != nil {
		return err
	}
	return c.replace(keep, run{first: chain.Height(keep), raw: raw, seed: c.seed}, len(raw))
}

// Truncate makes h the tip: the blocks above it are gone and nothing takes their place, as after invalidateblock.
func (c *Chain) Truncate(h chain.Height) error {
	c.script.Lock()
	defer c.script.Unlock()
	tip := c.Tip()
	if h > tip.Height {
		return fmt.Errorf("truncate to height %d: the tip is %s", h, tip)
	}
	return c.replace(int(h)+1, run{seed: c.seed}, 0)
}

// Fork returns a new chain with the blocks up to h, included. The two then grow apart: their next blocks differ.
func (c *Chain) Fork(h chain.Height) (*Chain, error) {
	c.script.Lock()
	defer c.script.Unlock()
	c.forks++
	f := &Chain{
		network: c.network, upgrades: c.upgrades, base: c.base, first: c.first, seed: c.seed + c.forks<<32,
		blocks: slices.Clone(c.blocks), runs: slices.Clone(c.runs), heights: maps.Clone(c.heights),
	}
	return f, f.Truncate(h)
}

// below returns how many blocks remain when depth are taken away. The caller holds c.script.
func (c *Chain) below(depth int) (int, error) {
	keep := c.length() - depth
	if depth < 0 || keep < min(1, c.length()) {
		return 0, fmt.Errorf("replace the last %d blocks of a chain of %d: genesis must stay", depth, c.length())
	}
	return keep, nil
}

// replace cuts the chain to its first keep blocks and puts the n blocks of r on top. The caller holds c.script, so that the blocks can be
// built before readers are locked out.
func (c *Chain) replace(keep int, r run, n int) error {
	if keep < c.first {
		return fmt.Errorf("replace the blocks from height %d on: those of the base below height %d must stay", keep, c.first)
	}
	var prev block
	if keep > 0 {
		var err error
		if prev, err = c.block(chain.Height(keep - 1)); err != nil {
			return err
		}
	}
	if n > 0 {
		if err := c.keepOrphans(keep); err != nil {
			return err
		}
	}
	added := make([]block, 0, n)
	enc, work := chain.NewEncoder(chain.EncoderOptions{}), newWorkshop()
	var b chain.Block
	for i := range n {
		h := r.first + chain.Height(i)
		if err := enc.Encode(&b, h, work.bytes(r, h, prev.hash)); err != nil {
			return fmt.Errorf("add block %d: %w", h, err)
		}
		sizes, err := prev.sizes.Plus(b.Added)
		if err != nil {
			return fmt.Errorf("add block %s: %w", b.ID, err)
		}
		prev = block{b.ID.Hash, sizes}
		added = append(added, prev)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.blocks[keep-c.first:] {
		delete(c.heights, hashKey(b.hash))
	}
	c.blocks = append(c.blocks[:keep-c.first], added...)
	for i, b := range added {
		c.heights[hashKey(b.hash)] = r.first + chain.Height(i)
	}
	c.runs = slices.DeleteFunc(c.runs, func(old run) bool { return int(old.first) >= keep })
	if n > 0 {
		c.runs = append(c.runs, r)
	}
	c.seed = r.seed
	return nil
}

// workshop is the working memory in which blocks are built.
type workshop struct {
	builder *chaintest.Builder
	buffer  []byte
}

func newWorkshop() *workshop { return &workshop{builder: chaintest.NewBuilder()} }

// bytes returns the raw block of height h, which is valid until the next call and not to be changed.
func (w *workshop) bytes(r run, h chain.Height, prev chain.Hash) []byte {
	if r.kind == nil {
		return r.raw[h-r.first]
	}
	w.buffer = r.kind(w.builder, w.buffer[:0], h, prev, r.seed)
	return w.buffer
}

// hashKey shortens a hash for the lookup table. Its first bytes are the ones that proof of work leaves random.
func hashKey(h chain.Hash) uint64 { return binary.LittleEndian.Uint64(h[:8]) }

// errNoBlock is for a height or a hash that the best chain does not have.
var errNoBlock = errors.New("no such block in the best chain")

// Tip returns the newest block.
func (c *Chain) Tip() chain.BlockID {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tip()
}

func (c *Chain) tip() chain.BlockID {
	return chain.BlockID{Height: chain.Height(c.length() - 1), Hash: c.blocks[len(c.blocks)-1].hash}
}

// Hash returns the hash of the block at height h.
func (c *Chain) Hash(h chain.Height) (chain.Hash, error) {
	b, err := c.at(h)
	return b.hash, err
}

// Sizes returns the tree sizes at the end of the block at height h.
func (c *Chain) Sizes(h chain.Height) (chain.TreeSizes, error) {
	b, err := c.at(h)
	return b.sizes, err
}

func (c *Chain) at(h chain.Height) (block, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if int(h) >= c.length() {
		return block{}, fmt.Errorf("height %d: %w", h, errNoBlock)
	}
	return c.block(h)
}

// HeightOf returns the height of a block of the best chain.
func (c *Chain) HeightOf(hash chain.Hash) (chain.Height, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	h, ok := c.heights[hashKey(hash)]
	if !ok || c.blocks[int(h)-c.first].hash != hash {
		return c.baseHeight(hash)
	}
	return h, nil
}

// Raw returns a copy of the serialized block at height h.
func (c *Chain) Raw(h chain.Height) ([]byte, error) {
	f, err := c.find(h)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(f.raw(newWorkshop())), nil
}

// found is a block together with its surroundings, read in one step.
type found struct {
	block
	chain.BlockID // of the block itself
	run           run
	prev          chain.Hash
	next          *chain.Hash // nil at the tip
	tip           chain.Height
}

func (c *Chain) find(h chain.Height) (f found, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if int(h) >= c.length() {
		return found{}, fmt.Errorf("height %d: %w", h, errNoBlock)
	}
	if f.block, err = c.block(h); err != nil {
		return found{}, err
	}
	f.BlockID, f.tip = chain.BlockID{Height: h, Hash: f.block.hash}, c.tip().Height
	i, exact := slices.BinarySearchFunc(c.runs, h, func(r run, h chain.Height) int { return int(r.first) - int(h) })
	if !exact {
		i--
	}
	f.run = c.runs[i]
	if h > 0 {
		below, err := c.block(h - 1)
		if err != nil {
			return found{}, err
		}
		f.prev = below.hash
	}
	if h < f.tip {
		above, err := c.block(h + 1)
		if err != nil {
			return found{}, err
		}
		f.next = &above.hash
	}
	return f, nil
}

// raw builds the block's bytes, in w; no lock is held meanwhile.
func (f *found) raw(w *workshop) []byte { return w.bytes(f.run, f.Height, f.prev) }
