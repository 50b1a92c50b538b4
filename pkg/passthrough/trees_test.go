package passthrough

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

func TestZebraTreeStates(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 20, "a")
	node := newFakeNode(blocks)
	v := mustView(t, New(node))
	for h := range chain.Height(21) {
		expectTrees(t, v, blocks, h)
		expectTrees(t, v, blocks, h)
	}
	if node.trees.asked != 21 {
		t.Errorf("zebra was asked %d times for 21 tree states", node.trees.asked)
	}
	expectTreesError(t, v, 21, chain.ErrAboveTip)
	expectTreesError(t, v, chain.MaxHeight, chain.ErrAboveTip)

	node.fail(errors.New("connection refused"), time.Second)
	v = mustView(t, New(node))
	expectTreesError(t, v, 20, chain.ErrUnavailable)
	expectTreesError(t, v, 21, chain.ErrAboveTip)
	node.fail(errors.New("connection refused"), tipTrust+time.Second)
	expectTreesError(t, mustView(t, New(node)), 21, chain.ErrUnavailable)
}

// TestZebraMissingTrees: what Zebra leaves out is an empty tree only where there are no notes.
func TestZebraMissingTrees(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 20, "a") // no Orchard notes at all, Sapling notes from block 1 on, Ironwood ones everywhere
	for _, c := range []struct {
		name  string
		h     chain.Height
		spoil func(*chain.TreeState)
		want  error
	}{
		{"orchard is empty", 20, func(s *chain.TreeState) { s.Orchard = "" }, nil},
		{"sapling and orchard are empty", 0, func(s *chain.TreeState) { s.Sapling, s.Orchard = "", "" }, nil},
		{"sapling is not empty", 20, func(s *chain.TreeState) { s.Sapling = "" }, chain.ErrUnavailable},
		{"ironwood is not empty", 0, func(s *chain.TreeState) { s.Ironwood, s.Orchard = "", "" }, chain.ErrUnavailable},
		{"another height", 20, func(s *chain.TreeState) { s.ID.Height-- }, chain.ErrUnavailable},
		{"another hash", 20, func(s *chain.TreeState) { s.ID = blocks[3].ID }, chain.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := newFakeNode(blocks)
			node.trees.spoil = c.spoil
			v := mustView(t, New(node))
			if c.want == nil {
				expectTrees(t, v, blocks, c.h)
				return
			}
			expectTreesError(t, v, c.h, c.want)
			node.trees.spoil = nil // a wrong answer is not kept
			expectTrees(t, v, blocks, c.h)
		})
	}
}

func TestZebraTreesOfOrphans(t *testing.T) {
	t.Parallel()
	old := branch(nil, 0, 40, "a")
	for name, other := range map[string][]*chain.Block{
		"other branch": branch(old, 20, 45, "b"), "same height": branch(old, 40, 40, "b"), "shorter": branch(old, 20, 25, "b"), "cut off": old[:26],
	} {
		t.Run(name, func(t *testing.T) {
			node := newFakeNode(old)
			v := mustView(t, New(node))
			node.trees.onAsk = func() { node.set(other) } // between the question which block it is and the one for its trees
			expectTreesError(t, v, 40, chain.ErrReorged)
			if h := chain.Height(len(other)); h <= 40 {
				expectTreesError(t, v, h, chain.ErrReorged)
			}
		})
	}
}

func TestTreeCacheIsBounded(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 3*keptTrees, "a")
	z := New(newFakeNode(blocks))
	v := mustView(t, z)
	for h := range chain.Height(len(blocks)) {
		expectTrees(t, v, blocks, h)
	}
	if n := len(z.trees.states); n != keptTrees {
		t.Errorf("%d tree states are kept, not %d", n, keptTrees)
	}
}

// TestTreesAreAskedForOnce: many wallets that want the same cost Zebra one question, and one that leaves takes nothing from the others.
func TestTreesAreAskedForOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		blocks := branch(nil, 0, 20, "a")
		node := newFakeNode(blocks)
		z := New(node)
		release := make(chan struct{})
		node.trees.onAsk = func() { <-release }
		ctx, leave := context.WithCancel(t.Context())
		answers := make(chan error, 100)
		ask := func(ctx context.Context) {
			v, err := z.View(t.Context())
			if err == nil {
				_, err = v.TreeState(ctx, 20)
			}
			answers <- err
		}
		go ask(ctx) // asks first
		synctest.Wait()
		go ask(ctx)
		for range 98 {
			go ask(t.Context())
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("who left while others asked got %v", err)
		}
		node.trees.onAsk = nil
		close(release)
		for range 99 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if node.trees.asked != 1 {
			t.Errorf("zebra was asked %d times", node.trees.asked)
		}
	})
}

