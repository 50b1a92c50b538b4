package index

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// quickly lets a builder follow the node over a deep reorg without much ado.
var quickly = BuilderOptions{ConfirmDeep: 30 * time.Millisecond, RetryFatal: time.Hour}

// complete returns an index of the given blocks, and a builder that follows its node.
func complete(t *testing.T, blocks []testBlock, o BuilderOptions) (*Store, *fakeNode, *running) {
	t.Helper()
	s := open(t, t.TempDir(), small())
	n := newFakeNode(blocks)
	b := start(t, s, n, o)
	b.awaitTip(t, blocks[len(blocks)-1])
	b.await(t, "completeness", s.Complete)
	return s, n, b
}

// TestDeepReorgThatPasses: the node leaves our chain among sealed blocks, and comes back to it before the index is cut. Nothing that is
// served changes, but that no tip is named meanwhile.
func TestDeepReorgThatPasses(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	s, n, b := complete(t, blocks, BuilderOptions{ConfirmDeep: time.Hour})
	n.set(f.extend(t, blocks[:20], 30), nil)
	b.awaitState(t, StateStopped, blocks[39].ID.Hash.String())
	b.await(t, "many looks", func() bool {
		asked := 0
		n.with(func() { asked = n.hashAsked })
		return asked > 50*confirmLooks
	})
	if err := b.Progress().Err; !errors.Is(err, ErrDeepReorg) || !strings.Contains(err.Error(), "above block ") {
		t.Errorf("progress says %v", err)
	}
	if err := s.Apart(); !errors.Is(err, ErrDeepReorg) {
		t.Errorf("apart: %v", err)
	}
	expectChain(t, s, blocks)
	longer := f.extend(t, blocks, 3)
	n.set(longer, nil)
	b.awaitTip(t, longer[42])
	b.awaitState(t, StateFollowing, "")
	if err := s.Apart(); err != nil {
		t.Errorf("apart: %v", err)
	}
	b.stop(t)
	expectChain(t, s, longer)
}

// TestDeepReorgIsFollowed: wherever the chains part among sealed blocks, and whether the other is longer or as long.
func TestDeepReorgIsFollowed(t *testing.T) {
	t.Parallel()
	base := newForge().extend(t, nil, 40) // 33 are sealed: 0 to 3, 4 to 7, ..., 28 to 31, and 32
	for _, c := range []struct{ shared, extend, kept int }{
		{32, 8, 32}, {32, 20, 32}, {31, 9, 28}, {30, 30, 28}, {20, 20, 20}, {17, 100, 16}, {4, 50, 4}, {3, 50, 0}, {1, 39, 0},
	} {
		t.Run(fmt.Sprintf("%d blocks after %d", c.extend, c.shared), func(t *testing.T) {
			t.Parallel()
			f := newForge()
			f.seed = uint64(1000 * (c.shared + c.extend))
			other := f.extend(t, base[:c.shared], c.extend)
			s, n, b := complete(t, base, quickly)
			old := openView(t, s)
			n.with(func() { n.blocksSent = 0 })
			n.set(other, nil)
			b.awaitTip(t, other[len(other)-1])
			b.await(t, "completeness", s.Complete)
			if err := s.Apart(); err != nil {
				t.Errorf("apart: %v", err)
			}
			b.stop(t)
			expectChain(t, s, other)
			if v := openView(t, s); c.shared < 39 {
				if _, err := v.HeightOf(t.Context(), base[39].ID.Hash); !errors.Is(err, chain.ErrNotFound) {
					t.Errorf("a block that is gone: %v", err)
				}
			}
			// One to find that it does not link, some to see whether the node's chain is real, and what is not shared.
			if most := 1 + int(small().SealDepth) + len(other) - c.kept; n.blocksSent > most {
				t.Errorf("the node sent %d blocks, want at most %d: those that both have stay", n.blocksSent, most)
			}
			if c.kept == 0 {
				return
			}
			last := chain.Height(c.kept - 1)
			if got, err := read(t, old, 0, last, chain.DefaultProjection); err != nil || string(got) != string(want(t, base, 0, last, chain.DefaultProjection)) {
				t.Errorf("a view from before: %d bytes of what both have, %v", len(got), err)
			}
		})
	}
}

// TestSealedEdge: a fork exactly at the sealed edge is a plain rewind, and one block deeper is a deep reorg.
func TestSealedEdge(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	for shared, deep := range map[int]bool{33: false, 32: true} {
		t.Run(fmt.Sprint(shared), func(t *testing.T) {
			t.Parallel()
			s, n, b := complete(t, blocks, BuilderOptions{ConfirmDeep: time.Hour})
			if got := s.Stats().SealedBlocks; got != 33 {
				t.Fatalf("%d blocks are sealed", got)
			}
			f := newForge()
			f.seed = uint64(shared) << 20
			other := f.extend(t, blocks[:shared], 7)
			n.set(other, nil)
			if deep {
				b.awaitState(t, StateStopped, ErrDeepReorg.Error())
				expectChain(t, s, blocks)
				return
			}
			b.awaitTip(t, other[len(other)-1])
			b.stop(t)
			expectChain(t, s, other)
		})
	}
}

