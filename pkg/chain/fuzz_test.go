package chain_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// The targets are run with -fuzzminimizetime=10x: blocks are long, and the default of a minute for each find leaves no time to search.

// maxFuzzInput bounds a fuzzed input: what is longer takes time and shows nothing new.
const maxFuzzInput = 64 << 10

// fuzzSeeds are blocks of ours and, where the vectors are present, small real ones.
func fuzzSeeds(f *testing.F) [][]byte {
	f.Helper()
	seeds := [][]byte{
		chaintest.Small(0, chain.Hash{}, 1),
		chaintest.Small(4_000_000, chain.Hash{1}, 2),
		chaintest.Mixed(3_600_000, chain.Hash{2}, 3),
		cat(handHeader(), []byte{1}, emptyTx()),
	}
	if _, err := os.Stat(vectorsDir); err != nil {
		f.Logf("no seeds from the test vectors: %v", err)
		return seeds
	}
	for _, v := range vectorBlocks(f) {
		if len(v.raw) <= 8<<10 {
			seeds = append(seeds, v.raw)
		}
	}
	return seeds
}

// FuzzBlock: any bytes are an error of a known kind, or a block whose two parts are canonical and agree with its counts. Since no fuzzer
// finds a Merkle root, a block that lacks nothing else gets the right one.
func FuzzBlock(f *testing.F) {
	for _, raw := range fuzzSeeds(f) {
		f.Add(raw)
	}
	e := chain.NewEncoder(chain.EncoderOptions{})
	var b chain.Block
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > maxFuzzInput {
			t.Skip("too long")
		}
		err := e.Encode(&b, 1, raw)
		if errors.Is(err, chain.ErrMerkleRoot) {
			text := err.Error()
			root, parseErr := chain.ParseHash(text[len(text)-64:])
			if parseErr != nil {
				return // a repeated transaction
			}
			raw = bytes.Clone(raw)
			copy(raw[36:], root[:])
			if err := e.Encode(&b, 1, raw); err != nil {
				t.Fatalf("with the right root: %v", err)
			}
		} else if err != nil {
			checkParseError(t, err, len(raw))
			return
		}
		whole := full(t, &b, chain.TreeSizes{})
		if len(whole.Vtx) != b.TxCount || b.RawSize != len(raw) {
			t.Errorf("%d transactions and %d bytes, want %d and %d", len(whole.Vtx), b.RawSize, b.TxCount, len(raw))
		}
		checkBlock(t, &b, whole)
	})
}

// checkParseError fails unless err is a *ParseError whose offset is within the input.
func checkParseError(t *testing.T, err error, length int) {
	t.Helper()
	var parse *chain.ParseError
	if !errors.As(err, &parse) || parse.Offset < 0 || parse.Offset > length {
		t.Errorf("%d bytes: error %v", length, err)
	}
}

// FuzzTransaction: any bytes are an error, or a transaction that ends where they end and whose compact form agrees with its counts.
func FuzzTransaction(f *testing.F) {
	for version := range uint32(7) {
		f.Add(chaintest.Tx{Version: version, Coinbase: true, Height: 300, Outputs: 2}.Append(nil))
		f.Add(chaintest.Tx{Version: version, Inputs: 1, Outputs: 1, JoinSplits: 1, Spends: 1, SaplingOutputs: 1, Orchard: 1, Ironwood: 1}.Append(nil))
	}
	e := chain.NewEncoder(chain.EncoderOptions{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > maxFuzzInput {
			t.Skip("too long")
		}
		tx, err := e.Transaction(raw)
		if err != nil {
			checkParseError(t, err, len(raw))
			return
		}
		got, err := decodeTx(tx.AppendCompactTx(nil, 7, chain.Projection{Pools: chain.AllPools}))
		if err != nil {
			t.Fatal(err)
		}
		counts := [...]int{len(got.Vout), len(got.Spends), len(got.Outputs), len(got.Actions), len(got.Ironwood)}
		if want := [...]int{tx.Outputs, tx.SaplingSpends, tx.SaplingOutputs, tx.OrchardActions, tx.IronwoodActions}; counts != want {
			t.Errorf("the compact form has counts %v, the transaction %v", counts, want)
		}
		if len(got.Vin) > tx.Inputs || got.Index != 7 || chain.TxID(got.TxID) != tx.ID {
			t.Errorf("the compact form has index %d, txid %x and %d inputs of %d", got.Index, got.TxID, len(got.Vin), tx.Inputs)
		}
		for _, other := range [][]byte{raw[:len(raw)-1], append(bytes.Clone(raw), 0)} {
			if _, err := e.Transaction(other); err == nil {
				t.Errorf("%d bytes are a transaction too", len(other))
			}
		}
	})
}

// FuzzProject: any bytes are an error, or they are canonical and the result is what the slow reader, filter and writer make of them.
func FuzzProject(f *testing.F) {
	e := chain.NewEncoder(chain.EncoderOptions{})
	for i, raw := range fuzzSeeds(f) {
		var b chain.Block
		if err := e.Encode(&b, chain.Height(i), raw); err != nil {
			continue // the seed whose Merkle root is zeros
		}
		f.Add(chain.AppendFrame(nil, b.Shielded, chain.TreeSizes{Sapling: 300})[chain.FramePrefixLen:], b.Transparent, byte(17*i))
	}
	f.Fuzz(func(t *testing.T, message, column []byte, choice byte) {
		if len(message)+len(column) > maxFuzzInput {
			t.Skip("too long")
		}
		p := allProjections()[choice%64]
		checkSummary(t, message)
		got, err := chain.Project(nil, message, column, p)
		if p == chain.DefaultProjection {
			return // copied, whatever it is: TestDefaultProjectionCopies
		}
		if err != nil {
			checkParseError(t, err, max(len(message), len(column)))
			return
		}
		whole, err := decodeBlock(message)
		if err != nil {
			t.Fatalf("decode the message: %v", err)
		}
		if p.NeedsTransparent() {
			whole = merged(t, whole, column)
		}
		if want := frame(whole.cut(p).encode()); !bytes.Equal(got, want) {
			t.Errorf("%+v:\n got %x\nwant %x", p, got, want)
		}
	})
}

func checkSummary(t *testing.T, message []byte) {
	t.Helper()
	s, err := chain.Summarize(message)
	if err != nil {
		checkParseError(t, err, len(message))
		return
	}
	decoded, err := decodeBlock(message)
	if err != nil {
		return // a transaction is broken, which Summarize does not look at
	}
	want := chain.Summary{
		ID: chain.BlockID{Height: chain.Height(decoded.Height), Hash: chain.Hash(decoded.Hash)}, Prev: chain.Hash(decoded.PrevHash),
		Time: decoded.Time, Sizes: chain.TreeSizes(decoded.Metadata), TxCount: len(decoded.Vtx),
	}
	if s != want {
		t.Errorf("summary %+v, want %+v", s, want)
	}
}
