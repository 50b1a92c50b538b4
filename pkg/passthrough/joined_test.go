package passthrough

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

func TestSource(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		h, indexTip chain.Height
		indexed     bool
		want        chain.Origin
	}{
		{0, 0, false, chain.FromZebra},
		{0, 0, true, chain.FromIndex},
		{1, 0, true, chain.FromZebra},
		{99, 100, true, chain.FromIndex},
		{100, 100, true, chain.FromIndex},
		{101, 100, true, chain.FromZebra},
		{100, 100, false, chain.FromZebra},
	} {
		if got := source(c.h, c.indexTip, c.indexed); got != c.want {
			t.Errorf("source(%d, %d, %v) = %v, not %v", c.h, c.indexTip, c.indexed, got, c.want)
		}
	}
}

// newJoined returns a joined source over a node with blocks 0..100 and an index that has the first indexed ones.
func newJoined(t *testing.T, blocks []*chain.Block, indexed int, complete bool) (*Joined, *fakeNode, *fakeIndex) {
	t.Helper()
	node := newFakeNode(blocks)
	index := &fakeIndex{t: t, blocks: blocks[:indexed], complete: complete}
	j := NewJoined(New(node))
	j.SetIndex(index)
	t.Cleanup(func() {
		if index.open != 0 {
			t.Errorf("%d index views were not closed", index.open)
		}
	})
	return j, node, index
}

func TestJoinedGivesTheSameBytesWhoeverAnswers(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 100, "a")
	for _, indexed := range []int{0, 1, 50, 100, 101} {
		j, _, _ := newJoined(t, blocks, indexed, indexed == 101)
		v := mustView(t, j)
		if tip, err := v.Tip(); err != nil || tip != blocks[100].ID {
			t.Fatalf("Tip() = %v, %v", tip, err)
		}
		for _, r := range [][2]chain.Height{{0, 100}, {100, 0}, {49, 50}, {50, 49}, {0, 0}, {100, 100}, {30, 49}, {50, 70}} {
			for _, p := range projections {
				g := read(t, v, r[0], r[1], p, nil)
				if g.err != nil || !bytes.Equal(g.bytes, want(t, blocks, r[0], r[1], p)) {
					t.Errorf("%d indexed, range %v through %+v: error %v, or other bytes", indexed, r, p, g.err)
				}
			}
		}
		var above *chain.AboveTipError
		g := read(t, v, 90, 120, chain.DefaultProjection, nil)
		if g.count != 11 || !errors.As(g.err, &above) || *above != (chain.AboveTipError{Asked: 120, Tip: 100}) {
			t.Errorf("%d indexed, 90..120: %d blocks, %v", indexed, g.count, g.err)
		}
		for _, to := range []chain.Height{0, 101, 120} {
			g := read(t, v, 101, to, chain.DefaultProjection, nil)
			if g.count != 0 || !errors.As(g.err, &above) || *above != (chain.AboveTipError{Asked: 101, Tip: 100}) {
				t.Errorf("%d indexed, 101..%d: %d blocks, %v", indexed, to, g.count, g.err)
			}
		}
	}
}

func TestJoinedAsksZebraOnlyForWhatTheIndexLacks(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 100, "a")
	for _, r := range [][2]chain.Height{{0, 100}, {100, 0}} {
		j, _, _ := newJoined(t, blocks, 60, false)
		v := mustView(t, j)
		if g := read(t, v, r[0], r[1], chain.DefaultProjection, nil); g.origins != [2]int{60, 41} {
			t.Errorf("%v: %d blocks from the index and %d from Zebra", r, g.origins[0], g.origins[1])
		}
	}
	j, node, _ := newJoined(t, blocks, 101, true)
	read(t, mustView(t, j), 0, 100, chain.DefaultProjection, nil)
	if node.requests != 0 {
		t.Errorf("Zebra was asked %d times beside a complete index", node.requests)
	}
}

