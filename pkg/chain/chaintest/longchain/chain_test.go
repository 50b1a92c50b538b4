package longchain

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// open opens a chain for the time of the test.
func open(tb testing.TB, o Options) *Chain {
	tb.Helper()
	if o.Dir == "" {
		o.Dir = tb.TempDir()
	}
	c, err := Open(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// at returns what is known of a block that must be there.
func at(tb testing.TB, c *Chain, h chain.Height) (chain.Hash, chain.TreeSizes) {
	tb.Helper()
	hash, sizes, err := c.At(h)
	if err != nil {
		tb.Fatal(err)
	}
	return hash, sizes
}

// checkBlock builds a block and reads it with the parser that has nothing in common with what built it: its hash, its parent, its Merkle
// root, which Encode verifies, and its notes.
func checkBlock(t *testing.T, c *Chain, h chain.Height) (raw []byte, b chain.Block) {
	t.Helper()
	var prev chain.Hash
	var below chain.TreeSizes
	if h > 0 {
		prev, below = at(t, c, h-1)
	}
	hash, sizes := at(t, c, h)
	raw = c.Append(nil, h, prev, 0)
	if err := chain.NewEncoder(chain.EncoderOptions{}).Encode(&b, h, raw); err != nil {
		t.Fatalf("block %d: %v", h, err)
	}
	if want, err := below.Plus(b.Added); b.Prev != prev || b.ID.Hash != hash || want != sizes || err != nil {
		t.Errorf("block %s has parent %s and adds %+v; the chain has %s on %s, and %+v after %+v", b.ID, b.Prev, b.Added, hash, prev, sizes, below)
	}
	if b.Time != c.time(h) {
		t.Errorf("block %d has time %d, not %d", h, b.Time, c.time(h))
	}
	if got, ok, err := c.HeightOf(hash); got != h || !ok || err != nil {
		t.Errorf("block %s is found at height %d (%v, %v)", b.ID, got, ok, err)
	}
	return raw, b
}

// TestEveryBlock reads every block of a small chain of each kind, and finds every block and transaction again. The tips pin every byte
// below them: another one means another generatorVersion.
func TestEveryBlock(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		options Options
		tip     string
		stats   Stats
		sizes   chain.TreeSizes
	}{
		{
			Options{Kind: TestnetLike, Blocks: 2000, Seed: 1},
			"3dece76e6e4c767a8e06697a8fefa29a5291bbe5f4e219a197fa6319a562e7b2",
			Stats{Bytes: 3_370_587, Transactions: 2034}, chain.TreeSizes{Sapling: 22, Orchard: 4},
		},
		{
			Options{Kind: MainnetLike, Blocks: 2000, Seed: 1},
			"7e5156ef56d0b52ef15f81378f2bcb746241109681584799786561ed59345a02",
			Stats{Dense: 32, Bytes: 59_791_099, Transactions: 4640}, chain.TreeSizes{Sapling: 49_212, Orchard: 699, Ironwood: 1194},
		},
		{
			Options{Kind: MainnetLike, Blocks: 2000, Seed: 1, WithoutNU7: true},
			"8d7df26a01ad38b425ffb66928f8467ac87ba79108b1e36552e148082bfc8d83",
			Stats{Dense: 32, Bytes: 56_574_789, Transactions: 4608}, chain.TreeSizes{Sapling: 49_214, Orchard: 699, Ironwood: 204},
		},
	} {
		t.Run(tt.options.fileName(), func(t *testing.T) {
			t.Parallel()
			c := open(t, tt.options)
			var stats Stats
			for h := range chain.Height(c.Len()) {
				raw, b := checkBlock(t, c, h)
				stats.Bytes, stats.Transactions = stats.Bytes+uint64(len(raw)), stats.Transactions+uint64(b.TxCount)
				if len(raw) > 900_000 && b.Added.Sapling > 0 {
					stats.Dense++
				}
				if len(raw) > 2_000_000 {
					t.Errorf("block %d has %d bytes", h, len(raw))
				}
				checkTransactions(t, c, h, raw)
			}
			tip, sizes := at(t, c, chain.Height(c.Len()-1))
			if tip.String() != tt.tip || c.Stats() != tt.stats || sizes != tt.sizes {
				t.Errorf("tip %s, %+v, %+v; want %s, %+v, %+v", tip, c.Stats(), sizes, tt.tip, tt.stats, tt.sizes)
			}
			if stats != c.Stats() {
				t.Errorf("the blocks come to %+v, the chain says %+v", stats, c.Stats())
			}
			if c.Made() != "new" {
				t.Errorf("the chain is %q", c.Made())
			}
		})
	}
}

// checkTransactions looks every transaction of a block up, and finds no other.
func checkTransactions(t *testing.T, c *Chain, h chain.Height, raw []byte) {
	t.Helper()
	_, ids, err := chain.NewEncoder(chain.EncoderOptions{}).Transactions(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if got, ok, err := c.HeightOfTransaction(id); got != h || !ok || err != nil {
			t.Errorf("transaction %s of block %d is found at %d (%v, %v)", id, h, got, ok, err)
		}
		id[31]++
		if got, ok, err := c.HeightOfTransaction(id); ok || err != nil {
			t.Errorf("transaction %s, which is nowhere, is found at %d (%v)", id, got, err)
		}
	}
}

// TestThousands reads every 1,000th block of longer chains, backwards, and the ones around the edges of pages and eras.
func TestThousands(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			c := open(t, Options{Kind: kind, Blocks: 100_000, Seed: 7})
			for h := c.Len() - 1; h >= 0; h -= 1000 {
				checkBlock(t, c, chain.Height(h))
			}
			edges := []chain.Height{0, 1, pageBlocks - 1, pageBlocks, c.spam, c.calm}
			for _, u := range c.Upgrades() {
				edges = append(edges, u.Height)
			}
			for _, h := range edges {
				checkBlock(t, c, h)
				checkBlock(t, c, max(h, 1)-1)
			}
		})
	}
}

