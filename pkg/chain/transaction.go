package chain

import (
	"encoding/binary"
	"fmt"
)

// Version group ids (ZIP 202, ZIP 243, ZIP 225, and version 6 as NU6.3 shipped it).
const (
	groupV3 = 0x03C48270
	groupV4 = 0x892F2085
	groupV5 = 0x26A7270A
	groupV6 = 0xD884B698
)

// Lengths of serialized parts, in bytes.
const (
	minTransactionLen = 10 // version 1 with nothing in it
	minInputLen       = 41
	minOutputLen      = 9
	headerV5Len       = 20
	joinSplitPHGRLen  = 1802 // versions 2 and 3
	joinSplitLen      = 1698 // version 4
	joinSplitSigLen   = 32 + 64
	spendV4Len        = 384
	spendV5Len        = 96
	outputV4Len       = 948
	outputV5Len       = 756
	actionLen         = 820
	proofLen          = 192
	sigLen            = 64
)

// Transaction is one parsed transaction. Besides the exported fields it holds views into the bytes it was parsed from: it is valid as
// long as those do not change, and copies of it share them.
type Transaction struct {
	ID      TxID
	Version uint32

	// Counts per pool. Inputs contains the null input of a coinbase.
	Inputs, Outputs                 int
	SaplingSpends, SaplingOutputs   int
	OrchardActions, IronwoodActions int

	raw    []byte // all of it
	header []byte // the 20 bytes that ZIP 244 hashes; from version 5

	vin, vout         []byte // without their counts
	vinSize, voutSize int    // of the CompactTx fields 7 and 8

	spends, outputs   []byte // Sapling, without their counts
	saplingBalance    []byte // 8 bytes when there is any spend or output
	saplingAnchor     []byte // version 5 and 6, when there is any spend
	orchard, ironwood actionBundle
}

// actionBundle is the Orchard or Ironwood part of a transaction.
type actionBundle struct {
	actions []byte // without their count
	// flags (1 byte), value balance (8) and anchor (32), when there is any action
	tail []byte
}

// zip225 tells whether the transaction has the layout of versions 5 and 6. The version alone does not: old blocks contain
// transactions from before Overwinter with any number there.
func (tx *Transaction) zip225() bool { return tx.header != nil }

// transaction reads one transaction, all of it but the id. v6 is the version group id of version 6.
func (r *reader) transaction(tx *Transaction, v6 uint32) {
	*tx = Transaction{}
	start := r.pos
	word := r.uint32("transaction version")
	version, group := word&^(1<<31), uint32(0)
	if overwintered := word != version; overwintered {
		group = r.uint32("version group id")
	}
	if r.err != nil {
		return
	}
	tx.Version = version
	switch {
	case word == version && version > 0:
		r.legacy(tx)
	case version == 3 && group == groupV3:
		r.overwinter(tx)
	case version == 4 && group == groupV4:
		r.sapling(tx)
	case version == 5 && group == groupV5, version == 6 && group == v6:
		r.zip225(tx, start)
	case word == version:
		r.fail("transaction version", start, fmt.Errorf("%w %d", ErrUnknownVersion, version))
	default:
		r.fail("transaction version", start, fmt.Errorf("%w %d with version group id %08x", ErrUnknownVersion, version, group))
	}
	if r.err == nil {
		tx.raw = r.buf[start:r.pos]
	}
}

// legacy reads what follows the version of a transaction from before Overwinter. Such blocks contain versions far above 2, which
// all have the layout of version 2, as in zcashd and Zebra.
func (r *reader) legacy(tx *Transaction) {
	r.transparent(tx)
	r.take(4, "lock time")
	if tx.Version >= 2 {
		r.joinSplits(joinSplitPHGRLen)
	}
}

// overwinter reads what follows the version group id in version 3.
func (r *reader) overwinter(tx *Transaction) {
	r.transparent(tx)
	r.take(4, "lock time")
	r.take(4, "expiry height")
	r.joinSplits(joinSplitPHGRLen)
}

