package index

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// CheckOptions of Check, Repair and Store.Check. The zero value is ready for use.
type CheckOptions struct {
	Logger   *slog.Logger            // gets Badger's own complaints; nil discards
	Progress func(done, total int64) // called now and then with blocks verified and blocks in all; may be nil

	// Compare, when not nil, is asked for blocks that are compared with the stored ones once those have been verified by themselves:
	// Sample of random heights, chosen by Seed, and the ones at the edges of the index and of its sealed part; or, with All, every one.
	Compare BestChain
	Sample  int
	Seed    uint64
	All     bool

	freeHook    func() int64 // as in Options
	madeUpSizes bool         // the tree sizes are a test's, which has not put so many notes into its blocks
}

func (o CheckOptions) withDefaults() CheckOptions {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	return o
}

// Report is what Check found. It marshals to JSON for machines.
type Report struct {
	Dir      string `json:"dir"`
	Format   uint32 `json:"format"`
	Network  string `json:"network"` // name, may be empty
	Genesis  string `json:"genesis"` // hash in display order, like the next
	Height   int64  `json:"height"`  // of the tip, -1 when the index is empty
	Tip      string `json:"tip"`
	Complete bool   `json:"complete"`

	SealedBlocks int64 `json:"sealed_blocks"`
	RecentBlocks int64 `json:"recent_blocks"`
	Segments     int   `json:"segments"`
	TreeStates   int   `json:"tree_states"`
	SubtreeRoots int   `json:"subtree_roots"`
	UnnamedRows  int   `json:"unnamed_rows"` // rows that the tip does not name: the next start deletes them
	FrameBytes   int64 `json:"frame_bytes"`
	ColumnBytes  int64 `json:"column_bytes"` // of the transparent columns
	DiskBytes    int64 `json:"disk_bytes"`   // allocated
	Recovered    bool  `json:"recovered"`    // the database had not been closed; its log was replayed, as at a start

	Problems []Problem   `json:"problems"`
	Node     *Comparison `json:"node,omitempty"`   // nil when no node was asked
	Repair   *Repaired   `json:"repair,omitempty"` // of Repair, when there was something to repair; Problems are those that are left

	spans []span
	rows  state // what the rows lead to when all that are sealed are right; seq and flags left out
}

// Problem is one thing that is wrong.
type Problem struct {
	Key   string       `json:"key"` // of the row, readable
	First chain.Height `json:"first"`
	Last  chain.Height `json:"last"` // heights that it concerns, both included
	What  string       `json:"what"`
	Do    string       `json:"do"`

	fix      fix
	row      []byte // the key of the row that fixDrop and fixRecent are about
	compared bool   // only a comparison with the node finds it
}

// String is the line that a person reads.
func (p Problem) String() string {
	return fmt.Sprintf("%s (blocks %d to %d): %s: %s", p.Key, p.First, p.Last, p.What, p.Do)
}

// fix says how Repair goes about a Problem.
type fix uint8

const (
	fixBlocks  fix = iota // fetch the sealed blocks of its heights again
	fixRecent             // fetch the recent blocks that cannot be read again
	fixState              // let the state row say what the other rows do
	fixNetwork            // write the network row again
	fixDrop               // delete the row
	fixNone               // nothing of the index is wrong by itself
)

// do says what an operator can do about a problem.
func (f fix) do() string {
	return [...]string{
		fixBlocks:  "the node is asked for these blocks until zsidecar check --repair has fetched just them again",
		fixRecent:  "zsidecar check --repair fetches just what is missing again; the next start would fetch all recent blocks",
		fixState:   "zsidecar check --repair goes back to the last blocks that are right, and the next start builds on",
		fixNetwork: "zsidecar check --repair writes it again",
		fixDrop:    "zsidecar check --repair deletes this row: the node is asked when a wallet wants what it held",
		fixNone:    "is it the right node, and is its database whole? If so, the next start follows it",
	}[f]
}

