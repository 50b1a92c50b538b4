package chaintest

import (
	"crypto/sha256"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// NU7 is the consensus branch id in version 5 and 6 transactions of the blocks below. Nothing but the txids depends on it.
const NU7 = 0x77190ad9

// Upgrades returns every upgrade that zebrad 7.0.0 lists, all of them early: up to Canopy at height 1, the others at height 2.
func Upgrades() []chain.Upgrade {
	return []chain.Upgrade{
		{Name: "Overwinter", BranchID: 0x5ba81b19, Height: 1},
		{Name: "Sapling", BranchID: 0x76b809bb, Height: 1},
		{Name: "Blossom", BranchID: 0x2bb40e60, Height: 1},
		{Name: "Heartwood", BranchID: 0xf5b9230b, Height: 1},
		{Name: "Canopy", BranchID: 0xe9ff75a6, Height: 1},
		{Name: "NU5", BranchID: 0xc2d6d0b4, Height: 2},
		{Name: "NU6", BranchID: 0xc8e71055, Height: 2},
		{Name: "NU6.1", BranchID: 0x4dec4df0, Height: 2},
		{Name: "NU6.2", BranchID: 0x5437f330, Height: 2},
		{Name: "NU6.3", BranchID: 0x37a5165b, Height: 2},
		{Name: "NU7", BranchID: NU7, Height: 2},
	}
}

// Builder builds blocks, and keeps its working memory from one to the next. It is not for concurrent use.
type Builder struct {
	encoder *chain.Encoder
	txs     [][]byte
	buf     []byte // behind txs
	ids     []chain.TxID
}

// NewBuilder returns a Builder.
func NewBuilder() *Builder { return &Builder{encoder: chain.NewEncoder(chain.EncoderOptions{})} }

// Block appends the serialized block that has the given transactions, the coinbase first, and a solution of 1344 random bytes.
// The error names the transaction that does not parse.
func (b *Builder) Block(dst []byte, prev chain.Hash, time uint32, seed uint64, txs ...[]byte) ([]byte, error) {
	b.ids = b.ids[:0]
	for i, raw := range txs {
		tx, err := b.encoder.Transaction(raw)
		if err != nil {
			return dst, fmt.Errorf("build a block: transaction %d: %w", i, err)
		}
		b.ids = append(b.ids, tx.ID)
	}
	dst = AppendCompactSize(AppendHeader(dst, prev, time, seed, b.ids), len(txs))
	for _, raw := range txs {
		dst = append(dst, raw...)
	}
	return dst, nil
}

// AppendHeader appends the header of HeaderSize bytes of a block that has the transactions with these ids, the coinbase's first; it
// overwrites ids. All but the parent, the Merkle root and the time follows from the seed.
func AppendHeader(dst []byte, prev chain.Hash, time uint32, seed uint64, ids []chain.TxID) []byte {
	w := writer{buf: dst, rng: source(seed)}
	w.uint32(4) // version
	w.buf = append(w.buf, prev[:]...)
	root := merkleRoot(ids)
	w.buf = append(w.buf, root[:]...)
	w.random(32) // commitments
	w.uint32(time)
	w.uint32(0x2007ffff)
	w.random(32) // nonce
	w.compactSize(1344)
	w.random(1344)
	return w.buf
}

// AppendCompactSize appends a count in its one canonical form.
func AppendCompactSize(dst []byte, n int) []byte {
	w := writer{buf: dst}
	w.compactSize(n)
	return w.buf
}

// merkleRoot overwrites ids.
func merkleRoot(ids []chain.TxID) chain.TxID {
	if len(ids) == 0 {
		return chain.TxID{}
	}
	for n := len(ids); n > 1; n = (n + 1) / 2 {
		for i := 0; i < n; i += 2 {
			left, right := ids[i], ids[min(i+1, n-1)]
			once := sha256.Sum256(append(left[:], right[:]...))
			ids[i/2] = sha256.Sum256(once[:])
		}
	}
	return ids[0]
}

// HeaderSize is the size of the headers of the blocks here, whose solutions have 1344 bytes.
const HeaderSize = 140 + 3 + 1344

// BlockHash is the hash of a serialized block with a solution of 1344 bytes.
func BlockHash(block []byte) chain.Hash {
	once := sha256.Sum256(block[:HeaderSize])
	return sha256.Sum256(once[:])
}

// BlockTime is the time of the named kinds' blocks: one every 25 seconds.
func BlockTime(h chain.Height) uint32 { return 1_700_000_000 + 25*uint32(h) }

// add appends a transaction to the next block.
func (b *Builder) add(t Tx) {
	start := len(b.buf)
	b.buf = t.Append(b.buf)
	b.txs = append(b.txs, b.buf[start:])
}

// begin starts a block, whose random parts follow from the returned source.
func (b *Builder) begin(h chain.Height, seed uint64) source {
	b.txs, b.buf = b.txs[:0], b.buf[:0]
	rng := source(seed ^ uint64(h)<<32)
	return source(rng.next())
}

// end appends the block of what was added since begin.
func (b *Builder) end(dst []byte, h chain.Height, prev chain.Hash, rng source) []byte {
	block, err := b.Block(dst, prev, BlockTime(h), rng.next(), b.txs...)
	if err != nil {
		// Tx.Append and the parser disagree about a format: a bug in one of the two, which no caller can do anything about.
		panic(err)
	}
	return block
}

// Small appends a block like nearly all of the test network: a coinbase alone (version 5 or 6), 55 % of them with two outputs and 45 %
// with four. It has some 1.7 kB.
func (b *Builder) Small(dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
	rng := b.begin(h, seed)
	kind := rng.next()
	outputs := 2
	if kind%100 >= 55 {
		outputs = 4
	}
	b.add(Tx{Version: 5 + uint32(kind>>32)%2, BranchID: NU7, Coinbase: true, Height: h, Outputs: outputs, Seed: rng.next()})
	return b.end(dst, h, prev, rng)
}

// DenseV4 appends a block of 550 kB like those of the Sapling spam of 2022: 74 spends and 539 outputs in eleven transactions.
func (b *Builder) DenseV4(dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
	rng := b.begin(h, seed)
	b.add(Tx{Version: 4, Coinbase: true, Height: h, Outputs: 2, Seed: rng.next()})
	for i := range 11 {
		spends := 7
		if i >= 8 {
			spends = 6
		}
		b.add(Tx{Version: 4, Inputs: 5, Outputs: 2, Spends: spends, SaplingOutputs: 49, Seed: rng.next()})
	}
	return b.end(dst, h, prev, rng)
}

// DenseV6 appends a block of 1.07 MB with as many Ironwood actions as NU7 allows, 330 in eleven transactions.
func (b *Builder) DenseV6(dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
	rng := b.begin(h, seed)
	b.add(Tx{Version: 6, BranchID: NU7, Coinbase: true, Height: h, Outputs: 2, Seed: rng.next()})
	for range 11 {
		b.add(Tx{Version: 6, BranchID: NU7, Ironwood: 30, Seed: rng.next()})
	}
	return b.end(dst, h, prev, rng)
}

// Mixed appends a block with transactions of all versions and pools: some with parts in every pool, some in none that compact blocks
// show. The first has Ironwood actions beside transparent outputs.
func (b *Builder) Mixed(dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
	rng := b.begin(h, seed)
	few := func() int { return int(rng.next() % 4) }
	b.add(Tx{Version: 6, BranchID: NU7, Coinbase: true, Height: h, Outputs: 2, Ironwood: 1 + few(), Seed: rng.next()})
	b.add(Tx{Version: 1, Inputs: 1 + few(), Outputs: 1 + few(), Seed: rng.next()})
	b.add(Tx{Version: 2, JoinSplits: 1, Seed: rng.next()})
	b.add(Tx{Version: 3, Inputs: few(), Outputs: few(), JoinSplits: few(), Seed: rng.next()})
	b.add(Tx{Version: 4, Inputs: few(), Outputs: few(), JoinSplits: few(), Spends: few(), SaplingOutputs: few(), Seed: rng.next()})
	b.add(Tx{Version: 5, BranchID: NU7, Inputs: few(), Outputs: few(), Spends: few(), SaplingOutputs: few(), Orchard: few(), Seed: rng.next()})
	b.add(Tx{Version: 6, BranchID: NU7, Inputs: 1, Outputs: 2, EmptyScripts: true, Seed: rng.next()})
	b.add(Tx{Version: 6, BranchID: NU7, Inputs: 1 + few(), Outputs: 1 + few(), Spends: 1 + few(), SaplingOutputs: 1 + few(),
		Orchard: 1 + few(), Ironwood: 1 + few(), Seed: rng.next()})
	return b.end(dst, h, prev, rng)
}

// Small returns a block of Builder.Small.
func Small(h chain.Height, prev chain.Hash, seed uint64) []byte {
	return NewBuilder().Small(nil, h, prev, seed)
}

// DenseV4 returns a block of Builder.DenseV4.
func DenseV4(h chain.Height, prev chain.Hash, seed uint64) []byte {
	return NewBuilder().DenseV4(nil, h, prev, seed)
}

// DenseV6 returns a block of Builder.DenseV6.
func DenseV6(h chain.Height, prev chain.Hash, seed uint64) []byte {
	return NewBuilder().DenseV6(nil, h, prev, seed)
}

// Mixed returns a block of Builder.Mixed.
func Mixed(h chain.Height, prev chain.Hash, seed uint64) []byte {
	return NewBuilder().Mixed(nil, h, prev, seed)
}
