package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// The layouts are drawn in docs/format.md. Integers are big-endian, hashes in internal byte order, checksums CRC-32C.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

var (
	errChecksum  = errors.New("checksum mismatch")
	errShort     = errors.New("the row is too short")
	errTable     = errors.New("the offset table does not fit the row")
	errMissing   = errors.New("the row is missing")
	errUnread    = errors.New("its value log has other bytes than were written, or none")
	errNoSuchRow = errors.New("this release knows no such row")
)

// sealCRC writes the checksum of everything after the first four bytes into them.
func sealCRC(row []byte) []byte {
	binary.BigEndian.PutUint32(row, checksum(row[4:]))
	return row
}

// openCRC checks what sealCRC wrote, and that there are at least n bytes.
func openCRC(row []byte, n int) error {
	if len(row) < n {
		return fmt.Errorf("%w: %d bytes of at least %d", errShort, len(row), n)
	}
	if binary.BigEndian.Uint32(row) != checksum(row[4:]) {
		return errChecksum
	}
	return nil
}

func appendSizes(dst []byte, s chain.TreeSizes) []byte {
	dst = binary.BigEndian.AppendUint32(dst, s.Sapling)
	dst = binary.BigEndian.AppendUint32(dst, s.Orchard)
	return binary.BigEndian.AppendUint32(dst, s.Ironwood)
}

func readSizes(b []byte) chain.TreeSizes {
	return chain.TreeSizes{
		Sapling:  binary.BigEndian.Uint32(b),
		Orchard:  binary.BigEndian.Uint32(b[4:]),
		Ironwood: binary.BigEndian.Uint32(b[8:]),
	}
}

// chainEnd is where a chain of so many blocks ends; the zero value is the empty chain.
type chainEnd struct {
	blocks chain.Height    // of heights 0..blocks-1
	hash   chain.Hash      // of the last one
	sizes  chain.TreeSizes // at the end of the last one
}

// tip returns the last block; meaningless when there is none.
func (e chainEnd) tip() chain.BlockID { return chain.BlockID{Height: e.blocks - 1, Hash: e.hash} }

const chainEndLen = 48

func appendEnd(dst []byte, e chainEnd) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.blocks))
	return appendSizes(append(dst, e.hash[:]...), e.sizes)
}

func readEnd(b []byte) chainEnd {
	return chainEnd{
		blocks: chain.Height(binary.BigEndian.Uint32(b)),
		hash:   chain.Hash(b[4:36]),
		sizes:  readSizes(b[36:]),
	}
}

// state is the row that moves with every commit.
type state struct {
	seq      uint64   // counts commits: tells whether a commit whose answer was lost took place
	sealed   chainEnd // what is in segments
	top      chainEnd // all
	complete bool
}

const (
	stateLen     = 13 + 2*chainEndLen
	flagComplete = 1
)

func (s state) encode() []byte {
	row := make([]byte, 4, stateLen)
	row = binary.BigEndian.AppendUint64(row, s.seq)
	row = appendEnd(row, s.sealed)
	row = appendEnd(row, s.top)
	var flags byte
	if s.complete {
		flags |= flagComplete
	}
	return sealCRC(append(row, flags))
}

func decodeState(row []byte) (state, error) {
	if err := openCRC(row, stateLen); err != nil {
		return state{}, err
	}
	flags := row[stateLen-1]
	s := state{
		seq:      binary.BigEndian.Uint64(row[4:]),
		sealed:   readEnd(row[12:]),
		top:      readEnd(row[12+chainEndLen:]),
		complete: flags&flagComplete != 0,
	}
	if len(row) != stateLen || s.sealed.blocks > s.top.blocks || flags&^flagComplete != 0 {
		return state{}, fmt.Errorf("%d bytes, %d blocks, %d of them sealed, flags %#x: not a state",
			len(row), s.top.blocks, s.sealed.blocks, flags)
	}
	return s, nil
}

// network says which chain the index holds.
type network struct {
	genesis chain.Hash
	name    string
}

const networkLen = 36

