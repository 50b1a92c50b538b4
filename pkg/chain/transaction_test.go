package chain_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// TestCompactFields pins which bytes of a transaction go where, by transactions made by hand.
func TestCompactFields(t *testing.T) {
	t.Parallel()
	null := cat(fill(0, 32), le32(math.MaxUint32))
	tests := []struct {
		name string
		raw  []byte
		want compactTx // but for the txid
	}{
		{"v1 coinbase, two outputs", cat(le32(1),
			[]byte{1}, null, []byte{3, 2, 1, 1}, le32(0),
			[]byte{2}, le64(5_000_000_000), []byte{2, 0x51, 0x52}, le64(0), []byte{0}, le32(0)),
			compactTx{Vout: []txOut{{5_000_000_000, []byte{0x51, 0x52}}, {}}},
		},
		{"v1, prevouts that are null in one half only", cat(le32(1),
			[]byte{3},
			fill(0, 32), le32(0), []byte{0}, le32(0),
			fill(0, 32), le32(1), []byte{0}, le32(0),
			fill(1, 32), le32(math.MaxUint32), []byte{0}, le32(0),
			[]byte{0}, le32(0)),
			compactTx{Vin: []txIn{{fill(0, 32), 0}, {fill(0, 32), 1}, {fill(1, 32), math.MaxUint32}}},
		},
		{"v1, scripts whose lengths take more bytes", cat(le32(1),
			[]byte{1}, fill(1, 32), le32(7), []byte{0xfd, 0xfd, 0}, fill(9, 0xfd), le32(0),
			[]byte{2}, le64(1), []byte{0x80}, fill(8, 0x80), le64(1<<63), []byte{0xfe, 0, 0, 1, 0}, fill(7, 1<<16), le32(0)),
			compactTx{Vin: []txIn{{fill(1, 32), 7}}, Vout: []txOut{{1, fill(8, 0x80)}, {1 << 63, fill(7, 1<<16)}}},
		},
		{"before Overwinter with version 2 and up", cat(le32(math.MaxInt32),
			[]byte{0, 0}, le32(0), []byte{1}, fill(1, 1802), fill(2, 96)),
			compactTx{},
		},
		{"v3 with a JoinSplit", cat(le32(overwintered|3), le32(0x03C48270),
			[]byte{0, 0}, le32(0), le32(0), []byte{1}, fill(1, 1802), fill(2, 96)),
			compactTx{},
		},
		{"v4 with two spends and two outputs", cat(v4Start(), []byte{0, 0}, le32(0), le32(0), le64(0),
			[]byte{2}, fill(1, 64), fill(2, 32), fill(3, 288), fill(4, 64), fill(5, 32), fill(6, 288),
			[]byte{2}, handOutput(0x10), fill(7, 192), handOutput(0x20), fill(8, 192),
			[]byte{1}, fill(9, 1698), fill(9, 96), fill(9, 64)),
			compactTx{
				Spends:  []saplingSpend{{fill(2, 32)}, {fill(5, 32)}},
				Outputs: []saplingOutput{wantOutput(0x10), wantOutput(0x20)},
			},
		},
		{"v5 with all its pools", cat(v5Start(), []byte{0, 1}, le64(3), []byte{0},
			[]byte{1}, fill(1, 32), fill(2, 32), fill(3, 32), []byte{1}, handOutput(0x10),
			le64(0), fill(4, 32), fill(5, 192+64), fill(6, 192), fill(7, 64),
			handBundle(0x30)),
			compactTx{
				Spends:  []saplingSpend{{fill(2, 32)}},
				Outputs: []saplingOutput{wantOutput(0x10)},
				Actions: []action{wantAction(0x30)},
				Vout:    []txOut{{Value: 3}},
			},
		},
		{"v6 with all pools", cat(v6Start(), []byte{1}, fill(1, 32), le32(2), []byte{0}, le32(0), []byte{1}, le64(3), []byte{0},
			[]byte{0}, []byte{1}, handOutput(0x10), le64(0), fill(6, 192), fill(7, 64),
			handBundle(0x30), handBundle(0x40)),
			compactTx{
				Outputs:  []saplingOutput{wantOutput(0x10)},
				Actions:  []action{wantAction(0x30)},
				Vin:      []txIn{{fill(1, 32), 2}},
				Vout:     []txOut{{Value: 3}},
				Ironwood: []action{wantAction(0x40)},
			},
		},
	}
	e := chain.NewEncoder(chain.EncoderOptions{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tx, err := e.Transaction(tt.raw)
			if err != nil {
				t.Fatal(err)
			}
			tt.want.TxID = tx.ID[:]
			if got, want := tx.AppendCompactTx(nil, 0, chain.Projection{Pools: chain.AllPools}), tt.want.encode(); !bytes.Equal(got, want) {
				decoded, err := decodeTx(got)
				t.Errorf("got %s (%v)\nwant %s", asJSON(t, decoded), err, asJSON(t, tt.want))
			}
		})
	}
}

