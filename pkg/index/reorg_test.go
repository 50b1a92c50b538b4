package index

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

func TestPlainReorgs(t *testing.T) {
	t.Parallel()
	f := newForge()
	base := f.extend(t, nil, 150)
	for _, c := range []struct{ depth, extend int }{{1, 1}, {1, 2}, {3, 4}, {5, 2}, {100, 101}, {100, 3}, {120, 90}, {149, 150}} {
		t.Run(fmt.Sprintf("%d blocks for %d", c.extend, c.depth), func(t *testing.T) {
			t.Parallel()
			forge := newForge()
			forge.seed = uint64(1000 * (c.depth + c.extend))
			other := forge.extend(t, base[:150-c.depth], c.extend)
			s := open(t, t.TempDir(), Options{MinFree: -1})
			n := newFakeNode(base)
			b := start(t, s, n, BuilderOptions{})
			b.awaitTip(t, base[149])
			n.with(func() { n.hashAsked = 0 })
			n.set(other, nil)
			b.awaitTip(t, other[len(other)-1])
			b.await(t, "completeness", s.Complete)
			b.stop(t)
			expectChain(t, s, other)
			// Doubling and halving: not one question per block.
			if n.hashAsked > 20 {
				t.Errorf("the node was asked for %d hashes", n.hashAsked)
			}
		})
	}
}

// TestViewsOverRewind reads orphaned blocks through a view that is older than the reorg; their rows go when it is closed.
func TestViewsOverRewind(t *testing.T) {
	t.Parallel()
	f := newForge()
	first := f.extend(t, nil, 20)
	second := f.extend(t, first[:17], 5)
	third := f.extend(t, second[:20], 8)
	s := open(t, t.TempDir(), Options{MinFree: -1})
	build(t, s, newFakeNode(first))
	old := openView(t, s)
	build(t, s, newFakeNode(second))
	middle := openView(t, s)
	build(t, s, newFakeNode(third))
	expectView(t, old, first)
	expectView(t, middle, second)
	expectChain(t, s, third)

	rows := func() map[string]bool {
		present := map[string]bool{}
		for name, b := range map[string]testBlock{"first": first[19], "second": second[21]} {
			txn := s.db.NewTransactionAt(latest, false)
			_, err := txn.Get(recentKey(b.ID).bytes())
			txn.Discard()
			present[name] = err == nil
		}
		return present
	}
	middle.Close() // the oldest view may still read what only the middle one names
	if err := s.saveState(); err != nil {
		t.Fatal(err)
	}
	if got := rows(); !got["first"] || !got["second"] {
		t.Errorf("rows with the old view open: %v", got)
	}
	expectView(t, old, first)
	old.Close()
	if due := s.due(); due != 3+2 {
		t.Errorf("%d rows are due for deletion, want the 5 orphaned ones", due)
	}
	if err := s.saveState(); err != nil {
		t.Fatal(err)
	}
	if got := rows(); got["first"] || got["second"] {
		t.Errorf("rows after the last view was closed: %v", got)
	}
	if st := s.Stats(); st.OpenSnapshots != 1 || st.DueRows != 0 {
		t.Errorf("%+v", st)
	}
	expectChain(t, s, third)
}

// TestNodeBehind: a node whose tip is one of our blocks is no reorg, wherever that block lies.
func TestNodeBehind(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	s := open(t, t.TempDir(), small())
	n := newFakeNode(blocks)
	b := start(t, s, n, BuilderOptions{BehindFor: 20 * time.Millisecond})
	b.awaitTip(t, blocks[39])
	b.await(t, "completeness", s.Complete)
	for _, length := range []int{39, 36, 12, 1} {
		n.with(func() { n.hashAsked = 0 })
		n.set(blocks[:length], nil)
		time.Sleep(50 * time.Millisecond)
		if tip, _ := s.Tip(); tip != blocks[39].ID || !s.Complete() {
			t.Fatalf("with a node at height %d: tip %v, complete %t", length-1, tip, s.Complete())
		}
		n.with(func() {
			if n.hashAsked > 0 {
				t.Errorf("with a node at height %d: %d questions", length-1, n.hashAsked)
			}
		})
	}
	// It comes back on a chain of its own.
	other := f.extend(t, blocks[:38], 1)
	n.set(other, nil)
	b.awaitTip(t, other[38])
	b.stop(t)
	expectChain(t, s, other)
}

// TestLongAbsence: while we were away the node went on so far that the recent blocks are deep now.
func TestLongAbsence(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 70)
	s := open(t, t.TempDir(), small())
	build(t, s, newFakeNode(blocks[:20]))
	build(t, s, newFakeNode(blocks))
	expectChain(t, s, blocks)
	if st := s.Stats(); st.SealedBlocks < 60 {
		t.Errorf("%+v", st)
	}
}

// TestReorgWhileBuilding: the chain changes under the builder, in the part that is not committed yet.
func TestReorgWhileBuilding(t *testing.T) {
	t.Parallel()
	f := newForge()
	first := f.extend(t, nil, 60)
	second := f.extend(t, first[:57], 5)
	s := open(t, t.TempDir(), small())
	n := newFakeNode(first)
	var once atomic.Bool
	n.block = func(b testBlock) (*chain.Block, error) {
		if b.ID.Height == 58 && once.CompareAndSwap(false, true) {
			n.set(second, nil)
			return second[58].Block, nil
		}
		return b.Block, nil
	}
	b := start(t, s, n, BuilderOptions{})
	b.awaitTip(t, second[61])
	b.await(t, "completeness", s.Complete)
	b.stop(t)
	expectChain(t, s, second)
}
