package chain_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

func TestAppendFrame(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		sizes chain.TreeSizes
		want  []byte
	}{
		{"empty trees", chain.TreeSizes{}, []byte{0, 0, 0, 0, 5, 1, 2, 3, 0x42, 0}},
		{"one tree", chain.TreeSizes{Orchard: 5}, []byte{0, 0, 0, 0, 7, 1, 2, 3, 0x42, 2, 0x10, 5}},
		{"full trees", chain.TreeSizes{Sapling: math.MaxUint32, Orchard: 128, Ironwood: 1}, []byte{0, 0, 0, 0, 16, 1, 2, 3, 0x42, 11,
			0x08, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x10, 0x80, 1, 0x18, 1}},
	}
	for _, tt := range tests {
		if got := chain.AppendFrame([]byte{9}, []byte{1, 2, 3}, tt.sizes); !bytes.Equal(got, append([]byte{9}, tt.want...)) {
			t.Errorf("%s: got %x, want 09%x", tt.name, got, tt.want)
		}
	}
	long := chain.AppendFrame(nil, make([]byte, 0x010200), chain.TreeSizes{})
	if want := []byte{0, 0, 1, 2, 2}; !bytes.Equal(long[:5], want) {
		t.Errorf("prefix %x of a long message, want %x", long[:5], want)
	}
}

// TestGenesis pins what is zero: the height is left out, the parent's hash is not.
func TestGenesis(t *testing.T) {
	t.Parallel()
	message := cat([]byte{0x1a, 32}, fill(1, 32), []byte{0x22, 32}, fill(0, 32), []byte{0x42, 0})
	s, err := chain.Summarize(message)
	if want := (chain.Summary{ID: chain.BlockID{Hash: chain.Hash(fill(1, 32))}}); err != nil || s != want {
		t.Errorf("summary %+v (%v), want %+v", s, err, want)
	}
	column := cat([]byte{0x3a, 34, 0x12, 32}, fill(5, 32))
	got, err := chain.Project(nil, message, column, chain.Projection{Pools: chain.AllPools, KeepEmpty: true})
	if want := frame(cat(message[:68], column, message[68:])); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x (%v), want %x", got, err, want)
	}
}

// Pieces of stored messages.
var (
	blockStart = cat([]byte{0x10, 7, 0x1a, 32}, fill(1, 32), []byte{0x22, 32}, fill(2, 32), []byte{0x28, 9}) // 72 bytes
	blockEnd   = []byte{0x42, 2, 0x08, 3}
	txid       = cat([]byte{0x12, 32}, fill(5, 32))
	spend      = cat([]byte{0x22, 34, 0x0a, 32}, fill(6, 32))
	output     = cat([]byte{0x2a, 122, 0x0a, 32}, fill(7, 32), []byte{0x12, 32}, fill(7, 32), []byte{0x1a, 52}, fill(7, 52))
	orchard    = cat([]byte{0x32, 0x9c, 1, 0x0a, 32}, fill(8, 32), []byte{0x12, 32}, fill(8, 32), []byte{0x1a, 32}, fill(8, 32), []byte{0x22, 52}, fill(8, 52))
)

// nested is a message with its tag and length.
func nested(tag byte, parts ...[]byte) []byte {
	message := cat(parts...)
	if len(message) >= 128 {
		return cat([]byte{tag, byte(len(message))&0x7f | 0x80, byte(len(message) >> 7)}, message)
	}
	return cat([]byte{tag, byte(len(message))}, message)
}

// changed is b with one byte replaced.
func changed(b []byte, at int, to byte) []byte {
	b = bytes.Clone(b)
	b[at] = to
	return b
}

