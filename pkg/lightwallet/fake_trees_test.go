package lightwallet

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// fakeTrees are the parts of fakeSource that are about trees.
type fakeTrees struct {
	roots   map[chain.Pool][]chain.SubtreeRoot
	treeErr error                  // of every question
	moved   func(*chain.TreeState) // changes the answer
	unsure  bool                   // a hash that is not found may be the node's, which is away
	hang    bool                   // no answer about trees comes
}

// fakeTree makes a tree state that names its block.
func fakeTree(id chain.BlockID) chain.TreeState {
	leaf := hex.EncodeToString(id.Hash[:])
	return chain.TreeState{
		ID: id, Time: 1_477_641_360 + uint32(id.Height),
		Sapling: "01" + leaf + "0000", Orchard: chain.EmptyTree, Ironwood: "01" + leaf + "01" + leaf + "00",
	}
}

func (v *fakeView) TreeState(ctx context.Context, h chain.Height) (chain.TreeState, error) {
	switch {
	case v.trees.hang:
		<-ctx.Done()
		return chain.TreeState{}, ctx.Err()
	case v.trees.treeErr != nil:
		return chain.TreeState{}, fmt.Errorf("fake: http://secret:1: %w", v.trees.treeErr)
	case h > v.tip():
		return chain.TreeState{}, v.above(h)
	}
	state := fakeTree(v.id(h))
	if v.trees.moved != nil {
		v.trees.moved(&state)
	}
	return state, nil
}

func (v *fakeView) SubtreeRoots(ctx context.Context, pool chain.Pool, start, limit uint32) ([]chain.SubtreeRoot, error) {
	if v.trees.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if v.trees.treeErr != nil {
		return nil, fmt.Errorf("fake: http://secret:1: %w", v.trees.treeErr)
	}
	roots := v.trees.roots[pool]
	roots = roots[min(uint64(start), uint64(len(roots))):]
	if limit > 0 {
		roots = roots[:min(uint64(limit), uint64(len(roots)))]
	}
	return roots, nil
}

func (s *benchSource) TreeState(context.Context, chain.Height) (chain.TreeState, error) {
	return chain.TreeState{}, chain.ErrUnavailable
}

func (s *benchSource) SubtreeRoots(context.Context, chain.Pool, uint32, uint32) ([]chain.SubtreeRoot, error) {
	return nil, chain.ErrUnavailable
}
