package index

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

func layoutTree() []byte {
	row, err := encodeTree(&chain.TreeState{
		ID: chain.BlockID{Height: 100, Hash: hashOf(0x10)}, Time: 0x01020304, Sapling: "01" + strings.Repeat("5a", 32) + "0000", Orchard: chain.EmptyTree,
		Ironwood: chain.EmptyTree,
	})
	if err != nil {
		panic(err)
	}
	return row
}

func layoutSubtree() []byte {
	return encodeSubtree(chain.SubtreeRoot{Root: hashOf(0x50), Completing: chain.BlockID{Height: 100, Hash: hashOf(0x10)}})
}

func TestTreeRowsDecodeAgain(t *testing.T) {
	t.Parallel()
	state := madeUpState(testBlock{Block: &chain.Block{ID: chain.BlockID{Height: 7, Hash: hashOf(3)}, Time: 9}})
	row, err := encodeTree(&state)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeTree(treeKey(state.ID.Hash), row); err != nil || got != state {
		t.Errorf("%+v, %v; want %+v", got, err, state)
	}
	for _, key := range [][]byte{nil, []byte("tree/"), []byte("tree/short"), append(treeKey{}.bytes(), 0), subtreeKey{}.bytes()} {
		if _, err := parseTreeKey(key); err == nil {
			t.Errorf("%q is a key of a tree", key)
		}
	}
	if key, err := parseTreeKey(treeKey(hashOf(3)).bytes()); err != nil || key != treeKey(hashOf(3)) {
		t.Errorf("%v, %v", key, err)
	}
	for _, key := range [][]byte{nil, []byte("subtree/"), subtreeKey{chain.Transparent, 5}.bytes(), subtreeKey{chain.Ironwood + 1, 5}.bytes(), append(subtreeKey{chain.Orchard, 5}.bytes(), 0)} {
		if _, err := parseSubtreeKey(key); err == nil {
			t.Errorf("%q is a key of a subtree", key)
		}
	}
	if key, err := parseSubtreeKey(subtreeKey{chain.Ironwood, 1 << 20}.bytes()); err != nil || key != (subtreeKey{chain.Ironwood, 1 << 20}) {
		t.Errorf("%v, %v", key, err)
	}
	for _, tree := range []string{"0000zz", "000", strings.Repeat("00", 1<<16)} {
		if _, err := encodeTree(&chain.TreeState{Sapling: tree}); err == nil {
			t.Errorf("a tree of %d digits %.10q was encoded", len(tree), tree)
		}
	}
}

// madeUpState is a readable tree state that differs from block to block.
func madeUpState(b testBlock) chain.TreeState {
	tree := func(size uint32) string { return treeOf(size, b.ID.Hash) }
	return chain.TreeState{ID: b.ID, Time: b.Time, Sapling: tree(b.sizes.Sapling), Orchard: tree(b.sizes.Orchard), Ironwood: tree(b.sizes.Ironwood)}
}

// treeOf is the encoding of a tree with so many leaves, all nodes of which are the given one.
func treeOf(size uint32, node [32]byte) string {
	if size == 0 {
		return chain.EmptyTree
	}
	optional := func(is bool) string {
		if is {
			return "01" + hex.EncodeToString(node[:])
		}
		return "00"
	}
	tree := optional(true) + optional(size%2 == 0)
	parents, levels := (size-1)/2, ""
	n := 0
	for ; parents > 0; parents /= 2 {
		levels += optional(parents%2 == 1)
		n++
	}
	return tree + fmt.Sprintf("%02x", n) + levels
}

func expectTree(t *testing.T, s *Store, b testBlock) {
	t.Helper()
	if got, err := openView(t, s).TreeState(t.Context(), b.ID.Height); err != nil || got != madeUpState(b) {
		t.Errorf("tree state of block %s: %+v, %v", b.ID, got, err)
	}
	if !s.HasTreeState(b.ID.Hash) {
		t.Errorf("the tree state of block %s is not kept", b.ID)
	}
}