// TestShares counts what the kinds promise.
func TestShares(t *testing.T) {
	t.Parallel()
	const blocks = 50_000
	var alone, two, four int
	r := newRecipe(Options{Kind: TestnetLike, Blocks: blocks, Seed: 3})
	for h := chain.Height(1); h < blocks; h++ {
		p := r.plan(nil, h, 0)
		if len(p.txs) == 1 {
			alone++
		}
		switch p.txs[0].Outputs {
		case 2:
			two++
		case 4:
			four++
		}
	}
	if alone < blocks*985/1000 || alone > blocks*995/1000 || two < blocks*54/100 || two > blocks*56/100 || two+four != blocks-1 {
		t.Errorf("%d blocks have a coinbase alone, %d coinbases have two outputs, %d four", alone, two, four)
	}

	versions := make(map[uint32]int)
	var full, transparentOnly int
	r = newRecipe(Options{Kind: MainnetLike, Blocks: blocks, Seed: 3})
	for h := chain.Height(1); h < blocks; h++ {
		p := r.plan(nil, h, 0)
		added := p.added()
		versions[p.txs[0].Version]++
		switch {
		case h < r.sapling && added == (chain.TreeSizes{}):
			transparentOnly++
		case h >= r.nu7 && added.Ironwood == 330:
			full++
		case h >= r.nu7 && added.Ironwood > 330:
			t.Errorf("block %d has %d actions", h, added.Ironwood)
		}
		if (p.spam > 0) != (h >= r.spam && h < r.calm && h%8 == 0) {
			t.Errorf("block %d has %d transactions of the spam", h, p.spam)
		}
	}
	if transparentOnly != int(r.sapling)-1 || full < 70 || len(versions) != 5 {
		t.Errorf("%d blocks before Sapling at %d have no notes, %d after NU7 are full, versions %v", transparentOnly, r.sapling, full, versions)
	}
}

// TestTimes: the distance of blocks shrinks at Blossom and at NU7.
func TestTimes(t *testing.T) {
	t.Parallel()
	r := newRecipe(Options{Kind: MainnetLike, Blocks: 10_000})
	for _, tt := range []struct {
		h    chain.Height
		want uint32
	}{{1, 150}, {r.blossom, 150}, {r.blossom + 1, 75}, {r.nu7, 75}, {r.nu7 + 1, 25}, {9999, 25}} {
		if got := r.time(tt.h) - r.time(tt.h-1); got != tt.want {
			t.Errorf("block %d comes after %d seconds, not %d", tt.h, got, tt.want)
		}
	}
}

// TestBranches: blocks that take the place of others differ from them and from each other, also in their transactions.
func TestBranches(t *testing.T) {
	t.Parallel()
	c := open(t, Options{Kind: MainnetLike, Blocks: MinBlocks, Seed: 5})
	for _, h := range []chain.Height{1, c.spam + 8 - c.spam%8, chain.Height(c.Len())} {
		prev, _ := at(t, c, h-1)
		seen := make(map[chain.TxID]bool)
		count := 0
		for branch := range uint64(3) {
			raw := c.Append(nil, h, prev, branch)
			_, ids, err := chain.NewEncoder(chain.EncoderOptions{}).Transactions(raw)
			if err != nil || !bytes.Equal(raw, c.Append(nil, h, prev, branch)) {
				t.Fatalf("block %d of branch %d: %v, or two different ones", h, branch, err)
			}
			for _, id := range ids {
				seen[id] = true
			}
			count += len(ids)
		}
		if len(seen) != count {
			t.Errorf("three blocks at %d have %d transactions, %d different ones", h, count, len(seen))
		}
	}
}