// TestAppendCompactTx compares transactions alone with the same ones in their block, for all projections.
func TestAppendCompactTx(t *testing.T) {
	t.Parallel()
	specs := []chaintest.Tx{
		{Version: 5, Coinbase: true, Height: 9, Outputs: 2},
		{Version: 1, Inputs: 3, Outputs: 2},
		{Version: 2, JoinSplits: 2},
		{Version: 3, Inputs: 1, JoinSplits: 1},
		{Version: 4, Spends: 2, SaplingOutputs: 3, JoinSplits: 1},
		{Version: 5, Spends: 2},
		{Version: 5, SaplingOutputs: 2, Orchard: 2},
		{Version: 6, Inputs: 1, Outputs: 1, Spends: 1, SaplingOutputs: 2, Orchard: 2, Ironwood: 3},
		{Version: 6, Ironwood: 2},
		{Version: 6, Coinbase: true},
	}
	e := chain.NewEncoder(chain.EncoderOptions{})
	var raw [][]byte
	for i, spec := range specs {
		spec.Seed = uint64(i)
		raw = append(raw, spec.Append(nil))
	}
	block, err := chaintest.NewBuilder().Block(nil, chain.Hash{}, 1, 1, raw...)
	if err != nil {
		t.Fatal(err)
	}
	var b chain.Block
	if err := e.Encode(&b, 9, block); err != nil {
		t.Fatal(err)
	}
	want := full(t, &b, chain.TreeSizes{})
	for i, spec := range specs {
		tx, err := e.Transaction(raw[i])
		if err != nil {
			t.Fatalf("%+v: %v", spec, err)
		}
		inputs := spec.Inputs
		if spec.Coinbase {
			inputs++
		}
		counts := [...]int{tx.Inputs, tx.Outputs, tx.SaplingSpends, tx.SaplingOutputs, tx.OrchardActions, tx.IronwoodActions}
		if wantCounts := [...]int{inputs, spec.Outputs, spec.Spends, spec.SaplingOutputs, spec.Orchard, spec.Ironwood}; counts != wantCounts {
			t.Errorf("transaction %d has counts %v, want %v", i, counts, wantCounts)
		}
		for _, p := range allProjections() {
			single := compactBlock{Vtx: []compactTx{want.Vtx[i]}}
			cut := single.cut(p).Vtx
			if got, want := tx.Visible(p), len(cut) == 1; got != want {
				t.Errorf("transaction %d is visible under %+v: %t, want %t", i, p, got, want)
			}
			if len(cut) == 0 {
				continue
			}
			if got, want := tx.AppendCompactTx(nil, i, p), cut[0].encode(); !bytes.Equal(got, want) {
				t.Errorf("transaction %d under %+v:\n got %x\nwant %x", i, p, got, want)
			}
		}
	}
}

