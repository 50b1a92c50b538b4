package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// view is a chain.View: a snapshot, and no Badger transaction. One lives for each run of blocks.
type view struct {
	store  *Store
	snap   *snapshot
	closed bool
}

// Tip implements chain.View. It never fails.
func (v *view) Tip() (chain.BlockID, error) { return v.snap.top.tip(), nil }

// Close implements chain.View. Rows of blocks that have left the best chain since the view was opened may be deleted now.
func (v *view) Close() {
	if !v.closed {
		v.closed = true
		v.store.release(v.snap)
	}
}

// HeightOf implements chain.View. Besides chain.ErrNotFound it may fail with a CorruptError: then the hash may be in a segment that
// cannot be read.
func (v *view) HeightOf(_ context.Context, hash chain.Hash) (chain.Height, error) {
	// Wallets mostly ask for the newest blocks.
	for i := len(v.snap.recent) - 1; i >= 0; i-- {
		if v.snap.recent[i].hash == hash {
			return v.snap.sealed.blocks + chain.Height(i), nil
		}
	}
	var lost error
	var space [4]chain.Height
	for _, h := range v.store.hashes.Load().candidates(space[:0], hash, v.snap.sealed.blocks) {
		stored, err := v.hashAt(h)
		switch {
		case err == nil && stored == hash:
			return h, nil
		case err != nil:
			lost = err
		}
	}
	if lost == nil && v.store.unlisted != nil {
		lost = v.store.unlisted
	}
	if lost != nil {
		return 0, fmt.Errorf("look for block %s: %w", hash, lost)
	}
	return 0, fmt.Errorf("block %s: %w", hash, chain.ErrNotFound)
}

// hashAt reads the hash of a sealed block from its bytes.
func (v *view) hashAt(h chain.Height) (hash chain.Hash, err error) {
	err = v.read(func(txn *badger.Txn) error {
		return v.store.withSegment(txn, v.snap.segmentAt(h), func(row segmentRow) error {
			s, err := summarize(row, h)
			hash = s.ID.Hash
			return err
		})
	})
	return hash, err
}

// read runs fn with a read transaction, unless the store is closed.
func (v *view) read(fn func(*badger.Txn) error) error {
	v.store.gate.RLock()
	defer v.store.gate.RUnlock()
	if v.store.closed {
		return ErrClosed
	}
	txn := v.store.db.NewTransactionAt(latest, false)
	defer txn.Discard()
	return fn(txn)
}

// Blocks implements chain.View. A run that touches a corrupt row is a CorruptError.
func (v *view) Blocks(ctx context.Context, from, to chain.Height, p chain.Projection) iter.Seq2[chain.Frames, error] {
	return func(yield func(chain.Frames, error) bool) {
		top := v.snap.top.blocks
		if from >= top {
			yield(chain.Frames{}, &chain.AboveTipError{Asked: uint64(from), Tip: top - 1})
			return
		}
		last := min(to, top-1)
		var link chain.Hash // what the next run has to connect to
		for cur, first := from, true; ; first = false {
			if err := ctx.Err(); err != nil {
				yield(chain.Frames{}, err)
				return
			}
			f, err := v.run(cur, last, p)
			if err == nil && !first {
				err = checkLink(&f, link)
			}
			if err != nil {
				yield(chain.Frames{}, err)
				return
			}
			// Bytes belong to the receiver from here on.
			done, ascending := f.Last.Height == last, from <= last
			link = f.Prev
			if ascending {
				link = f.Last.Hash
			}
			cur = f.Last.Height + 1
			if !ascending {
				cur = f.Last.Height - 1
			}
			if !yield(f, nil) || done && to == last {
				return
			}
			if done {
				yield(chain.Frames{}, &chain.AboveTipError{Asked: uint64(to), Tip: top - 1})
				return
			}
		}
	}
}

// checkLink checks that a run starts where the one before it ended. The builder checked that already: a break means damaged rows.
func checkLink(f *chain.Frames, link chain.Hash) error {
	ascending := f.First.Height <= f.Last.Height && f.Prev == link
	descending := f.First.Height >= f.Last.Height && f.First.Hash == link
	if ascending || descending {
		return nil
	}
	f.Release()
	return &CorruptError{First: f.First.Height, Last: f.Last.Height, Key: "of these blocks",
		Err: fmt.Errorf("block %s does not connect to %s", f.First, link)}
}

