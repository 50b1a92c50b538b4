package zebratest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// newChain returns a chain of n blocks on genesis.
func newChain(t testing.TB, n int, kind Kind) *Chain {
	t.Helper()
	c, err := NewChain(ChainOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Extend(n, kind); err != nil {
		t.Fatal(err)
	}
	return c
}

// rawBlock returns a block that must be there.
func rawBlock(t testing.TB, c *Chain, h chain.Height) []byte {
	t.Helper()
	raw, err := c.Raw(h)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func hashOf(t testing.TB, c *Chain, h chain.Height) chain.Hash {
	t.Helper()
	hash, err := c.Hash(h)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// checkLinks checks that the stored hashes are those of the blocks, that each block names the one below as its parent, and that hashes
// and heights agree.
func checkLinks(t *testing.T, c *Chain) {
	t.Helper()
	var prev chain.Hash
	for h := range c.Tip().Height + 1 {
		raw := rawBlock(t, c, h)
		if got := chain.Hash(raw[4:36]); got != prev {
			t.Errorf("block %d has parent %s, not %s", h, got, prev)
		}
		prev = chaintest.BlockHash(raw)
		if got := hashOf(t, c, h); got != prev {
			t.Errorf("block %d has hash %s, not %s", h, got, prev)
		}
		if got, err := c.HeightOf(prev); got != h || err != nil {
			t.Errorf("block %s has height %d (%v), not %d", prev, got, err, h)
		}
	}
	if c.Tip().Hash != prev {
		t.Errorf("the tip is %s, not %s", c.Tip(), prev)
	}
}

func TestExtend(t *testing.T) {
	t.Parallel()
	c := newChain(t, 5, Mixed)
	if err := c.Extend(4, Small); err != nil {
		t.Fatal(err)
	}
	if tip := c.Tip().Height; tip != 9 {
		t.Errorf("the tip is %d, not 9", tip)
	}
	checkLinks(t, c)

	// The same script gives the same chain.
	other := newChain(t, 5, Mixed)
	if err := other.Extend(4, Small); err != nil {
		t.Fatal(err)
	}
	if c.Tip() != other.Tip() {
		t.Errorf("the same script led to %s and to %s", c.Tip(), other.Tip())
	}
}

// A dense block has a known number of notes, so the sums can be told without reading blocks.
func TestSizesAddUp(t *testing.T) {
	t.Parallel()
	c := newChain(t, 2, DenseV4)
	if err := c.Extend(1, Small); err != nil {
		t.Fatal(err)
	}
	if err := c.Extend(2, DenseV6); err != nil {
		t.Fatal(err)
	}
	want := []chain.TreeSizes{
		{}, {Sapling: 539}, {Sapling: 1078}, {Sapling: 1078}, {Sapling: 1078, Ironwood: 330}, {Sapling: 1078, Ironwood: 660},
	}
	for h, w := range want {
		if got, err := c.Sizes(chain.Height(h)); got != w || err != nil {
			t.Errorf("height %d: sizes %+v (%v), want %+v", h, got, err, w)
		}
	}
}

func TestReorg(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ depth, n int }{
		"longer":        {3, 5},
		"same height":   {1, 1},
		"shorter":       {4, 2},
		"all but first": {10, 1},
		"nothing left":  {10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChain(t, 10, Small)
			fork := chain.Height(10 - test.depth)
			below, orphan := hashOf(t, c, fork), hashOf(t, c, fork+1)
			if err := c.Reorg(test.depth, test.n, Mixed); err != nil {
				t.Fatal(err)
			}
			if want := fork + chain.Height(test.n); c.Tip().Height != want {
				t.Errorf("the tip is %s, not %d", c.Tip(), want)
			}
			if hashOf(t, c, fork) != below {
				t.Errorf("the fork point %d changed", fork)
			}
			if h, err := c.HeightOf(orphan); !errors.Is(err, errNoBlock) {
				t.Errorf("the orphaned block is found at height %d (%v)", h, err)
			}
			checkLinks(t, c)
		})
	}
}

func TestTruncateThenExtend(t *testing.T) {
	t.Parallel()
	c := newChain(t, 6, Small)
	gone := hashOf(t, c, 5)
	if err := c.Truncate(4); err != nil {
		t.Fatal(err)
	}
	if c.Tip().Height != 4 {
		t.Errorf("the tip is %s, not 4", c.Tip())
	}
	if err := c.Extend(3, Small); err != nil {
		t.Fatal(err)
	}
	if hashOf(t, c, 5) == gone {
		t.Error("the block that went is back")
	}
	checkLinks(t, c)
}

func TestFork(t *testing.T) {
	t.Parallel()
	c := newChain(t, 6, Small)
	first, err := c.Fork(4)
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Fork(4)
	if err != nil {
		t.Fatal(err)
	}
	tips := map[chain.Hash]bool{}
	for _, branch := range []*Chain{c, first, second} {
		if err := branch.Extend(2, Small); err != nil {
			t.Fatal(err)
		}
		checkLinks(t, branch)
		if hashOf(t, branch, 4) != hashOf(t, c, 4) {
			t.Error("the branches do not share height 4")
		}
		tips[hashOf(t, branch, 5)] = true
	}
	if len(tips) != 3 {
		t.Errorf("three branches have %d different blocks at height 5", len(tips))
	}
}

func TestNetworksDiffer(t *testing.T) {
	t.Parallel()
	seen := map[chain.Hash]bool{}
	for _, network := range []Network{Main, Test, Regtest} {
		c, err := NewChain(ChainOptions{Network: network})
		if err != nil {
			t.Fatal(err)
		}
		seen[c.Tip().Hash] = true
	}
	if len(seen) != 3 {
		t.Errorf("three networks have %d different genesis blocks", len(seen))
	}
}

func TestScriptErrors(t *testing.T) {
	t.Parallel()
	c := newChain(t, 3, Small)
	before := c.Tip()
	damaged := FlipLastByte(rawBlock(t, c, 2))
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"genesis replaced": {c.Reorg(4, 1, Small), "replace the last 4 blocks of a chain of 4: genesis must stay"},
		"negative depth":   {c.Reorg(-1, 1, Small), "replace the last -1 blocks of a chain of 4: genesis must stay"},
		"above the tip":    {c.Truncate(4), "truncate to height 4: the tip is 3"},
		"not a block":      {c.Append([]byte("no")), "add block 4: "},
		"damaged block":    {c.Append(rawBlock(t, c, 1), damaged), "add block 5: "},
	} {
		if test.err == nil || !strings.HasPrefix(test.err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, test.err, test.want)
		}
	}
	if _, err := c.Raw(4); !errors.Is(err, errNoBlock) {
		t.Errorf("a block above the tip: %v", err)
	}
	if c.Tip() != before {
		t.Errorf("scripts that failed moved the tip from %s to %s", before, c.Tip())
	}
}