// TestCached: what comes from the file is what was computed, and another chain has another file.
func TestCached(t *testing.T) {
	t.Parallel()
	o := Options{Kind: MainnetLike, Blocks: 3000, Seed: 2, Dir: t.TempDir()}
	var told []int
	o.Progress = func(done, total int) { told = append(told, done, total) }
	fresh := open(t, o)
	if want := []int{1024, 3000, 2048, 3000, 3000, 3000}; !slices.Equal(told, want) {
		t.Errorf("progress was %v, not %v", told, want)
	}
	o.Progress = func(int, int) { t.Error("hashes were computed again") }
	cached := open(t, o)
	if cached.Made() != "" || cached.Stats() != fresh.Stats() {
		t.Errorf("opened again the chain is %q, %+v, not %+v", cached.Made(), cached.Stats(), fresh.Stats())
	}
	for h := range chain.Height(3000) {
		a, as := at(t, fresh, h)
		if b, bs := at(t, cached, h); a != b || as != bs {
			t.Fatalf("block %d is %s with %+v, from the file %s with %+v", h, a, as, b, bs)
		}
	}
	tips := make(map[chain.Hash]bool)
	for _, other := range []Options{
		{Kind: TestnetLike, Blocks: 3000, Seed: 2}, {Kind: MainnetLike, Blocks: 3001, Seed: 2},
		{Kind: MainnetLike, Blocks: 3000, Seed: 3}, {Kind: MainnetLike, Blocks: 3000, Seed: 2, WithoutNU7: true},
	} {
		other.Dir = o.Dir
		c := open(t, other)
		hash, _ := at(t, c, 2999)
		tips[hash] = true
	}
	if files, err := os.ReadDir(o.Dir); len(tips) != 4 || len(files) != 5 || err != nil {
		t.Errorf("%d tips of 4, %d files of 5, %v", len(tips), len(files), err)
	}
}