func expectNoTree(t *testing.T, s *Store, h chain.Height) {
	t.Helper()
	v := openView(t, s)
	if got, err := v.TreeState(t.Context(), h); !errors.Is(err, chain.ErrUnavailable) || got != (chain.TreeState{}) {
		t.Errorf("tree state of block %d: %+v, %v", h, got, err)
	}
	if hash, err := v.HashAt(t.Context(), h); err != nil || s.HasTreeState(hash) {
		t.Errorf("the tree state of block %d is kept, %v", h, err)
	}
}

func TestTreeStatesAreKept(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	dir := t.TempDir()
	s := open(t, dir, small())
	s.PutTreeState(madeUpState(blocks[0])) // the index is empty, and its database must stay so
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, small())
	build(t, s, newFakeNode(blocks))
	for _, h := range []int{0, 3, 20, 32, 33, 39} {
		expectNoTree(t, s, chain.Height(h))
		s.PutTreeState(madeUpState(blocks[h]))
		s.PutTreeState(madeUpState(blocks[h])) // once is enough
		expectTree(t, s, blocks[h])            // at once, before any commit
	}
	s.PutTreeState(chain.TreeState{ID: blocks[5].ID, Sapling: "no hex"})
	expectNoTree(t, s, 5)
	if st := s.Stats(); st.TreeStates != 6 {
		t.Errorf("%+v", st)
	}
	if _, err := openView(t, s).TreeState(t.Context(), 40); !errors.Is(err, chain.ErrAboveTip) {
		t.Errorf("above the tip: %v", err)
	}
	closeAndCheck(t, s)
	if r := check(t, dir); r.TreeStates != 6 || r.UnnamedRows != 0 {
		t.Errorf("report %+v", r)
	}
	s = open(t, dir, small())
	for _, h := range []int{0, 3, 20, 32, 33, 39} {
		expectTree(t, s, blocks[h])
	}
	expectNoTree(t, s, 21)

	// A block of the same height on another branch has trees of its own.
	other := newForge().extend(t, blocks[:38], 5)
	build(t, s, newFakeNode(other))
	expectNoTree(t, s, 39)
	s.PutTreeState(madeUpState(other[39]))
	expectTree(t, s, other[39])
	build(t, s, newFakeNode(blocks))
	expectTree(t, s, blocks[39])
}

func TestOldestTreeStatesGo(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	dir := t.TempDir()
	o := small()
	o.TreeStates = 5
	for _, upTo := range []int{20, 40} {
		s := open(t, dir, o)
		n := newFakeNode(blocks[:upTo-15])
		b := NewBuilder(s, n, BuilderOptions{})
		for h := upTo - 15; h < upTo; h++ { // a commit for each block
			s.PutTreeState(madeUpState(blocks[h-3]))
			n.set(blocks[:h+1], nil)
			drive(t, b, n)
		}
		for h := range chain.Height(upTo - 3) {
			if int(h) < upTo-8 {
				expectNoTree(t, s, h)
			} else {
				expectTree(t, s, blocks[h])
			}
		}
		closeAndCheck(t, s)
		if r := check(t, dir); r.TreeStates != 5 {
			t.Errorf("%d tree states are kept, not 5", r.TreeStates)
		}
	}
	// While nothing is committed the queue is bounded as well.
	s := open(t, dir, o)
	many := newForge().extend(t, nil, maxQueuedTrees+10)
	for _, b := range many {
		s.PutTreeState(madeUpState(b))
	}
	if st := s.Stats(); st.TreeStates != 5+maxQueuedTrees {
		t.Errorf("%+v", st)
	}
}