func TestTransactionErrors(t *testing.T) {
	t.Parallel()
	null := cat([]byte{1}, fill(0, 36), []byte{0}, le32(0)) // one input
	tests := []struct {
		name string
		raw  []byte
		want string
	}{
		{"empty", nil, "transaction version at byte 0: 4 bytes needed, 0 left"},
		{"version cut", fill(1, 3), "transaction version at byte 0: 4 bytes needed, 3 left"},
		{"version 0", fill(0, 10), "transaction version at byte 0: unknown transaction version 0"},
		{"group id cut", cat(le32(overwintered|5), fill(0, 3)), "version group id at byte 4: 4 bytes needed, 3 left"},
		{"version 7", cat(le32(overwintered|7), le32(0x77777777), fill(0, 20)),
			"transaction version at byte 0: unknown transaction version 7 with version group id 77777777"},
		{"version 5 with version 4's group id", cat(le32(overwintered|5), le32(0x892F2085), fill(0, 20)),
			"transaction version at byte 0: unknown transaction version 5 with version group id 892f2085"},
		{"version 6 with the placeholder of the vectors", cat(le32(overwintered|6), fill(0xff, 8), fill(0, 14)),
			"transaction version at byte 0: unknown transaction version 6 with version group id ffffffff"},
		{"overwintered version 2", cat(le32(overwintered|2), fill(0, 20)),
			"transaction version at byte 0: unknown transaction version 2 with version group id 00000000"},

		{"2^63 inputs", cat(le32(1), size9(1<<63)),
			"transparent inputs at byte 4: 9223372036854775808 elements of at least 41 bytes do not fit into the 0 bytes left"},
		{"one input too many", cat(le32(1), []byte{2}, fill(0, 81)),
			"transparent inputs at byte 4: 2 elements of at least 41 bytes do not fit into the 81 bytes left"},
		{"input script too long", cat(le32(1), []byte{1}, fill(0, 36), []byte{5}, fill(0, 4)),
			"input script at byte 41: 5 bytes needed, 4 left"},
		{"input script of 2^64-1 bytes", cat(le32(1), []byte{1}, fill(0, 36), size9(math.MaxUint64), fill(0, 4)),
			"input script at byte 41: 18446744073709551615 bytes needed, 4 left"},
		{"sequence cut", cat(le32(1), []byte{1}, fill(0, 36), []byte{1}, fill(0, 4)), "sequence at byte 43: 4 bytes needed, 3 left"},
		{"second prevout cut", cat(le32(1), []byte{2}, fill(0, 36), []byte{40}, fill(0, 45)), "prevout at byte 86: 36 bytes needed, 1 left"},
		{"2^63 outputs", cat(le32(1), null, size9(1<<63)),
			"transparent outputs at byte 46: 9223372036854775808 elements of at least 9 bytes do not fit into the 0 bytes left"},
		{"output script too long", cat(le32(1), []byte{0, 1}, fill(0, 8), []byte{1}),
			"output script at byte 14: 1 bytes needed, 0 left"},
		{"second output value cut", cat(le32(1), []byte{0, 2}, fill(0, 8), []byte{3}, fill(0, 9)), "output value at byte 18: 8 bytes needed, 6 left"},
		{"lock time cut", cat(le32(1), []byte{0, 0}, fill(0, 3)), "lock time at byte 6: 4 bytes needed, 3 left"},
		{"expiry height cut", cat(v4Start(), []byte{0, 0}, fill(0, 7)), "expiry height at byte 14: 4 bytes needed, 3 left"},
		{"v1 trailing byte", cat(le32(1), fill(0, 7)), "transaction at byte 10: 1 bytes too many"},

		{"size 0 in 3 bytes", cat(le32(1), []byte{0xfd, 0, 0}, fill(0, 60)), "transparent inputs at byte 4: the size 0 is not in its shortest form"},
		{"size 252 in 3 bytes", cat(le32(1), []byte{0xfd, 0xfc, 0}, fill(0, 60)), "transparent inputs at byte 4: the size 252 is not in its shortest form"},
		{"size 65535 in 5 bytes", cat(le32(1), []byte{0xfe, 0xff, 0xff, 0, 0}, fill(0, 60)),
			"transparent inputs at byte 4: the size 65535 is not in its shortest form"},
		{"size 2^32-1 in 9 bytes", cat(le32(1), size9(math.MaxUint32), fill(0, 60)),
			"transparent inputs at byte 4: the size 4294967295 is not in its shortest form"},
		{"size of 3 bytes cut", cat(le32(1), []byte{0xfd, 1}), "transparent inputs at byte 5: 2 bytes needed, 1 left"},
		{"size of 5 bytes cut", cat(le32(1), []byte{0xfe, 1, 1, 1}), "transparent inputs at byte 5: 4 bytes needed, 3 left"},
		{"size of 9 bytes cut", cat(le32(1), []byte{0xff}), "transparent inputs at byte 5: 8 bytes needed, 0 left"},

		{"v2 JoinSplits missing", cat(le32(2), fill(0, 6)), "joinsplits at byte 10: 1 bytes needed, 0 left"},
		{"v2 JoinSplit cut", cat(le32(2), fill(0, 6), []byte{1}, fill(0, 1801)),
			"joinsplits at byte 10: 1 elements of at least 1802 bytes do not fit into the 1801 bytes left"},
		{"v2 JoinSplit signature cut", cat(le32(2), fill(0, 6), []byte{1}, fill(0, 1802+95)),
			"joinsplit key and signature at byte 1813: 96 bytes needed, 95 left"},

		{"v4 value balance cut", cat(v4Start(), fill(0, 17)), "sapling value balance at byte 18: 8 bytes needed, 7 left"},
		{"v4 2^62 spends", cat(v4Start(), fill(0, 18), size9(1<<62)),
			"sapling spends at byte 26: 4611686018427387904 elements of at least 384 bytes do not fit into the 0 bytes left"},
		{"v4 outputs cut", cat(v4Start(), fill(0, 19), []byte{1}, fill(0, 947)),
			"sapling outputs at byte 27: 1 elements of at least 948 bytes do not fit into the 947 bytes left"},
		{"v4 binding signature cut", cat(v4Start(), fill(0, 19), []byte{1}, fill(0, 948), []byte{0}, fill(0, 63)),
			"sapling binding signature at byte 977: 64 bytes needed, 63 left"},
		{"v4 binding signature without anything to sign", cat(v4Start(), fill(0, 21), fill(0, 64)), "transaction at byte 29: 64 bytes too many"},

		{"v5 branch id cut", v5Start()[:11], "consensus branch id at byte 8: 4 bytes needed, 3 left"},
		{"v5 lock time cut", v5Start()[:15], "lock time at byte 12: 4 bytes needed, 3 left"},
		{"v5 expiry height cut", v5Start()[:19], "expiry height at byte 16: 4 bytes needed, 3 left"},
		{"v5 spends", cat(v5Start(), []byte{0, 0, 2}, fill(0, 191)),
			"sapling spends at byte 22: 2 elements of at least 96 bytes do not fit into the 191 bytes left"},
		{"v5 outputs", cat(v5Start(), []byte{0, 0, 0, 1}, fill(0, 755)),
			"sapling outputs at byte 23: 1 elements of at least 756 bytes do not fit into the 755 bytes left"},
		{"v5 balance cut", cat(v5Start(), []byte{0, 0, 1}, fill(0, 96), []byte{0}, fill(0, 7)),
			"sapling value balance at byte 120: 8 bytes needed, 7 left"},
		{"v5 anchor cut", cat(v5Start(), []byte{0, 0, 1}, fill(0, 96), []byte{0}, fill(0, 8+31)), "sapling anchor at byte 128: 32 bytes needed, 31 left"},
		{"v5 spend proofs cut", cat(v5Start(), []byte{0, 0, 1}, fill(0, 96), []byte{0}, fill(0, 8+32+191)),
			"sapling spend proofs at byte 160: 192 bytes needed, 191 left"},
		{"v5 spend signatures cut", cat(v5Start(), []byte{0, 0, 1}, fill(0, 96), []byte{0}, fill(0, 8+32+192+63)),
			"sapling spend signatures at byte 352: 64 bytes needed, 63 left"},
		{"v5 output proofs cut", cat(v5Start(), []byte{0, 0, 0, 1}, fill(0, 756+8+191)), "sapling output proofs at byte 788: 192 bytes needed, 191 left"},
		{"v5 binding signature cut", cat(v5Start(), []byte{0, 0, 0, 1}, fill(0, 756+8+192+63)),
			"sapling binding signature at byte 980: 64 bytes needed, 63 left"},
		{"v5 2^63-1 actions", cat(v5Start(), []byte{0, 0, 0, 0}, size9(math.MaxInt64)),
			"orchard actions at byte 24: 9223372036854775807 elements of at least 820 bytes do not fit into the 0 bytes left"},
		{"v5 bundle cut", cat(v5Start(), []byte{0, 0, 0, 0, 1}, fill(0, 820+40)), "orchard bundle at byte 845: 41 bytes needed, 40 left"},
		{"v5 proof too long", cat(v5Start(), []byte{0, 0, 0, 0, 1}, fill(0, 820+41), size9(1<<63), fill(0, 9)),
			"orchard bundle at byte 886: 9223372036854775808 bytes needed, 9 left"},
		{"v5 action signatures cut", cat(v5Start(), []byte{0, 0, 0, 0, 1}, fill(0, 820+41), []byte{0}, fill(0, 63)),
			"orchard bundle at byte 887: 64 bytes needed, 63 left"},
		{"v5 bundle signature cut", cat(v5Start(), []byte{0, 0, 0, 0, 1}, fill(0, 820+41), []byte{0}, fill(0, 64+63)),
			"orchard bundle at byte 951: 64 bytes needed, 63 left"},
		{"v5 with an Ironwood count", cat(v5Start(), fill(0, 6)), "transaction at byte 25: 1 bytes too many"},
		{"v6 without one", cat(v6Start(), fill(0, 5)), "ironwood actions at byte 25: 1 bytes needed, 0 left"},
		{"v6 bundle cut", cat(v6Start(), fill(0, 5), handBundle(1)[:2000]),
			"ironwood bundle at byte 887: 4992 bytes needed, 1135 left"},

		{"longer than a block", make([]byte, chain.MaxBlockSize+1),
			"transaction at byte 0: 2000001 bytes are more than the 2000000 that a block may have"},
	}
	e := chain.NewEncoder(chain.EncoderOptions{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := e.Transaction(tt.raw)
			if err == nil || err.Error() != tt.want {
				t.Fatalf("error %v\nwant  %s", err, tt.want)
			}
			var parse *chain.ParseError
			if !errors.As(err, &parse) {
				t.Errorf("%v is a %T", err, err)
			}
		})
	}
}

