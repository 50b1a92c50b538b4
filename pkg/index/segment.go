package index

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

const (
	segmentHeaderLen     = 80
	transparentHeaderLen = 12
	hashPrefixLen        = 4 // first bytes, in internal order, of a block hash: its random end
)

// segmentRow is a decoded segment. Its slices alias the row.
type segmentRow struct {
	first    chain.Height
	prev     chain.Hash // parent of the first block
	last     chain.Hash // hash of the last block
	ends     ends       // of the frames
	prefixes []byte     // hashPrefixLen bytes for every block
	frames   []byte
	framesCRC,
	tablesCRC uint32
	tables []byte // what tablesCRC covers
}

// decodeSegment cuts a row up in constant time; the checksums are checked by verifyTables and verifyFrames.
func decodeSegment(row []byte) (segmentRow, error) {
	if len(row) < segmentHeaderLen {
		return segmentRow{}, fmt.Errorf("%w: %d bytes of at least %d", errShort, len(row), segmentHeaderLen)
	}
	n := uint64(binary.BigEndian.Uint32(row[12:]))
	body := segmentHeaderLen + (4+hashPrefixLen)*n
	if n == 0 || body > uint64(len(row)) {
		return segmentRow{}, fmt.Errorf("%d blocks in a row of %d bytes: %w", n, len(row), errTable)
	}
	return segmentRow{
		tablesCRC: binary.BigEndian.Uint32(row),
		framesCRC: binary.BigEndian.Uint32(row[4:]),
		first:     chain.Height(binary.BigEndian.Uint32(row[8:])),
		prev:      chain.Hash(row[16:48]),
		last:      chain.Hash(row[48:80]),
		ends:      ends(row[segmentHeaderLen : segmentHeaderLen+4*n]),
		prefixes:  row[segmentHeaderLen+4*n : body],
		frames:    row[body:],
		tables:    row[4:body],
	}, nil
}

// lastHeight of a row whose tables were verified.
func (r segmentRow) lastHeight() chain.Height { return r.first + chain.Height(r.ends.len()) - 1 }

func (r segmentRow) verifyTables() error {
	if checksum(r.tables) != r.tablesCRC {
		return fmt.Errorf("header and tables: %w", errChecksum)
	}
	if !r.ends.valid(r.frames) {
		return errTable
	}
	return nil
}

func (r segmentRow) verifyFrames() error {
	if checksum(r.frames) != r.framesCRC {
		return fmt.Errorf("frames: %w", errChecksum)
	}
	return nil
}

// frame returns the frame of the block at the given height, which must be one of the segment's.
func (r segmentRow) frame(h chain.Height) ([]byte, error) {
	f, err := r.ends.part(r.frames, int(h-r.first))
	if err == nil && len(f) < chain.FramePrefixLen {
		return nil, fmt.Errorf("frame of block %d: %w", h, errShort)
	}
	return f, err
}

// transparentRow holds the transparent columns of a segment's blocks. Its slices alias the row.
type transparentRow struct {
	first   chain.Height
	ends    ends
	columns []byte
	row     []byte
}

// decodeTransparent cuts a row up in constant time; the checksum is checked by verify.
func decodeTransparent(row []byte) (transparentRow, error) {
	if len(row) < transparentHeaderLen {
		return transparentRow{}, fmt.Errorf("%w: %d bytes of at least %d", errShort, len(row), transparentHeaderLen)
	}
	n := uint64(binary.BigEndian.Uint32(row[8:]))
	body := transparentHeaderLen + 4*n
	if n == 0 || body > uint64(len(row)) {
		return transparentRow{}, fmt.Errorf("%d blocks in a row of %d bytes: %w", n, len(row), errTable)
	}
	return transparentRow{
		first:   chain.Height(binary.BigEndian.Uint32(row[4:])),
		ends:    ends(row[transparentHeaderLen:body]),
		columns: row[body:],
		row:     row,
	}, nil
}

