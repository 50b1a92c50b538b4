package index

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

var errDown = fmt.Errorf("connection refused: %w", chain.ErrUnavailable)

func (r *running) awaitTip(t testing.TB, b testBlock) {
	t.Helper()
	r.await(t, "tip "+b.ID.String(), func() bool { tip, ok := r.store.Tip(); return ok && tip == b.ID })
}

func (r *running) awaitState(t testing.TB, s State, text string) {
	t.Helper()
	r.await(t, s.String()+": "+text, func() bool {
		p := r.Progress()
		return p.State == s && (text == "" || p.Err != nil && strings.Contains(p.Err.Error(), text))
	})
}

func TestTreeSizesAreCompared(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 60)
	for _, wrong := range []int{3, 30, 53, 59} {
		t.Run(fmt.Sprint("wrong at ", wrong), func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir(), small())
			n := newFakeNode(blocks)
			n.treeSizes = func(hash chain.Hash, sizes chain.TreeSizes) (chain.TreeSizes, error) {
				for _, b := range blocks[wrong:] {
					if b.ID.Hash == hash {
						sizes.Orchard++
					}
				}
				return sizes, nil
			}
			b := start(t, s, n, BuilderOptions{})
			b.awaitState(t, StateStopped, "tree sizes at the end of block")
			var sizes *TreeSizeError
			if err := b.Progress().Err; !errors.As(err, &sizes) || sizes.Node.Orchard != sizes.Ours.Orchard+1 || sizes.Block.Height < chain.Height(wrong) {
				t.Errorf("progress says %v", err)
			}
			if tip, ok := s.Tip(); ok && tip.Height >= chain.Height(wrong) {
				t.Errorf("block %v was stored", tip)
			}
			n.with(func() { n.treeSizes = nil })
			b.awaitTip(t, blocks[59])
			b.awaitState(t, StateFollowing, "")
			b.stop(t)
			expectChain(t, s, blocks)
		})
	}
}

// While the index is being built recent blocks are stored before their tree sizes are compared: they are taken back when those differ, also
// those that another attempt has stored.
func TestUncomparedBlocksAreTakenBack(t *testing.T) {
	t.Parallel()
	const sealed, wrong = 30, 100 // blocks
	blocks := newForge().extend(t, nil, 1000)
	s := open(t, t.TempDir(), Options{MinFree: -1, SealDepth: 999 - sealed, SegmentBlocks: 10})
	n := newFakeNode(blocks)
	n.treeSizes = func(hash chain.Hash, sizes chain.TreeSizes) (chain.TreeSizes, error) {
		if hash == blocks[999].ID.Hash {
			return sizes, errDown
		}
		return sizes, nil
	}
	b := start(t, s, n, BuilderOptions{})
	b.awaitState(t, StateWaiting, "ask the node for the tree sizes of block 999")
	b.stop(t)
	if tip, ok := s.Tip(); !ok || tip.Height < wrong {
		t.Fatalf("the index ends with %v: nothing was stored before it was compared", tip)
	}

	n.with(func() {
		n.treeSizes = func(hash chain.Hash, sizes chain.TreeSizes) (chain.TreeSizes, error) {
			if slices.ContainsFunc(blocks[wrong:], func(b testBlock) bool { return b.ID.Hash == hash }) {
				sizes.Orchard++
			}
			return sizes, nil
		}
	})
	b = start(t, s, n, BuilderOptions{})
	b.awaitState(t, StateStopped, "tree sizes at the end of block 999")
	if tip, ok := s.Tip(); !ok || tip != blocks[sealed-1].ID {
		t.Errorf("the index ends with %v, want the last block that was compared", tip)
	}
	n.with(func() { n.treeSizes = nil })
	b.awaitTip(t, blocks[999])
	b.stop(t)
	expectChain(t, s, blocks)
}

func TestTreeSizesAreComparedOftenEnough(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 100)
	o := Options{MinFree: -1, SealDepth: 39, SegmentBlocks: 20, TreeCheckEvery: 25}
	s := open(t, t.TempDir(), o)
	n := newFakeNode(blocks)
	build(t, s, n)
	// 60 blocks are deep: three segments. The 40 others are one commit, at the tip.
	if n.sizesAsked != 3+1 {
		t.Errorf("the node was asked for tree sizes %d times", n.sizesAsked)
	}
}

