package passthrough

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// TestTreesOfABlockThatZebraLacks: whether the chain has moved or Zebra only lacks the block's bytes is for Zebra to say. When it does not,
// because it has gone away or the client has left, nobody is told of a reorg.
func TestTreesOfABlockThatZebraLacks(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 40, "a")
	gone := fmt.Errorf("connection refused: %w", chain.ErrUnavailable)
	for name, c := range map[string]struct {
		node    []*chain.Block // from the question on
		pruned  chain.Height
		hashErr error
		want    error
	}{
		"pruned":              {blocks, 35, nil, chain.ErrUnavailable},
		"pruned, and gone":    {blocks, 35, gone, chain.ErrUnavailable},
		"other branch":        {branch(blocks, 20, 45, "b"), 0, nil, chain.ErrReorged},
		"cut off":             {blocks[:26], 0, nil, chain.ErrReorged},
		"other, and gone":     {branch(blocks, 20, 45, "b"), 0, gone, chain.ErrUnavailable},
		"the client left":     {branch(blocks, 20, 45, "b"), 0, context.Canceled, context.Canceled},
		"pruned, client left": {blocks, 35, context.DeadlineExceeded, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			for _, indexed := range []bool{false, true} {
				j, node, index := newJoined(t, blocks, 41, true)
				v := mustView(t, New(node))
				if indexed {
					v = mustView(t, j)
				}
				node.trees.onAsk = func() {
					node.set(c.node)
					node.mu.Lock()
					defer node.mu.Unlock()
					node.pruned, node.trees.hashErr = c.pruned, c.hashErr
				}
				_, err := v.TreeState(t.Context(), 30)
				if !errors.Is(err, c.want) || errors.Is(err, chain.ErrReorged) != (c.want == chain.ErrReorged) || errors.Is(err, chain.ErrNotFound) || errors.Is(err, chain.ErrAboveTip) {
					t.Errorf("indexed %t: %v, want %v", indexed, err, c.want)
				}
				if len(index.kept.states) > 0 {
					t.Error("a tree state was kept")
				}
			}
		})
	}
}

// TestTreesOfABlockThatLeaves: Zebra finds the block, and no trees when the block leaves the chain before it looks for them.
func TestTreesOfABlockThatLeaves(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 100, "a")
	for name, c := range map[string]struct {
		node []*chain.Block
		want error
	}{
		"other branch":   {branch(blocks, 20, 105, "b"), chain.ErrReorged},
		"cut off":        {blocks[:60], chain.ErrReorged},
		"one block more": {branch(blocks, 101, 101, "b"), chain.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			j, node, _ := newJoined(t, blocks, 101, true)
			for _, v := range []chain.View{mustView(t, New(node)), mustView(t, j)} {
				node.set(blocks)
				node.trees.spoil = func(s *chain.TreeState) {
					s.Sapling, s.Orchard, s.Ironwood = "", "", ""
					node.blocks = c.node
				}
				_, err := v.TreeState(t.Context(), 80)
				if !errors.Is(err, c.want) || errors.Is(err, chain.ErrReorged) != (c.want == chain.ErrReorged) {
					t.Errorf("%v, want %v", err, c.want)
				}
			}
		})
	}
}