func TestUnknownVersionIsNamed(t *testing.T) {
	t.Parallel()
	e := chain.NewEncoder(chain.EncoderOptions{})
	for _, raw := range [][]byte{fill(0, 10), cat(le32(overwintered|7), fill(1, 30))} {
		if _, err := e.Transaction(raw); !errors.Is(err, chain.ErrUnknownVersion) {
			t.Errorf("%v is not ErrUnknownVersion", err)
		}
	}
	if _, err := e.Transaction(nil); err == nil || errors.Is(err, chain.ErrUnknownVersion) {
		t.Errorf("%v is ErrUnknownVersion", err)
	}
}

// TestSmallestV6 is a version 6 transaction under its final and under a placeholder group id.
func TestSmallestV6(t *testing.T) {
	t.Parallel()
	raw := cat(v6Start(), fill(0, 6))
	placeholder := bytes.Clone(raw)
	copy(placeholder[4:], fill(0xff, 4))
	final, vectors := chain.NewEncoder(chain.EncoderOptions{}), chain.NewEncoder(chain.EncoderOptions{V6GroupID: 0xffffffff})
	for _, tt := range []struct {
		e   *chain.Encoder
		raw []byte
		ok  bool
	}{{final, raw, true}, {final, placeholder, false}, {vectors, raw, false}, {vectors, placeholder, true}} {
		if _, err := tt.e.Transaction(tt.raw); (err == nil) != tt.ok {
			t.Errorf("group id %x: error %v", tt.raw[4:8], err)
		}
	}
}

// TestTransactionsAreIndependent: a Transaction stays what it was when its Encoder goes on.
func TestTransactionsAreIndependent(t *testing.T) {
	t.Parallel()
	e := chain.NewEncoder(chain.EncoderOptions{})
	first, err := e.Transaction(chaintest.Tx{Version: 6, Outputs: 2, Orchard: 1, Seed: 1}.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	before := first.AppendCompactTx(nil, 3, chain.Projection{Pools: chain.AllPools})
	if _, err := e.Transaction(chaintest.Tx{Version: 4, Outputs: 1, Spends: 2, Seed: 2}.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if after := first.AppendCompactTx(nil, 3, chain.Projection{Pools: chain.AllPools}); !bytes.Equal(before, after) {
		t.Errorf("the first transaction changed from %x to %x", before, after)
	}
}
