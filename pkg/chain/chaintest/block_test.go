package chaintest_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// TestKinds pins what each kind of block contains. The hash pins every byte: a change makes figures and stored chains incomparable.
func TestKinds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		build  func(chain.Height, chain.Hash, uint64) []byte
		size   int
		txs    int
		added  chain.TreeSizes
		spends int
		hash   string
	}{
		{"small", chaintest.Small, 1696, 1, chain.TreeSizes{}, 0,
			"f07fe837ae72121e5443eb4ea1ca3aee2b3fa84a3e5586b695e5ecedfdc1028c"},
		{"dense-v4", chaintest.DenseV4, 550_910, 12, chain.TreeSizes{Sapling: 539}, 74,
			"c1907c7cd3acddd5d98d456d480a0314b98eed2cde6ae4320edcba01001d9241"},
		{"dense-v6", chaintest.DenseV6, 1_074_526, 12, chain.TreeSizes{Ironwood: 330}, 0,
			"339049696d3cb2359a5714564b0403796081aa33da5269101c3038d96effafe8"},
		{"mixed", chaintest.Mixed, 66_976, 8, chain.TreeSizes{Sapling: 5, Orchard: 5, Ironwood: 5}, 8,
			"8903b7f17b246b229e4884994f59bd2d0cefeb72178897ba21bd5adc51c3edfc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			prev := chain.Hash{0: 1, 31: 2}
			raw := tt.build(3_600_000, prev, 7)
			var b chain.Block
			if err := chain.NewEncoder(chain.EncoderOptions{}).Encode(&b, 3_600_000, raw); err != nil {
				t.Fatal(err)
			}
			if len(raw) != tt.size || b.TxCount != tt.txs || b.Added != tt.added {
				t.Errorf("%d bytes, %d transactions, %+v leaves; want %d, %d, %+v", len(raw), b.TxCount, b.Added, tt.size, tt.txs, tt.added)
			}
			if got := bytes.Count(b.Shielded, []byte{0x22, 34, 0x0a, 32}); got != tt.spends {
				t.Errorf("%d spends, want %d", got, tt.spends)
			}
			if b.Prev != prev || b.Time != chaintest.BlockTime(3_600_000) {
				t.Errorf("parent %s, time %d", b.Prev, b.Time)
			}
			if got := chaintest.BlockHash(raw); got.String() != tt.hash || got != b.ID.Hash {
				t.Errorf("hash %s, the encoder says %s, want %s", got, b.ID.Hash, tt.hash)
			}
		})
	}
}

// TestMix: over some blocks, Mixed shows every version and pool.
func TestMix(t *testing.T) {
	t.Parallel()
	e := chain.NewEncoder(chain.EncoderOptions{})
	var sum chain.TreeSizes
	for seed := range uint64(20) {
		var b chain.Block
		if err := e.Encode(&b, 1, chaintest.Mixed(1, chain.Hash{}, seed)); err != nil {
			t.Fatal(err)
		}
		if b.Added.Sapling == 0 || b.Added.Orchard == 0 || b.Added.Ironwood == 0 {
			t.Errorf("seed %d: %+v leaves", seed, b.Added)
		}
		sum, _ = sum.Plus(b.Added)
	}
	if sum.Sapling < 40 || sum.Orchard < 40 || sum.Ironwood < 80 {
		t.Errorf("%+v leaves in all", sum)
	}
}

// TestSmallShare: 55 % of small blocks have two outputs and 45 % have four, and both coinbase versions are common.
func TestSmallShare(t *testing.T) {
	t.Parallel()
	e := chain.NewEncoder(chain.EncoderOptions{})
	builder := chaintest.NewBuilder()
	const blocks = 5000
	var two, four, v5 int
	var raw []byte
	for h := range chain.Height(blocks) {
		raw = builder.Small(raw[:0], h, chain.Hash{}, 1)
		tx, err := e.Transaction(raw[1488:]) // after the header and the number of transactions
		if err != nil {
			t.Fatal(err)
		}
		switch tx.Outputs {
		case 2:
			two++
		case 4:
			four++
		}
		if tx.Version == 5 {
			v5++
		}
	}
	if two+four != blocks || two < blocks*53/100 || two > blocks*57/100 || v5 < blocks*45/100 || v5 > blocks*55/100 {
		t.Errorf("%d blocks have two outputs, %d four, %d have version 5", two, four, v5)
	}
}

// TestDeterministic: the same arguments give the same bytes, other arguments other ones, whatever the builder did before.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	builder := chaintest.NewBuilder()
	builder.Mixed(nil, 9, chain.Hash{}, 9)
	seen := map[string]bool{}
	for h := range chain.Height(3) {
		for seed := range uint64(3) {
			a, b := chaintest.Mixed(h, chain.Hash{}, seed), builder.Mixed([]byte("before"), h, chain.Hash{}, seed)
			if "before"+string(a) != string(b) {
				t.Errorf("height %d, seed %d: two different blocks", h, seed)
			}
			seen[string(a)] = true
		}
	}
	if len(seen) != 9 {
		t.Errorf("%d different blocks of 9", len(seen))
	}
}

func TestHeightPush(t *testing.T) {
	t.Parallel()
	for h, want := range map[chain.Height]string{
		0: "\x00", 1: "\x51", 16: "\x60", 17: "\x01\x11", 127: "\x01\x7f", 128: "\x02\x80\x00", 255: "\x02\xff\x00", 256: "\x02\x00\x01",
		32767: "\x02\xff\x7f", 32768: "\x03\x00\x80\x00", 3_600_000: "\x03\x80\xee\x36", chain.MaxHeight: "\x04\xff\xff\xff\x7f",
	} {
		raw := chaintest.Tx{Version: 1, Coinbase: true, Height: h}.Append(nil)
		script := raw[4+1+36+1:]
		if !strings.HasPrefix(string(script), want+"\x04") {
			t.Errorf("height %d: script %x does not begin with %x", h, script[:10], want)
		}
	}
}

func TestBlockError(t *testing.T) {
	t.Parallel()
	good := chaintest.Tx{Version: 1}.Append(nil)
	_, err := chaintest.NewBuilder().Block(nil, chain.Hash{}, 1, 1, good, good[1:])
	want := "build a block: transaction 1: transaction version at byte 0: unknown transaction version 0"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func BenchmarkSmall(b *testing.B) {
	builder := chaintest.NewBuilder()
	var raw []byte
	prev := chain.Hash{}
	h := chain.Height(0)
	b.ReportAllocs()
	for b.Loop() {
		raw = builder.Small(raw[:0], h, prev, 1)
		prev = chaintest.BlockHash(raw)
		h++
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "blocks/s")
}
