package chain

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Tags of the wallet protocol's messages: field number << 3 | wire type, where a varint has type 0, and bytes and messages have 2.
const (
	tagHeight   = 2 << 3 // CompactBlock
	tagHash     = 3<<3 | 2
	tagPrev     = 4<<3 | 2
	tagTime     = 5 << 3
	tagTx       = 7<<3 | 2
	tagMetadata = 8<<3 | 2

	tagSaplingSize  = 1 << 3 // ChainMetadata
	tagOrchardSize  = 2 << 3
	tagIronwoodSize = 3 << 3

	tagIndex    = 1 << 3 // CompactTx
	tagTxID     = 2<<3 | 2
	tagSpend    = 4<<3 | 2
	tagOutput   = 5<<3 | 2
	tagOrchard  = 6<<3 | 2
	tagVin      = 7<<3 | 2
	tagVout     = 8<<3 | 2
	tagIronwood = 9<<3 | 2

	tagBytes1  = 1<<3 | 2 // fields of the smallest messages
	tagBytes2  = 2<<3 | 2
	tagBytes3  = 3<<3 | 2
	tagBytes4  = 4<<3 | 2
	tagNumber1 = 1 << 3
	tagNumber2 = 2 << 3
)

// Lengths of messages that always have the same one, in bytes, and of whole fields: tag, length and message.
const (
	bytes32Len     = 2 + 32
	ciphertextLen  = 52
	spendMessage   = bytes32Len
	spendField     = 2 + spendMessage
	outputMessage  = 2*bytes32Len + 2 + ciphertextLen
	outputField    = 2 + outputMessage
	actionMessage  = 3*bytes32Len + 2 + ciphertextLen // its length takes two bytes
	actionField    = 3 + actionMessage
	nullifierField = 2 + bytes32Len // an action reduced to its nullifier
)

// columnProjection makes the transparent column.
var columnProjection = Projection{Pools: Pools(0).With(Transparent), KeepEmpty: true}

// Visible tells whether the transaction is sent at all under p, which is so when it has any part in one of the pools.
func (tx *Transaction) Visible(p Projection) bool {
	return p.KeepEmpty ||
		p.Pools.Has(Sapling) && tx.SaplingSpends+tx.SaplingOutputs > 0 ||
		p.Pools.Has(Orchard) && tx.OrchardActions > 0 ||
		p.Pools.Has(Ironwood) && tx.IronwoodActions > 0 ||
		p.Pools.Has(Transparent) && tx.vinSize+tx.voutSize > 0
}

// AppendCompactTx appends the wallet protocol's CompactTx message of the transaction, cut by p, without asking whether it is Visible.
// The index is the transaction's position in its block, or 0 in the mempool.
func (tx *Transaction) AppendCompactTx(dst []byte, index int, p Projection) []byte {
	dst = appendNumber(dst, tagIndex, uint64(index))
	dst = appendBytes32(dst, tagTxID, tx.ID[:])
	if p.Pools.Has(Sapling) {
		dst = tx.appendSpends(dst)
		if !p.NullifiersOnly {
			dst = tx.appendOutputs(dst)
		}
	}
	if p.Pools.Has(Orchard) {
		dst = appendActions(dst, tagOrchard, tx.orchard.actions, p.NullifiersOnly)
	}
	if p.Pools.Has(Transparent) && !p.NullifiersOnly {
		dst = tx.appendVin(dst)
		dst = tx.appendVout(dst)
	}
	if p.Pools.Has(Ironwood) {
		dst = appendActions(dst, tagIronwood, tx.ironwood.actions, p.NullifiersOnly)
	}
	return dst
}

// compactSize is the length of what AppendCompactTx appends.
func (tx *Transaction) compactSize(index int, p Projection) int {
	n := numberSize(uint64(index)) + bytes32Len
	action := actionField
	if p.NullifiersOnly {
		action = nullifierField
	}
	if p.Pools.Has(Sapling) {
		n += tx.SaplingSpends * spendField
		if !p.NullifiersOnly {
			n += tx.SaplingOutputs * outputField
		}
	}
	if p.Pools.Has(Orchard) {
		n += tx.OrchardActions * action
	}
	if p.Pools.Has(Ironwood) {
		n += tx.IronwoodActions * action
	}
	if p.Pools.Has(Transparent) && !p.NullifiersOnly {
		n += tx.vinSize + tx.voutSize
	}
	return n
}

// appendField appends the CompactTx as a field of its CompactBlock.
func (tx *Transaction) appendField(dst []byte, index int, p Projection) []byte {
	dst = append(dst, tagTx)
	dst = protowire.AppendVarint(dst, uint64(tx.compactSize(index, p)))
	return tx.AppendCompactTx(dst, index, p)
}

func (tx *Transaction) appendSpends(dst []byte) []byte {
	size, nullifier := spendV4Len, 64
	if tx.zip225() {
		size, nullifier = spendV5Len, 32
	}
	for b := tx.spends; len(b) > 0; b = b[size:] {
		dst = append(dst, tagSpend, spendMessage)
		dst = appendBytes32(dst, tagBytes1, b[nullifier:])
	}
	return dst
}