// Check verifies every row of the index in dir: checksums, links between blocks, hash prefixes, notes counted against tree sizes,
// transparent columns that fit their blocks, rows that nothing names. It changes no row. It needs the index for itself, and fails with
// ErrLocked while a process has it open; what it finds wrong is no error but a Problem of the Report.
//
// What only the node knows is not seen without CheckOptions.Compare: whether the chain is the best one, what is in the transactions,
// and whether the last transactions of a block were left out.
func Check(ctx context.Context, dir string, o CheckOptions) (Report, error) {
	o = o.withDefaults()
	if err := exists(dir); err != nil {
		return Report{}, err
	}
	lock, err := lockDir(dir, os.O_RDWR|os.O_CREATE)
	if unwritable(err) {
		return checkUnwritable(ctx, dir, o)
	}
	if err != nil {
		return Report{}, err
	}
	defer lock.Close()
	return checkDir(ctx, dir, o)
}

// Check verifies what the store serves now, like the function of that name, while others read and the builder writes. It takes half of
// one processor at most, and looks at nothing that came after it began; rows that the tip does not name come and go, and are not
// counted. A segment that it finds wrong is served no more. It fails with ErrClosed, and with chain.ErrReorged when sealed blocks are
// cut off meanwhile.
func (s *Store) Check(ctx context.Context, o CheckOptions) (Report, error) {
	snap := s.acquire()
	if snap == nil {
		return Report{Dir: s.dir, Height: -1, Problems: []Problem{}}, nil
	}
	defer s.release(snap)
	c := newChecker(ctx, o.withDefaults(), s.read)
	c.live, c.store = snap, s
	err := c.run()
	if err == nil && snap.cutOff() { // then some of what was compared may have been another chain's
		err = fmt.Errorf("sealed blocks were cut off meanwhile: %w", chain.ErrReorged)
	}
	if err != nil {
		return Report{}, fmt.Errorf("check the index in use: %w", err)
	}
	c.report.Dir, c.report.DiskBytes, c.report.Complete = s.dir, allocatedBytes(s.dir), s.Complete()
	return *c.report, nil
}

// exists fails when there is no index in dir.
func exists(dir string) error {
	listed, err := hasManifest(dir)
	switch {
	case err != nil:
		return fmt.Errorf("check index %s: %w", dir, err)
	case !listed:
		return fmt.Errorf("check index %s: there is none: %w", dir, fs.ErrNotExist)
	}
	return nil
}

// checkDir is Check of an index that is locked.
func checkDir(ctx context.Context, dir string, o CheckOptions) (Report, error) {
	return checkLinked(ctx, dir, dir, o)
}

// checkLinked is checkDir with files that may be links to those of dir.
func checkLinked(ctx context.Context, dir, files string, o CheckOptions) (Report, error) {
	db, recovered, err := openForCheck(files, o)
	if err != nil {
		return Report{}, fmt.Errorf("check index %s: %w", dir, err)
	}
	defer db.Close()
	r, err := checkDB(ctx, db, o)
	if err != nil {
		return Report{}, fmt.Errorf("check index %s: %w", dir, err)
	}
	r.Dir, r.Recovered, r.DiskBytes = dir, recovered, allocatedBytes(dir)
	return r, nil
}

// checkDB verifies the rows of a database that nobody writes to.
func checkDB(ctx context.Context, db *badger.DB, o CheckOptions) (Report, error) {
	txn := db.NewTransactionAt(latest, false)
	defer txn.Discard()
	c := newChecker(ctx, o, func(fn func(*badger.Txn) error) (err error) {
		defer recovered(&err)
		return fn(txn)
	})
	if err := c.run(); err != nil {
		return Report{}, err
	}
	return *c.report, nil
}

// openForCheck opens the database for reading. One that was not closed has logs of its memory tables to replay first, for which Badger
// wants to write.
func openForCheck(dir string, o CheckOptions) (db *badger.DB, recovered bool, err error) {
	if recovered, err = leftLogs(dir); err != nil {
		return nil, false, err
	}
	if recovered {
		if err = checkRoom(dir, badgerRoom, o.freeHook); err != nil {
			err = fmt.Errorf("the program that wrote it did not close it, so that its logs are to be replayed first: %w", err)
		}
	}
	if err == nil {
		err = wholeManifest(dir, Options{Logger: o.Logger}, recovered)
	}
	if err != nil {
		return nil, false, err
	}
	db, err = badger.OpenManaged(badgerOptions(dir, Options{Logger: o.Logger, verifyValues: true}).WithReadOnly(!recovered))
	if err != nil {
		err = fmt.Errorf("%w: %s", err, whenItStays)
	}
	return db, recovered, err
}
