package index

import (
	"fmt"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// The methods of this file are the writer's: one goroutine calls them. Each is one transaction, and publishes the chain that it made.

// recentBatch gathers consecutive blocks above the tip that are to be connected as recent rows.
type recentBatch struct {
	short  int      // Options.shortFrame
	base   chainEnd // on which the first one stands
	end    chainEnd
	ids    []chain.BlockID
	blocks []recentBlock
	rows   [][]byte
	bytes  int
	buf    []byte // what the rows are cut from
}

func (r *recentBatch) empty() bool { return len(r.rows) == 0 }

// add appends a block; sizes are those at its end. Its bytes are copied.
func (r *recentBatch) add(b *chain.Block, sizes chain.TreeSizes) {
	start := len(r.buf)
	r.buf = appendRecentRow(r.buf, b, sizes)
	row := r.buf[start:len(r.buf):len(r.buf)] // stays valid in the old array when a later block makes buf grow
	r.ids = append(r.ids, b.ID)
	r.rows = append(r.rows, row)
	frame := row[recentHeaderLen : len(row)-len(b.Transparent)]
	r.blocks = append(r.blocks, recentRow{prev: b.Prev, sizes: sizes, frame: frame, column: b.Transparent}.info(b.ID.Hash, r.short))
	r.bytes += len(row)
	r.end = chainEnd{blocks: b.ID.Height + 1, hash: b.ID.Hash, sizes: sizes}
}

func (r *recentBatch) full() bool { return r.bytes >= commitBytes || len(r.rows) >= commitRows }

// reset empties the batch; base is the chain that the next block stands on.
func (r *recentBatch) reset(base chainEnd) {
	*r = recentBatch{short: r.short, base: base, end: base, ids: r.ids[:0], rows: r.rows[:0], buf: r.buf[:0]}
}

// connect commits the blocks of r on top of the tip.
func (s *Store) connect(r *recentBatch) error {
	if r.empty() {
		return nil
	}
	if r.base != s.state.top {
		return fmt.Errorf("connect block %s: the tip is %s: %w", r.ids[0], s.state.top.tip(), chain.ErrReorged)
	}
	var b batch
	net := s.found(&b, r.ids[0].Hash)
	for i, id := range r.ids {
		b.put(recentKey(id).bytes(), r.rows[i])
	}
	next := s.state
	next.top = r.end
	// A block that comes back after a reorg must not be deleted for having left before.
	kept := s.unlist(r.ids)
	if err := s.apply(&b, next); err != nil {
		s.relist(kept)
		return fmt.Errorf("connect blocks %s to %s: %w", r.ids[0], r.end.tip(), err)
	}
	s.net = net
	snap := s.current.Load().child()
	snap.recent, snap.top = append(snap.recent, r.blocks...), r.end
	s.publish(snap, nil)
	return nil
}

// found adds the rows that say which network this is to the batch of the first block, and returns what they say.
func (s *Store) found(b *batch, genesis chain.Hash) network {
	if s.state.top.blocks > 0 {
		return s.net
	}
	net := network{genesis: genesis, name: s.o.Network}
	b.put(keyFormat.bytes(), encodeFormat(FormatVersion))
	b.put(keyNetwork.bytes(), net.encode())
	return net
}

// connectSegments commits consecutive segments on top of the tip. There must be no recent blocks.
func (s *Store) connectSegments(segments []sealedSegment) error {
	if len(segments) == 0 {
		return nil
	}
	first, end := &segments[0], segments[len(segments)-1].end
	top := s.state.top
	if top != s.state.sealed || first.first != top.blocks || first.prev != top.hash {
		return fmt.Errorf("connect segments of blocks %d to %d: the tip is %s: %w", first.first, end.blocks-1, top.tip(), chain.ErrReorged)
	}
	var b batch
	net := s.found(&b, first.firstHash)
	next := s.state
	next.sealed, next.top = end, end
	if err := s.applySegments(&b, segments, next); err != nil {
		return fmt.Errorf("connect segments of blocks %d to %d: %w", first.first, end.blocks-1, err)
	}
	s.net = net
	s.publishSegments(segments, nil, nil)
	return nil
}

// applySegments adds the rows of the segments to the batch and commits it.
func (s *Store) applySegments(b *batch, segments []sealedSegment, next state) error {
	for i := range segments {
		g := &segments[i]
		b.put(segmentKey(g.last()).bytes(), g.segment)
		b.put(transparentKey(g.last()).bytes(), g.transparent)
	}
	return s.apply(b, next)
}

// publishSegments publishes the chain in which these blocks are sealed.
func (s *Store) publishSegments(segments []sealedSegment, recent []recentBlock, garbage [][]byte) {
	snap := s.current.Load().child()
	var entries []uint64
	for i := range segments {
		g := &segments[i]
		snap.segments = append(snap.segments, &segment{first: g.first, last: g.last(), prev: g.prev, hash: g.end.hash})
		entries = appendEntries(entries, g.first, g.prefixes)
	}
	hashes := s.hashes.Load().with(entries)
	s.hashes.Store(&hashes)
	snap.sealed, snap.recent, snap.top = s.state.sealed, recent, s.state.top
	s.publish(snap, garbage)
}

// seal moves the oldest recent blocks below height limit into one segment, if they fill one, or, with partial, all the same.
// It tells whether it did.
func (s *Store) seal(limit chain.Height, partial bool) (bool, error) {
	cur := s.current.Load()
	n, full := s.sealable(cur, limit)
	if n == 0 || !full && !partial {
		return false, nil
	}
	a := &s.assembly
	a.reset()
	garbage := make([][]byte, 0, n)
	txn := s.db.NewTransactionAt(latest, false)
	defer txn.Discard()
	for i, r := range cur.recent[:n] {
		id := chain.BlockID{Height: cur.sealed.blocks + chain.Height(i), Hash: r.hash}
		key := recentKey(id)
		err := readRow(txn, key.bytes(), func(v []byte) error {
			row, err := decodeRecentRow(v)
			if err == nil {
				a.addRow(id, row)
			}
			return err
		})
		if err != nil {
			return false, fmt.Errorf("seal block %s: %w", id, &CorruptError{First: id.Height, Last: id.Height, Key: key.String(), Err: err})
		}
		garbage = append(garbage, key.bytes())
	}
	next := s.state
	next.sealed = a.end()
	segments := []sealedSegment{a.sealed()}
	if err := s.applySegments(&batch{}, segments, next); err != nil {
		return false, fmt.Errorf("seal blocks %d to %d: %w", a.first, a.next-1, err)
	}
	s.publishSegments(segments, cur.recent[n:], garbage)
	return true, nil
}

// sealable counts the recent blocks below limit that go into the next segment, and tells whether they fill it.
func (s *Store) sealable(cur *snapshot, limit chain.Height) (n int, full bool) {
	frames, columns := 0, 0
	for _, r := range cur.recent {
		if cur.sealed.blocks+chain.Height(n) >= limit {
			return n, false
		}
		n++
		frames, columns = frames+int(r.frame), columns+int(r.columns)
		if n >= s.o.SegmentBlocks || frames >= s.o.SegmentBytes || columns >= s.o.SegmentBytes {
			return n, true
		}
	}
	return n, false
}

// rewind makes the first n blocks the whole chain; n must be at least the number of sealed ones.
func (s *Store) rewind(n chain.Height) error {
	cur := s.current.Load()
	if n < cur.sealed.blocks || n > cur.top.blocks {
		return fmt.Errorf("rewind to %d blocks of %d, %d of them sealed: %w", n, cur.top.blocks, cur.sealed.blocks, ErrDeepReorg)
	}
	if n == cur.top.blocks {
		return nil
	}
	next := s.state
	next.top = cur.endAt(n)
	if err := s.apply(&batch{}, next); err != nil {
		return fmt.Errorf("rewind from %s to height %d: %w", cur.top.tip(), n-1, err)
	}
	kept := int(n - cur.sealed.blocks)
	var garbage [][]byte
	for i, r := range cur.recent[kept:] {
		garbage = append(garbage, recentKey{Height: n + chain.Height(i), Hash: r.hash}.bytes())
	}
	// The capacity ends where the chain does: the next block must not overwrite what older snapshots see.
	snap := cur.child()
	snap.recent, snap.top = cur.recent[:kept:kept], next.top
	s.publish(snap, garbage)
	return nil
}

// setComplete sets what Complete says; the next commit, or saveComplete, makes it last.
func (s *Store) setComplete(complete bool) { s.complete.Store(complete) }

// saveComplete makes the present answer of Complete last, if it does not yet.
func (s *Store) saveComplete() error {
	if s.state.top.blocks == 0 || s.complete.Load() == s.state.complete {
		return nil
	}
	return s.saveState()
}

// unlist takes the rows of these blocks off every list of rows to delete, and returns the keys that were on one.
func (s *Store) unlist(ids []chain.BlockID) (kept [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed := len(s.garbage)
	for _, snap := range s.snapshots {
		listed += len(snap.garbage)
	}
	if listed == 0 {
		return nil
	}
	named := make(map[string]bool, len(ids))
	for _, id := range ids {
		named[string(recentKey(id).bytes())] = true
	}
	isNamed := func(key []byte) bool {
		if named[string(key)] {
			kept = append(kept, key)
			return true
		}
		return false
	}
	s.garbage = slices.DeleteFunc(s.garbage, isNamed)
	for _, snap := range s.snapshots {
		snap.garbage = slices.DeleteFunc(snap.garbage, isNamed)
	}
	return kept
}

// relist puts rows back that unlist took off: they go when the present chain and all older ones are no longer read.
func (s *Store) relist(keys [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := s.snapshots[len(s.snapshots)-1]
	snap.garbage = append(snap.garbage, keys...)
}
