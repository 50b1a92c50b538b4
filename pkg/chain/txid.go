package chain

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"hash"

	"golang.org/x/crypto/blake2b"
)

func sha256d(b []byte) [32]byte {
	once := sha256.Sum256(b)
	return sha256.Sum256(once[:])
}

// digest is BLAKE2b-256 with a personalisation, which golang.org/x/crypto/blake2b has no parameter for. But it restores marshalled
// states, and the personalisation is nothing but 16 bytes xored into the last two words of the initial one (RFC 7693 section 2.8).
type digest struct {
	resumable
	state []byte // marshalled: "b2b", eight big-endian words of state, and more
}

type resumable interface {
	hash.Hash
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// The initial state's last two words, of which the marshalled form has the first at statePersonal.
const (
	iv6           = 0x1f83d9abfb41bd6b
	iv7           = 0x5be0cd19137e2179
	statePersonal = len("b2b") + 6*8
)

func newDigest() digest {
	h, _ := blake2b.New256(nil)           // fails on long keys only
	d := digest{resumable: h.(resumable)} // as blake2b.New documents
	d.state, _ = d.MarshalBinary()        // fails with a key only
	return d
}

// start begins a new digest with 16 bytes of personalisation.
func (d *digest) start(personal string) {
	binary.BigEndian.PutUint64(d.state[statePersonal:], iv6^binary.LittleEndian.Uint64([]byte(personal[:8])))
	binary.BigEndian.PutUint64(d.state[statePersonal+8:], iv7^binary.LittleEndian.Uint64([]byte(personal[8:])))
	_ = d.UnmarshalBinary(d.state) // fails on states of another length or kind only
}

// append appends the digest of input to dst.
func (d *digest) append(dst []byte, personal string, input []byte) []byte {
	d.start(personal)
	d.Write(input)
	return d.Sum(dst)
}

// fold replaces all of stack from byte from by its digest: this is how a node of the ZIP 244 tree follows from its children.
func (d *digest) fold(stack []byte, from int, personal string) []byte {
	return d.append(stack[:from], personal, stack[from:])
}

// hasher computes transaction ids. The three digests are fed side by side, so that each part of a transaction is read once.
type hasher struct {
	a, b, c digest
	stack   []byte // of digests that wait for their parent

	// Digests of absent parts, which nearly every transaction has some of.
	noTransparent, noSapling, noSpends, noOutputs, noOrchard, noOrchardV6, noIronwood []byte
}

func newHasher() hasher {
	h := hasher{a: newDigest(), b: newDigest(), c: newDigest(), stack: make([]byte, 0, 16*32)}
	h.noTransparent = h.a.append(nil, "ZTxIdTranspaHash", nil)
	h.noSapling = h.a.append(nil, "ZTxIdSaplingHash", nil)
	h.noSpends = h.a.append(nil, "ZTxIdSSpendsHash", nil)
	h.noOutputs = h.a.append(nil, "ZTxIdSOutputHash", nil)
	h.noOrchard = h.a.append(nil, "ZTxIdOrchardHash", nil)
	h.noOrchardV6 = h.a.append(nil, "ZTxIdOrchardH_v6", nil)
	h.noIronwood = h.a.append(nil, "ZTxIdIronwd_H_v6", nil)
	return h
}

// txid returns the id of a parsed transaction.
func (h *hasher) txid(tx *Transaction) TxID {
	if !tx.zip225() {
		return sha256d(tx.raw)
	}
	s := h.a.append(h.stack[:0], "ZTxIdHeadersHash", tx.header)
	s = h.transparent(s, tx)
	s = h.sapling(s, tx)
	if tx.Version == 5 {
		s = h.actions(s, &tx.orchard, &actionNames{
			"ZTxIdOrchardHash", "ZTxIdOrcActCHash", "ZTxIdOrcActMHash", "ZTxIdOrcActNHash", 1 + 8 + 32, h.noOrchard})
	} else {
		s = h.actions(s, &tx.orchard, &actionNames{
			"ZTxIdOrchardH_v6", "ZTxIdOrcActCHash", "ZTxIdOrcActMHash", "ZTxIdOrcActNHash", 1 + 8, h.noOrchardV6})
		s = h.actions(s, &tx.ironwood, &actionNames{
			"ZTxIdIronwd_H_v6", "ZTxIdIrnActCH_v6", "ZTxIdIrnActMH_v6", "ZTxIdIrnActNH_v6", 1 + 8, h.noIronwood})
	}
	branch := tx.header[8:12]
	return TxID(h.a.fold(s, 0, "ZcashTxHash_"+string(branch)))
}

// transparent is ZIP 244's T.2.
func (h *hasher) transparent(s []byte, tx *Transaction) []byte {
	if tx.Inputs+tx.Outputs == 0 {
		return append(s, h.noTransparent...)
	}
	from := len(s)
	h.a.start("ZTxIdPrevoutHash")
	h.b.start("ZTxIdSequencHash")
	for r := (reader{buf: tx.vin}); r.pos < len(r.buf); {
		h.a.Write(r.take(36, "prevout"))
		r.script("input script")
		h.b.Write(r.take(4, "sequence"))
	}
	s = h.a.Sum(s)
	s = h.b.Sum(s)
	s = h.a.append(s, "ZTxIdOutputsHash", tx.vout)
	return h.a.fold(s, from, "ZTxIdTranspaHash")
}

// sapling is ZIP 244's T.3. Version 6 moved the anchor into the authorizing digest.
func (h *hasher) sapling(s []byte, tx *Transaction) []byte {
	if tx.SaplingSpends+tx.SaplingOutputs == 0 {
		return append(s, h.noSapling...)
	}
	from := len(s)
	s = h.spends(s, tx)
	s = h.outputs(s, tx)
	s = append(s, tx.saplingBalance...)
	return h.a.fold(s, from, "ZTxIdSaplingHash")
}

func (h *hasher) spends(s []byte, tx *Transaction) []byte {
	if tx.SaplingSpends == 0 {
		return append(s, h.noSpends...)
	}
	from := len(s)
	h.a.start("ZTxIdSSpendCHash")
	if tx.Version == 5 {
		h.b.start("ZTxIdSSpendNHash")
	} else {
		h.b.start("ZTxIdSSpendNH_v6")
	}
	for b := tx.spends; len(b) > 0; b = b[spendV5Len:] {
		cv, nf, rk := b[:32], b[32:64], b[64:96]
		h.a.Write(nf)
		h.b.Write(cv)
		if tx.Version == 5 {
			h.b.Write(tx.saplingAnchor)
		}
		h.b.Write(rk)
	}
	s = h.a.Sum(s)
	s = h.b.Sum(s)
	return h.a.fold(s, from, "ZTxIdSSpendsHash")
}

func (h *hasher) outputs(s []byte, tx *Transaction) []byte {
	if tx.SaplingOutputs == 0 {
		return append(s, h.noOutputs...)
	}
	from := len(s)
	h.a.start("ZTxIdSOutC__Hash")
	h.b.start("ZTxIdSOutM__Hash")
	h.c.start("ZTxIdSOutN__Hash")
	for b := tx.outputs; len(b) > 0; b = b[outputV5Len:] {
		cv, rest := b[:32], b[32:outputV5Len]
		h.a.Write(rest[:compactNoteLen])
		h.b.Write(rest[compactNoteLen : compactNoteLen+memoLen])
		h.c.Write(cv)
		h.c.Write(rest[compactNoteLen+memoLen:])
	}
	s = h.a.Sum(s)
	s = h.b.Sum(s)
	s = h.c.Sum(s)
	return h.a.fold(s, from, "ZTxIdSOutputHash")
}

// Parts of a serialized output or action: commitment, ephemeral key and the first 52 bytes of the note ciphertext stand side by
// side, then comes the encrypted memo; the ciphertext's tag and the outgoing ciphertext are the rest.
const (
	compactNoteLen = 32 + 32 + 52
	memoLen        = 512
)

// actionNames are the personalisations of an action bundle's digests, how much of the bundle's tail goes into its digest, and the
// digest of an absent bundle.
type actionNames struct {
	bundle, compact, memos, rest string
	tail                         int
	absent                       []byte
}

// actions is ZIP 244's T.4, and the two digests of version 6 that look like it.
func (h *hasher) actions(s []byte, bundle *actionBundle, names *actionNames) []byte {
	if len(bundle.actions) == 0 {
		return append(s, names.absent...)
	}
	from := len(s)
	h.a.start(names.compact)
	h.b.start(names.memos)
	h.c.start(names.rest)
	for b := bundle.actions; len(b) > 0; b = b[actionLen:] {
		cv, nf, rk, rest := b[:32], b[32:64], b[64:96], b[96:actionLen]
		h.a.Write(nf)
		h.a.Write(rest[:compactNoteLen])
		h.b.Write(rest[compactNoteLen : compactNoteLen+memoLen])
		h.c.Write(cv)
		h.c.Write(rk)
		h.c.Write(rest[compactNoteLen+memoLen:])
	}
	s = h.a.Sum(s)
	s = h.b.Sum(s)
	s = h.c.Sum(s)
	s = append(s, bundle.tail[:names.tail]...)
	return h.a.fold(s, from, names.bundle)
}
