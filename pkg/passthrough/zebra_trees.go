package passthrough

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// keptTrees is how many tree states are kept in memory, some 4 kB each: those of the last tips, and of where ranges ended.
const keptTrees = 64

// TreeState implements chain.View. Zebra is asked by hash, so that a reorg between its reads cannot mix two branches.
func (v *zebraView) TreeState(ctx context.Context, h chain.Height) (chain.TreeState, error) {
	if err := v.mayAsk(h); err != nil {
		return chain.TreeState{}, err
	}
	id := v.state.ID
	if h < id.Height {
		hash, err := v.zebra.node.BlockHash(ctx, h)
		if err != nil {
			return chain.TreeState{}, v.explain(ctx, chain.BlockID{Height: h}, err)
		}
		id = chain.BlockID{Height: h, Hash: hash}
	}
	return v.trees(ctx, id, func() (chain.TreeSizes, error) { return v.zebra.node.TreeSizes(ctx, id.Hash) })
}

// treesOf is TreeState of a block that somebody else knows already: Zebra is asked one question in place of two or three. A block that is
// not on Zebra's best chain is ErrReorged.
func (v *zebraView) treesOf(ctx context.Context, block *chain.Summary) (chain.TreeState, error) {
	if err := v.mayAsk(block.ID.Height); err != nil {
		return chain.TreeState{}, err
	}
	return v.trees(ctx, block.ID, func() (chain.TreeSizes, error) { return block.Sizes, nil })
}

// trees takes what is kept, and else asks.
func (v *zebraView) trees(ctx context.Context, id chain.BlockID, leaves func() (chain.TreeSizes, error)) (chain.TreeState, error) {
	state, err := v.zebra.trees.get(ctx, id.Hash, func() (chain.TreeState, error) { return v.zebra.treeState(ctx, id, leaves) })
	if err != nil {
		return chain.TreeState{}, v.explain(ctx, id, err)
	}
	return state, nil
}

// explain says what "no such block" means for a block of this view, whose hash may be zero when it is not known. If Zebra names that very
// block, and still the tip of this view, it only lacks the block's bytes, and that is ErrUnavailable. Otherwise the block has left the
// best chain, if only for a moment.
func (v *zebraView) explain(ctx context.Context, id chain.BlockID, err error) error {
	if !errors.Is(err, chain.ErrNotFound) && !errors.Is(err, chain.ErrAboveTip) {
		return err
	}
	for _, own := range []chain.BlockID{id, v.state.ID} {
		hash, hashErr := v.zebra.node.BlockHash(ctx, own.Height)
		switch {
		case errors.Is(hashErr, chain.ErrNotFound), errors.Is(hashErr, chain.ErrAboveTip):
			return v.left(err)
		case hashErr != nil: // the client may have left, or Zebra gone away: that says nothing of its chain
			return fmt.Errorf("find out why zebra does not have block %d: %w: %s", id.Height, hashErr, err)
		case own.Hash != hash && own.Hash != (chain.Hash{}):
			return v.left(err)
		}
	}
	return fmt.Errorf("zebra names block %d but does not have it, like a node that prunes old blocks: %w: %s", id.Height, chain.ErrUnavailable, err)
}

// left turns "no such block" into ErrReorged: it was on the best chain when the view was opened, or a moment ago.
func (v *zebraView) left(err error) error {
	if errors.Is(err, chain.ErrNotFound) || errors.Is(err, chain.ErrAboveTip) {
		// The cause is text here: "not found" does not answer what was asked.
		return fmt.Errorf("the chain of the tip %s is no longer zebra's: %w: %s", v.state.ID, chain.ErrReorged, err)
	}
	return err
}