func (n network) encode() []byte {
	row := append(make([]byte, 4, networkLen+len(n.name)), n.genesis[:]...)
	return sealCRC(append(row, n.name...))
}

func decodeNetwork(row []byte) (network, error) {
	if err := openCRC(row, networkLen); err != nil {
		return network{}, err
	}
	return network{genesis: chain.Hash(row[4:36]), name: string(row[36:])}, nil
}

func encodeFormat(version uint32) []byte { return binary.BigEndian.AppendUint32(nil, version) }

func decodeFormat(row []byte) (uint32, error) {
	if len(row) != 4 || binary.BigEndian.Uint32(row) == 0 {
		return 0, fmt.Errorf("%x is no format version", row)
	}
	return binary.BigEndian.Uint32(row), nil
}

// recentRow is one recent block. Its slices alias the row.
type recentRow struct {
	prev   chain.Hash
	sizes  chain.TreeSizes
	frame  []byte // gRPC prefix and CompactBlock, as in a segment
	column []byte // the transparent column, chain.Block.Transparent
}

// info is what is kept of the row in memory, with a copy of the frame if it has at most short bytes.
func (r recentRow) info(hash chain.Hash, short int) recentBlock {
	b := recentBlock{hash: hash, prev: r.prev, sizes: r.sizes, frame: uint32(len(r.frame)), columns: uint32(len(r.column))}
	if len(r.frame) <= short {
		b.short = bytes.Clone(r.frame)
	}
	return b
}

const recentHeaderLen = 52

// appendRecentRow encodes a block whose frame must still be built from its parts.
func appendRecentRow(dst []byte, b *chain.Block, sizes chain.TreeSizes) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, b.Prev[:]...)
	dst = appendSizes(dst, sizes)
	dst = append(dst, 0, 0, 0, 0)
	dst = chain.AppendFrame(dst, b.Shielded, sizes)
	binary.BigEndian.PutUint32(dst[start+48:], uint32(len(dst)-start-recentHeaderLen))
	dst = append(dst, b.Transparent...)
	sealCRC(dst[start:])
	return dst
}

func decodeRecentRow(row []byte) (recentRow, error) {
	if err := openCRC(row, recentHeaderLen); err != nil {
		return recentRow{}, err
	}
	n := uint64(binary.BigEndian.Uint32(row[48:]))
	body := row[recentHeaderLen:]
	if n < chain.FramePrefixLen || n > uint64(len(body)) {
		return recentRow{}, fmt.Errorf("a frame of %d bytes in a row of %d: %w", n, len(row), errTable)
	}
	return recentRow{
		prev:   chain.Hash(row[4:36]),
		sizes:  readSizes(row[36:]),
		frame:  body[:n:n],
		column: body[n:],
	}, nil
}

// ends is an offset table: the end of every part, relative to the first one's start, 4 bytes each.
type ends []byte

func (e ends) len() int { return len(e) / 4 }

func (e ends) at(i int) uint32 { return binary.BigEndian.Uint32(e[4*i:]) }

// span returns where part i starts and ends.
func (e ends) span(i int) (start, end uint32) {
	if i > 0 {
		start = e.at(i - 1)
	}
	return start, e.at(i)
}

// part cuts part i out of the body. A table that passed its checksum never fails here.
func (e ends) part(body []byte, i int) ([]byte, error) {
	if i < 0 || i >= e.len() {
		return nil, fmt.Errorf("part %d of %d: %w", i, e.len(), errTable)
	}
	start, end := e.span(i)
	if start > end || uint64(end) > uint64(len(body)) {
		return nil, fmt.Errorf("part %d from %d to %d of %d bytes: %w", i, start, end, len(body), errTable)
	}
	return body[start:end:end], nil
}

// valid tells whether the table ascends and covers the body exactly.
func (e ends) valid(body []byte) bool {
	last := uint32(0)
	for i := range e.len() {
		if e.at(i) < last {
			return false
		}
		last = e.at(i)
	}
	return uint64(last) == uint64(len(body))
}