// TestWrongBlocks: what the node says is wrong in a way that the builder notices. The process lives, nothing wrong is stored, and it
// goes on when the node is right again.
func TestWrongBlocks(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 60)
	stranger := f.extend(t, blocks[:10], 45)
	for name, c := range map[string]struct {
		block func(testBlock) (*chain.Block, error)
		state State
		text  string
	}{
		"does not link": {func(b testBlock) (*chain.Block, error) {
			if b.ID.Height >= 54 {
				return stranger[54].Block, nil
			}
			return b.Block, nil
		}, StateStopped, "its database is damaged, or what it sends is changed on its way: block 54"},
		"another height": {func(b testBlock) (*chain.Block, error) {
			if b.ID.Height == 30 {
				return blocks[31].Block, nil
			}
			return b.Block, nil
		}, StateStopped, "has parent"},
		"does not parse": {func(b testBlock) (*chain.Block, error) {
			if b.ID.Height == 57 {
				return nil, fmt.Errorf("block %s: version 7: %w", b.ID, chain.ErrUnknownVersion)
			}
			return b.Block, nil
		}, StateStopped, "fetch block 57"},
		"overflowing trees": {func(b testBlock) (*chain.Block, error) {
			if b.ID.Height == 5 {
				wrong := *b.Block
				wrong.Added.Sapling = ^uint32(0)
				return &wrong, nil
			}
			return b.Block, nil
		}, StateStopped, "overflows"},
		"not genesis": {func(b testBlock) (*chain.Block, error) {
			if b.ID.Height == 0 {
				return blocks[1].Block, nil
			}
			return b.Block, nil
		}, StateStopped, "no genesis block"},
		"ends early": {func(b testBlock) (*chain.Block, error) {
			if b.ID.Height == 40 {
				return nil, errDown
			}
			return b.Block, nil
		}, StateWaiting, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir(), small())
			n := newFakeNode(blocks)
			n.block = c.block
			b := start(t, s, n, BuilderOptions{})
			b.awaitState(t, c.state, c.text)
			if s.Complete() {
				t.Error("complete")
			}
			if tip, ok := s.Tip(); ok && tip != blocks[tip.Height].ID {
				t.Errorf("stored %s", tip)
			}
			b.stop(t)
			n.block = nil
			build(t, s, n)
			expectChain(t, s, blocks)
		})
	}
}

// TestWrongNewBlock: a new block that has another hash than the node's tip is not stored, though it links.
func TestWrongNewBlock(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 31)
	other := f.extend(t, blocks[:30], 1)[30]
	s := open(t, t.TempDir(), small())
	build(t, s, newFakeNode(blocks[:30]))
	n := newFakeNode(blocks)
	n.block = func(testBlock) (*chain.Block, error) { return other.Block, nil }
	b := start(t, s, n, BuilderOptions{})
	b.awaitState(t, StateWaiting, "tree sizes of block 30 ("+other.ID.Hash.String())
	b.stop(t)
	expectChain(t, s, blocks[:30])
	n.block = nil
	build(t, s, n)
	expectChain(t, s, blocks)
}

// TestParseErrorLeavesTheTipBelow: what came before a block that does not parse is kept.
func TestParseErrorLeavesTheTipBelow(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	s := open(t, t.TempDir(), small())
	n := newFakeNode(blocks)
	n.block = func(b testBlock) (*chain.Block, error) {
		if b.ID.Height == 57 {
			return nil, chain.ErrUnknownVersion
		}
		return b.Block, nil
	}
	b := start(t, s, n, BuilderOptions{})
	b.awaitState(t, StateStopped, "fetch block 57")
	b.stop(t)
	expectChain(t, s, blocks[:57])
}

func TestNodeAway(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	s := open(t, t.TempDir(), small())
	n := newFakeNode(blocks[:50])
	n.err = errDown
	b := start(t, s, n, BuilderOptions{})
	b.awaitState(t, StateWaiting, "connection refused")
	n.set(blocks[:50], nil)
	b.awaitTip(t, blocks[49])
	b.await(t, "completeness", s.Complete)
	n.set(blocks, errDown)
	b.awaitState(t, StateWaiting, "connection refused")
	if !s.Complete() || !n.following {
		t.Error("a node that cannot be asked says nothing of being behind")
	}
	n.set(blocks, nil)
	b.awaitTip(t, blocks[59])
	b.awaitState(t, StateFollowing, "")
	b.stop(t)
	expectChain(t, s, blocks)
}

