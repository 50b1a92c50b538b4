package longchain

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"hash"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// The transactions of the spam: so many different ones of 99 kB, and so many of them in a block.
const (
	spamCount   = 64
	spamSpends  = 10
	spamOutputs = 100
	spamLeast   = 10
	spamMost    = 19
)

// stampSize is the second half of a binding signature, in which the copies of one transaction differ.
const stampSize = 32

// stamped is a version 4 transaction, up to its last bytes, which are the stamp.
type stamped struct {
	raw  []byte
	half []byte // the state of its hash before the last bytes of raw
	rest []byte // these bytes
}

func newStamped(t chaintest.Tx) stamped {
	raw := t.Append(nil)
	raw = raw[:len(raw)-stampSize]
	cut := len(raw) - len(raw)%sha256.BlockSize
	h := sha256.New()
	h.Write(raw[:cut])
	half, _ := h.(encoding.BinaryMarshaler).MarshalBinary() // never fails, as crypto/sha256 documents
	return stamped{raw, half, raw[cut:]}
}

// builder builds blocks, and keeps its working memory from one to the next. It is not for concurrent use.
type builder struct {
	*recipe
	encoder *chain.Encoder
	sum     hash.Hash

	planned []chaintest.Tx
	buf     []byte // behind parts
	parts   [][]byte
	ids     []chain.TxID // of the last block
	leaves  []chain.TxID
	stamps  [][stampSize]byte
	added   chain.TreeSizes // by the last block
	size    int             // of the last block, in bytes
	dense   bool            // whether the last block is one of the spam
}

func newBuilder(r *recipe) *builder {
	return &builder{recipe: r, encoder: chain.NewEncoder(chain.EncoderOptions{}), sum: sha256.New(), stamps: make([][stampSize]byte, spamMost)}
}

// block appends a block.
func (b *builder) block(dst []byte, h chain.Height, prev chain.Hash, branch uint64) []byte {
	dst = b.header(dst, h, prev, branch)
	dst = chaintest.AppendCompactSize(dst, len(b.ids))
	for _, part := range b.parts {
		dst = append(dst, part...)
	}
	return dst
}

// header appends a block's header.
func (b *builder) header(dst []byte, h chain.Height, prev chain.Hash, branch uint64) []byte {
	p := b.plan(b.planned, h, branch)
	b.planned, b.added, b.dense = p.txs, p.added(), p.spam > 0
	b.buf, b.parts, b.ids = b.buf[:0], b.parts[:0], b.ids[:0]
	if h == 0 {
		b.transaction(1, appendGenesisCoinbase(b.buf))
	}
	for _, t := range p.txs {
		start := len(b.buf)
		b.buf = t.Append(b.buf)
		b.transaction(t.Version, b.buf[start:])
	}
	for i := range p.spam {
		b.stamp(&b.spams[(p.first+i)%spamCount], i, h, branch)
	}
	b.size = chaintest.HeaderSize + len(chaintest.AppendCompactSize(nil, len(b.ids)))
	for _, part := range b.parts {
		b.size += len(part)
	}
	b.leaves = append(b.leaves[:0], b.ids...)
	start := len(dst)
	dst = chaintest.AppendHeader(dst, prev, b.time(h), p.seed, b.leaves)
	commitments := dst[start+68 : start+100]
	if commitments[31] &= 0x3f; h == b.heartwood { // below that it is a tree's root: a field element
		clear(commitments)
	}
	return dst
}

// transaction adds a transaction that was built.
func (b *builder) transaction(version uint32, raw []byte) {
	b.parts = append(b.parts, raw)
	if version < 5 {
		once := sha256.Sum256(raw)
		b.ids = append(b.ids, sha256.Sum256(once[:]))
		return
	}
	tx, err := b.encoder.Transaction(raw)
	if err != nil {
		// Tx.Append and the parser disagree about a format: a bug in one of the two, which no caller can do anything about.
		panic(err)
	}
	b.ids = append(b.ids, tx.ID)
}

// stamp adds a copy of s, the nth of its block.
func (b *builder) stamp(s *stamped, nth int, h chain.Height, branch uint64) {
	stamp := b.stamps[nth][:]
	binary.LittleEndian.PutUint64(stamp, uint64(h))
	binary.LittleEndian.PutUint64(stamp[8:], branch)
	b.parts = append(b.parts, s.raw, stamp)
	_ = b.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(s.half) // fails on states that are no SHA-256's only
	b.sum.Write(s.rest)
	b.sum.Write(stamp)
	once := [sha256.Size]byte{}
	b.sum.Sum(once[:0])
	b.ids = append(b.ids, sha256.Sum256(once[:]))
}

// appendGenesisCoinbase appends the one transaction whose coinbase does not name a height. Its script is the same in all networks of Zcash.
func appendGenesisCoinbase(dst []byte) []byte {
	const script = "\x04\xff\xff\x07\x1f\x01\x04\x45Zcash0b9c4eef8b7cc417ee5001e3500984b6fea35683a7cac141a043c42064835d34"
	dst = append(dst, 1, 0, 0, 0, 1)                             // version, inputs
	dst = append(dst, make([]byte, 32)...)                       // no output is spent
	dst = append(dst, 0xff, 0xff, 0xff, 0xff, byte(len(script))) // nor has it an index
	dst = append(append(dst, script...), 0xff, 0xff, 0xff, 0xff) // sequence
	dst = append(dst, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x6a)        // one output of nothing that nobody can spend
	return append(dst, 0, 0, 0, 0)                               // lock time
}
