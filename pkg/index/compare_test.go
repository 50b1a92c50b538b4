package index

import (
	"errors"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// TestCompare holds an index of 40 blocks against nodes that have the same chain, less of it, another branch, or cannot say.
func TestCompare(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	dir := t.TempDir()
	s := open(t, dir, small())
	build(t, s, newFakeNode(blocks))
	closeAndCheck(t, s)
	away := newFakeNode(blocks)
	away.set(blocks, chain.ErrUnavailable)
	ends := newFakeNode(blocks)
	ends.block = func(b testBlock) (*chain.Block, error) {
		if b.ID.Height == 20 {
			return nil, chain.ErrUnavailable
		}
		return b.Block, nil
	}
	wrong := newFakeNode(blocks)
	wrong.treeSizes = func(_ chain.Hash, s chain.TreeSizes) (chain.TreeSizes, error) { s.Orchard++; return s, nil }
	for name, c := range map[string]struct {
		node    *fakeNode
		all     Comparison // for every block
		err     error
		problem string
	}{
		"the same":               {newFakeNode(blocks), Comparison{Blocks: 40}, nil, ""},
		"ahead":                  {newFakeNode(f.extend(t, blocks, 5)), Comparison{Blocks: 40}, nil, ""},
		"behind":                 {newFakeNode(blocks[:30]), Comparison{Blocks: 30, AboveTip: 10}, nil, ""},
		"a reorg":                {newFakeNode(f.extend(t, blocks[:36], 9)), Comparison{Blocks: 36, Left: 4}, nil, ""},
		"a branch below":         {newFakeNode(f.extend(t, blocks[:10], 40)), Comparison{Blocks: 10}, nil, "is not the node's"},
		"another network":        {newFakeNode(f.extend(t, nil, 40)), Comparison{}, ErrOtherNetwork, ""},
		"away":                   {away, Comparison{}, chain.ErrUnavailable, ""},
		"goes away":              {ends, Comparison{Blocks: 20}, chain.ErrUnavailable, ""},
		"another count of notes": {wrong, Comparison{Blocks: 40}, nil, "but the node's"},
	} {
		t.Run(name, func(t *testing.T) { // not parallel: they lock one index
			r := check(t, dir, CheckOptions{Compare: c.node, All: true})
			got := *r.Node
			got.Err, got.Error = nil, ""
			if got != c.all || !errors.Is(r.Node.Err, c.err) || (r.Node.Error == "") != (c.err == nil) {
				t.Errorf("%+v, want %+v and %v", r.Node, c.all, c.err)
			}
			if found := len(r.Problems) > 0; found != (c.problem != "") || found && (!strings.Contains(r.Problems[0].What, c.problem) || r.Problems[0].Do == "") {
				t.Errorf("%v, want %q", r.Problems, c.problem)
			}
		})
	}
}

// TestCompareSample: the edges, and as many heights as were asked for, the same ones for the same seed.
func TestCompareSample(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	dir := t.TempDir()
	s := open(t, dir, small())
	build(t, s, newFakeNode(blocks))
	closeAndCheck(t, s)
	asked := func(sample int, seed uint64) (heights []chain.Height) {
		n := newFakeNode(blocks)
		n.block = func(b testBlock) (*chain.Block, error) {
			heights = append(heights, b.ID.Height)
			return b.Block, nil
		}
		r := check(t, dir, CheckOptions{Compare: n, Sample: sample, Seed: seed})
		if len(r.Problems) > 0 || r.Node.Blocks != int64(len(heights)) || r.Node.Err != nil || n.sizesAsked != len(heights) {
			t.Errorf("%v, %+v, %d heights, %d sizes", r.Problems, r.Node, len(heights), n.sizesAsked)
		}
		return heights
	}
	same := func(a, b []chain.Height) bool {
		for i := range a {
			if i >= len(b) || a[i] != b[i] {
				return false
			}
		}
		return len(a) == len(b)
	}
	if edges := asked(0, 1); !same(edges, []chain.Height{0, 32, 33, 39}) {
		t.Errorf("the edges: %v", edges)
	}
	first := asked(8, 1)
	if len(first) < 8 || !same(first, asked(8, 1)) {
		t.Errorf("seed 1: %v", first)
	}
	if same(first, asked(8, 2)) {
		t.Errorf("seed 2: %v too", first)
	}
}
