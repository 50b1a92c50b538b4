package index

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// prune makes the node have no blocks below first, but for genesis.
func (n *fakeNode) prune(first chain.Height) {
	n.with(func() {
		n.block = func(b testBlock) (*chain.Block, error) {
			if h := b.ID.Height; 0 < h && h < first {
				return nil, fmt.Errorf("getblock height %d: code -8: Block not found: %w", h, chain.ErrAboveTip)
			}
			return b.Block, nil
		}
	})
}

// TestPrunedNode: a node that lacks the blocks that the index needs is told from a chain that moves: the message names both heights, and
// the node is not asked again at every new block.
func TestPrunedNode(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 1000)
	longer := f.extend(t, blocks, 1) // here, since the cases run at once and share the forge
	for name, c := range map[string]struct {
		indexed        int // blocks in the index before
		first, missing chain.Height
	}{
		"an empty index":     {0, 700, 1},
		"the newest only":    {0, 999, 1},
		"one block too few":  {0, 2, 1},
		"an index left back": {300, 701, 300},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir(), small())
			n := newFakeNode(blocks)
			if c.indexed > 0 {
				build(t, s, newFakeNode(blocks[:c.indexed]))
			}
			n.prune(c.first)
			b := start(t, s, n, BuilderOptions{RetryFatal: time.Hour})
			b.awaitState(t, StateStopped, "does not have block")
			var pruned *PrunedError
			if err := b.Progress().Err; !errors.As(err, &pruned) || pruned.Missing != c.missing || pruned.First != c.first ||
				!strings.Contains(err.Error(), fmt.Sprint("that it has is ", c.first)) {
				t.Errorf("progress says %v", err)
			}
			var asked int
			n.with(func() { asked = n.asked })
			if asked > 60 {
				t.Errorf("it took %d questions", asked)
			}
			n.set(longer, nil)
			time.Sleep(20 * time.Millisecond)
			n.with(func() {
				if n.asked != asked {
					t.Error("it is asked again at a new block")
				}
			})
			b.stop(t)
			n.prune(0)
			n.set(blocks, nil)
			build(t, s, n)
			expectChain(t, s, blocks)
		})
	}
}

// TestNotPruned: a missing block that others explain is no reason to stop for a minute.
func TestNotPruned(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	missing := fmt.Errorf("code -8: Block not found: %w", chain.ErrAboveTip)
	for name, block := range map[string]func(b testBlock, asked int) error{
		"three nodes, one of which syncs": func(b testBlock, asked int) error {
			if b.ID.Height >= 20 && asked%3 == 0 {
				return missing
			}
			return nil
		},
		"the newest are missing": func(b testBlock, asked int) error {
			if b.ID.Height >= 55 && asked < 100 {
				return missing
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir(), small())
			n := newFakeNode(blocks)
			asked := 0
			n.block = func(b testBlock) (*chain.Block, error) {
				asked++
				return b.Block, block(b, asked)
			}
			b := start(t, s, n, BuilderOptions{RetryFatal: time.Hour})
			b.awaitTip(t, blocks[59])
			b.stop(t)
			expectChain(t, s, blocks)
		})
	}
}

// TestNodesInTurn: two or three nodes that answer in turn, some of which are still syncing, do not pass for one that prunes, whichever of
// them the first question goes to; nor does one that catches up between any two questions.
func TestNodesInTurn(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	missing := fmt.Errorf("code -8: Block not found: %w", chain.ErrAboveTip)
	b := NewBuilder(open(t, t.TempDir(), small()), newFakeNode(blocks), BuilderOptions{})
	expectNot := func(lacks func(asked int) bool, of string) {
		t.Helper()
		n, asked := newFakeNode(blocks), 0
		n.block = func(tb testBlock) (*chain.Block, error) {
			asked++
			if lacks(asked - 1) {
				return nil, missing
			}
			return tb.Block, nil
		}
		b.node = n
		if err := b.explainMissing(t.Context(), 20, blocks[59].ID, missing); err != missing {
			t.Errorf("%s: after %d questions: %v", of, asked, err)
		}
	}
	for nodes := 2; nodes <= 3; nodes++ {
		for syncing := 1; syncing < 1<<nodes-1; syncing++ { // one bit a node
			for first := range nodes {
				lacks := func(asked int) bool { return syncing>>((first+asked)%nodes)&1 == 1 }
				expectNot(lacks, fmt.Sprintf("of %d nodes %0*b sync, and node %d is asked first", nodes, nodes, syncing, first))
			}
		}
	}
	for n := range 10 {
		expectNot(func(asked int) bool { return asked < n }, fmt.Sprintf("a node that has caught up after %d questions", n))
	}
	b.node = newFakeNode(blocks)
	b.node.(*fakeNode).prune(40)
	var pruned *PrunedError
	if err := b.explainMissing(t.Context(), 20, blocks[59].ID, missing); !errors.As(err, &pruned) || *pruned != (PrunedError{20, 40}) {
		t.Errorf("one that prunes: %v", err)
	}
}

// TestFlappingIsLoggedOnce: an error that comes and goes with the node's answers is not told every time.
func TestFlappingIsLoggedOnce(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 41)
	var log strings.Builder
	s := open(t, t.TempDir(), small())
	n := newFakeNode(blocks[:40])
	n.block = func(b testBlock) (*chain.Block, error) {
		if b.ID.Height == 40 {
			return nil, errDown
		}
		return b.Block, nil
	}
	b := start(t, s, n, BuilderOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 10 {
		n.set(blocks[:40], nil)
		b.awaitState(t, StateFollowing, "")
		n.set(blocks, nil)
		b.awaitState(t, StateWaiting, "fetch block 40")
	}
	b.stop(t)
	if got := strings.Count(log.String(), "level=WARN"); got != 1 {
		t.Errorf("%d warnings:\n%s", got, log.String())
	}
}
