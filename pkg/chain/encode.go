package chain

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxBlockSize is the most bytes a serialized block has by consensus, and so the most a transaction can have.
const MaxBlockSize = 2_000_000

// Offsets and lengths in a serialized block's header, in bytes.
const (
	prevAt        = 4
	merkleRootAt  = 36
	timeAt        = 100
	fixedHeader   = 140 // before the solution
	solutionLen   = 1344
	solutionShort = 36 // regtest
)

// EncoderOptions adapt an Encoder to a network. The zero value is for the real ones.
type EncoderOptions struct {
	// V6GroupID replaces the version group id of version 6 transactions, 0xD884B698, when not 0: test vectors carry a placeholder.
	V6GroupID uint32
}

// Encoder parses blocks and transactions. It keeps its working memory from call to call, so that none is allocated for most blocks.
// It is not for concurrent use: every worker makes its own.
type Encoder struct {
	v6     uint32 // version group id of version 6
	hasher hasher
	txids  []byte // of the block, side by side; then the inner nodes of its Merkle tree
}

// NewEncoder returns an Encoder.
func NewEncoder(o EncoderOptions) *Encoder {
	e := &Encoder{v6: groupV6, hasher: newHasher()}
	if o.V6GroupID != 0 {
		e.v6 = o.V6GroupID
	}
	return e
}

// Encode parses raw, the serialized block that is at height h, and fills b. It computes the block hash and all txids, checks the
// Merkle root, and reuses the capacity of b.Shielded and b.Transparent; nothing in b aliases raw. Whether b is the block that belongs
// at h is for the caller to check (CheckLink). After an error, the content of b means nothing.
//
// Errors name the height. They wrap ErrMerkleRoot, ErrUnknownVersion or, for all malformed bytes, a *ParseError whose offset counts
// from the start of the block.
func (e *Encoder) Encode(b *Block, h Height, raw []byte) error {
	r := reader{buf: raw}
	if err := e.encode(b, h, &r); err != nil {
		return fmt.Errorf("block %d: %w", h, err)
	}
	return nil
}

func (e *Encoder) encode(b *Block, h Height, r *reader) error {
	r.limit("block")
	root := r.blockHeader(b, h)
	b.RawSize = len(r.buf)
	b.TxCount = r.count(minTransactionLen, "transactions")
	if b.TxCount == 0 {
		r.fail("transactions", r.pos-1, errors.New("there are none"))
	}
	if r.err != nil {
		return r.err
	}
	b.Added = TreeSizes{}
	b.Shielded = appendBlockHeader(b.Shielded[:0], b)
	b.Transparent = b.Transparent[:0]
	e.txids = e.txids[:0]
	var tx Transaction
	for i := range b.TxCount {
		r.transaction(&tx, e.v6)
		if r.err != nil {
			return fmt.Errorf("transaction %d: %w", i, r.err)
		}
		tx.ID = e.hasher.txid(&tx)
		e.txids = append(e.txids, tx.ID[:]...)
		if tx.Visible(DefaultProjection) {
			b.Shielded = tx.appendField(b.Shielded, i, DefaultProjection)
		}
		b.Transparent = tx.appendField(b.Transparent, i, columnProjection)
		b.Added.Sapling += uint32(tx.SaplingOutputs)
		b.Added.Orchard += uint32(tx.OrchardActions)
		b.Added.Ironwood += uint32(tx.IronwoodActions)
	}
	if r.end(len(r.buf), "block"); r.err != nil {
		return r.err
	}
	return checkMerkleRoot(e.txids, root)
}

// Transaction parses one serialized transaction, which must take up all of raw, and computes its id. The Transaction keeps views into
// raw and is valid as long as raw does not change; the next call of Transaction or Encode does not touch it.
// The error is a *ParseError, which may wrap ErrUnknownVersion.
func (e *Encoder) Transaction(raw []byte) (Transaction, error) {
	r := reader{buf: raw}
	r.limit("transaction")
	var tx Transaction
	r.transaction(&tx, e.v6)
	r.end(len(r.buf), "transaction")
	if r.err != nil {
		return Transaction{}, r.err
	}
	tx.ID = e.hasher.txid(&tx)
	return tx, nil
}

// limit refuses input that is longer than a block can be.
func (r *reader) limit(what string) {
	if len(r.buf) > MaxBlockSize {
		r.fail(what, 0, fmt.Errorf("%d bytes are more than the %d that a block may have", len(r.buf), MaxBlockSize))
	}
}

// blockHeader reads the header into b and returns the Merkle root.
func (r *reader) blockHeader(b *Block, h Height) (root [32]byte) {
	fixed := r.take(fixedHeader, "block header")
	at := r.pos
	n := r.compactSize("solution")
	if n != solutionLen && n != solutionShort {
		r.fail("solution", at, fmt.Errorf("it has %d bytes, not %d or %d", n, solutionLen, solutionShort))
		return root
	}
	r.take(int(n), "solution")
	if r.err != nil {
		return root
	}
	b.ID = BlockID{Height: h, Hash: sha256d(r.buf[:r.pos])}
	b.Prev = Hash(fixed[prevAt:])
	b.Time = binary.LittleEndian.Uint32(fixed[timeAt:])
	return [32]byte(fixed[merkleRootAt:])
}