// sapling reads what follows the version group id in version 4.
func (r *reader) sapling(tx *Transaction) {
	r.transparent(tx)
	r.take(4, "lock time")
	r.take(4, "expiry height")
	tx.saplingBalance = r.take(8, "sapling value balance")
	tx.SaplingSpends = r.count(spendV4Len, "sapling spends")
	tx.spends = r.take(tx.SaplingSpends*spendV4Len, "sapling spends")
	tx.SaplingOutputs = r.count(outputV4Len, "sapling outputs")
	tx.outputs = r.take(tx.SaplingOutputs*outputV4Len, "sapling outputs")
	r.joinSplits(joinSplitLen)
	if tx.SaplingSpends+tx.SaplingOutputs > 0 {
		r.take(sigLen, "sapling binding signature")
	}
}

// zip225 reads what follows the version group id in versions 5 and 6; the latter has one more bundle.
func (r *reader) zip225(tx *Transaction, start int) {
	r.take(4, "consensus branch id")
	r.take(4, "lock time")
	r.take(4, "expiry height")
	tx.header = r.buf[start:r.pos]
	r.transparent(tx)
	r.saplingV5(tx)
	tx.OrchardActions = r.actions(&tx.orchard, "orchard actions", "orchard bundle")
	if tx.Version == 6 {
		tx.IronwoodActions = r.actions(&tx.ironwood, "ironwood actions", "ironwood bundle")
	}
}

func (r *reader) saplingV5(tx *Transaction) {
	tx.SaplingSpends = r.count(spendV5Len, "sapling spends")
	tx.spends = r.take(tx.SaplingSpends*spendV5Len, "sapling spends")
	tx.SaplingOutputs = r.count(outputV5Len, "sapling outputs")
	tx.outputs = r.take(tx.SaplingOutputs*outputV5Len, "sapling outputs")
	if tx.SaplingSpends+tx.SaplingOutputs == 0 {
		return
	}
	tx.saplingBalance = r.take(8, "sapling value balance")
	if tx.SaplingSpends > 0 {
		tx.saplingAnchor = r.take(32, "sapling anchor")
	}
	r.take(tx.SaplingSpends*proofLen, "sapling spend proofs")
	r.take(tx.SaplingSpends*sigLen, "sapling spend signatures")
	r.take(tx.SaplingOutputs*proofLen, "sapling output proofs")
	r.take(sigLen, "sapling binding signature")
}

// actions reads an Orchard or Ironwood bundle, which share one layout, and returns the number of actions. The length of the proof
// is not checked: old blocks contain others than the formula's.
func (r *reader) actions(b *actionBundle, elements, bundle string) int {
	n := r.count(actionLen, elements)
	if n == 0 {
		return 0
	}
	b.actions = r.take(n*actionLen, elements)
	b.tail = r.take(1+8+32, bundle)
	r.script(bundle)
	r.take(n*sigLen, bundle)
	r.take(sigLen, bundle)
	return n
}

func (r *reader) joinSplits(size int) {
	if n := r.count(size, "joinsplits"); n > 0 {
		r.take(n*size, "joinsplits")
		r.take(joinSplitSigLen, "joinsplit key and signature")
	}
}

// transparent reads inputs and outputs, and adds up how long they become in a CompactTx.
func (r *reader) transparent(tx *Transaction) {
	tx.Inputs = r.count(minInputLen, "transparent inputs")
	start := r.pos
	for range tx.Inputs {
		prevout := r.take(36, "prevout")
		r.script("input script")
		r.take(4, "sequence")
		if r.err != nil {
			return
		}
		tx.vinSize += vinSize(prevout)
	}
	tx.vin = r.buf[start:r.pos]

	tx.Outputs = r.count(minOutputLen, "transparent outputs")
	start = r.pos
	for range tx.Outputs {
		value := r.take(8, "output value")
		script := r.script("output script")
		if r.err != nil {
			return
		}
		tx.voutSize += voutSize(binary.LittleEndian.Uint64(value), len(script))
	}
	tx.vout = r.buf[start:r.pos]
}

// isNull tells whether a prevout is the one of a coinbase.
func isNull(prevout []byte) bool {
	return binary.LittleEndian.Uint32(prevout[32:]) == 1<<32-1 && [32]byte(prevout) == [32]byte{}
}