// Blocks from elsewhere are taken though they do not link, and are served as they are.
func TestAppendRealBlocks(t *testing.T) {
	t.Parallel()
	const vectors = "../../../../shared/vectors/blocks"
	index, err := os.ReadFile(filepath.Join(vectors, "index.json"))
	if err != nil {
		t.Skipf("the real blocks are not there: %v", err)
	}
	var entries []struct {
		File, Hash string
		Txids      []string
	}
	if err := json.Unmarshal(index, &entries); err != nil {
		t.Fatal(err)
	}
	c := newChain(t, 0, Small)
	for i, e := range entries {
		text, err := os.ReadFile(filepath.Join(vectors, e.File))
		if err != nil {
			t.Fatal(err)
		}
		raw := fromHex(t, strings.TrimSpace(string(text)))
		if err := c.Append(raw); err != nil {
			t.Fatal(err)
		}
		h := chain.Height(i + 1)
		if got := rawBlock(t, c, h); !bytes.Equal(got, raw) {
			t.Errorf("%s: %d bytes came back, not %d", e.File, len(got), len(raw))
		}
		if got := hashOf(t, c, h).String(); got != e.Hash {
			t.Errorf("%s: hash %s, want %s", e.File, got, e.Hash)
		}
		ids, err := transactionIDs(h, raw)
		if err != nil || strings.Join(ids, " ") != strings.Join(e.Txids, " ") {
			t.Errorf("%s: txids %v (%v), want %v", e.File, ids, err, e.Txids)
		}
	}
}

// A large chain is cheap: of each block only its hash and its tree sizes are kept.
func TestLargeChain(t *testing.T) {
	n := 1_000_000
	if testing.Short() || underRaceDetector() {
		n = 50_000
	}
	before := heapInUse()
	c := newChain(t, n, Small)
	if each := (heapInUse() - before) / int64(n); each > 128 {
		t.Errorf("a block takes %d bytes of memory", each)
	}
	for _, h := range []chain.Height{1, chain.Height(n / 2), chain.Height(n)} {
		raw := rawBlock(t, c, h)
		if hash := hashOf(t, c, h); chaintest.BlockHash(raw) != hash || chain.Hash(raw[4:36]) != hashOf(t, c, h-1) {
			t.Errorf("block %d does not hash to %s or does not link", h, hash)
		}
	}
	if err := c.Reorg(10, 11, Small); err != nil {
		t.Fatal(err)
	}
	if want := chain.Height(n + 1); c.Tip().Height != want {
		t.Errorf("the tip is %s, not %d", c.Tip(), want)
	}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// underRaceDetector tells whether the test was built with -race, which makes it ten times as slow.
func underRaceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func TestUpgrades(t *testing.T) {
	t.Parallel()
	list := []chain.Upgrade{{Name: "A", BranchID: 1, Height: 5}, {Name: "B", BranchID: 2, Height: 7}, {Name: "C", BranchID: 3, Height: 7}}
	for h, want := range map[chain.Height]uint32{0: 0, 4: 0, 5: 1, 6: 1, 7: 3, 100: 3} {
		if got := branchAt(list, h); got != want {
			t.Errorf("branch id %d at height %d, want %d", got, h, want)
		}
	}
	if !reached(list, "A", 5) || reached(list, "B", 6) || reached(list, "D", 100) {
		t.Error("A is reached at 5, B not at 6, D never")
	}
}
