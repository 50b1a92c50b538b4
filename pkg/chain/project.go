package chain

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Project appends one gRPC frame: the prefix, and what p leaves of message, a complete CompactBlock message as it is stored (invariants
// I2 and I3 of the package). If p.NeedsTransparent, what p takes from the transparent column (Block.Transparent) is merged in;
// otherwise the column is not looked at and may be nil. Project allocates only what dst grows by.
//
// The default projection copies message as it is. Every other reads it, and accepts nothing that the encoder would not have written:
// the error, a *ParseError naming the offset in message or in the column, comes with dst as it was.
func Project(dst, message, transparent []byte, p Projection) ([]byte, error) {
	dst, start := beginFrame(dst)
	if p == DefaultProjection {
		return endFrame(append(dst, message...), start), nil
	}
	j := projector{dst: dst, p: p, stored: reader{buf: message}, column: reader{buf: transparent}}
	if err := j.run(); err != nil {
		return dst[:start], err
	}
	return endFrame(j.dst, start), nil
}

var errNothingShielded = errors.New("a transaction without shielded parts is left out")

var errEmptyField = errors.New("an empty field is left out")

// Inspect reads a stored block as strictly as Project does when all of it is asked for: message is a complete CompactBlock, column the
// transparent column of the same block. It returns what the message says of itself, and counts what the block adds to the note
// commitment trees. The error is a *ParseError naming the offset in message or in the column.
func Inspect(message, column []byte) (s Summary, added TreeSizes, err error) {
	everything := Projection{Pools: AllPools, KeepEmpty: true}
	j := projector{p: everything, stored: reader{buf: message}, column: reader{buf: column}, added: &added}
	if len(column) == 0 {
		j.column.fail("column", 0, errors.New("no transaction where every block has one"))
	}
	if err := j.run(); err != nil {
		return Summary{}, TreeSizes{}, err
	}
	return j.summary, added, nil
}

// projector is one call of Project or Inspect.
type projector struct {
	dst            []byte
	p              Projection
	stored, column reader
	summary        Summary
	tx             compactTx  // the next transaction of stored
	more           bool       // whether there is one
	added          *TreeSizes // of Inspect, which sends nothing and counts notes
}

func (j *projector) run() error {
	s := &j.summary
	j.stored.summaryHeader(s)
	j.dst = append(j.dst, j.stored.buf[:j.stored.pos]...)
	j.next()
	if j.p.NeedsTransparent() {
		j.merge()
	}
	for j.more {
		j.send(&j.tx)
		j.next()
	}
	at := j.stored.pos
	j.stored.metadata(&s.Sizes)
	if j.column.err != nil {
		return fmt.Errorf("transparent column: %w", j.column.err)
	}
	if j.stored.err != nil {
		return j.stored.err
	}
	if j.p.NullifiersOnly {
		j.dst = appendMetadata(j.dst, TreeSizes{})
	} else {
		j.dst = append(j.dst, j.stored.buf[at:]...)
	}
	return nil
}

// next reads the next transaction of the stored message.
func (j *projector) next() {
	first, before := !j.more, j.tx.index
	j.more = j.stored.compactTx(&j.tx, false)
	if j.more && !first && j.tx.index <= before {
		j.stored.fail("transaction", j.tx.at, fmt.Errorf("index %d after index %d", j.tx.index, before))
		j.more = false
	}
	if j.more {
		j.summary.TxCount++
	}
}

// merge sends every transaction of the column, together with what is stored of it.
func (j *projector) merge() {
	var tx compactTx
	for i := uint64(0); j.column.compactTx(&tx, true); i++ {
		switch {
		case tx.index != i:
			j.column.fail("transaction", tx.at, fmt.Errorf("index %d where %d belongs", tx.index, i))
		case j.more && j.tx.index == i && string(j.tx.head) != string(tx.head):
			j.column.fail("transaction", tx.at, fmt.Errorf("its txid differs from the compact block's at index %d", i))
		case j.more && j.tx.index == i:
			tx.spends, tx.outputs, tx.orchard, tx.ironwood = j.tx.spends, j.tx.outputs, j.tx.orchard, j.tx.ironwood
			j.next()
		}
		j.send(&tx)
	}
	j.column.end(len(j.column.buf), "column")
	if j.more {
		j.column.fail("column", j.column.pos, fmt.Errorf("transaction %d of the compact block is missing", j.tx.index))
		j.more = false
	}
}

// send appends what the projection leaves of tx, if anything.
func (j *projector) send(tx *compactTx) {
	if j.added != nil {
		j.added.Sapling += uint32(len(tx.outputs) / outputField)
		j.added.Orchard += uint32(len(tx.orchard) / actionField)
		j.added.Ironwood += uint32(len(tx.ironwood) / actionField)
		return
	}
	if !j.p.Pools.Has(Sapling) {
		tx.spends, tx.outputs = nil, nil
	}
	if !j.p.Pools.Has(Orchard) {
		tx.orchard = nil
	}
	if !j.p.Pools.Has(Ironwood) {
		tx.ironwood = nil
	}
	if !j.p.Pools.Has(Transparent) {
		tx.transparent = nil
	}
	size := len(tx.spends) + len(tx.outputs) + len(tx.orchard) + len(tx.transparent) + len(tx.ironwood)
	if size == 0 && !j.p.KeepEmpty {
		return
	}
	if j.p.NullifiersOnly {
		size = len(tx.spends) + (len(tx.orchard)+len(tx.ironwood))/actionField*nullifierField
	}
	dst := append(j.dst, tagTx)
	dst = protowire.AppendVarint(dst, uint64(len(tx.head)+size))
	dst = append(dst, tx.head...)
	dst = append(dst, tx.spends...)
	if j.p.NullifiersOnly {
		dst = appendNullifiers(dst, tx.orchard)
		j.dst = appendNullifiers(dst, tx.ironwood)
		return
	}
	dst = append(dst, tx.outputs...)
	dst = append(dst, tx.orchard...)
	dst = append(dst, tx.transparent...)
	j.dst = append(dst, tx.ironwood...)
}

// appendNullifiers appends encoded action fields reduced to their nullifiers.
func appendNullifiers(dst, actions []byte) []byte {
	for b := actions; len(b) > 0; b = b[actionField:] {
		dst = append(dst, b[0], bytes32Len)
		dst = append(dst, b[3:3+bytes32Len]...)
	}
	return dst
}

// compactTx is an encoded CompactTx, taken apart into views of runs of fields.
type compactTx struct {
	at          int // where it starts
	index       uint64
	head        []byte // index and txid
	spends      []byte
	outputs     []byte
	orchard     []byte
	transparent []byte // vin and vout
	ironwood    []byte
}

// compactTx takes the next transaction apart, if there is one. A column has transparent fields, a stored message has shielded ones.
func (r *reader) compactTx(tx *compactTx, column bool) bool {
	if !r.at(len(r.buf), tagTx) {
		return false
	}
	*tx = compactTx{at: r.pos}
	r.pos++
	end := r.length("transaction")
	head := r.pos
	if r.at(end, tagIndex) {
		r.pos++
		tx.index = r.varint("index")
	}
	r.bytes32(tagTxID, "txid")
	tx.head = r.since(head)
	if column {
		start := r.pos
		r.compactVin(end)
		r.compactVout(end)
		tx.transparent = r.since(start)
	} else {
		tx.spends = r.compactSpends(end)
		tx.outputs = r.compactOutputs(end)
		tx.orchard = r.compactActions(end, tagOrchard)
		tx.ironwood = r.compactActions(end, tagIronwood)
	}
	r.end(end, "transaction")
	if !column && r.pos == head+len(tx.head) {
		r.fail("transaction", tx.at, errNothingShielded)
	}
	return r.err == nil
}

func (r *reader) compactSpends(end int) []byte {
	start := r.pos
	for r.at(end, tagSpend) {
		r.expect("sapling spend", tagSpend, spendMessage)
		r.bytes32(tagBytes1, "sapling nullifier")
	}
	return r.since(start)
}

func (r *reader) compactOutputs(end int) []byte {
	start := r.pos
	for r.at(end, tagOutput) {
		r.expect("sapling output", tagOutput, outputMessage)
		r.bytes32(tagBytes1, "sapling commitment")
		r.bytes32(tagBytes2, "sapling ephemeral key")
		r.expect("sapling ciphertext", tagBytes3, ciphertextLen)
		r.take(ciphertextLen, "sapling ciphertext")
	}
	return r.since(start)
}

func (r *reader) compactActions(end int, tag byte) []byte {
	start := r.pos
	for r.at(end, tag) {
		r.expect("action", tag, actionMessage&0x7f|0x80, actionMessage>>7)
		r.bytes32(tagBytes1, "action nullifier")
		r.bytes32(tagBytes2, "action commitment")
		r.bytes32(tagBytes3, "action ephemeral key")
		r.expect("action ciphertext", tagBytes4, ciphertextLen)
		r.take(ciphertextLen, "action ciphertext")
	}
	return r.since(start)
}

func (r *reader) compactVin(end int) {
	for r.at(end, tagVin) {
		r.pos++
		stop := r.length("input")
		r.bytes32(tagBytes1, "prevout txid")
		r.number(stop, tagNumber2, "prevout index")
		r.end(stop, "input")
	}
}

func (r *reader) compactVout(end int) {
	for r.at(end, tagVout) {
		r.pos++
		stop := r.length("output")
		if r.at(stop, tagNumber1) {
			r.pos++
			r.varint("output value")
		}
		if r.at(stop, tagBytes2) {
			r.pos++
			at := r.pos
			script := r.length("output script")
			if script == r.pos {
				r.fail("output script", at, errEmptyField)
			}
			r.take(script-r.pos, "output script")
		}
		r.end(stop, "output")
	}
}
