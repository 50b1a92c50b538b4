package chain_test

import (
	"bytes"
	"errors"
	"runtime"
	"strconv"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// handHeader is a block header with the short solution of regtest and a Merkle root of zeros.
func handHeader() []byte { return cat(fill(1, 36), fill(0, 32), fill(2, 72), []byte{36}, fill(3, 36)) }

// emptyTx is a transaction of 10 bytes.
func emptyTx() []byte { return cat(le32(1), fill(0, 6)) }

func TestEncodeErrors(t *testing.T) {
	t.Parallel()
	good := chaintest.Small(7, chain.Hash{1}, 1)
	wrongRoot := bytes.Clone(good)
	wrongRoot[36] ^= 1
	tests := []struct {
		name string
		raw  []byte
		want string
		is   error
	}{
		{"empty", nil, "block 7: block header at byte 0: 140 bytes needed, 0 left", nil},
		{"header cut", fill(0, 139), "block 7: block header at byte 0: 140 bytes needed, 139 left", nil},
		{"no solution", fill(0, 140), "block 7: solution at byte 140: 1 bytes needed, 0 left", nil},
		{"short solution", cat(fill(0, 140), []byte{35}, fill(0, 35)), "block 7: solution at byte 140: it has 35 bytes, not 1344 or 36", nil},
		{"solution of 2^63 bytes", cat(fill(0, 140), size9(1<<63)),
			"block 7: solution at byte 140: it has 9223372036854775808 bytes, not 1344 or 36", nil},
		{"solution's size in 3 bytes", cat(fill(0, 140), []byte{0xfd, 36, 0}, fill(0, 36)),
			"block 7: solution at byte 140: the size 36 is not in its shortest form", nil},
		{"solution cut", cat(fill(0, 140), []byte{0xfd, 0x40, 5}, fill(0, 1343)), "block 7: solution at byte 143: 1344 bytes needed, 1343 left", nil},
		{"no transaction count", handHeader(), "block 7: transactions at byte 177: 1 bytes needed, 0 left", nil},
		{"no transactions", cat(handHeader(), []byte{0}), "block 7: transactions at byte 177: there are none", nil},
		{"2^63 transactions", cat(handHeader(), size9(1<<63), fill(0, 50)),
			"block 7: transactions at byte 177: 9223372036854775808 elements of at least 10 bytes do not fit into the 50 bytes left", nil},
		{"a transaction missing", cat(handHeader(), []byte{2}, emptyTx()),
			"block 7: transactions at byte 177: 2 elements of at least 10 bytes do not fit into the 10 bytes left", nil},
		{"transaction cut", cat(handHeader(), []byte{2}, emptyTx(), le32(1), []byte{1}, fill(0, 36), []byte{4}, fill(0, 7)),
			"block 7: transaction 1: sequence at byte 234: 4 bytes needed, 3 left", nil},
		{"trailing bytes", append(bytes.Clone(good), 0, 0), "block 7: block at byte " + strconv.Itoa(len(good)) + ": 2 bytes too many", nil},
		{"too long", make([]byte, chain.MaxBlockSize+1), "block 7: block at byte 0: 2000001 bytes are more than the 2000000 that a block may have", nil},
		{"unknown version", cat(handHeader(), []byte{2}, emptyTx(), le32(overwintered|9), le32(0xabcdef01), fill(0, 20)),
			"block 7: transaction 1: transaction version at byte 188: unknown transaction version 9 with version group id abcdef01", chain.ErrUnknownVersion},
		{"version 0", cat(handHeader(), []byte{1}, fill(0, 10)),
			"block 7: transaction 0: transaction version at byte 178: unknown transaction version 0", chain.ErrUnknownVersion},
		{"merkle root of zeros", cat(handHeader(), []byte{1}, emptyTx()), "block 7: merkle root mismatch: the header says " +
			"0000000000000000000000000000000000000000000000000000000000000000, the transactions give " +
			"d21633ba23f70118185227be58a63527675641ad37967e2aa461559f577aec43", chain.ErrMerkleRoot},
		{"wrong merkle root", wrongRoot, "", chain.ErrMerkleRoot},
	}
	e := chain.NewEncoder(chain.EncoderOptions{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b chain.Block
			err := e.Encode(&b, 7, tt.raw)
			if err == nil || tt.want != "" && err.Error() != tt.want {
				t.Fatalf("error %v\nwant  %s", err, tt.want)
			}
			var parse *chain.ParseError
			if isParse := errors.As(err, &parse); isParse == errors.Is(err, chain.ErrMerkleRoot) {
				t.Errorf("%v is a ParseError: %t", err, isParse)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v does not wrap %v", err, tt.is)
			}
		})
	}
	t.Run("the encoder goes on after an error", func(t *testing.T) {
		var b chain.Block
		if err := e.Encode(&b, 7, good); err != nil {
			t.Error(err)
		}
	})
}

