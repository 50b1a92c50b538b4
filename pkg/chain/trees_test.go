package chain

import (
	"errors"
	"strings"
	"testing"
)

func TestTreeSize(t *testing.T) {
	t.Parallel()
	const (
		// Of a zebrad 7.0.0 on regtest: one and two Sapling notes. All 31 places for parents are written.
		one = "01c30bc17ca77c54189806165a441b459b1ae6113e2364ae1ea39ccdc146fb2068001f00000000000000000000000000000000000000000000000000000000000000"
		two = "01c30bc17ca77c54189806165a441b459b1ae6113e2364ae1ea39ccdc146fb2068012a1e8d30f1b73fb8c932d2a69d73acc3186bdd2bf549f4126c7d4e9fde9c6108" +
			"1f00000000000000000000000000000000000000000000000000000000000000"
	)
	node := "01" + strings.Repeat("5a", 32)
	for tree, want := range map[string]uint32{
		EmptyTree: 0, one: 1, two: 2,
		node + "0000":                                   1,
		node + node + "00":                              2,
		node + "0001" + node:                            3,
		node + node + "01" + node:                       4,
		node + "000200" + node:                          5,
		node + "00021" + node[1:] + "00":                0, // an odd number of digits
		node + "0003" + node + node + node:              15,
		node + "001f" + strings.Repeat("00", 30) + node: 1 + 1<<31,
		node + "001f" + strings.Repeat(node, 31):        1<<32 - 1,
		node + node + "001f":                            0, // two nodes, no parents, and a byte too many
		node + node + "1f" + strings.Repeat(node, 31):   0, // 2^32 leaves
		node + "0020" + strings.Repeat("00", 32):        0, // deeper than a tree
		"":                                              0,
		"0000":                                          0,
		"00" + node + "00":                              0, // a right leaf without a left one
		"000001" + node:                                 0,
		"02" + node[2:] + "0000":                        0,
		node[:20]:                                       0,
		node + "0001":                                   0,
		node + "00fdff":                                 0,
		"zz0000":                                        0,
		node + "0001" + node + "00":                     0,
		"000001" + node + strings.Repeat("00", 1<<10):   0,
		node + "00fd1f00" + strings.Repeat("00", 31) + "00": 0,
	} {
		got, err := TreeSize(tree)
		if got != want || (err == nil) != (want > 0 || tree == EmptyTree) {
			t.Errorf("TreeSize(%.200s): %d, %v; want %d", tree, got, err, want)
		}
		var parse *ParseError
		if err != nil && !errors.As(err, &parse) && !strings.Contains(err.Error(), "hex") {
			t.Errorf("TreeSize(%.200s): %v says nowhere what is wrong", tree, err)
		}
	}
}

func TestTreeStateSizes(t *testing.T) {
	t.Parallel()
	node := "01" + strings.Repeat("5a", 32)
	s := TreeState{Sapling: node + "0000", Orchard: EmptyTree, Ironwood: node + node + "00"}
	sizes, err := s.Sizes()
	if err != nil || sizes != (TreeSizes{Sapling: 1, Ironwood: 2}) || sizes.Of(Sapling) != 1 || sizes.Of(Orchard) != 0 || sizes.Of(Ironwood) != 2 || sizes.Of(Transparent) != 0 {
		t.Errorf("%+v, %v", sizes, err)
	}
	for pool, tree := range map[Pool]*string{Sapling: &s.Sapling, Orchard: &s.Orchard, Ironwood: &s.Ironwood} {
		kept := *tree
		*tree = ""
		if _, err := s.Sizes(); err == nil || !strings.HasPrefix(err.Error(), pool.String()+" tree: ") {
			t.Errorf("without a %s tree: %v", pool, err)
		}
		*tree = kept
	}
}

func FuzzTreeSize(f *testing.F) {
	node := "01" + strings.Repeat("5a", 32)
	for _, seed := range []string{EmptyTree, node + node + "02" + node + "00", node + "001f" + strings.Repeat(node, 31)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, tree string) {
		if len(tree) > 1<<16 {
			return
		}
		if size, err := TreeSize(tree); err == nil && (len(tree) < len(EmptyTree) || size > 0 != strings.HasPrefix(tree, "01")) {
			t.Errorf("%q counts %d leaves", tree, size)
		}
	})
}
