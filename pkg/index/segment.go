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

	frameEnds, prefixes, frames []byte
	columnEnds, columns         []byte
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
		a.first, a.firstHash, a.prev = id.Height, id.Hash, prev
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

// rows encodes the two rows, which are the caller's.
func (a *assembler) rows() (segment, transparent []byte) {
	segment = make([]byte, 4, segmentHeaderLen+len(a.frameEnds)+len(a.prefixes)+len(a.frames))
	segment = binary.BigEndian.AppendUint32(segment, checksum(a.frames))
	segment = binary.BigEndian.AppendUint32(segment, uint32(a.first))
	segment = binary.BigEndian.AppendUint32(segment, uint32(a.count()))
	segment = append(segment, a.prev[:]...)
	segment = append(segment, a.last[:]...)
	segment = append(segment, a.frameEnds...)
	segment = append(segment, a.prefixes...)
	binary.BigEndian.PutUint32(segment, checksum(segment[4:]))
	segment = append(segment, a.frames...)

	transparent = make([]byte, 4, transparentHeaderLen+len(a.columnEnds)+len(a.columns))
	transparent = binary.BigEndian.AppendUint32(transparent, uint32(a.first))
	transparent = binary.BigEndian.AppendUint32(transparent, uint32(a.count()))
	transparent = append(transparent, a.columnEnds...)
	return segment, sealCRC(append(transparent, a.columns...))
}

// reset empties the assembler and keeps its buffers.
func (a *assembler) reset() {
	*a = assembler{
		frameEnds: a.frameEnds[:0], prefixes: a.prefixes[:0], frames: a.frames[:0],
		columnEnds: a.columnEnds[:0], columns: a.columns[:0],
	}
}

// sealed returns the segment of the blocks that were added, ready to be committed.
func (a *assembler) sealed() sealedSegment {
	segment, transparent := a.rows()
	start := segmentHeaderLen + len(a.frameEnds)
	return sealedSegment{
		first: a.first, firstHash: a.firstHash, prev: a.prev, end: a.end(),
		prefixes: segment[start : start+len(a.prefixes)], segment: segment, transparent: transparent,
	}
}

// sealedSegment is a segment with its two rows.
type sealedSegment struct {
	first                chain.Height
	firstHash, prev      chain.Hash // of the first block, and of its parent
	end                  chainEnd
	segment, transparent []byte
	prefixes             []byte // part of segment
}

func (g *sealedSegment) last() chain.Height { return g.end.blocks - 1 }

// segmentBatch gathers consecutive blocks above the tip that are to be connected as segments, several in one commit: each commit is
// synced, and a sync writes whole pages, which are as large as the kernel's read-ahead lets them grow.
type segmentBatch struct {
	open    assembler       // the segment that is being filled
	full    []sealedSegment // below it
	bytes   int             // of the rows of full
	inlined int             // those of them that Badger keeps in its memory table
	started time.Time       // when the first block was added
}

func (b *segmentBatch) empty() bool { return len(b.full) == 0 && b.open.empty() }

// end is where the chain ends with the blocks that were added, of which there must be one.
func (b *segmentBatch) end() chainEnd {
	if b.open.empty() {
		return b.full[len(b.full)-1].end
	}
	return b.open.end()
}

// add appends a fetched block; sizes are those at its end.
func (b *segmentBatch) add(block *chain.Block, sizes chain.TreeSizes, o *Options) {
	if b.empty() {
		b.started = time.Now()
	}
	b.open.add(block, sizes)
	if b.open.full(o) {
		b.closeOpen()
	}
}

// closeOpen ends the segment that is being filled, if it has a block.
func (b *segmentBatch) closeOpen() {
	if b.open.empty() {
		return
	}
	g := b.open.sealed()
	b.open.reset()
	b.full = append(b.full, g)
	for _, row := range [][]byte{g.segment, g.transparent} {
		b.bytes += len(row)
		if len(row) < valueThreshold {
			b.inlined += len(row)
		}
	}
}

// due tells whether the batch should be committed, on top of so many segments. The first commits are smaller: then there is less to
// wait for, and too little in the file for large pages.
func (b *segmentBatch) due(segments int, o *Options) bool {
	return len(b.full) >= min(commitSegments, 1+segments/4) || b.bytes >= commitSegmentBytes || b.inlined >= commitBytes ||
		!b.empty() && time.Since(b.started) >= o.SegmentAge
}

// reset empties the batch.
func (b *segmentBatch) reset() {
	b.open.reset()
	clear(b.full)
	*b = segmentBatch{open: b.open, full: b.full[:0]}
}
