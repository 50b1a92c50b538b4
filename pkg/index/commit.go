package index

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/dgraph-io/badger/v4"
)

// Limits of one commit. Badger takes 2.4 MiB of keys and values below its value threshold, and 26,000 entries, per transaction;
// segments above the threshold count as a pointer.
const (
	commitBytes   = 1 << 20 // of recent rows gathered before a commit: one more row below the threshold still fits
	commitRows    = 512
	commitDeletes = 4096

	commitSegmentBytes = 8 << 20 // of rows of segments; ADR 4 has the measurements
	commitSegments     = 16
	tornSegments       = 2 * commitSegments // are verified when the database had not been closed
)

// batch is what one transaction writes. Keys and values must stay as they are until it is committed.
type batch struct {
	keys, values [][]byte
	deletes      [][]byte
	bytes        int64
}

func (b *batch) put(key, value []byte) {
	b.keys, b.values = append(b.keys, key), append(b.values, value)
	b.bytes += int64(len(key) + len(value))
}

// apply commits b together with the state that it leads to and with rows that are due to be deleted: everything that is ever written
// goes through here. After an error nothing has changed; a commit that took place though its answer was lost counts as done. One that took
// place in memory, but that the disk refused, is ErrUnusable: the kernel forgets what it could not write, so nothing may be built on it.
func (s *Store) apply(b *batch, next state) error {
	next.seq = s.state.seq + 1
	next.complete = s.complete.Load()
	kept := s.kept.take(b, s.current.Load(), next, s.net.genesis)
	due := s.takeDue(commitDeletes)
	b.deletes = append(b.deletes, due...)
	b.put(keyState.bytes(), next.encode())

	err := s.write(b)
	if err != nil {
		landed, readErr := s.readState()
		switch {
		case readErr != nil:
			err = fmt.Errorf("%w: %w, and reading back: %w", ErrUnusable, err, readErr)
		case landed.seq == next.seq && fromSystem(err):
			err = fmt.Errorf("%w: the disk of %s did not keep what was written: %w: see what is wrong with it, and start again; "+
				"zsidecar check tells whether something was lost", ErrUnusable, s.dir, err)
		case landed.seq == next.seq:
			s.o.Logger.Warn("a commit to the index reported an error but took place", "error", err)
			err = nil
		}
	}
	if err != nil {
		s.putBackDue(due)
		return err
	}
	s.state = next
	s.kept.done(kept)
	return nil
}

// write hands b to Badger, through the hook of tests.
func (s *Store) write(b *batch) error {
	if err := s.checkSpace(b.bytes); err != nil {
		return err
	}
	if s.o.commitHook != nil {
		return s.o.commitHook(func() error { return s.writeBadger(b) })
	}
	return s.writeBadger(b)
}

func (s *Store) writeBadger(b *batch) error {
	txn := s.db.NewTransactionAt(latest, true)
	defer txn.Discard()
	for i, key := range b.keys {
		if err := txn.Set(key, b.values[i]); err != nil {
			return fmt.Errorf("write to the index: %w", err)
		}
	}
	for _, key := range b.deletes {
		if err := txn.Delete(key); err != nil {
			return fmt.Errorf("delete from the index: %w", err)
		}
	}
	s.version++
	err := txn.CommitAt(s.version, nil)
	if refused := s.log.refused.Load(); err == nil && refused != nil {
		err = *refused
	}
	if err != nil {
		return fmt.Errorf("commit to the index: %w", err)
	}
	s.db.SetDiscardTs(s.version)
	return nil
}

// readState reads the state row back; the zero state when there is none.
func (s *Store) readState() (state, error) {
	txn := s.db.NewTransactionAt(latest, false)
	defer txn.Discard()
	return readState(txn)
}

func readState(txn *badger.Txn) (st state, err error) {
	err = readRow(txn, keyState.bytes(), func(row []byte) error {
		st, err = decodeState(row)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return state{}, nil
	}
	if err != nil {
		return state{}, fmt.Errorf("read %s: %w", keyState, err)
	}
	return st, nil
}

// saveState commits nothing but the state and the rows due to be deleted.
func (s *Store) saveState() error { return s.apply(&batch{}, s.state) }

// takeDue takes up to n keys of rows that may be deleted; putBackDue returns them after a failure.
func (s *Store) takeDue(n int) [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.garbage))
	due := s.garbage[:n:n]
	s.garbage = s.garbage[n:]
	return due
}

func (s *Store) putBackDue(due [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.garbage = append(s.garbage, due...)
}

func (s *Store) due() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.garbage)
}

// allocatedBytes is what the files of dir occupy; Badger's open files are sparse.
func allocatedBytes(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // a file that Badger has just removed
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += st.Blocks * 512
			}
		}
		return nil
	})
	return sum
}