func TestCorruptTreeState(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	s, _ := damaged(t, blocks, func(dir string) {
		s := open(t, dir, small())
		s.PutTreeState(madeUpState(blocks[5]))
		s.PutTreeState(madeUpState(blocks[6]))
		closeAndCheck(t, s)
		key := treeKey(blocks[5].ID.Hash).bytes()
		row := readBytes(t, dir, key)
		row[len(row)-1] ^= 1
		writeRow(t, dir, key, row)
		if r := check(t, dir); len(r.Problems) != 1 || r.Problems[0].Key != "tree/"+blocks[5].ID.Hash.String() || !strings.Contains(r.Problems[0].String(), "checksum") {
			t.Errorf("check: %v", r.Problems)
		}
		t.Cleanup(func() { closeAndCheck(t, s) })
	})
	expectNoTree(t, s, 5)
	expectTree(t, s, blocks[6])
	s.PutTreeState(madeUpState(blocks[5]))
	expectTree(t, s, blocks[5])
}

// leavesABlock are more than the blocks of other tests have all together.
const leavesABlock = 40_000

// withLeaves gives the blocks so many Orchard leaves each, and 1 Sapling leaf.
func withLeaves(blocks []testBlock, leaves uint32) []testBlock {
	var sizes chain.TreeSizes
	changed := slices.Clone(blocks)
	for i, b := range changed {
		c := *b.Block
		c.Added = chain.TreeSizes{Sapling: 1, Orchard: leaves}
		sizes, _ = sizes.Plus(c.Added)
		changed[i] = testBlock{&c, sizes}
	}
	return changed
}

// rootsOf are the subtree roots of a chain whose blocks have leavesABlock Orchard leaves each.
func rootsOf(blocks []testBlock) (roots []chain.SubtreeRoot) {
	for _, b := range blocks {
		if n := len(roots); int(b.sizes.Orchard/chain.SubtreeLeaves) > n {
			roots = append(roots, chain.SubtreeRoot{Root: hashOf(byte(n) ^ b.ID.Hash[0]), Completing: b.ID})
		}
	}
	return roots
}

func expectRoots(t *testing.T, s *Store, start, limit uint32, want []chain.SubtreeRoot) {
	t.Helper()
	got, err := openView(t, s).SubtreeRoots(t.Context(), chain.Orchard, start, limit)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("roots from %d, at most %d: %d, %v; want %d", start, limit, len(got), err, len(want))
	}
}

func expectNoRoots(t *testing.T, s *Store, start, limit uint32) {
	t.Helper()
	if got, err := openView(t, s).SubtreeRoots(t.Context(), chain.Orchard, start, limit); !errors.Is(err, chain.ErrUnavailable) || got != nil {
		t.Errorf("roots from %d, at most %d: %v, %v", start, limit, got, err)
	}
}

func TestSubtreeRootsAreKept(t *testing.T) {
	t.Parallel()
	blocks := withLeaves(newForge().extend(t, nil, 40), leavesABlock)
	roots := rootsOf(blocks) // of 24 subtrees; 32 blocks are sealed, which complete 19
	if len(roots) != 24 {
		t.Fatal(len(roots))
	}
	dir := t.TempDir()
	s := open(t, dir, small())
	s.PutSubtreeRoots(chain.Orchard, roots)
	build(t, s, newFakeNode(blocks))
	expectNoRoots(t, s, 0, 0) // those were brought before there was a chain
	expectNoRoots(t, s, 23, 1)
	for _, start := range []uint32{24, 25, 65_535, 65_536, 1<<32 - 1} {
		expectRoots(t, s, start, 0, nil) // by the sizes there are no more
		expectRoots(t, s, start, 1<<32-1, nil)
	}
	if got, err := openView(t, s).SubtreeRoots(t.Context(), chain.Sapling, 0, 0); err != nil || got != nil {
		t.Errorf("sapling: %v, %v", got, err)
	}

	s.PutSubtreeRoots(chain.Orchard, roots[:10])
	expectRoots(t, s, 3, 7, roots[3:10])
	expectNoRoots(t, s, 3, 8)
	expectNoRoots(t, s, 0, 0)
	s.PutSubtreeRoots(chain.Orchard, roots)
	expectRoots(t, s, 0, 0, roots)
	expectRoots(t, s, 0, 1, roots[:1])
	expectRoots(t, s, 20, 65_536, roots[20:])
	expectRoots(t, s, 23, 1<<32-1, roots[23:])
	s.PutSubtreeRoots(chain.Orchard, roots[:5]) // what is sealed stays, the rest is what the last one said
	closeAndCheck(t, s)
	s = open(t, dir, small())
	s.PutSubtreeRoots(chain.Orchard, roots)
	closeAndCheck(t, s)

	s = open(t, dir, small())
	sealed := slices.IndexFunc(roots, func(r chain.SubtreeRoot) bool { return r.Completing.Height >= s.current.Load().sealed.blocks })
	expectRoots(t, s, 0, uint32(sealed), roots[:sealed])
	expectNoRoots(t, s, 0, 0) // those of recent blocks are not written
	if r := s.Stats(); r.SubtreeRoots != sealed || sealed < 10 || sealed > 22 {
		t.Errorf("%+v, %d are sealed", r, sealed)
	}
}

