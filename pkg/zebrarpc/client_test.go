package zebrarpc

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	bc := newChain(t, 5, zebratest.Mixed)
	c := nodeClient(t, Options{}, zebratest.NewNode(bc, zebratest.NodeOptions{}))
	ctx := t.Context()

	tip, err := c.BestBlock(ctx)
	if err != nil || tip != bc.Tip() || tip.Height != 5 {
		t.Errorf("BestBlock: %v, %v; want %v", tip, err, bc.Tip())
	}
	for h := range tip.Height + 1 {
		hash, err := c.BlockHash(ctx, h)
		if want, _ := bc.Hash(h); err != nil || hash != want {
			t.Fatalf("BlockHash(%d): %v, %v; want %v", h, hash, err, want)
		}
		if got, err := c.HeightOf(ctx, hash); err != nil || got != h {
			t.Errorf("HeightOf(%v): %d, %v; want %d", hash, got, err, h)
		}
		wantSizes, _ := bc.Sizes(h)
		if got, err := c.TreeSizes(ctx, hash); err != nil || got != wantSizes {
			t.Errorf("TreeSizes(%v): %v, %v; want %v", hash, got, err, wantSizes)
		}
		if id, got, err := c.TreeSizesAt(ctx, h); err != nil || got != wantSizes || id != (chain.BlockID{Height: h, Hash: hash}) {
			t.Errorf("TreeSizesAt(%d): %v %v, %v; want %v", h, id, got, err, wantSizes)
		}
		wantRaw, _ := bc.Raw(h)
		if got, err := c.RawBlock(ctx, hash); err != nil || !bytes.Equal(got, wantRaw) {
			t.Errorf("RawBlock(%v): %d bytes, %v; want %d", hash, len(got), err, len(wantRaw))
		}
		if got, err := c.RawBlockAt(ctx, h); err != nil || !bytes.Equal(got, wantRaw) {
			t.Errorf("RawBlockAt(%d): %d bytes, %v; want %d", h, len(got), err, len(wantRaw))
		}
	}
}

func TestMissingBlocks(t *testing.T) {
	t.Parallel()
	bc := newChain(t, 3, zebratest.Small)
	orphan, err := bc.Hash(3)
	if err != nil {
		t.Fatal(err)
	}
	if err := bc.Reorg(1, 2, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	c := nodeClient(t, Options{}, zebratest.NewNode(bc, zebratest.NodeOptions{}))
	ctx := t.Context()
	unknown := chain.Hash{1}
	hashes := func(call func(chain.Hash) error) func(*testing.T, string, string) {
		return func(t *testing.T, method, message string) {
			for _, hash := range []chain.Hash{unknown, orphan} {
				wantError(t, call(hash), Answerable, method+" hash "+hash.String()+" from "+c.URL()+": "+message+": not found", chain.ErrNotFound)
			}
		}
	}
	heights := func(call func(chain.Height) error) func(*testing.T, string, string) {
		return func(t *testing.T, method, message string) {
			wantError(t, call(5), Answerable, method+" height 5 from "+c.URL()+": "+message+": above the tip", chain.ErrAboveTip)
			wantError(t, call(1<<31), Answerable, method+" height 2147483648 from "+c.URL()+": above the tip: no height is above 2147483647", chain.ErrAboveTip)
		}
	}
	for _, test := range []struct {
		name, method, message string
		check                 func(*testing.T, string, string)
	}{
		{"HeightOf", "getblockheader", "code -5: block height not in best chain",
			hashes(func(h chain.Hash) error { _, err := c.HeightOf(ctx, h); return err })},
		{"TreeSizes", "getblock", "code -5: block height not in best chain",
			hashes(func(h chain.Hash) error { _, err := c.TreeSizes(ctx, h); return err })},
		{"RawBlock", "getblock", "code -8: Block not found",
			hashes(func(h chain.Hash) error { _, err := c.RawBlock(ctx, h); return err })},
		{"BlockHash", "getblockhash", "code -1: Provided index is greater than the current tip",
			heights(func(h chain.Height) error { _, err := c.BlockHash(ctx, h); return err })},
		{"TreeSizesAt", "getblock", "code -8: block height not in best chain",
			heights(func(h chain.Height) error { _, _, err := c.TreeSizesAt(ctx, h); return err })},
		{"RawBlockAt", "getblock", "code -8: Block not found",
			heights(func(h chain.Height) error { _, err := c.RawBlockAt(ctx, h); return err })},
	} {
		t.Run(test.name, func(t *testing.T) { test.check(t, test.method, test.message) })
	}
}

func TestSideChainHeader(t *testing.T) {
	t.Parallel()
	hash := chain.Hash{7}
	c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
		return q.result(`{"hash":"` + hash.String() + `","confirmations":-1,"height":9}`)
	})
	_, err := c.HeightOf(t.Context(), hash)
	wantError(t, err, Answerable, "getblockheader hash "+hash.String()+" from "+fakeURL+": on a side chain: not found", chain.ErrNotFound)
}