// treeState asks for the trees at the end of a block. How many leaves they have is only asked for when Zebra leaves a tree out.
func (z *Zebra) treeState(ctx context.Context, id chain.BlockID, leaves func() (chain.TreeSizes, error)) (chain.TreeState, error) {
	state, err := z.node.TreeState(ctx, id.Hash)
	if err != nil {
		return state, err
	}
	if state.ID != id {
		return state, fmt.Errorf("zebra calls the block %s %s: %w", id, state.ID, chain.ErrUnavailable)
	}
	if state.Sapling != "" && state.Orchard != "" && state.Ironwood != "" {
		return state, nil
	}
	// Zebra says nothing of pools that are not active yet. Nothing else may be taken for an empty tree.
	sizes, err := leaves()
	if err != nil {
		return state, err
	}
	for pool, tree := range map[chain.Pool]*string{chain.Sapling: &state.Sapling, chain.Orchard: &state.Orchard, chain.Ironwood: &state.Ironwood} {
		switch {
		case *tree != "":
		case sizes.Of(pool) == 0:
			*tree = chain.EmptyTree
		case !z.names(ctx, id): // it reads the block before the trees, which are gone when the block leaves its chain in between
			return state, fmt.Errorf("block %s left zebra's chain before its trees were read: %w", id, chain.ErrReorged)
		default:
			return state, fmt.Errorf("zebra does not give the %s tree of block %s, which has %d leaves: %w", pool, id, sizes.Of(pool), chain.ErrUnavailable)
		}
	}
	return state, nil
}

// names tells whether Zebra has not named another block of that height, or none.
func (z *Zebra) names(ctx context.Context, id chain.BlockID) bool {
	hash, err := z.node.BlockHash(ctx, id.Height)
	if err != nil {
		return !errors.Is(err, chain.ErrAboveTip) && !errors.Is(err, chain.ErrNotFound)
	}
	return hash == id.Hash
}

// treeCache keeps the tree states that were asked for last, and sees to it that nobody asks for one that somebody else is asking for:
// after each block all wallets want the same.
type treeCache struct {
	mu      sync.Mutex
	states  []chain.TreeState // oldest first
	flights map[chain.Hash]*flight
}

// flight is a question on its way. What came of it may be read when it is done.
type flight struct {
	done  chan struct{}
	state chain.TreeState
	err   error
	left  bool // whoever asked has left: the error says nothing
}

// get returns a block's tree state from memory, or, when it is the caller's turn, from ask or from somebody else's ask.
func (c *treeCache) get(ctx context.Context, hash chain.Hash, ask func() (chain.TreeState, error)) (chain.TreeState, error) {
	if state, ok := c.kept(hash); ok {
		return state, nil
	}
	// Before the flight begins, so that nobody who boards it waits behind what else its first passenger has asked for.
	done, err := chain.TakeTurn(ctx)
	if err != nil {
		return chain.TreeState{}, err
	}
	defer done()
	for {
		state, f, first := c.board(hash)
		switch {
		case f == nil:
			return state, nil
		case first:
			return c.fly(ctx, hash, f, ask)
		}
		select {
		case <-ctx.Done():
			return chain.TreeState{}, ctx.Err()
		case <-f.done:
			if !f.left {
				return f.state, f.err
			}
		}
	}
}

func (c *treeCache) kept(hash chain.Hash) (chain.TreeState, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(hash)
}

// find looks a state up; the caller holds c.mu.
func (c *treeCache) find(hash chain.Hash) (chain.TreeState, bool) {
	for i := len(c.states) - 1; i >= 0; i-- {
		if c.states[i].ID.Hash == hash {
			return c.states[i], true
		}
	}
	return chain.TreeState{}, false
}

// board returns a state, or the flight that brings it, and whether it has yet to start.
func (c *treeCache) board(hash chain.Hash) (state chain.TreeState, f *flight, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state, ok := c.find(hash); ok {
		return state, nil, false
	}
	if f, ok := c.flights[hash]; ok {
		return state, f, false
	}
	if c.flights == nil {
		c.flights = make(map[chain.Hash]*flight)
	}
	f = &flight{done: make(chan struct{}), left: true}
	c.flights[hash] = f
	return state, f, true
}

func (c *treeCache) fly(ctx context.Context, hash chain.Hash, f *flight, ask func() (chain.TreeState, error)) (chain.TreeState, error) {
	defer func() { // also after a panic: others wait
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.flights, hash)
		if !f.left && f.err == nil {
			if len(c.states) == keptTrees {
				c.states = slices.Delete(c.states, 0, 1)
			}
			c.states = append(c.states, f.state)
		}
		close(f.done)
	}()
	f.state, f.err = ask()
	f.left = f.err != nil && ctx.Err() != nil
	return f.state, f.err
}
