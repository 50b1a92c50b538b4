package zebrarpc

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

func TestTreeStates(t *testing.T) {
	t.Parallel()
	bc := newChain(t, 20, zebratest.Mixed)
	c := nodeClient(t, Options{}, zebratest.NewNode(bc, zebratest.NodeOptions{}))
	for h := range bc.Tip().Height + 1 {
		hash, _ := bc.Hash(h)
		want, _ := bc.Sizes(h)
		got, err := c.TreeState(t.Context(), hash)
		if err != nil || got.ID != (chain.BlockID{Height: h, Hash: hash}) || got.Time == 0 {
			t.Fatalf("TreeState(%d): %+v, %v", h, got, err)
		}
		if h == 0 { // no pool is active yet
			if got.Sapling+got.Orchard+got.Ironwood != "" {
				t.Errorf("the trees of genesis are %+v", got)
			}
			continue
		}
		if sizes, err := got.Sizes(); err != nil || sizes != want {
			t.Errorf("the trees of block %d have %+v leaves, %v; want %+v", h, sizes, err, want)
		}
	}
}

func TestTreeStateOfMissingBlocks(t *testing.T) {
	t.Parallel()
	bc := newChain(t, 3, zebratest.Small)
	orphan, _ := bc.Hash(3)
	if err := bc.Reorg(1, 2, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	c := nodeClient(t, Options{}, zebratest.NewNode(bc, zebratest.NodeOptions{}))
	for _, hash := range []chain.Hash{{1}, orphan} {
		_, err := c.TreeState(t.Context(), hash)
		wantError(t, err, Answerable, "z_gettreestate hash "+hash.String()+" from "+c.URL()+
			": code -8: the requested block is not in the main chain: not found", chain.ErrNotFound)
	}
}

func TestTreeStateReplies(t *testing.T) {
	t.Parallel()
	hash := chain.Hash{31: 0xab}
	other := chain.Hash{31: 0xac}
	reply := func(hash chain.Hash, pools string) string {
		return fmt.Sprintf(`{"hash":"%s","height":7,"time":9,%s}`, hash, pools)
	}
	const two = `"sapling":{"commitments":{"finalRoot":"00","finalState":"000000"}},"orchard":{"commitments":{}}`
	one := "01" + strings.Repeat("5a", 32) + "0000"
	for _, test := range []struct {
		name, result string
		want         chain.TreeState
		err          string // part of a fatal error
	}{
		{"no ironwood", reply(hash, two), chain.TreeState{Sapling: "000000"}, ""},
		{"null", reply(hash, `"sapling":{"commitments":{"finalState":null}},"orchard":{"commitments":{}}`), chain.TreeState{}, ""},
		{"all", reply(hash, two+`,"ironwood":{"commitments":{"finalState":"`+one+`"}}`), chain.TreeState{Sapling: "000000", Ironwood: one}, ""},
		{"another block", reply(other, two), chain.TreeState{}, "the reply is about block " + other.String()},
		{"no object", `"x"`, chain.TreeState{}, "hash is missing"},
		{"no commitments", reply(hash, `"sapling":{},"orchard":{"commitments":{}}`), chain.TreeState{}, "sapling: commitments is missing"},
		{"commitments of a wrong type", reply(hash, `"sapling":{"commitments":5}`), chain.TreeState{}, "sapling.commitments is 5, not an object"},
		{"pool of a wrong type", reply(hash, `"sapling":[]`), chain.TreeState{}, "sapling: commitments is missing: its parent is []"},
		{"tree of a wrong type", reply(hash, `"orchard":{"commitments":{"finalState":5}}`), chain.TreeState{}, "orchard: finalState is 5, not a string"},
		{"tree is no hex", reply(hash, `"orchard":{"commitments":{"finalState":"0000zz"}}`), chain.TreeState{}, "orchard.finalState: encoding/hex"},
		{"tree is empty text", reply(hash, `"orchard":{"commitments":{"finalState":""}}`), chain.TreeState{}, "orchard.finalState: left leaf at byte 0"},
		{"tree is cut off", reply(hash, `"ironwood":{"commitments":{"finalState":"`+one[:20]+`"}}`), chain.TreeState{}, "ironwood.finalState: left leaf"},
		{"negative time", `{"hash":"` + hash.String() + `","height":7,"time":-1}`, chain.TreeState{}, "time is -1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
				if q.method != "z_gettreestate" || q.params != `["`+hash.String()+`"]` {
					t.Errorf("asked %s%s", q.method, q.params)
				}
				return q.result(test.result)
			})
			got, err := c.TreeState(t.Context(), hash)
			if test.err != "" {
				wantFatal(t, err, test.err)
				return
			}
			test.want.ID, test.want.Time = chain.BlockID{Height: 7, Hash: hash}, 9
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}

func wantFatal(t *testing.T, err error, part string) {
	t.Helper()
	if e, ok := err.(*Error); !ok || e.Class != Fatal || !strings.Contains(err.Error(), part) {
		t.Errorf("error %v, want a fatal one with %q", err, part)
	}
}

func TestSubtrees(t *testing.T) {
	t.Parallel()
	bc := newChain(t, 30, zebratest.Mixed)
	n := zebratest.NewNode(bc, zebratest.NodeOptions{SubtreeLeaves: 8})
	c := nodeClient(t, Options{}, n)
	for pool, size := range map[chain.Pool]func(chain.TreeSizes) uint32{
		chain.Sapling:  func(s chain.TreeSizes) uint32 { return s.Sapling },
		chain.Orchard:  func(s chain.TreeSizes) uint32 { return s.Orchard },
		chain.Ironwood: func(s chain.TreeSizes) uint32 { return s.Ironwood },
	} {
		all, err := c.Subtrees(t.Context(), pool, 0, 0)
		tip, _ := bc.Sizes(bc.Tip().Height)
		if err != nil || len(all) != int(size(tip)/8) || len(all) < 4 {
			t.Fatalf("%s: %d subtrees of %d leaves, %v", pool, len(all), size(tip), err)
		}
		for i, s := range all {
			at, _ := bc.Sizes(s.End)
			if below, _ := bc.Sizes(s.End - 1); size(below) >= uint32(8*(i+1)) || size(at) < uint32(8*(i+1)) || s.Root == [32]byte{} {
				t.Errorf("%s subtree %d ends at height %d", pool, i, s.End)
			}
		}
		asked := n.Requests("z_getsubtreesbyindex")
		for _, r := range []struct {
			start, limit uint32
			from, to     int
		}{{1, 2, 1, 3}, {2, 0, 2, len(all)}, {2, 70_000, 2, len(all)}, {65_535, 0, 0, 0}, {65_536, 1, 0, 0}, {1<<32 - 1, 0, 0, 0}} {
			got, err := c.Subtrees(t.Context(), pool, r.start, r.limit)
			if err != nil || len(got) != r.to-r.from || len(got) > 0 && got[0] != all[r.from] {
				t.Errorf("%s subtrees %+v: %d, %v", pool, r, len(got), err)
			}
		}
		if asked = n.Requests("z_getsubtreesbyindex") - asked; asked != 4 {
			t.Errorf("zebra was asked %d times, not 4: it takes no index above 65535", asked)
		}
	}
}

func TestSubtreeReplies(t *testing.T) {
	t.Parallel()
	root := strings.Repeat("5a", 32)
	list := func(items string) string { return `{"pool":"orchard","start_index":3,"subtrees":[` + items + `]}` }
	for _, test := range []struct{ name, result, err string }{
		{"one", list(`{"root":"` + root + `","end_height":5}`), ""},
		{"more than asked for", list(strings.TrimSuffix(strings.Repeat(`{"root":"`+root+`","end_height":5},`, 3), ",")), "3 subtrees of at most 2"},
		{"descending", list(`{"root":"` + root + `","end_height":5},{"root":"` + root + `","end_height":4}`), "subtrees[1]: its end_height is below"},
		{"short root", list(`{"root":"5a","end_height":5}`), `subtrees[0]: root "5a" is not 64 hex digits`},
		{"long root", list(`{"root":"` + root + `00","end_height":5}`), "is not 64 hex digits"},
		{"no hex", list(`{"root":"` + strings.Repeat("zz", 32) + `","end_height":5}`), "is not 64 hex digits"},
		{"no root", list(`{"end_height":5}`), "subtrees[0]: root is missing"},
		{"no height", list(`{"root":"` + root + `"}`), "subtrees[0]: end_height is missing"},
		{"height of a wrong type", list(`{"root":"` + root + `","end_height":"5"}`), "end_height is"},
		{"no list", `{"pool":"orchard","start_index":3}`, "subtrees is missing"},
		{"list of a wrong type", `{"pool":"orchard","start_index":3,"subtrees":{}}`, "subtrees is {}, not a list"},
		{"another pool", `{"pool":"sapling","start_index":3,"subtrees":[]}`, "the reply is about sapling subtrees from index 3"},
		{"another index", `{"pool":"orchard","start_index":2,"subtrees":[]}`, "the reply is about orchard subtrees from index 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
				if q.method != "z_getsubtreesbyindex" || q.params != `["orchard",3,2]` {
					t.Errorf("asked %s%s", q.method, q.params)
				}
				return q.result(test.result)
			})
			got, err := c.Subtrees(t.Context(), chain.Orchard, 3, 2)
			if test.err != "" {
				wantFatal(t, err, test.err)
				return
			}
			if err != nil || len(got) != 1 || got[0].End != 5 || got[0].Root[31] != 0x5a {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestTreeTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fakeClient(t, Options{}, func(q question) (*http.Response, error) { q.sleep(time.Hour); return nil, q.ctx.Err() })
		for name, call := range map[string]func() error{
			"z_gettreestate":       func() error { _, err := c.TreeState(t.Context(), chain.Hash{}); return err },
			"z_getsubtreesbyindex": func() error { _, err := c.Subtrees(t.Context(), chain.Orchard, 0, 0); return err },
		} {
			start := time.Now()
			err := call()
			if e, ok := err.(*Error); !ok || e.Class != Passing || e.Method != name || time.Since(start) != 30*time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(start))
			}
		}
	})
}
