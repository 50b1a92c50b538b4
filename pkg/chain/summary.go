package chain

import (
	"fmt"
	"math"
)

// Summary is what a stored CompactBlock message says of its block.
type Summary struct {
	ID      BlockID
	Prev    Hash
	Time    uint32
	Sizes   TreeSizes // at the end of the block
	TxCount int       // transactions in the message; the block may have more
}

// Summarize reads a complete CompactBlock message as it is stored, without looking into its transactions.
// The error is a *ParseError naming the offset in message.
func Summarize(message []byte) (Summary, error) {
	var s Summary
	r := reader{buf: message}
	r.summaryHeader(&s)
	for r.at(len(message), tagTx) {
		r.pos++
		end := r.length("transaction")
		r.take(end-r.pos, "transaction")
		s.TxCount++
	}
	r.metadata(&s.Sizes)
	if r.err != nil {
		return Summary{}, r.err
	}
	return s, nil
}

// summaryHeader reads the fields of a CompactBlock before its transactions.
func (r *reader) summaryHeader(s *Summary) {
	s.ID.Height = Height(r.number(len(r.buf), tagHeight, "height"))
	copy(s.ID.Hash[:], r.bytes32(tagHash, "block hash"))
	copy(s.Prev[:], r.bytes32(tagPrev, "parent hash"))
	s.Time = r.number(len(r.buf), tagTime, "time")
}

// metadata reads the last field of a CompactBlock.
func (r *reader) metadata(s *TreeSizes) {
	r.expect("chain metadata", tagMetadata)
	end := r.length("chain metadata")
	s.Sapling = r.number(end, tagSaplingSize, "sapling tree size")
	s.Orchard = r.number(end, tagOrchardSize, "orchard tree size")
	s.Ironwood = r.number(end, tagIronwoodSize, "ironwood tree size")
	r.end(end, "chain metadata")
	r.end(len(r.buf), "compact block")
}

// number reads a 32-bit number field, which is left out when it is zero.
func (r *reader) number(end int, tag byte, what string) uint32 {
	if !r.at(end, tag) {
		return 0
	}
	r.pos++
	at := r.pos
	n := r.varint(what)
	if n > math.MaxUint32 {
		r.fail(what, at, fmt.Errorf("%d does not fit into 32 bits", n))
	}
	return uint32(n)
}
