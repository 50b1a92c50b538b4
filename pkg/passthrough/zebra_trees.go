package passthrough

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Limits of what is kept in memory, so that wallets which ask the same do not cost Zebra the same again.
const (
	keptTrees    = 64 // tree states, some 4 kB each: the last tips, and where ranges ended
	hashesAtOnce = 8  // block hashes asked for in parallel, for the blocks that completed subtrees
	rootsWait    = 10 * time.Second
)

// TreeState implements chain.View. Zebra is asked by hash, so that a reorg between its reads cannot mix two branches.
func (v *zebraView) TreeState(ctx context.Context, h chain.Height) (chain.TreeState, error) {
	if h > v.state.ID.Height {
		return chain.TreeState{}, v.aboveTip(h)
	}
	if v.state.Err != nil {
		return chain.TreeState{}, notAnswered(v.state.Err)
	}
	id := v.state.ID
	if h < id.Height {
		hash, err := v.zebra.node.BlockHash(ctx, h)
		if err != nil {
			return chain.TreeState{}, v.explain(err)
		}
		id = chain.BlockID{Height: h, Hash: hash}
	}
	state, err := v.zebra.trees.get(ctx, id.Hash, func() (chain.TreeState, error) { return v.zebra.treeState(ctx, id) })
	if err != nil {
		return chain.TreeState{}, v.explain(err)
	}
	return state, nil
}

// explain turns "no such block" into ErrReorged: it was on the best chain when the view was opened, or a moment ago.
func (v *zebraView) explain(err error) error {
	if errors.Is(err, chain.ErrNotFound) || errors.Is(err, chain.ErrAboveTip) {
		// The cause is text here: "not found" does not answer what was asked.
		return fmt.Errorf("the chain of the tip %s is no longer zebra's: %w: %s", v.state.ID, chain.ErrReorged, err)
	}
	return err
}

// treeState asks for the trees at the end of a block.
func (z *Zebra) treeState(ctx context.Context, id chain.BlockID) (chain.TreeState, error) {
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
	sizes, err := z.node.TreeSizes(ctx, id.Hash)
	if err != nil {
		return state, err
	}
	for pool, tree := range map[chain.Pool]*string{chain.Sapling: &state.Sapling, chain.Orchard: &state.Orchard, chain.Ironwood: &state.Ironwood} {
		switch {
		case *tree != "":
		case sizes.Of(pool) == 0:
			*tree = chain.EmptyTree
		default:
			return state, fmt.Errorf("zebra does not give the %s tree of block %s, which has %d leaves: %w", pool, id, sizes.Of(pool), chain.ErrUnavailable)
		}
	}
	return state, nil
}

// SubtreeRoots implements chain.View. What was learned before is kept in memory; it stands as long as the block that completed the last
// root is on the best chain.
func (v *zebraView) SubtreeRoots(ctx context.Context, pool chain.Pool, start, limit uint32) ([]chain.SubtreeRoot, error) {
	if v.state.Err != nil {
		return nil, notAnswered(v.state.Err)
	}
	// One at a time: the first one may have a thousand blocks to ask for, and all others find what it has learned.
	if err := v.zebra.roots[pool].lock(ctx); err != nil {
		return nil, err
	}
	defer v.zebra.roots[pool].unlock()
	roots, err := v.zebra.knownRoots(ctx, pool)
	if err != nil {
		return nil, err
	}
	more, err := v.zebra.newRoots(ctx, pool, len(roots))
	if err != nil {
		return nil, v.explain(err)
	}
	// The tip's hash stands for the whole chain below it: what was answered before this is of this view's chain.
	switch hash, err := v.zebra.node.BlockHash(ctx, v.state.ID.Height); {
	case err != nil:
		return nil, v.explain(err)
	case hash != v.state.ID.Hash:
		return nil, fmt.Errorf("block %s is no longer on zebra's chain: %w", v.state.ID, chain.ErrReorged)
	}
	if len(more) > 0 {
		roots = append(slices.Clip(roots), more...)
	}
	v.zebra.roots[pool].known = roots
	return cutRoots(roots, v.state.ID.Height, start, limit), nil
}

// knownRoots returns the roots that were learned before, as far as their blocks are still on the best chain.
func (z *Zebra) knownRoots(ctx context.Context, pool chain.Pool) ([]chain.SubtreeRoot, error) {
	roots := z.roots[pool].known
	for ; len(roots) > 0; roots = roots[:len(roots)-1] {
		last := roots[len(roots)-1].Completing
		hash, err := z.node.BlockHash(ctx, last.Height)
		if err != nil && !errors.Is(err, chain.ErrAboveTip) {
			return nil, err
		}
		if err == nil && hash == last.Hash {
			break
		}
	}
	return roots, nil
}

// newRoots asks for the roots from index start on, and for the blocks that completed them.
func (z *Zebra) newRoots(ctx context.Context, pool chain.Pool, start int) ([]chain.SubtreeRoot, error) {
	subtrees, err := z.node.Subtrees(ctx, pool, uint32(start), 0)
	if err != nil {
		return nil, err
	}
	roots := make([]chain.SubtreeRoot, len(subtrees))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(hashesAtOnce)
	for i, s := range subtrees {
		group.Go(func() error {
			hash, err := z.node.BlockHash(ctx, s.End)
			roots[i] = chain.SubtreeRoot{Root: s.Root, Completing: chain.BlockID{Height: s.End, Hash: hash}}
			return err
		})
	}
	return roots, group.Wait()
}

// cutRoots returns limit roots (0: all) from index start on, without those that blocks above the tip have completed.
func cutRoots(roots []chain.SubtreeRoot, tip chain.Height, start, limit uint32) []chain.SubtreeRoot {
	end := len(roots)
	for end > 0 && roots[end-1].Completing.Height > tip {
		end--
	}
	if limit > 0 {
		end = int(min(uint64(end), uint64(start)+uint64(limit)))
	}
	if uint64(start) >= uint64(end) {
		return nil
	}
	return roots[start:end:end]
}

// rootCache are the subtree roots of a pool that were learned; a slice that was given out is not changed.
type rootCache struct {
	turn  chan struct{} // holds one element while somebody reads or changes known
	known []chain.SubtreeRoot
}

// lock waits for its turn, for rootsWait at most.
func (c *rootCache) lock(ctx context.Context) error {
	timer := time.NewTimer(rootsWait)
	defer timer.Stop()
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("no turn to ask for subtree roots within %v: %w", rootsWait, chain.ErrBusy)
	}
}

func (c *rootCache) unlock() { <-c.turn }

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

// get returns a block's tree state from memory, or from ask, or from somebody else's ask.
func (c *treeCache) get(ctx context.Context, hash chain.Hash, ask func() (chain.TreeState, error)) (chain.TreeState, error) {
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

// board returns a state, or the flight that brings it, and whether it has yet to start.
func (c *treeCache) board(hash chain.Hash) (state chain.TreeState, f *flight, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.states) - 1; i >= 0; i-- {
		if c.states[i].ID.Hash == hash {
			return c.states[i], nil, false
		}
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
