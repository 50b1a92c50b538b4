package passthrough

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

var projections = []chain.Projection{
	chain.DefaultProjection,
	{Pools: chain.AllPools, KeepEmpty: true},
	{Pools: chain.Pools(0).With(chain.Orchard)},
	{Pools: chain.ShieldedPools, NullifiersOnly: true},
}

func mustView(t *testing.T, s chain.Source) chain.View {
	t.Helper()
	v, err := s.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

func TestZebraRangesGiveTheSameBytesAsTheirBlocks(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 60, "a")
	v := mustView(t, New(newFakeNode(blocks)))
	if tip, err := v.Tip(); err != nil || tip != blocks[60].ID {
		t.Fatalf("Tip() = %v, %v", tip, err)
	}
	for _, r := range [][2]chain.Height{{0, 60}, {60, 0}, {0, 0}, {60, 60}, {13, 29}, {29, 13}, {1, 0}} {
		for _, p := range projections {
			g := read(t, v, r[0], r[1], p, nil)
			if g.err != nil || !bytes.Equal(g.bytes, want(t, blocks, r[0], r[1], p)) {
				t.Errorf("range %v through %+v: error %v, %d blocks, bytes differ from the blocks' own", r, p, g.err, g.count)
			}
			if g.origins[chain.FromIndex] != 0 {
				t.Errorf("range %v claims to come from the index", r)
			}
		}
	}
}

func TestZebraRangeAcrossAndAboveTheTip(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 20, "a")
	v := mustView(t, New(newFakeNode(blocks)))
	var above *chain.AboveTipError

	g := read(t, v, 15, 30, chain.DefaultProjection, nil)
	if g.count != 6 || !errors.As(g.err, &above) || *above != (chain.AboveTipError{Asked: 30, Tip: 20}) {
		t.Errorf("15..30 gave %d blocks and %v", g.count, g.err)
	}
	for _, r := range [][2]chain.Height{{21, 30}, {21, 5}, {chain.MaxHeight, 0}} {
		g := read(t, v, r[0], r[1], chain.DefaultProjection, nil)
		if g.count != 0 || !errors.As(g.err, &above) || *above != (chain.AboveTipError{Asked: uint64(r[0]), Tip: 20}) {
			t.Errorf("%v gave %d blocks and %v", r, g.count, g.err)
		}
	}
}

func TestZebraAway(t *testing.T) {
	t.Parallel()
	node := &fakeNode{}
	z := New(node)
	if _, err := z.View(t.Context()); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("View before the first answer: %v", err)
	}
	refused := errors.New("connection refused")
	node.tip.Err = refused
	if _, err := z.View(t.Context()); !errors.Is(err, chain.ErrUnavailable) || !errors.Is(err, refused) {
		t.Errorf("View after a refused poll: %v", err)
	}

	node.set(branch(nil, 0, 20, "a"))
	node.fail(refused, time.Second)
	v := mustView(t, z)
	if _, err := v.Tip(); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("Tip while Zebra is away: %v", err)
	}
	if g := read(t, v, 21, 21, chain.DefaultProjection, nil); !errors.Is(g.err, chain.ErrAboveTip) {
		t.Errorf("above a tip confirmed a second ago: %v", g.err)
	}
	node.err = nil // it would answer again, but that is for the watcher to find out
	if g := read(t, v, 5, 10, chain.DefaultProjection, nil); !errors.Is(g.err, chain.ErrUnavailable) || g.count != 0 {
		t.Errorf("a range while Zebra is away: %d blocks, %v", g.count, g.err)
	}
	node.fail(refused, tipTrust+time.Second)
	v = mustView(t, z)
	if g := read(t, v, 21, 21, chain.DefaultProjection, nil); !errors.Is(g.err, chain.ErrUnavailable) {
		t.Errorf("above a tip confirmed long ago: %v", g.err)
	}
}

