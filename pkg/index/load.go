package index

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// load reads what must be in memory, and publishes the first snapshot of what can be read.
func (s *Store) load() (err error) {
	defer recovered(&err)
	txn := s.db.NewTransactionAt(latest, false)
	defer txn.Discard()
	if err := s.loadMeta(txn); err != nil {
		return err
	}
	snap := &snapshot{sealed: s.state.sealed, top: s.state.top}
	hashes, garbage, err := s.loadSegments(txn, snap)
	if err != nil {
		return err
	}
	rows, err := s.loadRecent(txn, snap)
	if err != nil {
		return err
	}
	unusable, err := s.loadKept(txn, snap)
	if err != nil {
		return err
	}
	s.state.top = snap.top
	s.hashes.Store(&hashes)
	s.complete.Store(s.state.complete)
	s.garbage = slices.Concat(garbage, rows, unusable)
	s.publish(snap, nil)
	if err := s.cutTornEnd(); err != nil {
		return err
	}
	return s.deleteUnnamed()
}

// loadMeta reads the meta rows and refuses what is not ours.
func (s *Store) loadMeta(txn *badger.Txn) error {
	format, err := readFormat(txn)
	switch {
	case err != nil:
		return err
	case format == 0:
		return nil // a new index
	case format != FormatVersion:
		return unknownFormat(format)
	}
	if s.net, err = readNetwork(txn); err != nil {
		return fmt.Errorf("%w: %s", err, repairOrDelete)
	}
	if s.o.Genesis != (chain.Hash{}) && s.o.Genesis != s.net.genesis {
		return fmt.Errorf("%w: %s", ErrOtherNetwork, s.net.mismatch(s.dir, s.o.Genesis))
	}
	if s.state, err = loadState(txn); err != nil {
		return fmt.Errorf("%w: %s", err, repairOrDelete)
	}
	return nil
}

const repairOrDelete = "run zsidecar check --repair, or delete the directory to build it again"

// loadState reads the state row of an index that has a format row, and so a first block.
func loadState(txn *badger.Txn) (state, error) {
	st, err := readState(txn)
	if err == nil && st.seq == 0 {
		err = fmt.Errorf("read %s: %w", keyState, errMissing)
	}
	return st, err
}

// unknownFormat is the refusal of an index that another release wrote.
func unknownFormat(format uint32) error {
	return fmt.Errorf("%w: it has format %d and this release knows format %d: use the release that wrote it, or delete the directory to build it again",
		ErrFormat, format, FormatVersion)
}

// mismatch is the text of every ErrOtherNetwork.
func (n network) mismatch(dir string, genesis chain.Hash) string {
	name := ""
	if n.name != "" {
		name = " (" + n.name + ")"
	}
	return fmt.Sprintf("%s holds the chain of genesis %s%s, but the node's genesis is %s: use another data directory, or the node of that network",
		dir, n.genesis, name, genesis)
}

// readFormat returns the format version, or 0 when the database is empty.
func readFormat(txn *badger.Txn) (uint32, error) {
	var row []byte
	err := readRow(txn, keyFormat.bytes(), func(v []byte) error { row = slices.Clone(v); return nil })
	if errors.Is(err, badger.ErrKeyNotFound) {
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		if it.Rewind(); it.Valid() {
			return 0, fmt.Errorf("%w: there is no row %s among its rows: it is none of ours, or damaged: use another directory, or delete this one to build it again", ErrFormat, keyFormat)
		}
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", keyFormat, err)
	}
	version, err := decodeFormat(row)
	if err != nil {
		return 0, fmt.Errorf("%w: row %s: %w: use another directory, or delete this one to build it again", ErrFormat, keyFormat, err)
	}
	return version, nil
}

func readNetwork(txn *badger.Txn) (n network, err error) {
	err = readRow(txn, keyNetwork.bytes(), func(row []byte) error {
		n, err = decodeNetwork(row)
		return err
	})
	if err != nil {
		return network{}, fmt.Errorf("read %s: %w", keyNetwork, err)
	}
	return n, nil
}

// loadSegments fills in the list of segments and returns the table of their hashes, and the keys of rows that the state does not name.
// A segment that cannot be trusted is listed as corrupt and stops nothing.
func (s *Store) loadSegments(txn *badger.Txn, snap *snapshot) (hashes hashTable, garbage [][]byte, err error) {
	entries := make([]uint64, 0, min(snap.sealed.blocks, pageBlocks+DefaultSegmentBlocks)) // not in the table yet: whole pages are cheaper
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte(prefixSegment)})
	defer it.Close()
	next := chain.Height(0) // first height that no segment of the list has
	for it.Rewind(); it.Valid(); it.Next() {
		last, err := parseHeightKey(prefixSegment, it.Item().Key())
		if err != nil {
			garbage = append(garbage, it.Item().KeyCopy(nil))
			continue
		}
		if last >= snap.sealed.blocks || last < next {
			garbage = append(garbage, it.Item().KeyCopy(nil))
			continue
		}
		err = it.Item().Value(func(v []byte) error {
			row, err := decodeSegment(v)
			if err == nil {
				err = row.verifyTables()
			}
			if err == nil && (row.first < next || row.lastHeight() != last) {
				err = fmt.Errorf("it says blocks %d to %d: %w", row.first, row.lastHeight(), errTable)
			}
			if err != nil {
				return err
			}
			s.listGap(snap, next, row.first)
			g := &segment{first: row.first, last: last, prev: row.prev, hash: row.last}
			if n := len(snap.segments); n > 0 && snap.segments[n-1].corrupt.Load() == nil && snap.segments[n-1].hash != g.prev {
				s.markCorrupt(g, segmentKey(last).String(), fmt.Errorf("its parent is %s, not %s", g.prev, snap.segments[n-1].hash))
			}
			snap.segments = append(snap.segments, g)
			if entries = appendEntries(entries, row.first, row.prefixes); len(entries) >= pageBlocks {
				hashes, entries = hashes.with(entries), make([]uint64, 0, cap(entries))
			}
			return nil
		})
		if err != nil {
			g := &segment{first: next, last: last, unlisted: true}
			s.markCorrupt(g, segmentKey(last).String(), err)
			snap.segments = append(snap.segments, g)
		}
		next = last + 1
	}
	s.listGap(snap, next, snap.sealed.blocks)
	snap.unlisted = snap.findUnlisted()
	for key := range rowsOf(txn, prefixTransparent, false) {
		if last, err := parseHeightKey(prefixTransparent, key); err != nil || last >= snap.sealed.blocks {
			garbage = append(garbage, key)
		}
	}
	return hashes.with(entries), garbage, nil
}

