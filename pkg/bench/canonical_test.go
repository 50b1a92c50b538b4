package bench

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

func sampleBlock() *walletrpc.CompactBlock {
	hash := bytes.Repeat([]byte{1}, 32)
	return &walletrpc.CompactBlock{
		Height: 5, Hash: hash, PrevHash: bytes.Repeat([]byte{2}, 32), Time: 9, ChainMetadata: &walletrpc.ChainMetadata{SaplingCommitmentTreeSize: 7},
		Vtx: []*walletrpc.CompactTx{{Index: 3, Txid: hash, Outputs: []*walletrpc.CompactSaplingOutput{{Cmu: hash}}}},
	}
}

// What servers may do differently leaves no trace in the canonical form, and everything else does.
func TestCanonicalBlock(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		method string
		change func(*walletrpc.CompactBlock)
		want   string // the difference; empty: none
	}{
		{"nothing", "GetBlock", func(*walletrpc.CompactBlock) {}, ""},
		{"header", "GetBlock", func(b *walletrpc.CompactBlock) { b.Header = []byte{1} }, ""},
		{"protoVersion", "GetBlock", func(b *walletrpc.CompactBlock) {
			b.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 4))
		}, ""},
		{"fee", "GetBlockRange", func(b *walletrpc.CompactBlock) { b.Vtx[0].Fee = 1000 }, ""},
		{"transparent part", "GetBlock", func(b *walletrpc.CompactBlock) {
			b.Vtx[0].Vout = []*walletrpc.TxOut{{Value: 1}}
			b.Vtx = append([]*walletrpc.CompactTx{{Vout: []*walletrpc.TxOut{{Value: 1}}}}, b.Vtx...)
		}, ""},
		{"metadata of nullifiers", "GetBlockNullifiers", func(b *walletrpc.CompactBlock) { b.ChainMetadata = nil }, ""},
		{"metadata", "GetBlock", func(b *walletrpc.CompactBlock) { b.ChainMetadata = nil }, "chainMetadata is set here and not set there"},
		{"tree size", "GetBlock", func(b *walletrpc.CompactBlock) { b.ChainMetadata.SaplingCommitmentTreeSize++ },
			"chainMetadata.saplingCommitmentTreeSize is 7 here and 8 there"},
		{"output", "GetBlock", func(b *walletrpc.CompactBlock) { b.Vtx[0].Outputs[0].Cmu = []byte{3} },
			"vtx[0].outputs[0].cmu is " + strings.Repeat("01", 32) + " here and 03 there"},
		{"index", "GetBlock", func(b *walletrpc.CompactBlock) { b.Vtx[0].Index = 4 }, "vtx[0].index is 3 here and 4 there"},
		{"transaction", "GetBlock", func(b *walletrpc.CompactBlock) { b.Vtx = append(b.Vtx, b.Vtx[0]) }, "vtx has 1 entries here and 2 there"},
	} {
		a, b := sampleBlock(), sampleBlock()
		tt.change(b)
		canonical(tt.method, a)
		canonical(tt.method, b)
		if got := difference(a.ProtoReflect(), b.ProtoReflect()); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		seed := maphash.MakeSeed()
		if equal := digest(seed, a) == digest(seed, b); equal != (tt.want == "") {
			t.Errorf("%s: the digests are equal: %v", tt.name, equal)
		}
	}
}