func TestJoinedRangeMovesToTheGrownIndex(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 3000, "a")
	for _, r := range [][2]chain.Height{{0, 3000}, {3000, 0}} {
		node := newFakeNode(blocks)
		index := &fakeIndex{t: t}
		j := NewJoined(New(node))
		v := mustView(t, j) // before there is an index at all
		asked := 0
		node.pace = func(chain.Height) {
			asked++
			switch asked {
			case 10:
				j.SetIndex(index)
			case 20:
				index.set(blocks[:500], false)
			case 100:
				index.set(blocks[:2000], false)
			case 200:
				index.set(blocks, true)
			}
		}
		g := read(t, v, r[0], r[1], chain.DefaultProjection, nil)
		if g.err != nil || !bytes.Equal(g.bytes, want(t, blocks, r[0], r[1], chain.DefaultProjection)) {
			t.Fatalf("%v: error %v, %d blocks, or other bytes", r, g.err, g.count)
		}
		if g.origins[chain.FromZebra] > 220 {
			t.Errorf("%v: %d blocks came from Zebra, though the index had all but some 200 of them in time", r, g.origins[chain.FromZebra])
		}
		if index.open != 0 {
			t.Errorf("%v: %d index views were not closed", r, index.open)
		}
	}
}

func TestJoinedTip(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 100, "a")
	refused := fmt.Errorf("connection refused: %w", chain.ErrUnavailable)

	j, node, index := newJoined(t, blocks, 60, false)
	node.fail(refused, time.Minute)
	v := mustView(t, j)
	if _, err := v.Tip(); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("Zebra away, index incomplete: tip error %v", err)
	}
	if g := read(t, v, 10, 59, chain.DefaultProjection, nil); g.err != nil || g.count != 50 {
		t.Errorf("indexed heights while Zebra is away: %d blocks, %v", g.count, g.err)
	}
	if g := read(t, v, 50, 80, chain.DefaultProjection, nil); !errors.Is(g.err, chain.ErrUnavailable) || g.count != 10 {
		t.Errorf("heights above the index while Zebra is away: %d blocks, %v", g.count, g.err)
	}
	if g := read(t, v, 500, 500, chain.DefaultProjection, nil); !errors.Is(g.err, chain.ErrUnavailable) {
		t.Errorf("far above the index while Zebra is away: %v", g.err)
	}
	node.fail(refused, time.Second)
	if g := read(t, mustView(t, j), 500, 500, chain.DefaultProjection, nil); !errors.Is(g.err, chain.ErrAboveTip) {
		t.Errorf("far above a tip confirmed a second ago: %v", g.err)
	}

	index.set(blocks[:91], true)
	v = mustView(t, j)
	if tip, err := v.Tip(); err != nil || tip != blocks[90].ID {
		t.Errorf("Zebra away, index complete: tip %v, %v", tip, err)
	}
	if g := read(t, v, 85, 95, chain.DefaultProjection, nil); !errors.Is(g.err, chain.ErrAboveTip) || g.count != 6 {
		t.Errorf("across a complete index's tip: %d blocks, %v", g.count, g.err)
	}
}

// The index has another chain than the node for good: nothing of the node's is mixed in, and no tip is named.
func TestJoinedApart(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 100, "a")
	for _, complete := range []bool{false, true} {
		j, node, index := newJoined(t, blocks, 60, complete)
		other := branch(blocks, 20, 120, "b")
		node.set(other)
		index.apart = errors.New("these are two chains")
		v := mustView(t, j)
		if tip, err := v.Tip(); !errors.Is(err, chain.ErrUnavailable) || !errors.Is(err, chain.ErrApart) || !errors.Is(err, index.apart) {
			t.Errorf("tip %v, %v", tip, err)
		}
		if g := read(t, v, 50, 80, chain.DefaultProjection, nil); !errors.Is(g.err, chain.ErrUnavailable) || errors.Is(g.err, chain.ErrReorged) ||
			!bytes.Equal(g.bytes, want(t, blocks, 50, 59, chain.DefaultProjection)) {
			t.Errorf("across the index's tip: %d blocks, %v", g.count, g.err)
		}
		if g := read(t, v, 100, 110, chain.DefaultProjection, nil); !errors.Is(g.err, chain.ErrUnavailable) || g.count != 0 {
			t.Errorf("above the index's tip: %d blocks, %v", g.count, g.err)
		}
		if h, err := v.HeightOf(t.Context(), other[90].ID.Hash); !errors.Is(err, chain.ErrUnavailable) {
			t.Errorf("a block of the node's chain: %d, %v", h, err)
		}
		if h, err := v.HeightOf(t.Context(), blocks[30].ID.Hash); err != nil || h != 30 {
			t.Errorf("a block of the index: %d, %v", h, err)
		}
		index.apart = nil
		node.set(blocks)
		if tip, err := mustView(t, j).Tip(); err != nil || complete && tip != blocks[59].ID || !complete && tip != blocks[100].ID {
			t.Errorf("healed: tip %v, %v", tip, err)
		}
	}
}