func TestBestBlockAsHex(t *testing.T) {
	t.Parallel()
	want := chain.BlockID{Height: 12, Hash: chain.Hash{0: 1, 31: 2}}
	c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
		return q.result(`{"height":12,"hash":"` + want.Hash.String() + `"}`)
	})
	if got, err := c.BestBlock(t.Context()); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestParameterTypes(t *testing.T) {
	t.Parallel()
	var got string
	c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
		got = q.method + q.params
		return q.failure(-8, "no")
	})
	ctx, hash := t.Context(), chain.Hash{31: 0xab}
	const hex = "ab00000000000000000000000000000000000000000000000000000000000000"
	for want, call := range map[string]func(){
		`getblockhash[5]`:                    func() { _, _ = c.BlockHash(ctx, 5) },
		`getblock["5",0]`:                    func() { _, _ = c.RawBlockAt(ctx, 5) },
		`getblock["5",1]`:                    func() { _, _, _ = c.TreeSizesAt(ctx, 5) },
		`getblock["` + hex + `",0]`:          func() { _, _ = c.RawBlock(ctx, hash) },
		`getblock["` + hex + `",1]`:          func() { _, _ = c.TreeSizes(ctx, hash) },
		`getblockheader["` + hex + `",true]`: func() { _, _ = c.HeightOf(ctx, hash) },
		`getbestblockheightandhash[]`:        func() { _, _ = c.BestBlock(ctx) },
	} {
		if call(); got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	}
}

func TestNodeInfo(t *testing.T) {
	t.Parallel()
	upgrades := []chain.Upgrade{
		{BranchID: 0x5ba81b19, Name: "Overwinter", Height: 1},
		{BranchID: 0x76b809bb, Name: "Sapling", Height: 1},
		{BranchID: 0x77190ad9, Name: "NU7", Height: 3},
		{BranchID: 0xdeadbeef, Name: "An upgrade of 2031", Height: 100, Pending: true},
	}
	bc, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Test, Upgrades: upgrades})
	if err != nil {
		t.Fatal(err)
	}
	if err := bc.Extend(4, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	node := zebratest.NewNode(bc, zebratest.NodeOptions{EstimatedHeight: 77, Build: "9.9.9+strange", Subversion: "/NotZebra:0.0.1/"})
	c := nodeClient(t, Options{}, node)
	got, err := c.NodeInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	genesis, err := bc.Hash(0)
	if err != nil {
		t.Fatal(err)
	}
	want := chain.NodeInfo{Chain: "test", Genesis: genesis, Tip: bc.Tip(), EstimatedHeight: 77, BranchID: 0x77190ad9, Upgrades: upgrades,
		Build: "9.9.9+strange", Subversion: "/NotZebra:0.0.1/"}
	if !slices.Equal(got.Upgrades, want.Upgrades) {
		t.Errorf("upgrades %+v, want %+v", got.Upgrades, want.Upgrades)
	}
	got.Upgrades, want.Upgrades = nil, nil
	if got.Chain != want.Chain || got.Genesis != want.Genesis || got.Tip != want.Tip || got.EstimatedHeight != want.EstimatedHeight || got.BranchID != want.BranchID ||
		got.Build != want.Build || got.Subversion != want.Subversion {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestUpgradesAreSorted(t *testing.T) {
	t.Parallel()
	c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
		switch q.method {
		case "getinfo":
			return q.result(`{"build":"b","subversion":"s","new member":[{}]}`)
		case "getblockhash":
			return q.result(`"` + chain.Hash{7}.String() + `"`)
		}
		return q.result(`{"chain":"main","blocks":0,"estimatedheight":3,"bestblockhash":"` + chain.Hash{}.String() + `","unheard":{"of":1},
			"consensus":{"chaintip":"00000000","nextblock":"00000001"},"upgrades":{
			"0000000b":{"name":"B","activationheight":9,"status":"pending"},"0000000c":{"name":"C","activationheight":9,"status":"pending"},
			"0000000a":{"name":"A","activationheight":0,"status":"active"}}}`)
	})
	got, err := c.NodeInfo(t.Context())
	want := []chain.Upgrade{{BranchID: 10, Name: "A"}, {BranchID: 11, Name: "B", Height: 9, Pending: true}, {BranchID: 12, Name: "C", Height: 9, Pending: true}}
	if err != nil || !slices.Equal(got.Upgrades, want) {
		t.Errorf("got %+v, %v; want %+v", got.Upgrades, err, want)
	}
}

func TestCallerContext(t *testing.T) {
	t.Parallel()
	c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
		<-q.ctx.Done()
		return nil, q.ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.RawBlockAt(ctx, 5)
	var e *Error
	if !errors.Is(err, context.Canceled) || errors.Is(err, chain.ErrUnavailable) || errors.As(err, &e) {
		t.Errorf("got %v", err)
	}
	if want := "getblock height 5 from " + fakeURL + ": context canceled"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	bc := newChain(t, 3, zebratest.Small)
	node := zebratest.NewNode(bc, zebratest.NodeOptions{})
	c := nodeClient(t, Options{}, node)
	if s := c.Stats(); len(s.Requests) != 0 || s.BulkLimit != 16 {
		t.Errorf("before any request: %+v", s)
	}
	ctx := t.Context()
	for range 2 {
		if _, err := c.BestBlock(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.RawBlockAt(ctx, 9); err == nil {
		t.Fatal("there is no block 9")
	}
	node.Fault(zebratest.Fault{Method: "getinfo", Status: http.StatusServiceUnavailable})
	if _, err := c.NodeInfo(ctx); err == nil {
		t.Fatal("getinfo should fail")
	}
	want := []RequestCount{{"getbestblockheightandhash", "ok", 2}, {"getblock", "answerable", 1}, {"getblockhash", "ok", 1}, {"getblockchaininfo", "ok", 1}, {"getinfo", "passing", 1}}
	s := c.Stats()
	if !slices.Equal(s.Requests, want) {
		t.Errorf("requests %+v, want %+v", s.Requests, want)
	}
	if s.InFlight != 0 || s.Waiting != 0 || s.ReadAhead != 0 || s.Retries != 1 || s.BytesRead == 0 {
		t.Errorf("%+v", s)
	}
}
