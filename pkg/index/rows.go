package index

import (
	"errors"
	"fmt"
	"iter"

	"github.com/dgraph-io/badger/v4"
)

// readRow calls fn with the value of a key; it is valid during the call.
func readRow(txn *badger.Txn, key []byte, fn func(row []byte) error) error {
	item, err := txn.Get(key)
	if err != nil {
		return err
	}
	return item.Value(fn)
}

// missing gives badger.ErrKeyNotFound our own words.
func missing(err error) error {
	if errors.Is(err, badger.ErrKeyNotFound) {
		return errMissing
	}
	return err
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
	return s.readBack(g, key.String(), err)
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
	return s.readBack(g, key.String(), err)
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