func (tx *Transaction) appendOutputs(dst []byte) []byte {
	size := outputV4Len
	if tx.zip225() {
		size = outputV5Len
	}
	for b := tx.outputs; len(b) > 0; b = b[size:] {
		dst = append(dst, tagOutput, outputMessage)
		dst = appendBytes32(dst, tagBytes1, b[32:])
		dst = appendBytes32(dst, tagBytes2, b[64:])
		dst = append(dst, tagBytes3, ciphertextLen)
		dst = append(dst, b[96:96+ciphertextLen]...)
	}
	return dst
}

func appendActions(dst []byte, tag byte, actions []byte, nullifiersOnly bool) []byte {
	for b := actions; len(b) > 0; b = b[actionLen:] {
		nullifier := b[32:]
		if nullifiersOnly {
			dst = append(dst, tag, bytes32Len)
			dst = appendBytes32(dst, tagBytes1, nullifier)
			continue
		}
		dst = append(dst, tag, actionMessage&0x7f|0x80, actionMessage>>7)
		dst = appendBytes32(dst, tagBytes1, nullifier)
		dst = appendBytes32(dst, tagBytes2, b[96:])
		dst = appendBytes32(dst, tagBytes3, b[128:])
		dst = append(dst, tagBytes4, ciphertextLen)
		dst = append(dst, b[160:160+ciphertextLen]...)
	}
	return dst
}

// appendVin appends the prevouts of all inputs but the null one of a coinbase.
func (tx *Transaction) appendVin(dst []byte) []byte {
	for r := (reader{buf: tx.vin}); r.pos < len(r.buf); {
		prevout := r.take(36, "prevout")
		r.script("input script")
		r.take(4, "sequence")
		if size := vinSize(prevout); size > 0 {
			dst = append(dst, tagVin, byte(size-2))
			dst = appendBytes32(dst, tagBytes1, prevout)
			dst = appendNumber(dst, tagNumber2, uint64(binary.LittleEndian.Uint32(prevout[32:])))
		}
	}
	return dst
}

// vinSize is the length of an input as a field of CompactTx, its tag included; 0 for a coinbase's null input.
func vinSize(prevout []byte) int {
	if isNull(prevout) {
		return 0
	}
	return 2 + bytes32Len + numberSize(uint64(binary.LittleEndian.Uint32(prevout[32:])))
}

func (tx *Transaction) appendVout(dst []byte) []byte {
	for r := (reader{buf: tx.vout}); r.pos < len(r.buf); {
		value := binary.LittleEndian.Uint64(r.take(8, "output value"))
		script := r.script("output script")
		dst = append(dst, tagVout)
		dst = protowire.AppendVarint(dst, uint64(txOutSize(value, len(script))))
		dst = appendNumber(dst, tagNumber1, value)
		if len(script) > 0 {
			dst = append(dst, tagBytes2)
			dst = protowire.AppendBytes(dst, script)
		}
	}
	return dst
}

// voutSize is the length of an output as a field of CompactTx, its tag included.
func voutSize(value uint64, script int) int { return 1 + protowire.SizeBytes(txOutSize(value, script)) }

// txOutSize is the length of the TxOut message.
func txOutSize(value uint64, script int) int {
	n := numberSize(value)
	if script > 0 {
		n += 1 + protowire.SizeBytes(script)
	}
	return n
}

// appendNumber appends a number field below 16, which proto3 leaves out when it is zero.
func appendNumber(dst []byte, tag byte, n uint64) []byte {
	if n == 0 {
		return dst
	}
	return protowire.AppendVarint(append(dst, tag), n)
}

func numberSize(n uint64) int {
	if n == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(n)
}

// appendBytes32 appends the first 32 bytes of b as a field.
func appendBytes32(dst []byte, tag byte, b []byte) []byte {
	return append(append(dst, tag, 32), b[:32]...)
}

// appendBlockHeader appends the fields of CompactBlock before the transactions. The hash of genesis's parent is 32 zero bytes, which
// are bytes like any others.
func appendBlockHeader(dst []byte, b *Block) []byte {
	dst = appendNumber(dst, tagHeight, uint64(b.ID.Height))
	dst = appendBytes32(dst, tagHash, b.ID.Hash[:])
	dst = appendBytes32(dst, tagPrev, b.Prev[:])
	return appendNumber(dst, tagTime, uint64(b.Time))
}

// appendMetadata appends chainMetadata, the last field of CompactBlock, which is present even when it is empty.
func appendMetadata(dst []byte, s TreeSizes) []byte {
	dst = append(dst, tagMetadata, 0)
	start := len(dst)
	dst = appendNumber(dst, tagSaplingSize, uint64(s.Sapling))
	dst = appendNumber(dst, tagOrchardSize, uint64(s.Orchard))
	dst = appendNumber(dst, tagIronwoodSize, uint64(s.Ironwood))
	dst[start-1] = byte(len(dst) - start)
	return dst
}

// AppendFrame appends one gRPC frame: the prefix, and the CompactBlock message that a Block.Shielded becomes with the sizes of the
// note commitment trees at the end of the block.
func AppendFrame(dst, shielded []byte, sizes TreeSizes) []byte {
	dst, start := beginFrame(dst)
	dst = append(dst, shielded...)
	dst = appendMetadata(dst, sizes)
	return endFrame(dst, start)
}

// beginFrame appends room for a frame's prefix, which endFrame fills in once the message is complete.
func beginFrame(dst []byte) ([]byte, int) {
	return append(dst, make([]byte, FramePrefixLen)...), len(dst)
}

func endFrame(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start+1:], uint32(len(dst)-start-FramePrefixLen))
	return dst
}