// TestSubtreeRootsOfOrphans: a root that a branch has completed is not shown on another, and not written when that one is sealed.
func TestSubtreeRootsOfOrphans(t *testing.T) {
	t.Parallel()
	f := newForge()
	plain := f.extend(t, nil, 40)
	blocks := withLeaves(plain, leavesABlock)
	other := withLeaves(f.extend(t, plain[:36], 30), leavesABlock)
	dir := t.TempDir()
	s := open(t, dir, small())
	build(t, s, newFakeNode(blocks))
	s.PutSubtreeRoots(chain.Orchard, rootsOf(blocks))
	old := openView(t, s)
	build(t, s, newFakeNode(other[:42]))

	shared := slices.IndexFunc(rootsOf(blocks), func(r chain.SubtreeRoot) bool { return r.Completing.Height >= 36 })
	expectRoots(t, s, 0, uint32(shared), rootsOf(other)[:shared])
	expectNoRoots(t, s, 0, uint32(shared)+1)
	if got, err := old.SubtreeRoots(t.Context(), chain.Orchard, 0, 0); err != nil || !slices.Equal(got, rootsOf(blocks)) {
		t.Errorf("an open view of the old branch: %d, %v", len(got), err)
	}
	old.Close()
	build(t, s, newFakeNode(other)) // seals the heights at which the branches differ
	expectNoRoots(t, s, 0, uint32(shared)+1)
	closeAndCheck(t, s)
	if r := check(t, dir, CheckOptions{madeUpSizes: true}); r.SubtreeRoots != shared {
		t.Errorf("%d roots are written, not %d", r.SubtreeRoots, shared)
	}
	s = open(t, dir, small())
	s.PutSubtreeRoots(chain.Orchard, rootsOf(other))
	expectRoots(t, s, 0, 0, rootsOf(other))
}

// TestSubtreeRootsOfAnOldView: the chain that completed the roots was left while somebody asked for them, and its heights are sealed by now.
func TestSubtreeRootsOfAnOldView(t *testing.T) {
	t.Parallel()
	f := newForge()
	plain := f.extend(t, nil, 40)
	old, other := withLeaves(plain, 40_000), withLeaves(f.extend(t, plain[:36], 30), 40_000)
	s := open(t, t.TempDir(), small())
	build(t, s, newFakeNode(old))
	build(t, s, newFakeNode(other))
	s.PutSubtreeRoots(chain.Orchard, rootsOf(old))
	shared := slices.IndexFunc(rootsOf(old), func(r chain.SubtreeRoot) bool { return r.Completing.Height >= 36 })
	expectRoots(t, s, 0, uint32(shared), rootsOf(other)[:shared])
	expectNoRoots(t, s, 0, uint32(shared)+1)
	s.PutSubtreeRoots(chain.Orchard, rootsOf(other))
	expectRoots(t, s, 0, 0, rootsOf(other))
}

