package integration

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest/longchain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// openLongChain opens a chain for the time of the test.
func openLongChain(t *testing.T, o longchain.Options) *longchain.Chain {
	t.Helper()
	o.Dir = t.TempDir()
	long, err := longchain.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := long.Close(); err != nil {
			t.Error(err)
		}
	})
	return long
}

// TestZebradParsesLongChain sends transactions of every era of bench chain, NU7 included, to zebrad. It refuses all of them, since nothing is signed in them,
// but after it has read them: what does not parse has a code of its own.
func TestZebradParsesLongChain(t *testing.T) {
	t.Parallel()
	const unreadable = -22
	n := newNode(t, t.TempDir(), "")
	n.start()
	long := openLongChain(t, longchain.Options{Kind: longchain.MainnetLike, Blocks: longchain.MinBlocks, Seed: 1})
	refusal := func(raw []byte) *rpcError {
		var refused *rpcError
		if err := n.rpc.call(t.Context(), nil, "sendrawtransaction", hex.EncodeToString(raw)); !errors.As(err, &refused) {
			t.Fatalf("zebrad takes a transaction of the chain, or is gone: %v", err)
		}
		return refused
	}
	enc := chain.NewEncoder(chain.EncoderOptions{})
	shielded, spoiled := make(map[string]int), 0
	for h := chain.Height(0); int(h) < long.Len(); h += 8 {
		txs, _, err := enc.Transactions(long.Append(nil, h, chain.Hash{}, 0))
		if err != nil {
			t.Fatal(err)
		}
		for i, raw := range txs[:min(len(txs), 3)] {
			tx, err := enc.Transaction(raw)
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 && tx.Inputs > 0 { // zebrad would wait a minute for what they spend
				continue
			}
			if err := refusal(raw); err.Code == unreadable {
				t.Errorf("transaction %d of block %d: %v", i, h, err)
			}
			parts := []int{tx.SaplingSpends, tx.SaplingOutputs, tx.OrchardActions, tx.IronwoodActions}
			for pool, part := range parts {
				if part > 0 {
					shielded[fmt.Sprintf("version %d, part %d", tx.Version, pool)]++
				}
			}
			if tx.IronwoodActions == 30 { // the first value commitment is no point any more
				spoiled++
				bad := bytes.Clone(raw)
				at := len(raw) - (64 + 30*64 + 2720 + 2272*30 + 5 + 32 + 8 + 1 + 30*820)
				copy(bad[at:], bytes.Repeat([]byte{0xff}, 32))
				if err := refusal(bad); err.Code != unreadable {
					t.Errorf("block %d with a point that is none: %v", h, err)
				}
			}
		}
	}
	t.Logf("transactions with shielded parts: %v", shielded)
	if len(shielded) != 9 || spoiled == 0 {
		t.Errorf("%d kinds of shielded parts, not the 9 that there are, and %d transactions were spoiled", len(shielded), spoiled)
	}
}

// TestZainodReadsLongChain: zainod, whose parsers are those of Zebra and look into every point, field element and amount, indexes a chain of
// bench chain with all its eras, and serves the same blocks as zsidecar.
func TestZainodReadsLongChain(t *testing.T) {
	path := zainodPath(t)
	long := openLongChain(t, longchain.Options{Kind: longchain.MainnetLike, Blocks: longchain.MinBlocks, Seed: 1, WithoutNU7: true})
	c, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Regtest, Upgrades: long.Upgrades(), Base: long})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{tb: t, dir: t.TempDir(), addr: servertest.FreeAddr(t)}
	n.rpc = newRPCClient(n.addr, n.cookie())
	sim := zebratest.NewNode(c, zebratest.NodeOptions{Listen: n.addr, CookieDir: n.dir})
	if err := sim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sim.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := newSidecar(t, n.url(), n.cookie(), defaultSegments)
	s.start()
	awaitAnswer(t, s.wallet())
	s.awaitIndex(long.Len()-1, time.Minute)
	theirs := newZainod(t, n)
	theirs.start(t, path)
	q := query{method: getBlockRange}
	blocks := func(w *wallet) (all [][]byte) {
		err := w.stream(t.Context(), q.method, q.blockRange(1, long.Len()-1), func(message []byte) error {
			all = append(all, bytes.Clone(message))
			return nil
		})
		if err != nil || len(all) != long.Len()-1 {
			t.Fatalf("%d blocks came, %v", len(all), err)
		}
		return all
	}
	want := blocks(s.wallet())
	for i, got := range blocks(theirs.wallet) {
		if err := sameBlock(got, want[i]); err != nil {
			t.Fatalf("block %d: %v", i+1, err)
		}
	}
}
