package passthrough

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

const (
	hashesAtOnce = 8                // block hashes asked for in parallel, for the blocks that completed subtrees
	rootsWait    = 10 * time.Second // for others who ask Zebra for the roots of the same pool
)

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
		return nil, v.left(err)
	}
	// The tip's hash stands for the whole chain below it: what was answered before this is of this view's chain.
	switch hash, err := v.zebra.node.BlockHash(ctx, v.state.ID.Height); {
	case err != nil:
		return nil, v.left(err)
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
		return fmt.Errorf("those who asked zebra for subtree roots before have had no answer within %v: %w", rootsWait, chain.ErrUnavailable)
	}
}

func (c *rootCache) unlock() { <-c.turn }