// TestMerkleTree builds blocks of 1 to 40 transactions. For those that have one, it also builds the other block with the same root, by
// repeating the last transactions (CVE-2012-2459).
func TestMerkleTree(t *testing.T) {
	t.Parallel()
	e := chain.NewEncoder(chain.EncoderOptions{})
	builder := chaintest.NewBuilder()
	var txs [][]byte
	for n := 1; n <= 40; n++ {
		txs = append(txs, chaintest.Tx{Version: 1, Outputs: 1, Seed: uint64(n)}.Append(nil))
		raw, err := builder.Block(nil, chain.Hash{}, 1, 1, txs...)
		if err != nil {
			t.Fatal(err)
		}
		var b chain.Block
		if err := e.Encode(&b, 1, raw); err != nil {
			t.Errorf("%d transactions: %v", n, err)
		}
		lowest := n & -n // as many are repeated to fill the first odd level
		if n == lowest {
			continue // a power of two
		}
		repeated, err := builder.Block(nil, chain.Hash{}, 1, 1, append(txs[:n:n], txs[n-lowest:]...)...)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(raw[36:68], repeated[36:68]) {
			t.Fatalf("%d transactions: the repeated block has another root", n)
		}
		err = e.Encode(&b, 1, repeated)
		if want := "block 1: merkle root mismatch: the block repeats transactions"; err == nil || err.Error() != want {
			t.Errorf("%d transactions: error %v, want %s", n, err, want)
		}
		if !errors.Is(err, chain.ErrMerkleRoot) {
			t.Errorf("%v is not ErrMerkleRoot", err)
		}
	}
}

// TestEncodeChaintest checks every kind of block against the slow reader and writer.
func TestEncodeChaintest(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(chain.Height, chain.Hash, uint64) []byte{
		"small": chaintest.Small, "dense-v4": chaintest.DenseV4, "dense-v6": chaintest.DenseV6, "mixed": chaintest.Mixed,
	}
	for name, build := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := chain.NewEncoder(chain.EncoderOptions{})
			var b chain.Block
			for seed := range uint64(10) {
				raw := build(chain.Height(1000*seed), chain.Hash{31: 1}, seed)
				if err := e.Encode(&b, chain.Height(1000*seed), raw); err != nil {
					t.Fatal(err)
				}
				if b.ID.Hash != chaintest.BlockHash(raw) || b.Prev != (chain.Hash{31: 1}) {
					t.Errorf("block %s with parent %s", b.ID, b.Prev)
				}
				checkBlock(t, &b, full(t, &b, chain.TreeSizes{}))
				if len(name) > 5 && seed == 1 { // dense blocks are all alike
					break
				}
			}
		})
	}
}

// TestTruncation cuts blocks at every byte.
func TestTruncation(t *testing.T) {
	t.Parallel()
	e := chain.NewEncoder(chain.EncoderOptions{})
	var b chain.Block
	check := func(raw []byte, n int) {
		err := e.Encode(&b, 7, raw[:n:n])
		var parse *chain.ParseError
		if !errors.As(err, &parse) || parse.Offset < 0 || parse.Offset > n {
			t.Errorf("%d of %d bytes: error %v", n, len(raw), err)
		}
	}
	small := chaintest.Small(7, chain.Hash{}, 1)
	for n := range small {
		check(small, n)
	}
	mixed := chaintest.Mixed(7, chain.Hash{}, 3)
	for n := 0; n < len(mixed); n += 11 {
		check(mixed, n)
	}
}