// TestZebraPrunes: blocks that the node names and does not have are unavailable, in ranges and with trees. Those above are answered.
func TestZebraPrunes(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 40, "a")
	node := newFakeNode(blocks)
	node.pruned = 20
	v := mustView(t, New(node))
	p := chain.DefaultProjection
	for _, r := range [][2]chain.Height{{5, 30}, {19, 19}, {0, 40}, {19, 3}} {
		if g := read(t, v, r[0], r[1], p, nil); !errors.Is(g.err, chain.ErrUnavailable) || errors.Is(g.err, chain.ErrReorged) || g.count > 1 {
			t.Errorf("%v: %d blocks, error %v", r, g.count, g.err)
		}
	}
	if g := read(t, v, 40, 10, p, nil); !errors.Is(g.err, chain.ErrUnavailable) || !bytes.Equal(g.bytes, want(t, blocks, 40, 20, p)) {
		t.Errorf("down to the pruned ones: %d blocks, error %v", g.count, g.err)
	}
	if g := read(t, v, 20, 40, p, nil); g.err != nil || !bytes.Equal(g.bytes, want(t, blocks, 20, 40, p)) {
		t.Errorf("what there is: %d blocks, error %v", g.count, g.err)
	}
	if _, err := v.TreeState(t.Context(), 19); !errors.Is(err, chain.ErrUnavailable) || errors.Is(err, chain.ErrReorged) {
		t.Errorf("trees: %v", err)
	}
	if _, err := v.TreeState(t.Context(), 20); err != nil {
		t.Errorf("trees that there are: %v", err)
	}

	// With another tip the block may be missing for the moment of a reorg alone.
	node.set(branch(blocks, 30, 40, "b"))
	if g := read(t, v, 5, 30, p, nil); !errors.Is(g.err, chain.ErrReorged) || g.count > 0 {
		t.Errorf("after a reorg: %d blocks, error %v", g.count, g.err)
	}
	if _, err := v.TreeState(t.Context(), 19); !errors.Is(err, chain.ErrReorged) {
		t.Errorf("trees after a reorg: %v", err)
	}
}

func TestZebraReorgUnderARange(t *testing.T) {
	t.Parallel()
	old := branch(nil, 0, 40, "a")
	for name, other := range map[string][]*chain.Block{
		"other branch": branch(old, 20, 45, "b"),
		"shorter":      branch(old, 20, 25, "b"),
		"cut off":      old[:26],
	} {
		for _, r := range [][2]chain.Height{{10, 40}, {40, 10}} {
			node := newFakeNode(old)
			v := mustView(t, New(node))
			node.pace = func(h chain.Height) {
				if h == 30 {
					node.set(other)
				}
			}
			g := read(t, v, r[0], r[1], chain.DefaultProjection, nil)
			if !errors.Is(g.err, chain.ErrReorged) && !(name == "cut off" && r[0] == 40 && g.err != nil) {
				t.Errorf("%s, %v: error %v, not ErrReorged", name, r, g.err)
			}
			if end := int(r[0]) + g.count*sign(r); !bytes.Equal(g.bytes, want(t, old, r[0], chain.Height(end-sign(r)), chain.DefaultProjection)) {
				t.Errorf("%s, %v: the blocks before the error are not those of the old chain", name, r)
			}
		}
	}
}

func sign(r [2]chain.Height) int {
	if r[0] > r[1] {
		return -1
	}
	return 1
}

func TestZebraTipIsHeldAgainstTheTipBlock(t *testing.T) {
	t.Parallel()
	old := branch(nil, 0, 40, "a")
	node := newFakeNode(old)
	v := mustView(t, New(node))
	node.set(branch(old, 40, 40, "b")) // same height, other block
	if g := read(t, v, 40, 40, chain.DefaultProjection, nil); !errors.Is(g.err, chain.ErrReorged) || g.count != 0 {
		t.Errorf("the other block of the tip's height: %d blocks, error %v", g.count, g.err)
	}
}