func TestInspect(t *testing.T) {
	t.Parallel()
	e := chain.NewEncoder(chain.EncoderOptions{})
	kinds := map[string]func(chain.Height, chain.Hash, uint64) []byte{
		"small": chaintest.Small, "dense v4": chaintest.DenseV4, "dense v6": chaintest.DenseV6, "mixed": chaintest.Mixed,
	}
	for name, kind := range kinds {
		var b chain.Block
		if err := e.Encode(&b, 7, kind(7, chain.Hash{1}, 9)); err != nil {
			t.Fatal(err)
		}
		sizes := chain.TreeSizes{Sapling: 1 << 30, Orchard: 3, Ironwood: 1}
		message := chain.AppendFrame(nil, b.Shielded, sizes)[chain.FramePrefixLen:]
		want, err := chain.Summarize(message)
		if err != nil {
			t.Fatal(err)
		}
		got, added, err := chain.Inspect(message, b.Transparent)
		if err != nil || got != want || added != b.Added || want.Sizes != sizes || (want.TxCount == 0) != (b.Added == chain.TreeSizes{}) {
			t.Errorf("%s: %+v that adds %+v (%v), want %+v and %+v", name, got, added, err, want, b.Added)
		}
		if _, _, err := chain.Inspect(message, nil); err == nil {
			t.Errorf("%s: a block without transactions passes", name)
		}
	}
}