// TestNothingAliasesInput overwrites the input after it was encoded.
func TestNothingAliasesInput(t *testing.T) {
	t.Parallel()
	raw := chaintest.Mixed(7, chain.Hash{}, 3)
	var b chain.Block
	if err := chain.NewEncoder(chain.EncoderOptions{}).Encode(&b, 7, raw); err != nil {
		t.Fatal(err)
	}
	shielded, transparent := bytes.Clone(b.Shielded), bytes.Clone(b.Transparent)
	clear(raw)
	if !bytes.Equal(b.Shielded, shielded) || !bytes.Equal(b.Transparent, transparent) {
		t.Error("the block changed with the input")
	}
}

// TestAllocations is not parallel: it counts what the whole process allocates.
func TestAllocations(t *testing.T) {
	e := chain.NewEncoder(chain.EncoderOptions{})
	var b chain.Block
	var dst []byte
	for name, raw := range map[string][]byte{
		"small": chaintest.Small(7, chain.Hash{}, 1), "mixed": chaintest.Mixed(7, chain.Hash{}, 1), "dense": chaintest.DenseV4(7, chain.Hash{}, 1),
	} {
		if n := testing.AllocsPerRun(20, func() {
			if err := e.Encode(&b, 7, raw); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("Encode allocates %v times for a %s block", n, name)
		}
		message := chain.AppendFrame(nil, b.Shielded, chain.TreeSizes{Sapling: 1})[chain.FramePrefixLen:]
		for _, p := range allProjections() {
			if n := testing.AllocsPerRun(20, func() {
				var err error
				if dst, err = chain.Project(dst[:0], message, b.Transparent, p); err != nil {
					t.Error(err)
				}
			}); n != 0 {
				t.Errorf("Project allocates %v times for a %s block under %+v", n, name, p)
			}
		}
		if n := testing.AllocsPerRun(20, func() {
			if _, err := chain.Summarize(message); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("Summarize allocates %v times for a %s block", n, name)
		}
	}
}

// TestHugeCounts: what a count promises is not allocated. It is not parallel for the same reason as TestAllocations.
func TestHugeCounts(t *testing.T) {
	e := chain.NewEncoder(chain.EncoderOptions{})
	for _, n := range []uint64{1 << 31, 1<<32 + 1, 1 << 62, 1 << 63, 1<<64 - 1} {
		inputs := map[string][]byte{
			"transactions": cat(handHeader(), compactSize(n)),
			"inputs":       cat(handHeader(), []byte{1}, le32(1), compactSize(n), fill(0, 60)),
			"outputs":      cat(handHeader(), []byte{1}, le32(1), []byte{0}, compactSize(n), fill(0, 60)),
			"script":       cat(handHeader(), []byte{1}, le32(1), []byte{1}, fill(0, 36), compactSize(n), fill(0, 60)),
			"spends":       cat(handHeader(), []byte{1}, v5Start(), []byte{0, 0}, compactSize(n), fill(0, 60)),
			"actions":      cat(handHeader(), []byte{1}, v5Start(), []byte{0, 0, 0, 0}, compactSize(n), fill(0, 60)),
		}
		for name, raw := range inputs {
			var before, after runtime.MemStats
			var b chain.Block
			runtime.ReadMemStats(&before)
			err := e.Encode(&b, 7, raw)
			runtime.ReadMemStats(&after)
			var parse *chain.ParseError
			if !errors.As(err, &parse) {
				t.Errorf("%d %s: error %v", n, name, err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 16<<10 {
				t.Errorf("%d %s: %d bytes allocated", n, name, got)
			}
		}
	}
}
