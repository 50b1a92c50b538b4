package index

import (
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

// readRow calls fn with the value of a key; it is valid during the call.
func readRow(txn *badger.Txn, key []byte, fn func(row []byte) error) error {
	item, err := txn.Get(key)
	if err != nil {
		return err
	}
	return readItem(item, fn)
}

// readItem calls fn with the value of a row that was found; it is valid during the call.
func readItem(item *badger.Item, fn func(row []byte) error) error {
	return item.Value(func(row []byte) error {
		if row == nil { // Badger could not read it, and has told its logger why
			return errUnread
		}
		return fn(row)
	})
}

// missing gives badger.ErrKeyNotFound our own words.
func missing(err error) error {
	if errors.Is(err, badger.ErrKeyNotFound) {
		return errMissing
	}
	return err
}

// heldRow is a row of a sealed segment that has been found once. Finding it takes microseconds, more than most that is cut out of it, and
// it never changes: whoever reads it again goes to its place in the value log at once.
type heldRow struct {
	item   atomic.Pointer[badger.Item] // nil while it has not been found, and for a row that Badger has among its keys
	copied atomic.Bool                 // Badger has it among its keys: each read finds and copies it
}

// rowKey is the key of a row, and how messages name it.
type rowKey interface {
	bytes() []byte
	fmt.Stringer
}

// readHeld is readRow for a row of a sealed segment. The store must not be closed meanwhile.
//
// While fn runs Badger holds a read lock on the row's value log file. When it goes on to the next file it waits for those who have such a
// lock, and makes those wait who want one: fn that read another row would wait for itself.
func readHeld[K rowKey](s *Store, row *heldRow, key K, fn func(row []byte) error) error {
	if row.item.Load() == nil && !row.copied.Load() {
		if err := s.hold(row, key.bytes()); err != nil {
			return err
		}
	}
	if item := row.item.Load(); item != nil {
		return readItem(item, fn)
	}
	txn := s.db.NewTransactionAt(latest, false)
	defer txn.Discard()
	return readRow(txn, key.bytes(), fn)
}

// hold finds a row, and keeps where it lies unless Badger has it among its keys: then the item is a copy of the row itself.
func (s *Store) hold(row *heldRow, key []byte) error {
	s.holding.Lock()
	defer s.holding.Unlock()
	item, err := s.held.Get(key)
	if err != nil {
		return err
	}
	if copied := item.EstimatedSize() == item.KeySize()+item.ValueSize(); copied {
		row.copied.Store(true)
		return nil
	}
	// The first read writes to the item, the next ones do not: any number of goroutines may have it from here on.
	if err := item.Value(nil); err != nil {
		return err
	}
	row.item.Store(item)
	return nil
}

// withSegment reads a segment row and verifies what was not verified yet. Errors of fn mark the segment as corrupt, since rows that
// passed their checksums are what the builder wrote. The store must not be closed meanwhile.
func (s *Store) withSegment(g *segment, fn func(segmentRow) error) error {
	if c := g.corrupt.Load(); c != nil {
		return c
	}
	key := segmentKey(g.last)
	err := readHeld(s, &g.frames, key, func(v []byte) error {
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
	return readBack(s, g, key, err)
}

// withTransparent reads the transparent row of a segment like withSegment.
func (s *Store) withTransparent(g *segment, fn func(transparentRow) error) error {
	key := transparentKey(g.last)
	err := readHeld(s, &g.columns, key, func(v []byte) error {
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
	return readBack(s, g, key, err)
}

// rowsOf iterates over the rows of a prefix, in order, with a copy of each key.
func rowsOf(txn *badger.Txn, prefix string, values bool) iter.Seq2[[]byte, *badger.Item] {
	return func(yield func([]byte, *badger.Item) bool) {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte(prefix), PrefetchValues: values, PrefetchSize: 100})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if !yield(it.Item().KeyCopy(nil), it.Item()) {
				return
			}
		}
	}
}
