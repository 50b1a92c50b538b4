package chain_test

import (
	"bytes"
	"encoding/binary"
)

// Pieces of serialized transactions, put together by hand, so that the tests do not trust chaintest alone.

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// fill is n equal bytes.
func fill(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

func le32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

func le64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// size9 is a CompactSize in its longest form.
func size9(n uint64) []byte { return append([]byte{0xff}, le64(n)...) }

const overwintered = 1 << 31

// v5Start is a version 5 transaction up to its inputs, with version group id, branch id, lock time and expiry height.
func v5Start() []byte { return cat(le32(overwintered|5), le32(0x26A7270A), fill(0xbb, 4), fill(0, 8)) }

func v6Start() []byte { return cat(le32(overwintered|6), le32(0xD884B698), fill(0xbb, 4), fill(0, 8)) }

func v4Start() []byte { return cat(le32(overwintered|4), le32(0x892F2085)) }

// handAction is an Orchard or Ironwood action, as long as its parts say, with fields of bytes that count up from base.
func handAction(base byte) []byte {
	return cat(fill(base, 32), fill(base+1, 32), fill(base+2, 32), fill(base+3, 32), fill(base+4, 32), // cv, nf, rk, cmx, epk
		fill(base+5, 52), fill(base+6, 512), fill(base+7, 16), fill(base+8, 80)) // enc in three parts, out
}

// wantAction is what a compact block shows of handAction.
func wantAction(base byte) action {
	return action{Nullifier: fill(base+1, 32), Cmx: fill(base+3, 32), EphemeralKey: fill(base+4, 32), Ciphertext: fill(base+5, 52)}
}

// handOutput is a Sapling output up to its proof.
func handOutput(base byte) []byte {
	return cat(fill(base, 32), fill(base+1, 32), fill(base+2, 32), // cv, cmu, epk
		fill(base+3, 52), fill(base+4, 512), fill(base+5, 16), fill(base+6, 80)) // enc in three parts, out
}

func wantOutput(base byte) saplingOutput {
	return saplingOutput{Cmu: fill(base+1, 32), EphemeralKey: fill(base+2, 32), Ciphertext: fill(base+3, 52)}
}

// handBundle is an action bundle of one action.
func handBundle(base byte) []byte {
	return cat([]byte{1}, handAction(base), fill(3, 1), fill(0, 8), fill(0xaa, 32), // flags, balance, anchor
		[]byte{0xfd}, []byte{4992 & 0xff, 4992 >> 8}, fill(0xcc, 4992), fill(0xdd, 64), fill(0xee, 64)) // proof, signatures
}

// compactSize is a CompactSize of any number from 2^16 up, in its canonical form.
func compactSize(n uint64) []byte {
	if n < 1<<32 {
		return append([]byte{0xfe}, le32(uint32(n))...)
	}
	return size9(n)
}
