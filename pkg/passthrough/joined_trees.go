package passthrough

import (
	"context"
	"errors"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// TreeState takes what the index has kept, and else asks Zebra, whose answer must be about the index's block and have its tree sizes.
// Such an answer is kept in the index.
func (v *joinedView) TreeState(ctx context.Context, h chain.Height) (chain.TreeState, error) {
	if v.tipErr == nil && h > v.tip.Height {
		return chain.TreeState{}, &chain.AboveTipError{Asked: uint64(h), Tip: v.tip.Height}
	}
	fromZebra := func() (chain.TreeState, error) {
		return v.treesFromZebra(h, func() (chain.TreeState, error) { return v.zebra.TreeState(ctx, h) })
	}
	if source(h, v.indexTip.Height, v.index != nil) == chain.FromZebra {
		return fromZebra()
	}
	state, err := v.index.TreeState(ctx, h)
	if err == nil || !errors.Is(err, chain.ErrUnavailable) {
		return state, err
	}
	block, err := summaryAt(ctx, v.index, h)
	var unreadable *chain.UnreadableError
	if errors.As(err, &unreadable) {
		return fromZebra()
	}
	if err != nil {
		return chain.TreeState{}, err
	}
	state, err = v.treesFromZebra(h, func() (chain.TreeState, error) { return v.zebra.treesOf(ctx, &block) })
	if errors.Is(err, chain.ErrAboveTip) {
		return state, fmt.Errorf("zebra is behind block %s: %w", block.ID, chain.ErrUnavailable)
	}
	if err != nil {
		return state, err
	}
	if err := checkTrees(&state, &block); err != nil {
		return chain.TreeState{}, err
	}
	v.indexed.PutTreeState(state)
	return state, nil
}

// checkTrees checks that Zebra's trees are those of our block.
func checkTrees(state *chain.TreeState, block *chain.Summary) error {
	if state.ID != block.ID {
		return fmt.Errorf("zebra has the trees of block %s, not those of %s: %w", state.ID, block.ID, chain.ErrReorged)
	}
	sizes, err := state.Sizes()
	if err == nil && sizes != block.Sizes {
		err = fmt.Errorf("they have %+v leaves, and the blocks up to it %+v", sizes, block.Sizes)
	}
	if err != nil {
		return fmt.Errorf("zebra's trees of block %s cannot be right: %w: %w", block.ID, err, chain.ErrUnavailable)
	}
	return nil
}

// treesFromZebra asks Zebra for the trees of the block at height h, and holds P1.
func (v *joinedView) treesFromZebra(h chain.Height, ask func() (chain.TreeState, error)) (chain.TreeState, error) {
	if v.zebra == nil {
		return chain.TreeState{}, v.zebraErr
	}
	state, err := ask()
	if err == nil && v.tipErr == nil && h == v.tip.Height && state.ID != v.tip {
		return chain.TreeState{}, fmt.Errorf("block %s is not the tip %s: %w", state.ID, v.tip, chain.ErrReorged)
	}
	return state, err
}

// summaryAt reads the name and the tree sizes of a view's block.
func summaryAt(ctx context.Context, v chain.View, h chain.Height) (chain.Summary, error) {
	for f, err := range v.Blocks(ctx, h, h, chain.DefaultProjection) {
		if err != nil {
			return chain.Summary{}, err
		}
		defer f.Release()
		return chain.Summarize(f.Bytes[chain.FramePrefixLen:])
	}
	return chain.Summary{}, fmt.Errorf("read block %d: there is nothing", h)
}

// SubtreeRoots takes what the index has kept. It has kept enough when the tree sizes at its tip say so, and that tip is the tip, or when
// no more were asked for. Else Zebra is asked for all, which the index keeps.
func (v *joinedView) SubtreeRoots(ctx context.Context, pool chain.Pool, start, limit uint32) ([]chain.SubtreeRoot, error) {
	if v.index != nil {
		roots, err := v.index.SubtreeRoots(ctx, pool, start, limit)
		if err == nil && (v.complete || limit > 0 && uint64(len(roots)) == uint64(limit)) {
			return roots, nil
		}
		if err != nil && !errors.Is(err, chain.ErrUnavailable) {
			return nil, err
		}
	}
	if v.zebra == nil {
		return nil, v.zebraErr
	}
	roots, err := v.zebra.SubtreeRoots(ctx, pool, 0, 0)
	if err != nil {
		return nil, err
	}
	if v.index != nil && len(roots) > 0 {
		// The index may be on a branch that Zebra has left, or ahead of a Zebra that has been set back.
		err := v.indexIsOnZebrasChain(ctx)
		if err == nil {
			v.indexed.PutSubtreeRoots(pool, roots)
		} else if v.complete {
			return nil, err
		}
	}
	if v.tipErr != nil {
		return nil, v.tipErr
	}
	return cutRoots(roots, v.tip.Height, start, limit), nil
}

func (v *joinedView) indexIsOnZebrasChain(ctx context.Context) error {
	_, err := v.zebra.HeightOf(ctx, v.indexTip.Hash)
	if !errors.Is(err, chain.ErrNotFound) {
		return err
	}
	if tip, err := v.zebra.Tip(); err == nil && tip.Height < v.indexTip.Height {
		return fmt.Errorf("zebra is behind block %s: %w", v.indexTip, chain.ErrUnavailable)
	}
	return fmt.Errorf("block %s is not on zebra's chain: %w", v.indexTip, chain.ErrReorged)
}
