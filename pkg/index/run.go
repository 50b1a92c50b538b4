package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// run reads the blocks from cur towards last, as many as make a run.
func (v *view) run(cur, last chain.Height, p chain.Projection) (chain.Frames, error) {
	r := runReader{view: v, p: p, cur: cur, last: last, down: cur > last, buf: v.store.buffers.Get()}
	read := r.recent
	if cur < v.snap.sealed.blocks {
		read = r.segment
	}
	if err := v.store.open(read); err != nil {
		v.store.buffers.Put(r.buf)
		return chain.Frames{}, err
	}
	r.out.Bytes = *r.buf
	r.out.Origin = chain.FromIndex
	r.out.Free = func() { v.store.buffers.Put(r.buf) }
	return r.out, nil
}

// runReader fills one run.
type runReader struct {
	view      *view
	p         chain.Projection
	cur, last chain.Height
	down      bool
	buf       *[]byte
	out       chain.Frames
}

// segment reads from the segment of height cur.
func (r *runReader) segment() error {
	g := r.view.snap.segmentAt(r.cur)
	end := min(r.last, g.last)
	if r.down {
		end = max(r.last, g.first)
	}
	var columns *transparentRow
	if r.p.NeedsTransparent() {
		scratch := r.view.store.buffers.Get()
		defer r.view.store.buffers.Put(scratch)
		copied, err := r.copyColumns(scratch, g, end)
		if err != nil {
			return err
		}
		columns, end = &copied, r.cur+chain.Height(copied.ends.len())-1
		if r.down {
			end = copied.first
		}
	}
	return r.view.store.withSegment(g, func(row segmentRow) error {
		if r.p == chain.DefaultProjection && !r.down {
			return r.copyFrames(row, end)
		}
		return r.cut(row, columns, end)
	})
}

// copyColumns copies the columns from height cur to end, as many as make a run: nobody may wait for a row while another one is read, see
// readHeld.
func (r *runReader) copyColumns(scratch *[]byte, g *segment, end chain.Height) (columns transparentRow, err error) {
	err = r.view.store.withTransparent(g, func(row transparentRow) error {
		low, high := int(min(r.cur, end)-row.first), int(max(r.cur, end)-row.first)
		size := func(low, high int) uint32 {
			start, _ := row.ends.span(low)
			return row.ends.at(high) - start
		}
		if r.down {
			low = high - sort.Search(high-low, func(n int) bool { return size(high-n, high) >= chain.RunSize })
		} else {
			high = low + sort.Search(high-low, func(n int) bool { return size(low, low+n) >= chain.RunSize })
		}
		buf := *scratch
		for i := low; i <= high; i++ {
			buf = binary.BigEndian.AppendUint32(buf, size(low, i))
		}
		table := len(buf)
		start, _ := row.ends.span(low)
		buf = append(buf, row.columns[start:row.ends.at(high)]...)
		columns = transparentRow{first: row.first + chain.Height(low), ends: ends(buf[:table]), columns: buf[table:]}
		*scratch = buf
		return nil
	})
	return columns, err
}

// copyFrames copies stored frames as they lie, from cur up to end.
func (r *runReader) copyFrames(row segmentRow, end chain.Height) error {
	first, last := int(r.cur-row.first), int(end-row.first)
	start, _ := row.ends.span(first)
	n := first + sort.Search(last-first, func(more int) bool { return row.ends.at(first+1+more)-start > chain.RunSize })
	*r.buf = append(*r.buf, row.frames[start:row.ends.at(n)]...)
	return r.describe(row, row.first+chain.Height(n))
}

// cut appends what the projection leaves of every block, from cur to end in either direction.
func (r *runReader) cut(row segmentRow, columns *transparentRow, end chain.Height) error {
	for h := r.cur; ; {
		frame, err := row.frame(h)
		if err != nil {
			return err
		}
		var column []byte
		if columns != nil {
			if column, err = columns.column(h); err != nil {
				return err
			}
		}
		if err := r.project(frame, column); err != nil {
			return fmt.Errorf("block %d: %w", h, err)
		}
		if h == end || len(*r.buf) >= chain.RunSize {
			return r.describe(row, h)
		}
		h = r.step(h)
	}
}

func (r *runReader) step(h chain.Height) chain.Height {
	if r.down {
		return h - 1
	}
	return h + 1
}

// project appends one stored frame, cut to the projection.
func (r *runReader) project(frame, column []byte) (err error) {
	if r.p == chain.DefaultProjection {
		*r.buf = append(*r.buf, frame...)
		return nil
	}
	*r.buf, err = chain.Project(*r.buf, frame[chain.FramePrefixLen:], column, r.p)
	return err
}