// TestLowerChain: a chain that leaves ours among sealed blocks is not followed while its tip is below ours, as a node's that has missed an
// upgrade, and is as soon as it is as high.
func TestLowerChain(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	other := f.extend(t, blocks[:14], 26)
	s, n, b := complete(t, blocks, quickly)
	for _, length := range []int{39, 20, 15} {
		n.with(func() { n.hashAsked = 0 })
		n.set(other[:length], nil)
		b.awaitState(t, StateStopped, "The node's tip is below that block, so it is not followed")
		begun := time.Now()
		b.await(t, "many looks", func() bool {
			asked := 0
			n.with(func() { asked = n.hashAsked })
			return asked > 20*confirmLooks && time.Since(begun) > 5*quickly.ConfirmDeep
		})
		if err := s.Apart(); !errors.Is(err, ErrDeepReorg) || !strings.Contains(err.Error(), s.dir) {
			t.Errorf("apart: %v", err)
		}
		if tip, _ := s.Tip(); tip != blocks[39].ID {
			t.Fatalf("tip %v with a lower chain of %d blocks", tip, length)
		}
	}
	n.set(other, nil)
	b.awaitTip(t, other[39])
	b.stop(t)
	expectChain(t, s, other)
}

// TestLiesAreNotFollowed: a node that names other hashes than ours, and has no blocks that bear them out.
func TestLiesAreNotFollowed(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	other := f.extend(t, blocks[:14], 30)
	stranger := f.extend(t, blocks[:10], 40)
	for name, lie := range map[string]func(testBlock) (*chain.Block, error){
		"our own blocks": func(b testBlock) (*chain.Block, error) {
			if int(b.ID.Height) < len(blocks) {
				return blocks[b.ID.Height].Block, nil
			}
			return b.Block, nil
		},
		"blocks that do not link to ours": func(b testBlock) (*chain.Block, error) { return stranger[b.ID.Height].Block, nil },
		"blocks that do not link to each other": func(b testBlock) (*chain.Block, error) {
			if b.ID.Height >= 17 {
				return stranger[b.ID.Height].Block, nil
			}
			return b.Block, nil
		},
		"no blocks": func(b testBlock) (*chain.Block, error) {
			return nil, fmt.Errorf("block %d: %w", b.ID.Height, chain.ErrAboveTip)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, n, b := complete(t, blocks, quickly)
			n.with(func() { n.block = lie })
			n.set(other, nil)
			b.awaitState(t, StateStopped, "The node's blocks do not bear it out")
			if tip, _ := s.Tip(); tip != blocks[39].ID {
				t.Errorf("tip %v", tip)
			}
			n.with(func() { n.block = nil })
			b.awaitTip(t, other[43])
			b.stop(t)
			expectChain(t, s, other)
		})
	}
}

// TestLooksAreInARow: the node has to show the other chain at every look.
func TestLooksAreInARow(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	s := open(t, t.TempDir(), small())
	n := newFakeNode(blocks)
	b := NewBuilder(s, n, BuilderOptions{ConfirmDeep: 1})
	drive(t, b, n)
	look := func(chain []testBlock) error {
		n.set(chain, nil)
		b.suspect = true
		return b.sync(t.Context(), chain[len(chain)-1].ID)
	}
	one, two := f.extend(t, blocks[:20], 30), f.extend(t, blocks[:20], 31)
	for _, in := range [][]testBlock{one, blocks, one, two, two[:30], two[:41], one} {
		for range confirmLooks - 1 {
			if err := look(in); err != nil && !errors.Is(err, ErrDeepReorg) {
				t.Fatal(err)
			}
		}
	}
	expectChain(t, s, blocks)
	if err := look(one); err != nil {
		t.Fatal(err)
	}
	expectChain(t, s, one)
}

// TestTwoNodesBehindOneAddress: every other question is answered by a node of another chain. The index is not cut.
func TestTwoNodesBehindOneAddress(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	other := f.extend(t, blocks[:10], 31)
	s, n, b := complete(t, blocks, quickly)
	n.with(func() { n.other = other })
	for range 20 { // the tip is polled, too
		n.set(other, nil)
		n.with(func() { n.other = blocks })
		time.Sleep(quickly.ConfirmDeep / 5)
		n.set(blocks, nil)
		n.with(func() { n.other = other })
		time.Sleep(quickly.ConfirmDeep / 5)
		if st := s.Stats(); st.SealedBlocks < 33 {
			t.Fatalf("%+v: the index was cut", st)
		}
	}
	n.with(func() { n.other = nil })
	n.set(blocks, nil)
	b.awaitState(t, StateFollowing, "")
	b.stop(t)
	expectChain(t, s, blocks)
}

// TestOtherNetworkAmongSealed: with an index that has sealed blocks, a node of another network is told from one with a deep reorg.
func TestOtherNetworkAmongSealed(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	s, n, b := complete(t, blocks, BuilderOptions{})
	n.set(f.extend(t, nil, 60), nil)
	b.await(t, "refusal", func() bool { return s.Apart() != nil })
	if err := s.Apart(); !errors.Is(err, ErrOtherNetwork) {
		t.Errorf("apart: %v", err)
	}
	b.awaitState(t, StateStopped, ErrOtherNetwork.Error())
	b.stop(t)
	expectChain(t, s, blocks)
}