func (r transparentRow) verify() error {
	if err := openCRC(r.row, transparentHeaderLen); err != nil {
		return err
	}
	if !r.ends.valid(r.columns) {
		return errTable
	}
	return nil
}

func (r transparentRow) column(h chain.Height) ([]byte, error) {
	return r.ends.part(r.columns, int(h-r.first))
}

// assembler collects consecutive blocks for one segment. It belongs to the writer; its buffers are used again after reset.
type assembler struct {
	first, next chain.Height
	prev, last  chain.Hash
	firstHash   chain.Hash
	sizes       chain.TreeSizes
	started     time.Time

	frameEnds, prefixes, frames []byte
	columnEnds, columns         []byte
	segment, transparent        []byte // what rows returned
}

func (a *assembler) empty() bool { return a.next == a.first }
func (a *assembler) count() int  { return int(a.next - a.first) }

// end is where the chain ends with the blocks that were added.
func (a *assembler) end() chainEnd { return chainEnd{blocks: a.next, hash: a.last, sizes: a.sizes} }

// add appends a fetched block; sizes are those at its end.
func (a *assembler) add(b *chain.Block, sizes chain.TreeSizes) {
	a.frames = chain.AppendFrame(a.frames, b.Shielded, sizes)
	a.columns = append(a.columns, b.Transparent...)
	a.close(b.ID, b.Prev, sizes)
}

// addRow appends a block that is stored as a recent row.
func (a *assembler) addRow(id chain.BlockID, r recentRow) {
	a.frames = append(a.frames, r.frame...)
	a.columns = append(a.columns, r.column...)
	a.close(id, r.prev, r.sizes)
}

func (a *assembler) close(id chain.BlockID, prev chain.Hash, sizes chain.TreeSizes) {
	if a.empty() {
		a.first, a.firstHash, a.prev, a.started = id.Height, id.Hash, prev, time.Now()
	}
	a.frameEnds = binary.BigEndian.AppendUint32(a.frameEnds, uint32(len(a.frames)))
	a.columnEnds = binary.BigEndian.AppendUint32(a.columnEnds, uint32(len(a.columns)))
	a.prefixes = append(a.prefixes, id.Hash[:hashPrefixLen]...)
	a.next, a.last, a.sizes = id.Height+1, id.Hash, sizes
}

// full tells whether the segment has reached one of the limits.
func (a *assembler) full(o *Options) bool {
	return a.count() >= o.SegmentBlocks || len(a.frames) >= o.SegmentBytes || len(a.columns) >= o.SegmentBytes
}

// rows encodes the two rows. They live until the next reset.
func (a *assembler) rows() (segment, transparent []byte) {
	row := append(a.segment[:0], 0, 0, 0, 0)
	row = binary.BigEndian.AppendUint32(row, checksum(a.frames))
	row = binary.BigEndian.AppendUint32(row, uint32(a.first))
	row = binary.BigEndian.AppendUint32(row, uint32(a.count()))
	row = append(row, a.prev[:]...)
	row = append(row, a.last[:]...)
	row = append(row, a.frameEnds...)
	row = append(row, a.prefixes...)
	binary.BigEndian.PutUint32(row, checksum(row[4:]))
	a.segment = append(row, a.frames...)

	row = append(a.transparent[:0], 0, 0, 0, 0)
	row = binary.BigEndian.AppendUint32(row, uint32(a.first))
	row = binary.BigEndian.AppendUint32(row, uint32(a.count()))
	row = append(row, a.columnEnds...)
	a.transparent = sealCRC(append(row, a.columns...))
	return a.segment, a.transparent
}

// reset empties the assembler and keeps its buffers.
func (a *assembler) reset() {
	*a = assembler{
		frameEnds: a.frameEnds[:0], prefixes: a.prefixes[:0], frames: a.frames[:0],
		columnEnds: a.columnEnds[:0], columns: a.columns[:0],
		segment: a.segment[:0], transparent: a.transparent[:0],
	}
}
