package zebratest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// rollback is how many blocks below the tip Zebra can still replace: the deeper ones are final to it.
const rollback = 1000

// maxInvalidated is how many calls of invalidateblock Zebra can take back.
const maxInvalidated = 100

// branches are the blocks beside a Chain that a node has mined or was told to leave out. A Chain has the best chain alone, so that what
// invalidateblock and reconsiderblock put aside is here, and they choose as Zebra does: the longest branch, and of equally long ones the
// one whose tip came first. Blocks that a script replaced are not here: no call brings them back.
type branches struct {
	mu      sync.Mutex
	side    map[chain.Hash]sideBlock
	came    map[chain.Hash]int // the mined blocks in their order; blocks that a script made are as old as can be
	removed []removal          // oldest first, one for each height
	final   chain.Height       // never falls
}

// sideBlock is a block beside the best chain.
type sideBlock struct {
	chain.BlockID
	prev chain.Hash
	raw  []byte
}

// removal is a block that was invalidated, with those that were on top of it.
type removal []sideBlock

func (b *branches) receive(hash chain.Hash) {
	if b.came == nil {
		b.came = make(map[chain.Hash]int)
	}
	b.came[hash] = len(b.came) + 1
}

func (b *branches) finalize(tip chain.Height) { b.final = max(b.final, tip-min(tip, rollback)) }

// invalidate leaves a block out, with all on top of it. The first error is for the client.
func (b *branches) invalidate(c *Chain, hash chain.Hash) (*rpcError, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.script.Lock()
	defer c.script.Unlock()
	b.finalize(c.Tip().Height)
	h, err := c.HeightOf(hash)
	_, beside := b.side[hash]
	switch {
	case err != nil && beside:
		b.forget(b.bestAbove(hash))
		return nil, nil
	case err != nil || h <= b.final:
		return &rpcError{Code: -1, Message: fmt.Sprintf("block hash %s not found in any non-finalized chain", hash)}, nil
	case h == b.final+1:
		return &rpcError{Code: -1, Message: fmt.Sprintf("cannot invalidate block %s: it is the root of the only non-finalized chain", hash)}, nil
	}
	gone, err := c.cutOut(h)
	if err != nil {
		return nil, err
	}
	b.forget(gone)
	return nil, b.choose(c, h-1)
}

// reconsider takes an invalidation back and returns the hashes of the blocks that are there again.
func (b *branches) reconsider(c *Chain, hash chain.Hash) ([]chain.Hash, *rpcError, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.script.Lock()
	defer c.script.Unlock()
	i := slices.IndexFunc(b.removed, func(r removal) bool { return r[0].Hash == hash })
	if i < 0 {
		return nil, &rpcError{Code: -1, Message: fmt.Sprintf("Block with hash %s was not previously invalidated", hash)}, nil
	}
	back := b.removed[i]
	if _, beside := b.side[back[0].prev]; !beside {
		if _, err := c.HeightOf(back[0].prev); err != nil {
			return nil, &rpcError{Code: -1, Message: fmt.Sprintf("Parent chain not found for block %s", hash)}, nil
		}
	}
	b.removed = slices.Delete(b.removed, i, i+1)
	var hashes []chain.Hash
	for _, block := range back {
		b.put(block)
		hashes = append(hashes, block.Hash)
	}
	return hashes, nil, b.choose(c, c.Tip().Height)
}

func (b *branches) put(block sideBlock) {
	if b.side == nil {
		b.side = make(map[chain.Hash]sideBlock)
	}
	b.side[block.Hash] = block
}

// forget notes blocks as invalidated, and drops what was on top of them beside the best chain.
func (b *branches) forget(gone removal) {
	at := func(r removal) bool { return r[0].Height == gone[0].Height }
	b.removed = append(slices.DeleteFunc(b.removed, at), gone)
	b.removed = b.removed[max(0, len(b.removed)-maxInvalidated):]
	for _, block := range gone {
		delete(b.side, block.Hash)
		for _, child := range b.above(block.Hash) {
			delete(b.side, child.Hash)
		}
	}
}

// above returns the blocks beside the best chain that have the block hash below them, itself included.
func (b *branches) above(hash chain.Hash) (found []sideBlock) {
	for _, block := range b.side {
		for at, ok := block, true; ok; at, ok = b.side[at.prev] {
			if at.Hash == hash || at.prev == hash {
				found = append(found, block)
				break
			}
		}
	}
	return found
}

// bestAbove returns the best branch that has the block hash, from it on.
func (b *branches) bestAbove(hash chain.Hash) removal {
	best := b.side[hash]
	for _, block := range b.above(hash) {
		if b.better(block.BlockID, best.BlockID) {
			best = block
		}
	}
	branch := b.below(best)
	return branch[slices.IndexFunc(branch, func(at sideBlock) bool { return at.Hash == hash }):]
}

// choose makes the best branch the chain's, of which the blocks above keep are gone. The caller holds c.script.
func (b *branches) choose(c *Chain, keep chain.Height) error {
	hash, err := c.Hash(keep)
	if err != nil {
		return err
	}
	best, path := chain.BlockID{Height: keep, Hash: hash}, removal{}
	for _, block := range b.side {
		if !b.better(block.BlockID, best) {
			continue
		}
		branch := b.below(block)
		// A script may have replaced what the branch stood on.
		if root, err := c.Hash(branch[0].Height - 1); err == nil && root == branch[0].prev && branch[0].Height <= keep+1 {
			best, path = block.BlockID, branch
		}
	}
	fork := best.Height - chain.Height(len(path))
	beside, err := c.cutOut(fork + 1)
	if err != nil {
		return err
	}
	var raw [][]byte
	for _, block := range path {
		raw = append(raw, block.raw)
		delete(b.side, block.Hash)
	}
	for _, block := range beside {
		if block.Height <= keep {
			b.put(block)
		}
	}
	return c.replace(int(fork)+1, run{first: fork + 1, raw: raw, seed: c.seed}, len(raw))
}

// below returns the blocks beside the best chain from the fork up to a block.
func (b *branches) below(block sideBlock) removal {
	branch := removal{block}
	for at, ok := b.side[block.prev]; ok; at, ok = b.side[at.prev] {
		branch = append(branch, at)
	}
	slices.Reverse(branch)
	return branch
}

// better is the order of Zebra's branches: by work, which is the same for every block here, by who came first, by hash.
func (b *branches) better(a, than chain.BlockID) bool {
	if a.Height != than.Height {
		return a.Height > than.Height
	}
	if b.came[a.Hash] != b.came[than.Hash] {
		return b.came[a.Hash] < b.came[than.Hash]
	}
	return bytes.Compare(a.Hash[:], than.Hash[:]) > 0
}

// cutOut returns the blocks from height h to the tip with their bytes. The caller holds c.script.
func (c *Chain) cutOut(h chain.Height) (removal, error) {
	var list removal
	work := newWorkshop()
	for tip := c.Tip().Height; h <= tip; h++ {
		f, err := c.find(h)
		if err != nil {
			return nil, err
		}
		list = append(list, sideBlock{f.BlockID, f.prev, bytes.Clone(f.raw(work))})
	}
	return list, nil
}