// TestJoinedIndexOfTheOldBranch: an index that is not complete and has not followed a reorg yet shows none of the blocks that have left the
// chain. What it has below the fork it goes on answering.
func TestJoinedIndexOfTheOldBranch(t *testing.T) {
	t.Parallel()
	old := branch(nil, 0, 100, "a")
	p := chain.DefaultProjection
	for name, now := range map[string][]*chain.Block{
		"longer":              branch(old, 20, 120, "b"),
		"shorter than before": branch(old, 20, 80, "b"),
		"below the index":     branch(old, 20, 50, "b"),
		"up to the index":     branch(old, 20, 59, "b"),
	} {
		j, node, _ := newJoined(t, old, 60, false)
		node.set(now)
		v, tip := mustView(t, j), now[len(now)-1].ID
		if h, err := v.HeightOf(t.Context(), old[30].ID.Hash); !errors.Is(err, chain.ErrNotFound) {
			t.Errorf("%s: the height of a block that has left the chain: %d, %v", name, h, err)
		}
		if hash, err := v.HashAt(t.Context(), 30); err != nil || hash != now[30].ID.Hash {
			t.Errorf("%s: block 30 is %s, %v", name, hash, err)
		}
		if g := read(t, v, 0, tip.Height, p, nil); g.err != nil || !bytes.Equal(g.bytes, want(t, now, 0, tip.Height, p)) {
			t.Errorf("%s: %d blocks, %v", name, g.count, g.err)
		}
	}

	// The index is used again as soon as it follows, and asked about once for all views of a tip.
	j, node, index := newJoined(t, old, 60, false)
	node.set(branch(old, 60, 101, "b"))
	asked := node.trees.hashes
	for range 5 {
		v := mustView(t, j)
		if g := read(t, v, 0, 59, p, func(f chain.Frames) {
			if f.Origin != chain.FromIndex {
				t.Errorf("block %d does not come from the index", f.First.Height)
			}
		}); g.err != nil {
			t.Error(g.err)
		}
	}
	if n := node.trees.hashes - asked; n != 1 {
		t.Errorf("zebra was asked %d times about one tip", n)
	}
	index.set(old[:62], false)
	if h, err := mustView(t, j).HeightOf(t.Context(), old[61].ID.Hash); !errors.Is(err, chain.ErrNotFound) {
		t.Errorf("a block that has left the chain: %d, %v", h, err)
	}
}

func TestJoinedNothingKnown(t *testing.T) {
	t.Parallel()
	j := NewJoined(New(&fakeNode{}))
	if _, err := j.View(t.Context()); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("View without index and node: %v", err)
	}
	j.SetIndex(&fakeIndex{t: t})
	if _, err := j.View(t.Context()); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("View with an empty index and no node: %v", err)
	}
}

// While the node has reorged and the index has not, nothing of the two chains is mixed: a view from before ends, one from after reads the
// node's chain.
func TestJoinedNeverMixesTwoChains(t *testing.T) {
	t.Parallel()
	old := branch(nil, 0, 100, "a")
	other := branch(old, 50, 105, "b")
	for _, r := range [][2]chain.Height{{30, 105}, {105, 30}} {
		j, node, _ := newJoined(t, old, 61, false)
		before := mustView(t, j)
		node.set(other)
		g := read(t, before, r[0], r[1], chain.DefaultProjection, nil)
		if !errors.Is(g.err, chain.ErrReorged) && !errors.Is(g.err, chain.ErrAboveTip) {
			t.Errorf("%v over two chains: %d blocks, error %v", r, g.count, g.err)
		}
		g = read(t, mustView(t, j), r[0], r[1], chain.DefaultProjection, nil)
		if g.err != nil || !bytes.Equal(g.bytes, want(t, other, r[0], r[1], chain.DefaultProjection)) {
			t.Errorf("%v after the reorg: %d blocks, error %v", r, g.count, g.err)
		}
	}
	// The index's tip has the height of the node's tip, but is another block.
	j, node, _ := newJoined(t, old, 101, false)
	v := mustView(t, j)
	other = branch(old, 100, 100, "b")
	node.set(other)
	if g := read(t, v, 90, 100, chain.DefaultProjection, nil); g.err != nil || !bytes.Equal(g.bytes, want(t, old, 90, 100, chain.DefaultProjection)) {
		t.Errorf("a view of the old tip: %d blocks, error %v", g.count, g.err)
	}
	v = mustView(t, j)
	if g := read(t, v, 90, 100, chain.DefaultProjection, nil); g.err != nil || !bytes.Equal(g.bytes, want(t, other, 90, 100, chain.DefaultProjection)) {
		t.Errorf("the other block of the tip's height: %d blocks, error %v", g.count, g.err)
	}
	// A node that is behind the index names the tip while the index is incomplete.
	j, node, _ = newJoined(t, old, 101, false)
	node.set(old[:91])
	v = mustView(t, j)
	if g := read(t, v, 85, 95, chain.DefaultProjection, nil); !errors.Is(g.err, chain.ErrAboveTip) || g.count != 6 {
		t.Errorf("across the tip of a node that is behind: %d blocks, error %v", g.count, g.err)
	}
}

