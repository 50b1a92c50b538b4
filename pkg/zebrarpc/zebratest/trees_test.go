package zebratest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// treeQuestions ask for the trees at every height up to the tip, and wrongly.
func treeQuestions(tip chain.Height) []question {
	var list []question
	for h := range tip + 1 {
		list = append(list, call("z_gettreestate", fmt.Sprintf(`["%d"]`, h)))
	}
	for _, params := range []string{
		``, `[]`, `[5]`, `[null]`, `["99999"]`, `["x"]`, `["-1"]`, `["-44"]`, `["-45"]`, `["2147483647"]`, `["2147483648"]`, `["` + unknownHash + `"]`,
		`["` + notHex + `"]`, `{"hash_or_height":"1"}`, `{"hashOrHeight":"1"}`, `{}`, `["1",2]`, `"1"`, `null`,
	} {
		list = append(list, call("z_gettreestate", params))
	}
	for _, params := range []string{
		``, `[]`, `["sapling"]`, `["sapling",0]`, `["orchard",0]`, `["ironwood",0]`, `["sprout",0]`, `["Sapling",0]`, `["",0]`, `[5,0]`, `["x",-1]`,
		`["sapling",5]`, `["sapling",65535]`, `["sapling",65536]`, `["sapling",-1]`, `["sapling",null]`, `["sapling","0"]`, `["sapling",1.5]`,
		`["sapling",0,0]`, `["sapling",0,1]`, `["sapling",0,65535]`, `["sapling",0,65536]`, `["sapling",0,null]`, `["sapling",0,"1"]`,
		`["sapling",65535,65535]`, `["sapling",0,1,2]`, `{"pool":"sapling","start_index":0}`, `{"pool":"sapling","startIndex":0,"limit":3}`, `null`, `7`,
	} {
		list = append(list, call("z_getsubtreesbyindex", params))
	}
	return list
}

// treesAnswer is z_gettreestate's result, the shape of its objects aside.
type treesAnswer struct {
	Hash                       string
	Height                     chain.Height
	Time                       uint32
	Sapling, Orchard, Ironwood struct {
		Commitments struct{ FinalRoot, FinalState *string }
	}
}

// sizes decodes the trees; a tree that is left out counts -1.
func (a *treesAnswer) sizes(t *testing.T) (sizes [3]int) {
	t.Helper()
	for i, state := range []*string{a.Sapling.Commitments.FinalState, a.Orchard.Commitments.FinalState, a.Ironwood.Commitments.FinalState} {
		if state == nil {
			sizes[i] = -1
			continue
		}
		got, err := (&chain.TreeState{Sapling: *state, Orchard: chain.EmptyTree, Ironwood: chain.EmptyTree}).Sizes()
		if err != nil {
			t.Errorf("block %d, tree %d: %v", a.Height, i, err)
		}
		sizes[i] = int(got.Sapling)
	}
	return sizes
}

// compareTrees asks both nodes for everything about trees: their shapes must agree, and the sizes of the trees.
func compareTrees(t *testing.T, real, simulated endpoint, tip chain.BlockID) {
	t.Helper()
	compareNodes(t, real, simulated, append(treeQuestions(tip.Height), call("z_gettreestate", fmt.Sprintf(`["%s"]`, tip.Hash))))
	for h := range tip.Height + 1 {
		var a, b treesAnswer
		params := fmt.Sprintf(`["%d"]`, h)
		real.result(t, &a, "z_gettreestate", params)
		simulated.result(t, &b, "z_gettreestate", params)
		if want, got := a.sizes(t), b.sizes(t); got != want {
			t.Errorf("block %d has trees of %v leaves, simulated %v", h, want, got)
		}
	}
}

// TestTrees checks trees against the sizes that the same node says in getblock.
func TestTrees(t *testing.T) {
	t.Parallel()
	c, err := NewChain(ChainOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Extend(40, Mixed); err != nil {
		t.Fatal(err)
	}
	n := NewNode(c, NodeOptions{SubtreeLeaves: 16})
	start(t, n)
	e := endpoint{url: n.URL()}
	seen := map[string]bool{}
	for h := range c.Tip().Height + 1 {
		var a treesAnswer
		e.result(t, &a, "z_gettreestate", fmt.Sprintf(`["%d"]`, h))
		hash, _ := c.Hash(h)
		s, _ := c.Sizes(h)
		want := [3]int{int(s.Sapling), int(s.Orchard), int(s.Ironwood)}
		if h == 0 { // no upgrade is active yet
			want = [3]int{-1, -1, -1}
		}
		if got := a.sizes(t); got != want || a.Height != h || a.Hash != hash.String() {
			t.Errorf("block %d: trees of %v leaves, not %v; it says %d, %s", h, got, want, a.Height, a.Hash)
		}
		if state := a.Sapling.Commitments.FinalState; s.Sapling > 0 && seen[*state] {
			t.Errorf("block %d has the tree of another block", h)
		} else if s.Sapling > 0 {
			seen[*state] = true
		}
	}
	if len(seen) < 30 {
		t.Fatalf("only %d blocks had notes", len(seen))
	}

	var all subtreesObject
	e.result(t, &all, "z_getsubtreesbyindex", `["orchard",0]`)
	tip, _ := c.Sizes(c.Tip().Height)
	if want := int(tip.Orchard / 16); len(all.Subtrees) != want || want < 3 {
		t.Fatalf("%d subtrees, not %d", len(all.Subtrees), want)
	}
	for i, s := range all.Subtrees {
		end := uint32(16 * (i + 1))
		at, _ := c.Sizes(s.EndHeight)
		below, _ := c.Sizes(s.EndHeight - 1)
		if at.Orchard < end || below.Orchard >= end || len(s.Root) != 64 {
			t.Errorf("subtree %d ends at height %d, where the tree grows from %d to %d", i, s.EndHeight, below.Orchard, at.Orchard)
		}
	}
	for params, want := range map[string][]subtreeObject{
		`["orchard",1]`: all.Subtrees[1:], `["orchard",1,1]`: all.Subtrees[1:2], `["orchard",0,65535]`: all.Subtrees, `["orchard",60000]`: {},
	} {
		var got subtreesObject
		e.result(t, &got, "z_getsubtreesbyindex", params)
		if !slices.Equal(got.Subtrees, want) || got.Pool != "orchard" {
			t.Errorf("%s: %v", params, got)
		}
	}
}

// TestMadeUpTree holds the encoding of trees to the reader that wallets' servers use.
func TestMadeUpTree(t *testing.T) {
	t.Parallel()
	for _, size := range []uint32{0, 1, 2, 3, 4, 5, 7, 8, 65_535, 65_536, 65_537, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		state := chain.TreeState{Sapling: chain.EmptyTree, Orchard: madeUpTree(chain.Orchard, size, chain.Hash{7}), Ironwood: chain.EmptyTree}
		if got, err := state.Sizes(); err != nil || got != (chain.TreeSizes{Orchard: size}) {
			t.Errorf("a tree of %d leaves is read as %+v, %v", size, got, err)
		}
	}
}