// run reads the blocks from cur towards last, as many as make a run.
func (v *view) run(cur, last chain.Height, p chain.Projection) (chain.Frames, error) {
	r := runReader{view: v, p: p, cur: cur, last: last, down: cur > last, buf: v.store.buffers.Get()}
	read := r.recent
	if cur < v.snap.sealed.blocks {
		read = r.segment
	}
	if err := v.read(read); err != nil {
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
func (r *runReader) segment(txn *badger.Txn) error {
	g := r.view.snap.segmentAt(r.cur)
	end := min(r.last, g.last)
	if r.down {
		end = max(r.last, g.first)
	}
	s := r.view.store
	return s.withSegment(txn, g, func(row segmentRow) error {
		if r.p == chain.DefaultProjection && !r.down {
			return r.copyFrames(row, end)
		}
		if !r.p.NeedsTransparent() {
			return r.cut(row, nil, end)
		}
		return s.withTransparent(txn, g, func(columns transparentRow) error { return r.cut(row, &columns, end) })
	})
}

// copyFrames copies stored frames as they lie, from cur up to end.
func (r *runReader) copyFrames(row segmentRow, end chain.Height) error {
	first, last := int(r.cur-row.first), int(end-row.first)
	start, stop := row.ends.span(first)
	n := first
	for n < last && row.ends.at(n+1)-start <= chain.RunSize {
		n++
	}
	stop = row.ends.at(n)
	*r.buf = append(*r.buf, row.frames[start:stop]...)
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
	r.out.First, r.out.Last, r.out.Prev = first.ID, last.ID, first.Prev
	r.out.Count = int(h-r.cur) + 1
	if r.down {
		r.out.Prev = last.Prev
		r.out.Count = int(r.cur-h) + 1
	}
	return nil
}

// summarize reads the header fields of a sealed block.
func summarize(row segmentRow, h chain.Height) (chain.Summary, error) {
	frame, err := row.frame(h)
	if err != nil {
		return chain.Summary{}, err
	}
	s, err := chain.Summarize(frame[chain.FramePrefixLen:])
	if err == nil && (s.ID.Height != h || !bytes.Equal(s.ID.Hash[:hashPrefixLen], row.prefixes[hashPrefixLen*int(h-row.first):][:hashPrefixLen])) {
		err = fmt.Errorf("its bytes are those of block %s", s.ID)
	}
	if err != nil {
		return chain.Summary{}, fmt.Errorf("block %d: %w", h, err)
	}
	return s, nil
}

// recent reads recent rows from cur on.
func (r *runReader) recent(txn *badger.Txn) error {
	snap := r.view.snap
	end := r.last
	if r.down {
		end = max(r.last, snap.sealed.blocks)
	}
	for h := r.cur; ; h = r.step(h) {
		b := snap.recentAt(h)
		id := chain.BlockID{Height: h, Hash: b.hash}
		err := readRow(txn, recentKey(id).bytes(), func(v []byte) error {
			row, err := decodeRecentRow(v)
			if err != nil {
				return err
			}
			return r.project(row.frame, row.column)
		})
		if err != nil {
			if errors.Is(err, badger.ErrKeyNotFound) {
				err = errMissing
			}
			return &CorruptError{First: h, Last: h, Key: recentKey(id).String(), Err: err}
		}
		if h == r.cur {
			r.out.First = id
		}
		r.out.Count++
		if h == end || len(*r.buf) >= chain.RunSize {
			r.out.Last, r.out.Prev = id, b.prev
			if !r.down {
				r.out.Prev = snap.recentAt(r.cur).prev
			}
			return nil
		}
	}
}

// withSegment reads a segment row and verifies what was not verified yet. Errors of fn mark the segment as corrupt, since rows that
// passed their checksums are what the builder wrote.
func (s *Store) withSegment(txn *badger.Txn, g *segment, fn func(segmentRow) error) error {
	if c := g.corrupt.Load(); c != nil {
		return c
	}
	key := segmentKey(g.last)
	err := readRow(txn, key.bytes(), func(v []byte) error {
		row, err := decodeSegment(v)
		if err != nil {
			return err
		}
		if g.checked.Load()&framesChecked == 0 {
			if err := errors.Join(row.verifyTables(), row.verifyFrames()); err != nil {
				return err
			}
			g.checked.Or(framesChecked)
		}
		if row.first != g.first || row.ends.len() != g.count() {
			return fmt.Errorf("it says %d blocks from %d: %w", row.ends.len(), row.first, errTable)
		}
		return fn(row)
	})
	return s.rowError(g, key.String(), err)
}

// withTransparent reads the transparent row of a segment like withSegment.
func (s *Store) withTransparent(txn *badger.Txn, g *segment, fn func(transparentRow) error) error {
	key := transparentKey(g.last)
	err := readRow(txn, key.bytes(), func(v []byte) error {
		row, err := decodeTransparent(v)
		if err != nil {
			return err
		}
		if g.checked.Load()&columnsChecked == 0 {
			if err := row.verify(); err != nil {
				return err
			}
			g.checked.Or(columnsChecked)
		}
		if row.first != g.first || row.ends.len() != g.count() {
			return fmt.Errorf("it says %d blocks from %d: %w", row.ends.len(), row.first, errTable)
		}
		return fn(row)
	})
	return s.rowError(g, key.String(), err)
}

// rowError turns what went wrong with a row into the segment's CorruptError.
func (s *Store) rowError(g *segment, key string, err error) error {
	var c *CorruptError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &c):
		return err
	case errors.Is(err, badger.ErrKeyNotFound):
		err = errMissing
	}
	return s.markCorrupt(g, key, err)
}