func TestZebraBaseSizesBelongToTheFirstBlock(t *testing.T) {
	t.Parallel()
	old := branch(nil, 0, 40, "a")
	other := branch(old, 20, 45, "b")
	node := newFakeNode(old)
	v := mustView(t, New(node))

	// The sizes are answered by another chain than the block: they are asked again by hash, and there the block is gone.
	node.onSizes = func() {
		node.onSizes = nil
		node.set(other)
	}
	if g := read(t, v, 30, 35, chain.DefaultProjection, nil); !errors.Is(g.err, chain.ErrReorged) || g.count != 0 {
		t.Errorf("sizes of another chain: %d blocks, error %v", g.count, g.err)
	}

	// The sizes were answered before a reorg and the block after it: asked again by hash, they are the right ones.
	node = newFakeNode(old)
	v = mustView(t, New(node))
	asked := make(chan struct{})
	node.onSizes = func() { close(asked) }
	node.pace = func(h chain.Height) {
		if h == 30 {
			<-asked
			time.Sleep(10 * time.Millisecond) // the answer about the old chain is on its way
			node.set(other)
		}
	}
	if g := read(t, v, 30, 30, chain.DefaultProjection, nil); g.err != nil || !bytes.Equal(g.bytes, want(t, other, 30, 30, chain.DefaultProjection)) {
		t.Errorf("sizes answered before a reorg: error %v, or other bytes", g.err)
	}
}

// The highest block of a range has no child in it that would vouch for its hash.
func TestZebraHighestBlockIsVouchedFor(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 40, "a")
	for _, p := range []chain.Projection{chain.DefaultProjection, {Pools: chain.ShieldedPools, NullifiersOnly: true}} {
		for _, r := range [][2]chain.Height{{20, 30}, {30, 20}, {30, 30}} {
			node := newFakeNode(blocks)
			wrong := *blocks[30]
			wrong.ID.Hash[0] ^= 1
			node.swap = map[chain.Height]*chain.Block{30: &wrong}
			g := read(t, mustView(t, New(node)), r[0], r[1], p, nil)
			sent := 0
			if r[0] == 20 {
				sent = 10
			}
			if !errors.Is(g.err, chain.ErrReorged) || g.count != sent {
				t.Errorf("%v, nullifiers %v: %d blocks and %v", r, p.NullifiersOnly, g.count, g.err)
			}
		}
	}
}

func TestZebraHeightOf(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 20, "a")
	node := newFakeNode(blocks)
	v := mustView(t, New(node))
	node.set(branch(blocks, 21, 22, "a"))
	if h, err := v.HeightOf(t.Context(), blocks[7].ID.Hash); err != nil || h != 7 {
		t.Errorf("HeightOf block 7: %d, %v", h, err)
	}
	if _, err := v.HeightOf(t.Context(), chain.Hash{1}); !errors.Is(err, chain.ErrNotFound) {
		t.Errorf("HeightOf an unknown hash: %v", err)
	}
	if _, err := v.HeightOf(t.Context(), node.blocks[22].ID.Hash); !errors.Is(err, chain.ErrNotFound) {
		t.Errorf("HeightOf a block above the view's tip: %v", err)
	}
}

func TestZebraHashAt(t *testing.T) {
	t.Parallel()
	blocks := branch(nil, 0, 20, "a")
	node := newFakeNode(blocks)
	v := mustView(t, New(node))
	node.set(branch(blocks, 21, 22, "a"))
	for _, h := range []chain.Height{0, 7, 20} {
		if hash, err := v.HashAt(t.Context(), h); err != nil || hash != blocks[h].ID.Hash {
			t.Errorf("HashAt %d: %s, %v", h, hash, err)
		}
	}
	if _, err := v.HashAt(t.Context(), 21); !errors.Is(err, chain.ErrAboveTip) {
		t.Errorf("HashAt a height above the view's tip: %v", err)
	}
	node.set(branch(nil, 0, 5, "b"))
	if hash, err := v.HashAt(t.Context(), 20); err != nil || hash != blocks[20].ID.Hash {
		t.Errorf("HashAt the tip of the view: %s, %v", hash, err)
	}
	if _, err := v.HashAt(t.Context(), 7); !errors.Is(err, chain.ErrReorged) || errors.Is(err, chain.ErrAboveTip) {
		t.Errorf("HashAt a height that the node has lost: %v", err)
	}
}
