package passthrough

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// expectRoots compares Orchard roots.
func expectRoots(t *testing.T, v chain.View, start, limit uint32, want []chain.SubtreeRoot) {
	t.Helper()
	got, err := v.SubtreeRoots(t.Context(), chain.Orchard, start, limit)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("roots from %d, at most %d: %d, %v; want %d", start, limit, len(got), err, len(want))
	}
}

func TestSubtreeRoots(t *testing.T) {
	t.Parallel()
	blocks := withLeaves(branch(nil, 0, 100, "a"), 40_000) // 61 subtrees
	roots := rootsOf(blocks)
	cases := func(t *testing.T, v chain.View) {
		t.Helper()
		expectRoots(t, v, 0, 0, roots)
		expectRoots(t, v, 60, 0, roots[60:])
		expectRoots(t, v, 10, 5, roots[10:15])
		expectRoots(t, v, 59, 65_536, roots[59:])
		expectRoots(t, v, 59, 1<<32-1, roots[59:])
		for _, past := range []uint32{61, 62, 65_535, 65_536, 1<<32 - 1} {
			expectRoots(t, v, past, 0, nil)
			expectRoots(t, v, past, 1<<32-1, nil)
		}
		if got, err := v.SubtreeRoots(t.Context(), chain.Sapling, 0, 0); err != nil || len(got) > 0 {
			t.Errorf("sapling: %v, %v", got, err)
		}
	}
	t.Run("zebra", func(t *testing.T) {
		node := newFakeNode(blocks)
		v := mustView(t, New(node))
		cases(t, v)
		if node.trees.hashes > 61+40 {
			t.Errorf("zebra was asked for %d block hashes", node.trees.hashes)
		}
		node.fail(errors.New("connection refused"), time.Second)
		if _, err := mustView(t, New(node)).SubtreeRoots(t.Context(), chain.Orchard, 0, 1); !errors.Is(err, chain.ErrUnavailable) {
			t.Errorf("zebra away: %v", err)
		}
	})
	for _, indexed := range []int{1, 50, 101} {
		t.Run(fmt.Sprint(indexed, " indexed"), func(t *testing.T) {
			j, node, _ := newJoined(t, blocks, indexed, indexed == 101)
			cases(t, mustView(t, j))
			lists := node.trees.lists
			if indexed == 101 {
				node.fail(errors.New("connection refused"), time.Minute)
				cases(t, mustView(t, j)) // all of it is kept
				if node.trees.lists != lists {
					t.Error("zebra was asked for what the index has kept")
				}
			}
		})
	}
}

// TestSubtreeRootsGrow: what is known is asked for once, and roots of a branch that was left are forgotten.
func TestSubtreeRootsGrow(t *testing.T) {
	t.Parallel()
	blocks := withLeaves(branch(nil, 0, 100, "a"), 40_000)
	node := newFakeNode(blocks[:50])
	z := New(node)
	expectRoots(t, mustView(t, z), 0, 0, rootsOf(blocks[:50]))
	node.set(blocks)
	node.trees.hashes = 0
	expectRoots(t, mustView(t, z), 0, 0, rootsOf(blocks))
	if n := node.trees.hashes; n > len(rootsOf(blocks))-len(rootsOf(blocks[:50]))+2 {
		t.Errorf("zebra was asked for %d block hashes", n)
	}
	for _, other := range [][]*chain.Block{withLeaves(branch(blocks, 70, 90, "b"), 40_000), blocks[:30], withLeaves(branch(blocks, 1, 120, "c"), 40_000)} {
		node.set(other)
		expectRoots(t, mustView(t, z), 0, 0, rootsOf(other))
	}
	// A list that is still too short is no error, and is asked for again.
	node.set(blocks)
	node.trees.shortest = 40
	z = New(node)
	expectRoots(t, mustView(t, z), 30, 0, rootsOf(blocks)[30:40])
	node.trees.shortest = 0
	expectRoots(t, mustView(t, z), 30, 0, rootsOf(blocks)[30:])
}

func TestSubtreeRootsOfAnotherBranch(t *testing.T) {
	t.Parallel()
	blocks := withLeaves(branch(nil, 0, 100, "a"), 40_000)
	other := withLeaves(branch(blocks, 60, 105, "b"), 40_000)
	wantError := func(t *testing.T, v chain.View, want error) {
		t.Helper()
		if got, err := v.SubtreeRoots(t.Context(), chain.Orchard, 0, 0); !errors.Is(err, want) || got != nil {
			t.Errorf("%d roots, %v; want %v", len(got), err, want)
		}
	}
	t.Run("under zebra's view", func(t *testing.T) {
		for _, next := range [][]*chain.Block{other, blocks[:80]} {
			node := newFakeNode(blocks)
			v := mustView(t, New(node))
			node.trees.onList = func() { node.set(next) }
			wantError(t, v, chain.ErrReorged)
			node.trees.onList = nil
			expectRoots(t, mustView(t, New(node)), 0, 0, rootsOf(next))
		}
	})
	t.Run("beside the index", func(t *testing.T) {
		j, node, index := newJoined(t, blocks, 101, true)
		node.set(other)
		wantError(t, mustView(t, j), chain.ErrReorged)
		node.set(blocks[:80])
		wantError(t, mustView(t, j), chain.ErrUnavailable)
		if len(index.kept.roots) > 0 {
			t.Error("roots of another chain were kept")
		}
		// Beside an index that is not complete the tip is Zebra's, and so are the roots; but they are not the index's.
		index.complete = false
		node.set(other)
		expectRoots(t, mustView(t, j), 0, 0, rootsOf(other))
		if len(index.kept.roots) > 0 {
			t.Error("roots of another chain were kept")
		}
	})
}

// Whoever waits behind a question that Zebra does not answer is told that there is no answer, and not that there are too many.
func TestSubtreeRootsBehindAHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		blocks := withLeaves(branch(nil, 0, 20, "a"), 40_000)
		node := newFakeNode(blocks)
		v := mustView(t, New(node))
		heal := make(chan struct{})
		node.trees.onList = func() { <-heal }
		first := make(chan error)
		go func() {
			_, err := v.SubtreeRoots(t.Context(), chain.Orchard, 0, 0)
			first <- err
		}()
		synctest.Wait()
		begin := time.Now()
		if _, err := v.SubtreeRoots(t.Context(), chain.Orchard, 0, 0); !errors.Is(err, chain.ErrUnavailable) || time.Since(begin) != rootsWait {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		close(heal)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}