func TestProjectErrors(t *testing.T) {
	t.Parallel()
	block := func(txs ...[]byte) []byte { return cat(blockStart, cat(txs...), blockEnd) }
	second := cat([]byte{0x08, 1}, txid)
	tests := []struct {
		name            string
		message, column []byte
		want            string
	}{
		{"empty", nil, nil, "block hash at byte 0: 2 bytes needed, 0 left"},
		{"height of 65 bits", cat([]byte{0x10}, fill(0xff, 9), []byte{2}), nil, "height at byte 1: the number has more than 64 bits"},
		{"height of 33 bits", cat([]byte{0x10, 0x80, 0x80, 0x80, 0x80, 0x10}, blockStart[2:]), nil, "height at byte 1: 4294967296 does not fit into 32 bits"},
		{"height 0 written", changed(block(), 1, 0), nil, "height at byte 1: the number 0 is not in its shortest form"},
		{"height in too many bytes", cat([]byte{0x10, 0x87, 0}, blockStart[2:]), nil, "height at byte 1: the number 7 is not in its shortest form"},
		{"height cut", []byte{0x10}, nil, "height at byte 1: the number is cut off"},
		{"hash of 31 bytes", changed(block(), 3, 31), nil, "block hash at byte 2: bytes 1a1f where 1a20 belong"},
		{"no parent", cat(blockStart[:36], blockEnd), nil, "parent hash at byte 36: bytes 4202 where 2220 belong"},
		{"parent cut", blockStart[:50], nil, "parent hash at byte 38: 32 bytes needed, 12 left"},
		{"no metadata", blockStart, nil, "chain metadata at byte 72: 1 bytes needed, 0 left"},
		{"unknown field", cat(blockStart, []byte{0x4a, 0}, blockEnd), nil, "chain metadata at byte 72: bytes 4a where 42 belong"},
		{"metadata cut", cat(blockStart, []byte{0x42, 2, 8}), nil, "chain metadata at byte 73: 2 bytes needed, 1 left"},
		{"metadata longer than its field", cat(blockStart, []byte{0x42, 2, 8, 0x83, 1}), nil, "chain metadata at byte 76: it ends 1 bytes after its length"},
		{"unknown field in metadata", cat(blockStart, []byte{0x42, 2, 0x20, 1}), nil, "chain metadata at byte 74: 2 bytes too many"},
		{"tree size of 33 bits", cat(blockStart, []byte{0x42, 6, 0x18, 0x80, 0x80, 0x80, 0x80, 0x10}), nil,
			"ironwood tree size at byte 75: 4294967296 does not fit into 32 bits"},
		{"bytes after the metadata", append(block(), 1), nil, "compact block at byte 76: 1 bytes too many"},

		{"transaction longer than the message", cat(blockStart, []byte{0x3a, 0x80, 1}), nil, "transaction at byte 73: 128 bytes needed, 0 left"},
		{"transaction of 2^63 bytes", cat(blockStart, []byte{0x3a}, fill(0x80, 9), []byte{1}), nil,
			"transaction at byte 73: 9223372036854775808 bytes needed, 0 left"},
		{"transaction's length cut", cat(blockStart, []byte{0x3a, 0x80}), nil, "transaction at byte 73: the number is cut off"},
		{"no txid", block(nested(0x3a)), nil, "txid at byte 74: bytes 4202 where 1220 belong"},
		{"index 0 written", block(nested(0x3a, []byte{8, 0}, txid)), nil, "index at byte 75: the number 0 is not in its shortest form"},
		{"vin in the message", block(nested(0x3a, txid, []byte{0x3a, 0})), nil, "transaction at byte 108: 2 bytes too many"},
		{"fields out of order", block(nested(0x3a, txid, output, spend)), nil, "transaction at byte 233: 36 bytes too many"},
		{"transaction shorter than its fields", block(changed(nested(0x3a, txid, spend), 1, 69)), nil,
			"transaction at byte 143: it ends 1 bytes after its length"},
		{"spend of another length", block(nested(0x3a, txid, changed(spend, 1, 33))), nil, "sapling spend at byte 108: bytes 2221 where 2222 belong"},
		{"spend of another field", block(nested(0x3a, txid, changed(spend, 2, 0x12))), nil, "sapling nullifier at byte 110: bytes 1220 where 0a20 belong"},
		{"output of another length", block(nested(0x3a, txid, changed(output, 1, 121))), nil, "sapling output at byte 109: bytes 2a79 where 2a7a belong"},
		{"output of other fields", block(nested(0x3a, txid, changed(output, 2, 0))), nil, "sapling commitment at byte 111: bytes 0020 where 0a20 belong"},
		{"output with another key", block(nested(0x3a, txid, changed(output, 36, 0))), nil, "sapling ephemeral key at byte 145: bytes 0020 where 1220 belong"},
		{"output with a long ciphertext", block(nested(0x3a, txid, changed(output, 71, 53))), nil, "sapling ciphertext at byte 179: bytes 1a35 where 1a34 belong"},
		{"action of another length", block(nested(0x3a, txid, changed(orchard, 2, 2))), nil, "action at byte 109: bytes 329c02 where 329c01 belong"},
		{"action without nullifier", block(nested(0x3a, txid, changed(orchard, 3, 0))), nil, "action nullifier at byte 112: bytes 0020 where 0a20 belong"},
		{"action without commitment", block(nested(0x3a, txid, changed(orchard, 37, 0))), nil, "action commitment at byte 146: bytes 0020 where 1220 belong"},
		{"action without key", block(nested(0x3a, txid, changed(orchard, 71, 0))), nil, "action ephemeral key at byte 180: bytes 0020 where 1a20 belong"},
		{"action without ciphertext", block(nested(0x3a, txid, changed(orchard, 105, 0))), nil, "action ciphertext at byte 214: bytes 0034 where 2234 belong"},
		{"action cut", cat(blockStart, nested(0x3a, txid, orchard)[:250-72]), nil, "transaction at byte 73: 193 bytes needed, 175 left"},
		{"nothing shielded", block(nested(0x3a, txid)), nil, "transaction at byte 72: a transaction without shielded parts is left out"},
		{"indexes out of order", block(nested(0x3a, second, spend), nested(0x3a, txid, spend)), nil, "transaction at byte 146: index 0 after index 1"},
		{"indexes twice", block(nested(0x3a, txid, spend), nested(0x3a, txid, spend)), nil, "transaction at byte 144: index 0 after index 0"},

		{"column too short", block(nested(0x3a, second, spend)), nested(0x3a, txid),
			"transparent column: column at byte 36: transaction 1 of the compact block is missing"},
		{"column of another block", block(nested(0x3a, txid, spend)), nested(0x3a, changed(txid, 2, 6)),
			"transparent column: transaction at byte 0: its txid differs from the compact block's at index 0"},
		{"column with a gap", block(), nested(0x3a, second), "transparent column: transaction at byte 0: index 1 where 0 belongs"},
		{"column with other fields", block(), []byte{0x42, 0}, "transparent column: column at byte 0: 2 bytes too many"},
		{"column with shielded fields", block(), nested(0x3a, txid, spend), "transparent column: transaction at byte 36: 36 bytes too many"},
		{"column cut", block(), nested(0x3a, txid)[:30], "transparent column: transaction at byte 1: 34 bytes needed, 28 left"},
		{"input without txid", block(), nested(0x3a, txid, nested(0x3a)), "transparent column: prevout txid at byte 38: 2 bytes needed, 0 left"},
		{"input index 0 written", block(), nested(0x3a, txid, nested(0x3a, []byte{0x0a, 32}, fill(1, 32), []byte{0x10, 0})),
			"transparent column: prevout index at byte 73: the number 0 is not in its shortest form"},
		{"input index of 33 bits", block(), nested(0x3a, txid, nested(0x3a, []byte{0x0a, 32}, fill(1, 32), []byte{0x10, 0x80, 0x80, 0x80, 0x80, 0x10})),
			"transparent column: prevout index at byte 73: 4294967296 does not fit into 32 bits"},
		{"input with more", block(), nested(0x3a, txid, nested(0x3a, []byte{0x0a, 32}, fill(1, 32), []byte{0x18, 1})),
			"transparent column: input at byte 72: 2 bytes too many"},
		{"output value 0 written", block(), nested(0x3a, txid, nested(0x42, []byte{8, 0})),
			"transparent column: output value at byte 39: the number 0 is not in its shortest form"},
		{"output with an empty script", block(), nested(0x3a, txid, nested(0x42, []byte{0x12, 0})),
			"transparent column: output script at byte 39: an empty field is left out"},
		{"output script too long", block(), nested(0x3a, txid, nested(0x42, []byte{0x12, 5, 1})),
			"transparent column: output script at byte 39: 5 bytes needed, 1 left"},
		{"output with more", block(), nested(0x3a, txid, nested(0x42, []byte{0x12, 1, 1, 1})),
			"transparent column: output at byte 41: 1 bytes too many"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := chain.Projection{Pools: chain.AllPools}
			if tt.column == nil {
				p = chain.Projection{Pools: chain.ShieldedPools, NullifiersOnly: true}
			}
			got, err := chain.Project([]byte("before"), tt.message, tt.column, p)
			if err == nil || err.Error() != tt.want {
				t.Fatalf("error %v\nwant  %s", err, tt.want)
			}
			if _, _, err := chain.Inspect(tt.message, tt.column); tt.column != nil && (err == nil || err.Error() != tt.want) {
				t.Errorf("Inspect: error %v\nwant  %s", err, tt.want)
			}
			var parse *chain.ParseError
			if !errors.As(err, &parse) {
				t.Errorf("%v is a %T", err, err)
			}
			if string(got) != "before" {
				t.Errorf("got %q with the error", got)
			}
		})
	}
}