// TestErrorsOfSharedQuestions: an error is everybody's who waited for it, but not when it only says that whoever asked has left.
func TestErrorsOfSharedQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c treeCache
		want := chain.TreeState{ID: chain.BlockID{Hash: chain.Hash{7}}}
		asked := 0
		failing := func() (chain.TreeState, error) {
			asked++
			time.Sleep(time.Second)
			return chain.TreeState{}, chain.ErrUnavailable
		}
		errs := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := c.get(t.Context(), want.ID.Hash, failing)
				errs <- err
			}()
		}
		for range 10 {
			if err := <-errs; !errors.Is(err, chain.ErrUnavailable) {
				t.Error(err)
			}
		}
		if asked != 1 || len(c.flights) != 0 {
			t.Errorf("asked %d times, %d flights are left", asked, len(c.flights))
		}

		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		go func() {
			_, _ = c.get(ctx, want.ID.Hash, func() (chain.TreeState, error) {
				<-ctx.Done()
				return chain.TreeState{}, ctx.Err()
			})
		}()
		synctest.Wait()
		got, err := c.get(t.Context(), want.ID.Hash, func() (chain.TreeState, error) { return want, nil })
		if err != nil || got != want {
			t.Errorf("after the one who asked has left: %+v, %v", got, err)
		}
	})
}

func TestJoinedTreeStates(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 100, "a")
	for _, indexed := range []int{0, 1, 50, 100, 101} {
		j, node, index := newJoined(t, blocks, indexed, indexed == 101)
		v := mustView(t, j)
		for _, h := range []chain.Height{0, 1, 30, 49, 50, 99, 100} {
			expectTrees(t, v, blocks, h)
			_, kept := index.kept.states[blocks[h].ID.Hash]
			if kept != (int(h) < indexed) {
				t.Errorf("%d indexed: the trees of block %d are kept: %t", indexed, h, kept)
			}
		}
		expectTreesError(t, v, 101, chain.ErrAboveTip)
		if indexed != 101 {
			continue
		}
		// What is kept needs no Zebra, the rest does.
		asked := node.trees.asked
		node.fail(errors.New("connection refused"), time.Minute)
		v = mustView(t, j)
		for _, h := range []chain.Height{0, 1, 30, 100} {
			expectTrees(t, v, blocks, h)
		}
		expectTreesError(t, v, 31, chain.ErrUnavailable)
		expectTreesError(t, v, 101, chain.ErrAboveTip)
		if node.trees.asked != asked {
			t.Error("zebra was asked for trees that the index has")
		}
	}
}

// TestJoinedBeforeZebra: the index is open and Zebra has never answered.
func TestJoinedBeforeZebra(t *testing.T) {
	t.Parallel()
	blocks := withLeaves(branch(nil, 0, 20, "a"), 40_000)
	j := NewJoined(New(&fakeNode{}))
	index := &fakeIndex{t: t, blocks: blocks, complete: true}
	index.PutTreeState(treesOf(blocks, 7))
	index.PutSubtreeRoots(chain.Orchard, rootsOf(blocks)[:3])
	j.SetIndex(index)
	v := mustView(t, j)
	expectTrees(t, v, blocks, 7)
	expectTreesError(t, v, 8, chain.ErrUnavailable)
	expectRoots(t, v, 1, 2, rootsOf(blocks)[1:3])
	if got, err := v.SubtreeRoots(t.Context(), chain.Orchard, 0, 0); !errors.Is(err, chain.ErrUnavailable) || got != nil {
		t.Errorf("all roots: %v, %v", got, err)
	}
	expectRoots(t, v, 65_536, 0, nil)
}

func TestJoinedTreesBelongToTheIndexedBlock(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 100, "a")
	for name, c := range map[string]struct {
		spoil func(*chain.TreeState)
		node  []*chain.Block
		want  error
	}{
		"other branch":         {nil, branch(blocks, 20, 105, "b"), chain.ErrReorged},
		"zebra is behind":      {nil, blocks[:60], chain.ErrUnavailable},
		"too many leaves":      {func(s *chain.TreeState) { s.Sapling = treeWith(1<<20, s.ID.Hash) }, blocks, chain.ErrUnavailable},
		"empty, with leaves":   {func(s *chain.TreeState) { s.Ironwood = chain.EmptyTree }, blocks, chain.ErrUnavailable},
		"leaves where no are":  {func(s *chain.TreeState) { s.Orchard = treeWith(1, s.ID.Hash) }, blocks, chain.ErrUnavailable},
		"no tree at all there": {func(s *chain.TreeState) { s.Sapling = "00" }, blocks, chain.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			j, node, index := newJoined(t, blocks, 101, true)
			node.trees.spoil = c.spoil
			node.set(c.node)
			expectTreesError(t, mustView(t, j), 80, c.want)
			if len(index.kept.states) > 0 {
				t.Error("a wrong tree state was kept")
			}
		})
	}
}

