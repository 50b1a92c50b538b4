package index

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// whole is how many of the first n of these blocks lie in whole segments of four, or all n when they are not sealed; cf. damaged.
func whole(n, sealed int) int {
	if n >= sealed {
		return n
	}
	return n / 4 * 4
}

// TestCut cuts at every height, in one step and in many: what is left is served, stays over a restart, and grows again on another chain.
func TestCut(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	for n := range 41 {
		t.Run(fmt.Sprint(n, " blocks"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir, small())
			build(t, s, newFakeNode(blocks))
			if got := s.Stats(); got.SealedBlocks != 33 {
				t.Fatalf("%+v, want 33 sealed blocks", got)
			}
			if err := s.cutInSteps(chain.Height(n), 1+n%3); err != nil {
				t.Fatal(err)
			}
			left := whole(n, 33)
			if s.Complete() != (n >= 33) {
				t.Errorf("complete: %t", s.Complete())
			}
			expectLeft(t, s, blocks, left)
			entries := 0
			for _, run := range s.hashes.Load().runs {
				entries += len(run)
			}
			if sealed := s.Stats().SealedBlocks; entries != sealed {
				t.Errorf("%d entries of hashes for %d sealed blocks", entries, sealed)
			}
			closeAndCheck(t, s)
			s = open(t, dir, small())
			expectLeft(t, s, blocks, left)

			forge := newForge()
			forge.seed = 1000
			other := forge.extend(t, blocks[:max(left, 1)], 50)
			build(t, s, newFakeNode(other))
			expectChain(t, s, other)
			closeAndCheck(t, s)
			expectChain(t, open(t, dir, small()), other)
		})
	}
}

// expectLeft checks that the store has the first n blocks and none of the others.
func expectLeft(t *testing.T, s *Store, blocks []testBlock, n int) {
	t.Helper()
	if n == 0 {
		if tip, some := s.Tip(); some {
			t.Errorf("tip %v, want none", tip)
		}
		return
	}
	expectChain(t, s, blocks[:n])
	v := openView(t, s)
	defer v.Close()
	for _, b := range blocks[n:] {
		if h, err := v.HeightOf(t.Context(), b.ID.Hash); !errors.Is(err, chain.ErrNotFound) {
			t.Errorf("height of %v: %d, %v", b.ID, h, err)
		}
	}
}

// TestViewsOverCut: a view that is older than the cut reads what is left and its recent blocks, and never a block of another chain, though
// that has segments of the same heights.
func TestViewsOverCut(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	s := open(t, t.TempDir(), small())
	build(t, s, newFakeNode(blocks))
	old := openView(t, s)
	if err := s.cut(18); err != nil {
		t.Fatal(err)
	}
	left := openView(t, s)
	other := f.extend(t, blocks[:16], 30)
	build(t, s, newFakeNode(other))
	expectChain(t, s, other)
	expectView(t, left, blocks[:16])

	for name, p := range projections {
		for _, r := range [][2]chain.Height{{0, 15}, {15, 3}, {33, 39}, {39, 33}} {
			got, err := read(t, old, r[0], r[1], p)
			if err != nil || string(got) != string(want(t, blocks, r[0], r[1], p)) {
				t.Errorf("%s: blocks %d to %d: %d bytes, %v", name, r[0], r[1], len(got), err)
			}
		}
		for _, r := range [][2]chain.Height{{0, 39}, {16, 16}, {32, 32}, {39, 0}, {20, 30}} {
			got, err := read(t, old, r[0], r[1], p)
			if !errors.Is(err, chain.ErrReorged) {
				t.Errorf("%s: blocks %d to %d: %v", name, r[0], r[1], err)
			}
			if whole := want(t, blocks, r[0], r[1], p); string(got) != string(whole[:len(got)]) {
				t.Errorf("%s: blocks %d to %d: bytes of another chain", name, r[0], r[1])
			}
		}
	}
	if h, err := old.HeightOf(t.Context(), other[20].ID.Hash); err == nil {
		t.Errorf("the old view knows the height %d of a new block", h)
	}
	if st := s.Stats(); st.CorruptSegments != 0 {
		t.Errorf("%+v: what was cut counts as corrupt", st)
	}
}

// TestCutBelowDamage: a segment whose end cannot be read is no end of a chain.
func TestCutBelowDamage(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	s, _ := damaged(t, blocks, func(dir string) { writeRow(t, dir, segmentKey(15).bytes(), nil) })
	v := openView(t, s)
	if _, err := v.HeightOf(t.Context(), chain.Hash{1}); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("with a missing segment: %v", err)
	}
	if err := s.cut(18); err != nil {
		t.Fatal(err)
	}
	expectLeft(t, s, blocks, 12)
	build(t, s, newFakeNode(blocks))
	expectChain(t, s, blocks)
	closeAndCheck(t, s)
}

func countRows(s *Store, prefix string) (n int) {
	txn := s.db.NewTransactionAt(latest, false)
	defer txn.Discard()
	for range rowsOf(txn, prefix, false) {
		n++
	}
	return n
}

// TestRootsOverCut: the subtree roots of blocks that were cut off go, and do not come back with somebody who asked before.
func TestRootsOverCut(t *testing.T) {
	t.Parallel()
	f := newForge()
	plain := f.extend(t, nil, 40)
	blocks := withLeaves(plain, 40_000)
	dir := t.TempDir()
	s := open(t, dir, small())
	build(t, s, newFakeNode(blocks))
	roots := rootsOf(blocks)
	s.PutSubtreeRoots(chain.Orchard, roots)
	if err := s.saveState(); err != nil {
		t.Fatal(err)
	}
	old := openView(t, s)
	if err := s.cut(18); err != nil {
		t.Fatal(err)
	}
	s.PutSubtreeRoots(chain.Orchard, roots)
	if rows, below := countRows(s, prefixSubtree), rootsBelow(roots, 16); rows != below {
		t.Errorf("%d rows of roots after the cut, want %d", rows, below)
	}
	other := withLeaves(f.extend(t, plain[:16], 30), 40_000)
	build(t, s, newFakeNode(other))
	s.PutSubtreeRoots(chain.Orchard, roots)
	kept := slices.Clone(s.kept.roots[chain.Orchard].list)
	if shared := rootsBelow(roots, 16); len(kept) != shared || !slices.Equal(kept, roots[:shared]) {
		t.Errorf("%d roots are kept, want the %d of the blocks that are left", len(kept), shared)
	}
	s.PutSubtreeRoots(chain.Orchard, rootsOf(other))
	if got, err := openView(t, s).SubtreeRoots(t.Context(), chain.Orchard, 0, 0); err != nil || !slices.Equal(got, rootsOf(other)) {
		t.Errorf("%d roots of the new chain, %v", len(got), err)
	}
	if got, err := old.SubtreeRoots(t.Context(), chain.Orchard, 0, 0); !errors.Is(err, chain.ErrReorged) {
		t.Errorf("the old view: %d roots, %v", len(got), err)
	}
	closeAndCheck(t, s)
	s = open(t, dir, small())
	if got, err := openView(t, s).SubtreeRoots(t.Context(), chain.Orchard, 0, 20); err != nil || !slices.Equal(got, rootsOf(other)[:20]) {
		t.Errorf("after a restart: %d roots, %v", len(got), err)
	}
}