// TestDamaged damages the file in every part of it: that is noticed, and the file is made again.
func TestDamaged(t *testing.T) {
	t.Parallel()
	o := Options{Kind: TestnetLike, Blocks: 3000, Seed: 2, Dir: t.TempDir()}
	c := open(t, o)
	path, tip := c.Path(), chain.Height(2999)
	want, _ := at(t, c, tip)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(offset int64) []byte {
		b := bytes.Clone(whole)
		b[offset] ^= 1
		return b
	}
	older := bytes.Clone(whole)
	older[8]--
	other := head{options: Options{Kind: TestnetLike, Blocks: 3000, Seed: 3}, runs: 2}
	for name, tt := range map[string]struct {
		file []byte
		why  string
	}{
		"magic":           {flip(0), "it is no file of a chain"},
		"version":         {older, "it was made by version 0 of the generator, not 1"},
		"head":            {flip(30), "its head: the checksum is wrong"},
		"another chain":   {append(other.encode(), whole[headSize:]...), "it is of testnet-3000-seed-3.chain"},
		"first page":      {flip(headSize), "the page of blocks 0 on: the checksum is wrong"},
		"last page":       {flip(offsetOf(2999)), "the page of blocks 2048 on: the checksum is wrong"},
		"run":             {flip(endOfPages(3000) + runHead), "run 0: the checksum is wrong"},
		"kind of run":     {flip(endOfPages(3000) + 2), "run 0: it claims 3000 entries of what is called 65537"},
		"cut in a page":   {whole[:offsetOf(2000)], "the page of blocks 1024 on: unexpected EOF"},
		"cut at the end":  {whole[:len(whole)-1], "run 1: unexpected EOF"},
		"empty":           {nil, "its head: EOF"},
		"something after": {append(bytes.Clone(whole), 0), "it goes on after its"},
	} {
		if err := os.WriteFile(path, tt.file, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Open(t.Context(), o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, _ := at(t, c, tip); got != want || !strings.Contains(c.Made(), "made again, since its file could not be used: "+tt.why) {
			t.Errorf("%s: the tip is %s, not %s, and the chain was %q; want %q", name, got, want, c.Made(), tt.why)
		}
		if again, err := os.ReadFile(path); !bytes.Equal(again, whole) || err != nil {
			t.Errorf("%s: the file was not made as before (%v)", name, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOtherGenerator: a file whose checksums are right, but whose blocks are not those of this generator, is made again.
func TestOtherGenerator(t *testing.T) {
	t.Parallel()
	o := Options{Kind: TestnetLike, Blocks: 3000, Seed: 2, Dir: t.TempDir()}
	path := open(t, o).Path()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	start := int(offsetOf(2048))
	page := b[start : endOfPages(3000)-sumSize : endOfPages(3000)-sumSize]
	page[len(page)-recordSize] ^= 1
	copy(b[start+len(page):], seal(page, 0)[len(page):])
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := open(t, o); !strings.Contains(c.Made(), "its tip is") {
		t.Errorf("the chain was %q", c.Made())
	}
}

// TestRefusals: what cannot be opened says why, and leaves nothing behind.
func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for want, o := range map[string]Options{
		"open a chain: kind(0) is unknown":                             {Blocks: MinBlocks},
		"open a chain of 1999 blocks: must be from 2000 to 5000000":    {Kind: TestnetLike, Blocks: 1999},
		"open a chain of 5000001 blocks: must be from 2000 to 5000000": {Kind: TestnetLike, Blocks: 5_000_001},
		"no such file or directory":                                    {Kind: TestnetLike, Blocks: MinBlocks, Dir: dir + "/missing"},
	} {
		if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Kind: TestnetLike, Blocks: 100_000, Dir: dir, Progress: func(int, int) { cancel() }}
	if _, err := Open(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if files, err := os.ReadDir(dir); len(files) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", files, err)
	}
	if k, err := ParseKind("regtest"); err == nil || err.Error() != `"regtest" is no kind of chain: must be one of [testnet mainnet]` {
		t.Errorf("got %v, %v", k, err)
	}
	c := open(t, Options{Kind: TestnetLike, Blocks: MinBlocks})
	if _, _, err := c.At(MinBlocks); err == nil {
		t.Error("there is a block above the tip")
	}
	if h, ok, err := c.HeightOf(chain.Hash{}); ok || err != nil {
		t.Errorf("the hash of zeros is found at %d (%v)", h, err)
	}
}

// BenchmarkOpen measures the pass, without and with the file.
func BenchmarkOpen(b *testing.B) {
	for _, kind := range Kinds() {
		o := Options{Kind: kind, Blocks: 100_000, Seed: 1}
		b.Run(kind.String()+"/new", func(b *testing.B) {
			for b.Loop() {
				o.Dir = b.TempDir()
				open(b, o)
			}
			b.ReportMetric(float64(b.N*o.Blocks)/b.Elapsed().Seconds(), "blocks/s")
		})
		b.Run(kind.String()+"/cached", func(b *testing.B) {
			o.Dir = b.TempDir()
			open(b, o)
			for b.Loop() {
				open(b, o)
			}
			b.ReportMetric(float64(b.N*o.Blocks)/b.Elapsed().Seconds(), "blocks/s")
		})
	}
}

// BenchmarkRandom measures a block of any height, from what is known of it to its bytes.
func BenchmarkRandom(b *testing.B) {
	for _, kind := range Kinds() {
		b.Run(kind.String(), func(b *testing.B) {
			c := open(b, Options{Kind: kind, Blocks: 100_000, Seed: 1})
			var raw []byte
			var sum int64
			d := dice{}
			for b.Loop() {
				h := chain.Height(1 + d.below(c.Len()-1))
				prev, _ := at(b, c, h-1)
				raw = c.Append(raw[:0], h, prev, 0)
				sum += int64(len(raw))
			}
			b.SetBytes(sum / int64(b.N))
		})
	}
}

// BenchmarkLookUp measures how a block is found by its hash, and a transaction by its id.
func BenchmarkLookUp(b *testing.B) {
	c := open(b, Options{Kind: MainnetLike, Blocks: 100_000, Seed: 1})
	hash, _ := at(b, c, 70_000)
	prev, _ := at(b, c, 69_999)
	_, ids, err := chain.NewEncoder(chain.EncoderOptions{}).Transactions(c.Append(nil, 70_000, prev, 0))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("block", func(b *testing.B) {
		for b.Loop() {
			if _, ok, err := c.HeightOf(hash); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
	b.Run("transaction", func(b *testing.B) {
		for b.Loop() {
			if _, ok, err := c.HeightOfTransaction(ids[0]); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
}