func TestJoinedUnreadableHeightsComeFromZebra(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 100, "a")
	j, node, index := newJoined(t, blocks, 101, true)
	index.bad = &chain.UnreadableError{First: 40, Last: 59, Err: errors.New("checksum")}
	v := mustView(t, j)
	for _, r := range [][2]chain.Height{{0, 100}, {100, 0}, {45, 50}, {50, 45}, {30, 45}, {55, 70}, {40, 40}} {
		g := read(t, v, r[0], r[1], chain.DefaultProjection, nil)
		if g.err != nil || !bytes.Equal(g.bytes, want(t, blocks, r[0], r[1], chain.DefaultProjection)) {
			t.Errorf("%v: error %v, or other bytes", r, g.err)
		}
	}
	if g := read(t, v, 0, 100, chain.DefaultProjection, nil); g.origins != [2]int{81, 20} {
		t.Errorf("%d blocks from the index and %d from Zebra", g.origins[0], g.origins[1])
	}
	if h, err := v.HeightOf(t.Context(), blocks[45].ID.Hash); err != nil || h != 45 {
		t.Errorf("HeightOf an unreadable block: %d, %v", h, err)
	}
	node.fail(errors.New("connection refused"), time.Minute)
	if g := read(t, v, 30, 60, chain.DefaultProjection, nil); g.err == nil || g.count != 10 {
		t.Errorf("unreadable heights without Zebra: %d blocks, error %v", g.count, g.err)
	}
}

func TestJoinedHeightOf(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 100, "a")
	j, node, _ := newJoined(t, blocks, 60, false)
	v := mustView(t, j)
	for _, h := range []chain.Height{0, 59, 60, 100} {
		if got, err := v.HeightOf(t.Context(), blocks[h].ID.Hash); err != nil || got != h {
			t.Errorf("HeightOf block %d: %d, %v", h, got, err)
		}
	}
	if _, err := v.HeightOf(t.Context(), chain.Hash{1}); !errors.Is(err, chain.ErrNotFound) {
		t.Errorf("HeightOf an unknown hash: %v", err)
	}
	node.fail(chain.ErrUnavailable, time.Minute)
	if _, err := v.HeightOf(t.Context(), chain.Hash{1}); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("HeightOf an unknown hash while Zebra is away: %v", err)
	}
	j, _, _ = newJoined(t, blocks, 101, true)
	if _, err := mustView(t, j).HeightOf(t.Context(), chain.Hash{1}); !errors.Is(err, chain.ErrNotFound) {
		t.Errorf("HeightOf an unknown hash in a complete index: %v", err)
	}
}

func TestJoinedHashAt(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 100, "a")
	j, node, index := newJoined(t, blocks, 60, false)
	index.bad = &chain.UnreadableError{First: 40, Last: 50}
	v := mustView(t, j)
	for _, h := range []chain.Height{0, 45, 59, 60, 100} {
		if hash, err := v.HashAt(t.Context(), h); err != nil || hash != blocks[h].ID.Hash {
			t.Errorf("HashAt %d: %s, %v", h, hash, err)
		}
	}
	if _, err := v.HashAt(t.Context(), 101); !errors.Is(err, chain.ErrAboveTip) {
		t.Errorf("HashAt a height above the tip: %v", err)
	}
	node.fail(chain.ErrUnavailable, time.Minute)
	v = mustView(t, j)
	if hash, err := v.HashAt(t.Context(), 59); err != nil || hash != blocks[59].ID.Hash {
		t.Errorf("HashAt an indexed height while Zebra is away: %s, %v", hash, err)
	}
	for _, h := range []chain.Height{45, 60, 101} {
		if _, err := v.HashAt(t.Context(), h); !errors.Is(err, chain.ErrUnavailable) {
			t.Errorf("HashAt %d while Zebra is away: %v", h, err)
		}
	}
}