func TestCanonicalOthers(t *testing.T) {
	t.Parallel()
	seed := maphash.MakeSeed()
	utxo := func(height uint64, index int32) *walletrpc.GetAddressUtxosReply {
		return &walletrpc.GetAddressUtxosReply{Height: height, Index: index, Txid: []byte{1}}
	}
	for _, tt := range []struct {
		name  string
		a, b  proto.Message
		equal bool
	}{
		{"network", &walletrpc.TreeState{Network: "test", Height: 1}, &walletrpc.TreeState{Network: "regtest", Height: 1}, true},
		{"empty tree", &walletrpc.TreeState{OrchardTree: "000000"}, &walletrpc.TreeState{}, true},
		{"tree", &walletrpc.TreeState{OrchardTree: "000001"}, &walletrpc.TreeState{}, false},
		{"order", &walletrpc.GetAddressUtxosReplyList{AddressUtxos: []*walletrpc.GetAddressUtxosReply{utxo(2, 0), utxo(1, 1), utxo(1, 0)}},
			&walletrpc.GetAddressUtxosReplyList{AddressUtxos: []*walletrpc.GetAddressUtxosReply{utxo(1, 0), utxo(1, 1), utxo(2, 0)}}, true},
		{"missing output", &walletrpc.GetAddressUtxosReplyList{AddressUtxos: []*walletrpc.GetAddressUtxosReply{utxo(2, 0), utxo(1, 1)}},
			&walletrpc.GetAddressUtxosReplyList{AddressUtxos: []*walletrpc.GetAddressUtxosReply{utxo(2, 0)}}, false},
		{"mempool", &walletrpc.CompactTx{Txid: []byte{1}, Fee: 3}, &walletrpc.CompactTx{Txid: []byte{1}}, true},
		{"raw transaction", &walletrpc.RawTransaction{Data: []byte{1}}, &walletrpc.RawTransaction{Data: []byte{2}}, false},
	} {
		canonical("", tt.a)
		canonical("", tt.b)
		if equal := digest(seed, tt.a) == digest(seed, tt.b); equal != tt.equal {
			t.Errorf("%s: equal is %v", tt.name, equal)
		}
	}
}

// Heights are different ones all over the chain, those of one turn and of the next.
func TestHeights(t *testing.T) {
	t.Parallel()
	for _, blocks := range []uint64{1, 2, 7, 255, 256, 257, 20_000, 5_000_000} {
		c := chainFacts{first: 10, last: 9 + blocks}
		seen := map[uint64]bool{}
		turns := max(1, int(min(blocks, 2560)/256))
		for turn := range turns {
			for _, h := range c.heights(256, turn) {
				if h < c.first || h > c.last || seen[h] {
					t.Fatalf("%d blocks: height %d in turn %d, seen: %v", blocks, h, turn, seen[h])
				}
				seen[h] = true
			}
		}
		if want := int(min(blocks, 256)) * turns; len(seen) != want {
			t.Errorf("%d blocks: %d heights, want %d", blocks, len(seen), want)
		}
	}
}

// Ranges are as long as they should be, and the last one ends at the tip.
func TestStretches(t *testing.T) {
	t.Parallel()
	c := chainFacts{first: 1, last: 1000}
	if got := c.stretches(4, 1001); got != nil {
		t.Errorf("%d ranges that are longer than the chain", len(got))
	}
	if got := c.stretches(4, 1000); len(got) != 1 || got[0].String() != "GetBlockRange 1 to 1000" {
		t.Errorf("got %v", got)
	}
	got := c.stretches(4, 100)
	if len(got) != 4 || got[0].String() != "GetBlockRange 1 to 100" || got[3].String() != "GetBlockRange 901 to 1000" {
		t.Errorf("got %v", got)
	}
	if slices.ContainsFunc(got, func(q *question) bool { return q.count != 100 }) {
		t.Error("not 100 blocks")
	}
}

// Addresses are written as everywhere else.
func TestScriptAddress(t *testing.T) {
	t.Parallel()
	for network, addresses := range map[chain.Network][]string{
		chain.MainNetwork: {"t1VmmGiyjVNeCjxDZzg7vZmd99WyzVby9yC", "t3Vz22vK5z2LcKEdg16Yv4FFneEL1zg9ojd"},
		chain.TestNetwork: {"tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNV", "t27eWDgjFYJGVXmzrXeVjnb5J3uXDM9xH9v"},
	} {
		for _, address := range addresses {
			a, err := chain.ParseTransparent(network, address)
			if err != nil {
				t.Fatal(err)
			}
			script := slices.Concat([]byte{0x76, 0xa9, 20}, a.Hash[:], []byte{0x88, 0xac})
			if a.Script {
				script = slices.Concat([]byte{0xa9, 20}, a.Hash[:], []byte{0x87})
			}
			if got := scriptAddress(script, network); got != address {
				t.Errorf("got %s, want %s", got, address)
			}
		}
	}
	for _, script := range [][]byte{nil, {0x6a}, bytes.Repeat([]byte{0x76}, 25), append([]byte{0xa9, 20}, make([]byte, 21)...)} {
		if got := scriptAddress(script, chain.MainNetwork); got != "" {
			t.Errorf("%x: got %s", script, got)
		}
	}
}