// listGap lists the heights from..to-1 as a corrupt segment, if there are any: their row is gone.
func (s *Store) listGap(snap *snapshot, from, to chain.Height) {
	if from == to {
		return
	}
	g := &segment{first: from, last: to - 1, unlisted: true}
	s.markCorrupt(g, segmentKey(to-1).String(), errMissing)
	snap.segments = append(snap.segments, g)
}

// markCorrupt takes a segment out of service: one log line, and a number in Stats.
func (s *Store) markCorrupt(g *segment, key string, err error) *CorruptError {
	c := &CorruptError{First: g.first, Last: g.last, Key: key, Err: err}
	if !g.corrupt.CompareAndSwap(nil, c) {
		return g.corrupt.Load()
	}
	s.corrupt.Add(1)
	s.o.Logger.Error("a row of the index is corrupt: its blocks count as not indexed", "key", key, "first", g.first, "last", g.last, "error", err)
	return c
}

// loadRecent fills in the recent blocks by walking from the tip to the sealed ones, and returns the keys of the other rows. If the
// walk breaks off, the sealed blocks are all that is left: the Builder fetches the others again.
func (s *Store) loadRecent(txn *badger.Txn, snap *snapshot) (unnamed [][]byte, err error) {
	found := make(map[chain.BlockID]recentBlock)
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte(prefixRecent)})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		unnamed = append(unnamed, it.Item().KeyCopy(nil))
		key, err := parseRecentKey(it.Item().Key())
		if err != nil {
			continue
		}
		_ = it.Item().Value(func(v []byte) error {
			row, err := decodeRecentRow(v)
			if err == nil {
				found[chain.BlockID(key)] = row.info(key.Hash, s.o.shortFrame())
			}
			return err // an unreadable row is one that is not found
		})
	}
	recent := make([]recentBlock, snap.top.blocks-snap.sealed.blocks)
	id := snap.top.tip()
	for i := len(recent) - 1; i >= 0; i-- {
		r, ok := found[id]
		if !ok || i == 0 && snap.sealed.blocks > 0 && r.prev != snap.sealed.hash {
			s.o.Logger.Error("a recent row of the index is missing or corrupt: the recent blocks are fetched again",
				"height", id.Height, "hash", id.Hash, "from", snap.sealed.blocks, "to", snap.top.blocks-1)
			snap.top, s.state.complete = snap.sealed, false
			return unnamed, nil
		}
		delete(found, id)
		recent[i] = r
		id = chain.BlockID{Height: id.Height - 1, Hash: r.prev}
	}
	snap.recent = recent
	return slices.DeleteFunc(unnamed, func(key []byte) bool {
		k, _ := parseRecentKey(key)
		return k.Height >= snap.sealed.blocks && k.Height < snap.top.blocks && snap.recentAt(k.Height).hash == k.Hash
	}), nil
}

// deleteUnnamed deletes the rows that the tip does not name. A full disk, or a commit that fails, puts that off: they do no harm, and the
// builder's commits delete them.
func (s *Store) deleteUnnamed() error {
	for s.due() > 0 {
		err := s.saveState()
		if errors.Is(err, ErrUnusable) {
			return fmt.Errorf("delete rows that the tip does not name: %w", err)
		}
		if err != nil {
			s.o.Logger.Warn("rows that the tip does not name stay for now", "rows", s.due(), "error", err)
			return nil
		}
	}
	return nil
}

// cutTornEnd cuts the newest blocks off from the first segment that cannot be read, if it is at the end of the chain, or near the end after
// the process was killed or the power failed: a disk leaves that which had not written what it said it had. A full disk, or a commit that
// fails, puts the cut off: until then these heights count as not indexed.
func (s *Store) cutTornEnd() error {
	segments := s.current.Load().segments
	from, end := len(segments), len(segments)
	for i := end - 1; i >= 0 && (i == from-1 || s.killed && end-i <= tornSegments); i-- {
		if s.verify(segments[i]) != nil {
			from = i
		}
	}
	if from == end {
		return nil
	}
	first := segments[from].first
	log := s.o.Logger.With("from", first, "to", s.state.top.blocks-1)
	err := s.cut(first)
	if errors.Is(err, ErrUnusable) {
		return err
	}
	if err != nil {
		log.Warn("the newest blocks of the index are damaged, and stay so for now", "error", err)
		return nil
	}
	s.corrupt.Store(0)
	for _, g := range segments[:from] {
		if g.corrupt.Load() != nil {
			s.corrupt.Add(1)
		}
	}
	log.Warn("the newest blocks of the index were damaged: they are fetched again")
	return nil
}

// verify reads both rows of a segment, and verifies what was not verified yet.
func (s *Store) verify(g *segment) error {
	if err := s.withSegment(g, func(segmentRow) error { return nil }); err != nil {
		return err
	}
	return s.withTransparent(g, func(transparentRow) error { return nil })
}