// TestJoinedTreesTakeOneQuestion: the index knows hash and sizes of its block, also where Zebra leaves the empty trees out.
func TestJoinedTreesTakeOneQuestion(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 100, "a")
	j, node, _ := newJoined(t, blocks, 101, true)
	node.trees.spoil = func(s *chain.TreeState) { s.Orchard = "" } // there are no Orchard notes
	expectTrees(t, mustView(t, j), blocks, 80)
	if node.trees.asked != 1 || node.trees.hashes != 0 || node.trees.sizes != 0 {
		t.Errorf("zebra was asked %d times for trees, %d for a hash, %d for sizes", node.trees.asked, node.trees.hashes, node.trees.sizes)
	}
}

func TestJoinedTreesWhereTheIndexCannotRead(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 100, "a")
	j, node, index := newJoined(t, blocks, 101, true)
	index.bad = &chain.UnreadableError{First: 10, Last: 19, Err: errors.New("damaged")}
	expectTrees(t, mustView(t, j), blocks, 15)
	node.fail(errors.New("connection refused"), time.Minute)
	expectTreesError(t, mustView(t, j), 16, chain.ErrUnavailable)
}

// TestNothingAheadOfWhatIsKept: nobody is woken where a range ended whose tree state is kept.
func TestNothingAheadOfWhatIsKept(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 100, "a")
	j, _, index := newJoined(t, blocks, 101, true)
	index.PutTreeState(treesOf(blocks, 50))
	v := mustView(t, j)
	for last, want := range map[chain.Height]int{50: 0, 51: 1} {
		read(t, v, 10, last, chain.DefaultProjection, nil)
		if got := len(j.ahead); got != want {
			t.Errorf("after a range that ends with block %d: %d to ask ahead, want %d", last, got, want)
		}
		for len(j.ahead) > 0 {
			<-j.ahead
		}
	}
}

// TestAskAhead: the tree state of a range's last block is asked for when the range ends, once.
func TestAskAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		blocks := branch(nil, 0, 100, "a")
		j, node, index := newJoined(t, blocks, 101, true)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- j.Run(ctx) }()
		v := mustView(t, j)
		for range 2 {
			read(t, v, 10, 49, chain.DefaultProjection, nil)
			read(t, v, 60, 60, chain.DefaultProjection, nil) // one block
			read(t, v, 70, 65, chain.DefaultProjection, nil) // backwards
			read(t, v, 90, 120, chain.DefaultProjection, nil)
			for range v.Blocks(t.Context(), 20, 30, chain.DefaultProjection) {
				break // left before the end
			}
			synctest.Wait()
		}
		if node.trees.asked != 2 || len(index.kept.states) != 2 || index.kept.states[blocks[49].ID.Hash] != treesOf(blocks, 49) || index.kept.states[blocks[100].ID.Hash] != treesOf(blocks, 100) {
			t.Errorf("zebra was asked %d times, %d tree states are kept", node.trees.asked, len(index.kept.states))
		}
		node.fail(errors.New("connection refused"), time.Minute)
		read(t, mustView(t, j), 10, 48, chain.DefaultProjection, nil) // an error is nobody's
		synctest.Wait()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for range 3 * maxAhead { // nobody asks ahead any more, and nobody waits for that
			read(t, v, 10, 47, chain.DefaultProjection, nil)
		}
	})
}

// TestAskAheadRests: the ends of ranges cost Zebra a tenth of the time, however many ranges are read.
func TestAskAheadRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		blocks := branch(nil, 0, 100, "a")
		j, node, _ := newJoined(t, blocks, 101, true)
		const each, during = 10 * time.Millisecond, time.Second
		node.trees.onAsk = func() { time.Sleep(each) }
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- j.Run(ctx) }()
		v := mustView(t, j)
		for i := range chain.Height(during / time.Millisecond) {
			read(t, v, 0, 1+i%100, chain.DefaultProjection, nil)
			time.Sleep(time.Millisecond)
		}
		if n, want := node.trees.asked, int(during/each/(1+restAhead)); n < want/2 || n > want+1 {
			t.Errorf("zebra was asked for %d tree states, want about %d", n, want)
		}
		stop() // in the middle of a rest, or of a question
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