// describe fills in which blocks of the segment the run has: cur to h.
func (r *runReader) describe(row segmentRow, h chain.Height) error {
	first, err := summarize(row, r.cur)
	if err != nil {
		return err
	}
	last := first
	if h != r.cur {
		if last, err = summarize(row, h); err != nil {
			return err
		}
	}
	r.bounded(h, first.ID.Hash, last.ID.Hash, first.Prev, last.Prev)
	return nil
}

// bounded notes that the run has the blocks from cur to h, with the hashes of these two and of their parents.
func (r *runReader) bounded(h chain.Height, first, last, firstPrev, lastPrev chain.Hash) {
	r.out.First, r.out.Last = chain.BlockID{Height: r.cur, Hash: first}, chain.BlockID{Height: h, Hash: last}
	r.out.Prev, r.out.Count = firstPrev, int(h-r.cur)+1
	if r.down {
		r.out.Prev, r.out.Count = lastPrev, int(r.cur-h)+1
	}
}

// summarize reads the header fields of a sealed block.
func summarize(row segmentRow, h chain.Height) (chain.Summary, error) {
	frame, err := row.frame(h)
	if err != nil {
		return chain.Summary{}, err
	}
	s, err := chain.Summarize(frame[chain.FramePrefixLen:])
	if err == nil {
		err = row.expect(h, s)
	}
	if err != nil {
		return chain.Summary{}, fmt.Errorf("block %d: %w", h, err)
	}
	return s, nil
}

// expect fails when a frame at height h is not the one of the tables.
func (r segmentRow) expect(h chain.Height, s chain.Summary) error {
	if s.ID.Height != h || !bytes.Equal(s.ID.Hash[:hashPrefixLen], r.prefixes[hashPrefixLen*int(h-r.first):][:hashPrefixLen]) {
		return fmt.Errorf("its bytes are those of block %s", s.ID)
	}
	return nil
}

// recent reads recent blocks from cur on: those that are short from memory, the others from their rows.
func (r *runReader) recent() error {
	snap := r.view.snap
	end := r.last
	if r.down {
		end = max(r.last, snap.sealed.blocks)
	}
	var find func(key []byte, fn func([]byte) error) error // made for the first row that has to be read
	var space [recentKeyLen]byte
	for h, last := r.cur, r.cur; ; last, h = h, r.step(h) {
		b := snap.recentAt(h)
		before := len(*r.buf)
		var err error
		if b.short != nil && !r.p.NeedsTransparent() {
			err = r.project(b.short, nil)
		} else {
			if find == nil {
				var done func()
				find, done = r.finder(h, end)
				defer done()
			}
			err = find(recentKey{Height: h, Hash: b.hash}.append(space[:0]), r.projectRow)
		}
		if err != nil {
			if h != r.cur { // the run ends before it, and the next one says which height cannot be read
				*r.buf = (*r.buf)[:before]
				r.describeRecent(last)
				return nil
			}
			key := recentKey{Height: h, Hash: b.hash}
			return &CorruptError{First: h, Last: h, Key: key.String(), Err: missing(err)}
		}
		if h == end || len(*r.buf) >= chain.RunSize {
			r.describeRecent(h)
			return nil
		}
	}
}

// describeRecent fills in which recent blocks the run has: cur to h.
func (r *runReader) describeRecent(h chain.Height) {
	first, last := r.view.snap.recentAt(r.cur), r.view.snap.recentAt(h)
	r.bounded(h, first.hash, last.hash, first.prev, last.prev)
}

func (r *runReader) projectRow(v []byte) error {
	row, err := decodeRecentRow(v)
	if err != nil {
		return err
	}
	return r.project(row.frame, row.column)
}

// finder returns how to find the rows from h to end: one by one, or, since that costs microseconds each, with an iterator that steps
// over the rows of other chains. It copies one row more than it is asked for, so it is for runs of many blocks.
func (r *runReader) finder(h, end chain.Height) (find func(key []byte, fn func([]byte) error) error, done func()) {
	const few = 8
	txn := r.view.store.db.NewTransactionAt(latest, false)
	fit := 1 + chain.RunSize/(1+r.view.snap.recentAt(h).frame)
	if min(uint32(max(h, end)-min(h, end)), fit) < few {
		return func(key []byte, fn func([]byte) error) error { return readRow(txn, key, fn) }, txn.Discard
	}
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte(prefixRecent), Reverse: r.down})
	it.Seek(recentKey{Height: h, Hash: r.view.snap.recentAt(h).hash}.bytes())
	return func(key []byte, fn func([]byte) error) error {
		for ; it.Valid(); it.Next() {
			switch c := bytes.Compare(it.Item().Key(), key); {
			case c == 0:
				return it.Item().Value(fn)
			case c > 0 != r.down:
				return badger.ErrKeyNotFound
			}
		}
		return badger.ErrKeyNotFound
	}, func() { it.Close(); txn.Discard() }
}