// TestProjectIgnoresColumn: a projection that needs no transparent data does not read the column.
func TestProjectIgnoresColumn(t *testing.T) {
	t.Parallel()
	message := cat(blockStart, nested(0x3a, txid, spend), blockEnd)
	for _, p := range allProjections() {
		_, err := chain.Project(nil, message, []byte("nonsense"), p)
		if needed := p.NeedsTransparent(); (err != nil) != needed {
			t.Errorf("%+v: error %v, column needed: %t", p, err, needed)
		}
	}
}

// TestDefaultProjectionCopies: whatever is stored goes out as it is.
func TestDefaultProjectionCopies(t *testing.T) {
	t.Parallel()
	got, err := chain.Project(nil, []byte("anything"), nil, chain.DefaultProjection)
	if want := frame([]byte("anything")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}

func TestSummarizeErrors(t *testing.T) {
	t.Parallel()
	message := cat(blockStart, nested(0x3a, txid, spend), blockEnd)
	for n := range message {
		s, err := chain.Summarize(message[:n:n])
		var parse *chain.ParseError
		if !errors.As(err, &parse) || parse.Offset < 0 || parse.Offset > n || s != (chain.Summary{}) {
			t.Errorf("%d of %d bytes: %+v, error %v", n, len(message), s, err)
		}
	}
	_, err := chain.Summarize(append(message, 1))
	if want := "compact block at byte 148: 1 bytes too many"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