func TestDamagedSubtreeRoots(t *testing.T) {
	t.Parallel()
	blocks := withLeaves(newForge().extend(t, nil, 40), leavesABlock)
	roots := rootsOf(blocks)
	for name, change := range map[string]func(t *testing.T, dir string){
		"a flipped byte": func(t *testing.T, dir string) {
			row := readBytes(t, dir, subtreeKey{chain.Orchard, 4}.bytes())
			row[50] ^= 1
			writeRow(t, dir, subtreeKey{chain.Orchard, 4}.bytes(), row)
		},
		"a missing one": func(t *testing.T, dir string) { writeRow(t, dir, subtreeKey{chain.Orchard, 4}.bytes(), nil) },
		"another block": func(t *testing.T, dir string) {
			writeRow(t, dir, subtreeKey{chain.Orchard, 4}.bytes(), encodeSubtree(chain.SubtreeRoot{Completing: blocks[39].ID}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, report := damaged(t, blocks, func(dir string) {
				s, err := Open(dir, small())
				if err != nil {
					t.Fatal(err)
				}
				s.PutSubtreeRoots(chain.Orchard, roots)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				change(t, dir)
			})
			if len(report.Problems) == 0 || !strings.HasPrefix(report.Problems[0].Key, "subtree/orchard/") {
				t.Errorf("check: %v", report.Problems)
			}
			expectRoots(t, s, 0, 4, roots[:4])
			expectNoRoots(t, s, 0, 5)
			s.PutSubtreeRoots(chain.Orchard, roots)
			expectRoots(t, s, 0, 0, roots)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if r := check(t, s.dir, CheckOptions{madeUpSizes: true}); len(r.Problems) > 0 {
				t.Errorf("after they were asked for again: %v", r.Problems)
			}
		})
	}
}

// TestQuietChain: what is kept is written though no block comes.
func TestQuietChain(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	dir := t.TempDir()
	s := open(t, dir, small())
	b := start(t, s, newFakeNode(blocks), BuilderOptions{})
	b.await(t, "the tip", s.Complete)
	for i, block := range f.extend(t, blocks, 5*maxQueuedTrees)[40:] {
		s.PutTreeState(madeUpState(block))
		b.await(t, "a free place", func() bool {
			s.kept.mu.Lock()
			defer s.kept.mu.Unlock()
			return len(s.kept.queue) < maxQueuedTrees/4
		})
		if st := s.Stats(); st.TreeStates != i+1 {
			t.Fatalf("%d tree states are kept, not %d", st.TreeStates, i+1)
		}
	}
	b.stop(t)
}

// TestKeepingWhileBuilding brings tree states and roots from several goroutines while the builder commits and commits fail.
func TestKeepingWhileBuilding(t *testing.T) {
	t.Parallel()
	blocks := withLeaves(newForge().extend(t, nil, 80), leavesABlock)
	o := small()
	commits := 0
	o.commitHook = func(write func() error) error {
		if commits++; commits%6 == 2 {
			return errInjected
		}
		err := write()
		if commits%6 == 5 {
			return errInjected // it took place, but the answer is lost
		}
		return err
	}
	s := open(t, t.TempDir(), o)
	n := newFakeNode(blocks[:1])
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 3 {
		readers.Go(func() {
			for h := i; ; h = (h + 7) % len(blocks) {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
				}
				s.PutTreeState(madeUpState(blocks[h]))
				if v, err := s.View(t.Context()); err == nil {
					tip, _ := v.Tip()
					got, err := v.TreeState(t.Context(), min(chain.Height(h), tip.Height))
					if err == nil && got != madeUpState(blocks[got.ID.Height]) {
						t.Errorf("tree state %+v", got)
					}
					s.PutSubtreeRoots(chain.Orchard, rootsOf(blocks[:tip.Height+1]))
					roots, err := v.SubtreeRoots(t.Context(), chain.Orchard, 0, 0)
					if err == nil && !slices.Equal(roots, rootsOf(blocks[:tip.Height+1])) {
						t.Errorf("%d roots at tip %d", len(roots), tip.Height)
					}
					v.Close()
				}
			}
		})
	}
	b := NewBuilder(s, n, BuilderOptions{})
	for h := 1; h <= len(blocks); h++ {
		n.set(blocks[:h], nil)
		drive(t, b, n)
	}
	close(stop)
	readers.Wait()
	s.o.commitHook = nil
	expectChain(t, s, blocks)
}
