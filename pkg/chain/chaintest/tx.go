package chaintest

import (
	"encoding/binary"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Tx says what a transaction contains. Parts that its version has no room for are left out.
type Tx struct {
	// Version is 1 to 6. Versions 3 and later get fOverwintered and their version group id.
	Version uint32
	// GroupID replaces the version group id of version 6 when it is not 0.
	GroupID uint32
	// BranchID is the consensus branch id that versions 5 and 6 carry.
	BranchID uint32

	// Coinbase adds a null input, first, whose script begins with Height (BIP 34).
	Coinbase bool
	Height   chain.Height

	Inputs, Outputs        int  // transparent
	JoinSplits             int  // versions 2 to 4
	Spends, SaplingOutputs int  // versions 4 to 6
	Orchard, Ironwood      int  // actions: versions 5 and 6, and version 6
	EmptyScripts           bool // lets every output have an empty script and the value 0, and every input the output index 0

	// Points, when not nil, make every point, field element and amount a valid encoding, so that strict parsers take the transaction. In
	// versions 2 to 4 no JoinSplits are allowed then.
	Points *Points

	// Seed decides all the rest.
	Seed uint64
}

// Append appends the serialized transaction.
func (t Tx) Append(dst []byte) []byte {
	w := writer{buf: dst, rng: source(t.Seed), points: t.Points}
	word, group := t.header()
	w.uint32(word)
	if group != 0 {
		w.uint32(group)
	}
	if t.Version >= 5 {
		w.uint32(t.BranchID)
		w.uint32(0) // lock time
		w.uint32(uint32(t.Height))
	}
	w.inputs(t)
	w.outputs(t)
	switch t.Version {
	case 1:
		w.uint32(0) // lock time
	case 2:
		w.uint32(0)
		w.joinSplits(t.JoinSplits, 1802)
	case 3:
		w.uint32(0)
		w.uint32(0) // expiry height
		w.joinSplits(t.JoinSplits, 1802)
	case 4:
		w.uint32(0)
		w.uint32(0)
		w.saplingV4(t)
	default:
		w.saplingV5(t)
		w.actions(t.Orchard)
		if t.Version == 6 {
			w.actions(t.Ironwood)
		}
	}
	return w.buf
}

// header returns the first word and the version group id, 0 when there is none.
func (t Tx) header() (word, group uint32) {
	const overwintered = 1 << 31
	switch t.Version {
	case 3:
		return overwintered | 3, 0x03C48270
	case 4:
		return overwintered | 4, 0x892F2085
	case 5:
		return overwintered | 5, 0x26A7270A
	case 6:
		if t.GroupID != 0 {
			return overwintered | 6, t.GroupID
		}
		return overwintered | 6, 0xD884B698
	}
	return t.Version, 0
}

// writer serializes.
type writer struct {
	buf    []byte
	rng    source
	points *Points // nil: random bytes do for everything
}

func (w *writer) uint32(n uint32) { w.buf = binary.LittleEndian.AppendUint32(w.buf, n) }

func (w *writer) random(n int) { w.buf = w.rng.append(w.buf, n) }

// compactSize writes a count in its one canonical form.
func (w *writer) compactSize(n int) {
	switch {
	case n < 0xfd:
		w.buf = append(w.buf, byte(n))
	case n < 1<<16:
		w.buf = binary.LittleEndian.AppendUint16(append(w.buf, 0xfd), uint16(n))
	default:
		w.buf = binary.LittleEndian.AppendUint32(append(w.buf, 0xfe), uint32(n))
	}
}

func (w *writer) inputs(t Tx) {
	if !t.Coinbase {
		w.compactSize(t.Inputs)
	} else {
		w.compactSize(t.Inputs + 1)
		w.buf = append(w.buf, make([]byte, 32)...)
		w.uint32(0xffffffff)
		w.coinbaseScript(t.Height)
		w.uint32(0xffffffff)
	}
	for range t.Inputs {
		w.random(32)
		if t.EmptyScripts {
			w.uint32(0)
		} else {
			w.uint32(uint32(w.rng.next() % 300))
		}
		w.compactSize(107) // a signature and a public key
		w.random(107)
		w.uint32(0xfffffffe)
	}
}

// coinbaseScript writes an input script, with its size, that begins with the shortest push of the block height, as every coinbase but
// that of genesis does, and goes on with an extra nonce.
func (w *writer) coinbaseScript(h chain.Height) {
	at := len(w.buf)
	w.buf = append(w.buf, 0) // the size
	switch {
	case h == 0:
		w.buf = append(w.buf, 0)
	case h <= 16:
		w.buf = append(w.buf, 0x50+byte(h)) // OP_1 to OP_16
	default:
		w.buf = append(w.buf, 0) // the length of what is pushed
		for n := h; n > 0; n >>= 8 {
			w.buf = append(w.buf, byte(n))
		}
		if w.buf[len(w.buf)-1] >= 0x80 {
			w.buf = append(w.buf, 0) // or it would be a negative number
		}
		w.buf[at+1] = byte(len(w.buf) - at - 2)
	}
	w.buf = append(w.buf, 4)
	w.random(4)
	w.buf[at] = byte(len(w.buf) - at - 1)
}

func (w *writer) outputs(t Tx) {
	w.compactSize(t.Outputs)
	for i := range t.Outputs {
		switch {
		case t.EmptyScripts:
			w.buf = append(w.buf, make([]byte, 8+1)...)
		case i%2 == 0: // to a public key's hash
			w.value()
			w.buf = append(w.buf, 25, 0x76, 0xa9, 20)
			w.random(20)
			w.buf = append(w.buf, 0x88, 0xac)
		default: // to a script's hash
			w.value()
			w.buf = append(w.buf, 23, 0xa9, 20)
			w.random(20)
			w.buf = append(w.buf, 0x87)
		}
	}
}

// value writes an amount of up to some 10 ZEC.
func (w *writer) value() { w.buf = binary.LittleEndian.AppendUint64(w.buf, w.rng.next()>>34) }

func (w *writer) joinSplits(n, size int) {
	w.compactSize(n)
	if n > 0 {
		w.random(n*size + 32 + 64)
	}
}
