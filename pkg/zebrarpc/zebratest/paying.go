package zebratest

import (
	"encoding/binary"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// What blocks of Paying move, in zatoshis.
const (
	PaidByCoinbase = 7 // each output of a coinbase
	PaidBySpend    = 3 // the one output of a spending transaction
)

// Paying returns a Kind whose every coinbase has outputs outputs of PaidByCoinbase to one address, at least 1 and at most 50,000. From
// height 2 on a second transaction spends the first output of the coinbase below, if that block is of the same kind and branch, and pays
// PaidBySpend to the address.
func Paying(to chain.TransparentAddress, outputs int) Kind {
	return func(b *chaintest.Builder, dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
		txs := [][]byte{payment(h, seed, to, outputs, PaidByCoinbase, nil)}
		if h > 1 {
			below := payment(h-1, seed, to, outputs, PaidByCoinbase, nil)
			spent, _ := chain.NewEncoder(chain.EncoderOptions{}).Transaction(below) // it is well formed
			txs = append(txs, payment(h, seed, to, 1, PaidBySpend, spent.ID[:]))
		}
		dst, _ = b.Block(dst, prev, chaintest.BlockTime(h), seed, txs...) // so are they
		return dst
	}
}

// payment is a version 1 transaction that spends output 0 of the transaction spent, or is a coinbase when spent is nil.
func payment(h chain.Height, seed uint64, to chain.TransparentAddress, outputs int, value byte, spent []byte) []byte {
	tx := []byte{1, 0, 0, 0, 1}
	index := uint32(0)
	if spent == nil {
		spent, index = make([]byte, 32), 0xffffffff
	}
	tx = binary.LittleEndian.AppendUint32(append(tx, spent...), index)
	// A script that makes the transaction differ from all others.
	tx = binary.LittleEndian.AppendUint32(append(tx, 14, 13), uint32(h))
	tx = append(binary.LittleEndian.AppendUint64(tx, seed), value)
	tx = append(tx, 0xff, 0xff, 0xff, 0xff)
	if outputs < 0xfd {
		tx = append(tx, byte(outputs))
	} else {
		tx = binary.LittleEndian.AppendUint16(append(tx, 0xfd), uint16(outputs))
	}
	for range outputs {
		tx = append(tx, value, 0, 0, 0, 0, 0, 0, 0)
		tx = append(tx, scriptOf(to)...)
	}
	return append(tx, 0, 0, 0, 0) // lock time
}

// scriptOf is the output script that pays to an address, with its length.
func scriptOf(a chain.TransparentAddress) []byte {
	if a.Script {
		return append(append([]byte{23, 0xa9, 20}, a.Hash[:]...), 0x87)
	}
	return append(append([]byte{25, 0x76, 0xa9, 20}, a.Hash[:]...), 0x88, 0xac)
}
