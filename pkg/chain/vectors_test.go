package chain_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// vectorsDir holds real blocks. It stands beside the repository and is not part of it.
const vectorsDir = "../../../shared/vectors"

type vectorBlock struct {
	File           string
	Height         chain.Height
	Hash, PrevHash string
	Bytes          int
	TxIDs          []string
	raw            []byte
}

// vector reads a file of the vectors, or skips the test.
func vector(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectorsDir, name))
	if os.IsNotExist(err) {
		t.Skipf("no test vectors: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return data
}

func vectorJSON(t testing.TB, name string, v any) {
	t.Helper()
	if err := json.Unmarshal(vector(t, name), v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func vectorBlocks(t testing.TB) []vectorBlock {
	t.Helper()
	var blocks []vectorBlock
	vectorJSON(t, "blocks/index.json", &blocks)
	for i := range blocks {
		blocks[i].raw = unhex(t, strings.TrimSpace(string(vector(t, "blocks/"+blocks[i].File))))
	}
	if len(blocks) == 0 {
		t.Fatal("the index of the block vectors is empty")
	}
	return blocks
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEncodeVectors(t *testing.T) {
	t.Parallel()
	e := chain.NewEncoder(chain.EncoderOptions{})
	var b chain.Block // reused, so that nothing of a block may stay behind in the next
	for _, v := range vectorBlocks(t) {
		t.Run(v.File, func(t *testing.T) {
			var want compactBlock
			vectorJSON(t, "blocks/"+strings.TrimSuffix(v.File, ".hex")+".compact.json", &want)

			if err := e.Encode(&b, v.Height, v.raw); err != nil {
				t.Fatal(err)
			}
			if b.ID.Height != v.Height || b.ID.Hash.String() != v.Hash || b.Prev.String() != v.PrevHash {
				t.Errorf("block %s with parent %s, want %d (%s) with parent %s", b.ID, b.Prev, v.Height, v.Hash, v.PrevHash)
			}
			if b.RawSize != v.Bytes || b.TxCount != len(v.TxIDs) || b.Time != want.Time {
				t.Errorf("size %d, %d transactions, time %d; want %d, %d, %d", b.RawSize, b.TxCount, b.Time, v.Bytes, len(v.TxIDs), want.Time)
			}
			if got := full(t, &b, chain.TreeSizes{}); !bytes.Equal(got.encode(), want.encode()) {
				t.Errorf("got %s\nwant %s", asJSON(t, got), asJSON(t, want))
			}
			checkBlock(t, &b, &want)
			for i, tx := range want.Vtx {
				if got := chain.TxID(tx.TxID).String(); got != v.TxIDs[i] {
					t.Errorf("txid %d is %s, want %s", i, got, v.TxIDs[i])
				}
			}
		})
	}
}

// checkBlock compares what the encoder made, and all that can be cut from it, with a full block that is known to be right, byte by byte.
func checkBlock(t *testing.T, b *chain.Block, want *compactBlock) {
	t.Helper()
	sizes := chain.TreeSizes{Sapling: 1 << 20, Orchard: 0, Ironwood: 7}
	want.Metadata = chainMetadata{sizes.Sapling, sizes.Orchard, sizes.Ironwood}
	stored := chain.AppendFrame(nil, b.Shielded, sizes)
	for _, p := range allProjections() {
		column := b.Transparent
		if !p.NeedsTransparent() {
			column = nil
		}
		got, err := chain.Project([]byte("before"), stored[chain.FramePrefixLen:], column, p)
		if err != nil {
			t.Errorf("%+v: %v", p, err)
			continue
		}
		if want := append([]byte("before"), frame(want.cut(p).encode())...); !bytes.Equal(got, want) {
			t.Errorf("%+v:\n got %x\nwant %x", p, got, want)
		}
	}
	var added chain.TreeSizes
	for _, tx := range want.Vtx {
		added.Sapling += uint32(len(tx.Outputs))
		added.Orchard += uint32(len(tx.Actions))
		added.Ironwood += uint32(len(tx.Ironwood))
	}
	if b.Added != added {
		t.Errorf("%+v leaves added, want %+v", b.Added, added)
	}
	s, err := chain.Summarize(stored[chain.FramePrefixLen:])
	wantSummary := chain.Summary{ID: b.ID, Prev: b.Prev, Time: b.Time, Sizes: sizes, TxCount: len(want.cut(chain.DefaultProjection).Vtx)}
	if err != nil || s != wantSummary {
		t.Errorf("summary %+v (%v), want %+v", s, err, wantSummary)
	}
}

func TestTransactionVectors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		file    string
		options chain.EncoderOptions
		version uint32
	}{
		{"zip244.json", chain.EncoderOptions{}, 5},
		{"v6.json", chain.EncoderOptions{V6GroupID: 0xffffffff}, 6},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			var vectors []struct {
				Tx   string
				TxID string `json:"txid_internal_order"`
			}
			vectorJSON(t, tt.file, &vectors)
			if len(vectors) == 0 {
				t.Fatal("no vectors")
			}
			e := chain.NewEncoder(tt.options)
			for i, v := range vectors {
				tx, err := e.Transaction(unhex(t, v.Tx))
				if err != nil {
					t.Errorf("%d: %v", i, err)
					continue
				}
				if got := hex.EncodeToString(tx.ID[:]); got != v.TxID || tx.Version != tt.version {
					t.Errorf("%d: version %d with txid %s, want version %d with %s", i, tx.Version, got, tt.version, v.TxID)
				}
			}
		})
	}
}