// TestNodeFails lets every question fail now and then.
func TestNodeFails(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 120)
	s := open(t, t.TempDir(), small())
	n := newFakeNode(blocks)
	var count atomic.Int32
	n.block = func(b testBlock) (*chain.Block, error) {
		if count.Add(1)%17 == 0 {
			return nil, errDown
		}
		return b.Block, nil
	}
	n.treeSizes = func(_ chain.Hash, sizes chain.TreeSizes) (chain.TreeSizes, error) {
		if count.Add(1)%5 == 0 {
			return sizes, errDown
		}
		return sizes, nil
	}
	build(t, s, n)
	expectChain(t, s, blocks)
	if n.blocksSent > 200 {
		t.Errorf("the node sent %d blocks for 120: what was fetched was thrown away", n.blocksSent)
	}
}

func TestOtherNetworkOfTheNode(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 30)
	other := f.extend(t, nil, 50)
	dir := t.TempDir()
	s := open(t, dir, small())
	n := newFakeNode(blocks)
	b := start(t, s, n, BuilderOptions{})
	b.awaitTip(t, blocks[29])
	b.await(t, "completeness", s.Complete)
	n.set(other, nil) // while running
	b.await(t, "refusal", func() bool { err := b.Progress().Err; return errors.Is(err, ErrOtherNetwork) })
	b.stop(t)
	b = start(t, s, n, BuilderOptions{}) // at a start
	b.awaitState(t, StateStopped, dir)
	for _, word := range []string{blocks[0].ID.Hash.String(), other[0].ID.Hash.String(), "(test)", "use another data directory"} {
		if err := b.Progress().Err; !errors.Is(err, ErrOtherNetwork) || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %s", err, word)
		}
	}
	if err := s.Apart(); !errors.Is(err, ErrOtherNetwork) {
		t.Errorf("apart: %v", err)
	}
	expectChain(t, s, blocks)
	n.set(blocks, nil)
	b.awaitState(t, StateFollowing, "")
	b.stop(t)
}

// TestWantedGenesis: an empty index that is to hold a certain network takes no other.
func TestWantedGenesis(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 5)
	o := small()
	o.Genesis = blocks[0].ID.Hash
	s := open(t, t.TempDir(), o)
	n := newFakeNode(f.extend(t, nil, 5))
	b := start(t, s, n, BuilderOptions{})
	b.awaitState(t, StateStopped, ErrOtherNetwork.Error())
	n.set(blocks, nil)
	b.awaitTip(t, blocks[4])
	b.stop(t)
}

// TestRestartWhileBuilding goes on where the last commit was.
func TestRestartWhileBuilding(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	dir := t.TempDir()
	n := newFakeNode(blocks)
	n.block = func(b testBlock) (*chain.Block, error) {
		if b.ID.Height == 30 {
			return nil, errDown
		}
		return b.Block, nil
	}
	s := open(t, dir, small())
	b := start(t, s, n, BuilderOptions{})
	b.awaitState(t, StateWaiting, "connection refused")
	b.stop(t)
	closeAndCheck(t, s)
	s = open(t, dir, small())
	// Six segments of four blocks were committed; the seventh waits for the eighth, that of block 30.
	if tip, _ := s.Tip(); tip != blocks[23].ID || s.Complete() {
		t.Errorf("tip %v after the restart, complete %t; want the end of the last commit", tip, s.Complete())
	}
	expectChain(t, s, blocks[:24])
	n.block, n.blocksSent = nil, 0
	build(t, s, n)
	expectChain(t, s, blocks)
	if n.blocksSent != 60-24 {
		t.Errorf("the node sent %d blocks after the restart", n.blocksSent)
	}
}

// A block whose bytes make us panic ends the attempt, and what was gathered with it; the store is as before, and the next attempt goes on.
func TestPanickingBlock(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	s := open(t, t.TempDir(), small())
	build(t, s, newFakeNode(blocks[:20]))
	n := newFakeNode(blocks)
	b := NewBuilder(s, n, BuilderOptions{})
	for i, f := range blocks[20:22] {
		err := b.gather(f.Block, func() {
			if b.recent.empty() {
				b.recent.reset(s.state.top)
			}
			b.recent.add(f.Block, f.sizes)
			if i == 1 {
				panic("no")
			}
		})
		var bug *chain.Panic
		if errors.As(err, &bug) != (i == 1) || err != nil && !strings.Contains(err.Error(), f.ID.String()) {
			t.Errorf("block %s: %v", f.ID, err)
		}
	}
	if b.end() != s.state.top {
		t.Errorf("what was gathered is left: %+v", b.end())
	}
	drive(t, b, n)
	expectChain(t, s, blocks)
}
