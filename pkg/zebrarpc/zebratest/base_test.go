package zebratest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest/longchain"
)

// standing returns a chain on a base of 2,500 blocks, and one of the same blocks that holds them all itself.
func standing(t *testing.T, kind longchain.Kind) (onBase, whole *Chain, base *longchain.Chain) {
	t.Helper()
	base, err := longchain.Open(t.Context(), longchain.Options{Kind: kind, Blocks: 2500, Seed: 4, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := base.Close(); err != nil {
			t.Error(err)
		}
	})
	if onBase, err = NewChain(ChainOptions{Network: Test, Upgrades: base.Upgrades(), Base: base}); err != nil {
		t.Fatal(err)
	}
	if whole, err = NewChain(ChainOptions{Network: Test, Upgrades: base.Upgrades(), Genesis: rawBlock(t, onBase, 0)}); err != nil {
		t.Fatal(err)
	}
	if err := whole.Extend(base.Len()-1, func(_ *chaintest.Builder, dst []byte, h chain.Height, prev chain.Hash, _ uint64) []byte {
		return base.Append(dst, h, prev, 0)
	}); err != nil {
		t.Fatal(err)
	}
	return onBase, whole, base
}

// TestBase: whether a chain stands on a base or holds its blocks itself, a node gives the same answers.
func TestBase(t *testing.T) {
	t.Parallel()
	for _, kind := range longchain.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			onBase, whole, base := standing(t, kind)
			if onBase.Tip() != whole.Tip() || int(onBase.Tip().Height) != base.Len()-1 || len(onBase.blocks) != Changeable {
				t.Fatalf("the tips are %s and %s, and %d blocks are kept", onBase.Tip(), whole.Tip(), len(onBase.blocks))
			}
			opts := NodeOptions{SubtreeLeaves: 16}
			a, b := NewNode(onBase, opts), NewNode(whole, opts)
			compare := func(part, method, params string) {
				t.Helper()
				text := call(method, params).body
				got, want := post(a, text).Body.String(), post(b, text).Body.String()
				if got != want || !strings.Contains(got, part) {
					t.Errorf("%s %s: got %.300s\nwant %.300s\nwith %s", method, params, got, want, part)
				}
			}
			same := func(method, params string) { t.Helper(); compare(`"result":`, method, params) }
			refused := func(method, params string) { t.Helper(); compare(`"error":`, method, params) }
			for h := chain.Height(0); int(h) < base.Len(); h += 50 {
				for _, at := range []chain.Height{h, min(h, onBase.Tip().Height-1399) + 1399} { // the edge is at 1400
					hash := hashOf(t, whole, at)
					same("getblock", fmt.Sprintf(`["%d",0]`, at))
					same("getblock", fmt.Sprintf(`["%s",1]`, hash))
					same("getblockhash", fmt.Sprintf(`[%d]`, at))
					same("getblockheader", fmt.Sprintf(`["%s"]`, hash))
					same("z_gettreestate", fmt.Sprintf(`["%d"]`, at))
					_, ids, err := chain.NewEncoder(chain.EncoderOptions{}).Transactions(rawBlock(t, whole, at))
					if err != nil {
						t.Fatal(err)
					}
					same("getrawtransaction", fmt.Sprintf(`["%s",1]`, ids[len(ids)-1]))
				}
			}
			for _, pool := range []string{"sapling", "orchard", "ironwood"} {
				same("z_getsubtreesbyindex", fmt.Sprintf(`["%s",0]`, pool))
				same("z_getsubtreesbyindex", fmt.Sprintf(`["%s",1,1]`, pool))
			}
			for _, method := range []string{"getblockchaininfo", "getbestblockheightandhash", "getinfo"} {
				same(method, `[]`)
			}
			refused("getblock", `["`+strings.Repeat("5", 64)+`",0]`)
			refused("getblock", `["2500",0]`)
			refused("getrawtransaction", `["`+strings.Repeat("5", 64)+`",1]`)
		})
	}
}

// TestBaseChanges: the newest blocks of a base can be replaced, up to Changeable of them, and grow; those below stay.
func TestBaseChanges(t *testing.T) {
	t.Parallel()
	c, _, base := standing(t, longchain.TestnetLike)
	old := hashOf(t, c, 1400)
	fork, err := c.Fork(2000)
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"replace the blocks from height 1399 on: those of the base below height 1400 must stay": c.Reorg(1101, 1102, Like(base)),
		"replace the blocks from height 1001 on: those of the base below height 1400 must stay": c.Truncate(1000),
		"replace the last 2500 blocks of a chain of 2500: genesis must stay":                    c.Reorg(2500, 1, Like(base)),
	} {
		if err == nil || err.Error() != what {
			t.Errorf("got %v, want %s", err, what)
		}
	}
	if err := c.Reorg(1100, 1105, Like(base)); err != nil {
		t.Fatal(err)
	}
	if c.Tip().Height != 2504 {
		t.Errorf("the tip is %s", c.Tip())
	}
	if _, err := c.HeightOf(old); !errors.Is(err, errNoBlock) {
		t.Errorf("a replaced block: %v", err)
	}
	checkLinks(t, c)
	if err := fork.Extend(3, Like(base)); err != nil {
		t.Fatal(err)
	}
	checkLinks(t, fork)
	if a, b := hashOf(t, c, 2001), hashOf(t, fork, 2001); a == b || fork.Tip().Height != 2003 {
		t.Errorf("the fork has %s at 2001, the chain %s; its tip is %s", b, a, fork.Tip())
	}
}
