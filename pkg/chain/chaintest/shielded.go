package chaintest

import "encoding/binary"

// Lengths of serialized parts, in bytes.
const (
	spendV4  = 4*32 + 192 + 64 // value commitment, anchor, nullifier, key, proof, signature
	spendV5  = 3 * 32          // value commitment, nullifier, key
	outputV5 = 3*32 + 580 + 80 // value commitment, note commitment, ephemeral key, two ciphertexts
	outputV4 = outputV5 + 192  // and the proof
	action   = 5*32 + 580 + 80 // value commitment, nullifier, key, note commitment, ephemeral key, two ciphertexts
)

// each calls repair with every part of the last n bytes, which are parts of the same size, if they are to be valid.
func (w *writer) each(n, size int, repair func(part []byte)) {
	if w.points == nil {
		return
	}
	for part := w.buf[len(w.buf)-n*size:]; len(part) > 0; part = part[size:] {
		repair(part[:size])
	}
}

func (w *writer) jubjub(dst []byte) { copy(dst, w.points.jubjub[w.rng.next()%pointCount][:]) }
func (w *writer) pallas(dst []byte) { copy(dst, w.points.pallas[w.rng.next()%pointCount][:]) }

// element makes 32 random bytes a number below 2^254: an element of each of the fields in their one form.
func element(b []byte) { b[31] &= 0x3f }

// balance makes 8 random bytes the value that goes into or out of a bundle: less than a coin.
func (w *writer) balance(b []byte) { binary.LittleEndian.PutUint64(b, w.rng.next()>>38) }

// output repairs a Sapling output of either format.
func (w *writer) output(part []byte) {
	w.jubjub(part)
	element(part[32:64])
	w.jubjub(part[64:])
}

func (w *writer) saplingV4(t Tx) {
	w.random(8)
	w.each(1, 8, func(part []byte) {
		if clear(part); t.Spends+t.SaplingOutputs > 0 {
			w.balance(part)
		}
	})
	w.compactSize(t.Spends)
	w.random(t.Spends * spendV4)
	w.each(t.Spends, spendV4, func(part []byte) {
		w.jubjub(part)
		element(part[32:64])
		w.jubjub(part[96:])
	})
	w.compactSize(t.SaplingOutputs)
	w.random(t.SaplingOutputs * outputV4)
	w.each(t.SaplingOutputs, outputV4, w.output)
	w.joinSplits(t.JoinSplits, 1698)
	if t.Spends+t.SaplingOutputs > 0 {
		w.random(64)
	}
}

func (w *writer) saplingV5(t Tx) {
	w.compactSize(t.Spends)
	w.random(t.Spends * spendV5)
	w.each(t.Spends, spendV5, func(part []byte) {
		w.jubjub(part)
		w.jubjub(part[64:])
	})
	w.compactSize(t.SaplingOutputs)
	w.random(t.SaplingOutputs * outputV5)
	w.each(t.SaplingOutputs, outputV5, w.output)
	if t.Spends+t.SaplingOutputs == 0 {
		return
	}
	w.random(8)
	w.each(1, 8, w.balance)
	if t.Spends > 0 {
		w.random(32)
		w.each(1, 32, element)
	}
	w.random(t.Spends*(192+64) + t.SaplingOutputs*192 + 64)
}

// actions writes an Orchard or Ironwood bundle.
func (w *writer) actions(n int) {
	w.compactSize(n)
	if n == 0 {
		return
	}
	w.random(n * action)
	w.each(n, action, func(part []byte) {
		w.pallas(part)
		element(part[32:64])
		w.pallas(part[64:])
		element(part[96:128])
		w.pallas(part[128:])
	})
	w.buf = append(w.buf, 3) // spends and outputs enabled
	w.random(8 + 32)
	w.each(1, 8+32, func(part []byte) {
		w.balance(part)
		element(part[8:])
	})
	proof := 2720 + 2272*n
	w.compactSize(proof)
	w.random(proof + n*64 + 64)
}
