package index

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Store is the index in one directory. It is a chain.Source for any number of goroutines; its one writer is a Builder.
type Store struct {
	dir    string
	o      Options
	lock   *os.File
	db     *badger.DB
	log    *badgerLogger
	killed bool // the database had not been closed when it was opened

	// gate is held for reading while Badger is, and for writing by Close, since Badger unmaps its files.
	gate   sync.RWMutex
	closed bool

	holding sync.Mutex  // guards held's Get: Badger does not say that a transaction may be used by several goroutines
	held    *badger.Txn // what a heldRow belongs to

	current  atomic.Pointer[snapshot]
	hashes   atomic.Pointer[hashTable]
	complete atomic.Bool
	apart    atomic.Pointer[error] // what Apart returns
	corrupt  atomic.Int64          // segments found corrupt since Open
	buffers  chain.BufferPool
	kept     keeper

	mu        sync.Mutex
	snapshots []*snapshot // oldest first, the last one is current; guarded by mu, and so are their refs and garbage
	garbage   [][]byte    // keys of rows that no snapshot names any more; guarded by mu

	// The rest belongs to the writer.
	state    state // as last committed
	net      network
	version  uint64    // Badger's commit timestamp: one up for every commit that was tried
	assembly assembler // for sealing
	reserved reserved
}

// latest reads whatever is newest. Badger is used in managed mode, in which a read neither takes part in its watermarks nor waits for
// a commit in flight: rows that a snapshot names never change, so there is nothing to isolate.
const latest = math.MaxUint64

// Open opens the index in dir, creating both as needed. It fails with ErrLocked, ErrOtherNetwork, ErrFormat, ErrDiskFull or
// ErrTooManyFiles, each saying what to do.
// Rows that the tip does not name are deleted, and so are the newest ones if a torn write left some of them unreadable: the Builder
// fetches them again.
// The caller closes the Store.
func Open(dir string, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open index: %w", notWritable(dir, err))
	}
	if err := checkFiles(dir, badgerFiles); err != nil { // the lock is a file too
		return nil, fmt.Errorf("open index %s: %w", dir, err)
	}
	lock, err := lockDir(dir, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, notWritable(dir, err)
	}
	s, err := openBadger(dir, lock, o)
	if err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		if !s.log.locked.Load() { // see Close
			s.db.Close()
			lock.Close()
		}
		return nil, fmt.Errorf("open index %s: %w", dir, err)
	}
	return s, nil
}

// openBadger opens the database of a locked directory, and gives the lock back when it cannot. The Store has nothing in memory yet.
func openBadger(dir string, lock *os.File, o Options) (s *Store, err error) {
	defer func() {
		if err != nil {
			lock.Close()
			err = fmt.Errorf("open index %s: %w", dir, err)
		}
	}()
	if err := checkOpening(dir, o.freeHook); err != nil {
		return nil, err
	}
	killed, err := leftLogs(dir)
	if err != nil {
		return nil, err
	}
	if err := refuse(dir, o, killed); err != nil {
		return nil, err
	}
	if !killed {
		if err := spareNewestLog(dir); err != nil {
			return nil, err
		}
	}
	log := &badgerLogger{log: o.Logger}
	db, err := badger.OpenManaged(badgerOptions(dir, o).WithLogger(log))
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, whenItStays)
	}
	db.SetDiscardTs(db.MaxVersion())
	return &Store{
		dir: dir, o: o, lock: lock, db: db, log: log, version: db.MaxVersion(), killed: killed, held: db.NewTransactionAt(latest, false),
	}, nil
}

// open runs fn while the store is open, which it stays until fn returns; else it fails with ErrClosed.
func (s *Store) open(fn func() error) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return ErrClosed
	}
	return fn()
}

// read is open with a read transaction.
func (s *Store) read(fn func(*badger.Txn) error) error {
	return s.open(func() error {
		txn := s.db.NewTransactionAt(latest, false)
		defer txn.Discard()
		return fn(txn)
	})
}

// Close deletes what is due to be deleted and closes the database. Views that are still open fail with ErrClosed from then on.
// The Builder must have returned.
//
// Without room on the disk, or for open files, or with a row whose length is damaged, it leaves the database as a kill would, its lock included, until the
// process ends: every commit is on the disk already, and the next Open replays the log.
func (s *Store) Close() error {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.held.Discard()
	if err := checkRoom(s.dir, badgerRoom, s.o.freeHook); NoRoom(err) {
		s.o.Logger.Warn("the index is left as it is, its log is replayed at the next start", "error", err)
		return nil
	}
	var errs []error
	if s.due() > 0 || s.complete.Load() != s.state.complete || s.kept.waiting(s.state, s.net.genesis) {
		// On a full disk the next Open does it.
		if err := s.saveState(); !NoRoom(err) {
			errs = append(errs, err)
		}
	}
	if s.log.locked.Load() {
		s.o.Logger.Warn("a row of the index has a wrong length, so that its files cannot be closed: its log is replayed at the next start")
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, s.db.Close(), s.lock.Close())...)
}

// Tip returns the newest block; false when the index is empty.
func (s *Store) Tip() (chain.BlockID, bool) {
	snap := s.current.Load()
	return snap.top.tip(), snap.top.blocks > 0
}

// Complete tells whether the tip is the node's, or was a moment ago: then the index answers for the whole chain, node or no node.
// It survives a restart.
func (s *Store) Complete() bool { return s.complete.Load() }

// Apart says why the stored chain is known not to be the node's: ErrDeepReorg or ErrOtherNetwork. It is nil as soon as the two agree.
func (s *Store) Apart() error {
	if err := s.apart.Load(); err != nil {
		return *err
	}
	return nil
}

// setApart notes what a comparison with the node's chain gave.
func (s *Store) setApart(err error) {
	switch {
	case err == nil:
		s.apart.Store(nil)
	case errors.Is(err, ErrDeepReorg), errors.Is(err, ErrOtherNetwork):
		s.apart.Store(&err)
	}
}

// View implements chain.Source: the best chain as stored now. It fails with chain.ErrUnavailable while the index is empty.
func (s *Store) View(context.Context) (chain.View, error) {
	snap := s.acquire()
	if snap == nil {
		return nil, fmt.Errorf("the index has no block yet: %w", chain.ErrUnavailable)
	}
	return &view{store: s, snap: snap}, nil
}

// Stats are numbers for metrics.
type Stats struct {
	SealedBlocks, RecentBlocks int
	Segments                   int
	CorruptSegments            int   // found since Open
	OpenSnapshots              int   // chains that open views still read, the current one included
	DueRows                    int   // rows that the next commit deletes
	TreeStates, SubtreeRoots   int   // kept
	DiskBytes                  int64 // allocated on the disk
}

// Stats returns the numbers of this moment. It looks at every file of the directory: a handful of system calls.
func (s *Store) Stats() Stats {
	snap := s.current.Load()
	st := Stats{
		SealedBlocks:    int(snap.sealed.blocks),
		RecentBlocks:    len(snap.recent),
		Segments:        len(snap.segments),
		CorruptSegments: int(s.corrupt.Load()),
		DiskBytes:       allocatedBytes(s.dir),
	}
	st.TreeStates, st.SubtreeRoots = s.kept.count()
	s.mu.Lock()
	defer s.mu.Unlock()
	st.OpenSnapshots, st.DueRows = len(s.snapshots), len(s.garbage)
	return st
}
