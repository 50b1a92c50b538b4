package index

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Defaults of Options.
const (
	DefaultSealDepth      chain.Height = 1100
	DefaultSegmentBytes                = 1 << 20
	DefaultSegmentBlocks               = 2048
	DefaultSegmentAge                  = 10 * time.Second
	DefaultMinFree        int64        = 1 << 30
	DefaultTreeCheckEvery chain.Height = 10_000
	DefaultTreeStates                  = 4096
)

// Options of a Store. The zero value is ready for use: a zero field means its default.
type Options struct {
	// SealDepth: only blocks deeper than this below the node's tip are sealed. It must exceed the node's rollback window.
	SealDepth chain.Height
	// A segment closes as soon as its frames, or its transparent columns, reach SegmentBytes, or it has SegmentBlocks blocks. While
	// building several of them share a commit; what was fetched waits for it no longer than SegmentAge.
	SegmentBytes  int
	SegmentBlocks int
	SegmentAge    time.Duration
	// MinFree bytes stay free on the disk: a commit that would leave less waits. Negative means none.
	MinFree int64
	// TreeCheckEvery is the largest number of recent blocks that are committed, while the index is being built, without comparing their tree
	// sizes with the node's. They are compared before every commit of segments, at the tip, and before every commit to a complete index;
	// blocks of a build that turn out to differ are taken back.
	TreeCheckEvery chain.Height
	// TreeStates is how many tree states are kept at most, the newest ones, some 2 kB each.
	TreeStates int
	// Network is a name to store beside the genesis hash and to show in messages; it may be empty.
	Network string
	// Genesis, when not zero, must be the hash of the stored chain's block 0 (internal byte order), else Open fails with ErrOtherNetwork.
	Genesis chain.Hash
	// Logger gets what an operator should know; Badger's own lines arrive at debug. Nil discards.
	Logger *slog.Logger

	// commitHook, when set, stands around every commit: tests lose commits and their answers with it.
	commitHook func(write func() error) error
	// freeHook, when set, stands for the file system's word for its free bytes.
	freeHook func() int64
	// shortFrames is the memory in bytes that frames of recent blocks may take; see shortFrame.
	shortFrames int
	// badgerHook, when set, changes Badger's options: tests make its files small.
	badgerHook func(badger.Options) badger.Options
	// verifyValues has Badger verify its own checksum of every value that it reads from a value log. Without, a row of a wrong length there
	// leaves the file locked, see badgerLogger.locked; but it costs a look at the whole row, however little of it is wanted.
	verifyValues bool
}

func (o Options) withDefaults() (Options, error) {
	o.SealDepth = cmp.Or(o.SealDepth, DefaultSealDepth)
	o.SegmentBytes = cmp.Or(o.SegmentBytes, DefaultSegmentBytes)
	o.SegmentBlocks = cmp.Or(o.SegmentBlocks, DefaultSegmentBlocks)
	o.SegmentAge = cmp.Or(o.SegmentAge, DefaultSegmentAge)
	o.MinFree = max(cmp.Or(o.MinFree, DefaultMinFree), 0)
	o.TreeCheckEvery = cmp.Or(o.TreeCheckEvery, DefaultTreeCheckEvery)
	o.TreeStates = cmp.Or(o.TreeStates, DefaultTreeStates)
	o.shortFrames = cmp.Or(o.shortFrames, 4<<20)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.SegmentBytes < 0 || o.SegmentBytes > maxSegmentBytes || o.SegmentBlocks < 0 || o.SegmentAge < 0 || o.TreeStates < 0 {
		return o, fmt.Errorf("segments of %d bytes (at most %d), %d blocks and %v, and %d tree states: no limit may be negative",
			o.SegmentBytes, maxSegmentBytes, o.SegmentBlocks, o.SegmentAge, o.TreeStates)
	}
	return o, nil
}

// shortFrame is the length up to which the frames of recent blocks, of which there are as many as not yet fill a segment and SealDepth
// more, are kept in memory: 1.3 kB by default.
func (o *Options) shortFrame() int { return o.shortFrames / (int(o.SealDepth) + o.SegmentBlocks) }

// Badger's numbers. A transaction may hold 15 % of a memtable in keys and inlined values: 2.4 MiB here, see commitBytes.
const (
	memTableSize     = 16 << 20
	valueThreshold   = 128 << 10 // values from here on go to the value log: segments, and nothing that is ever deleted but huge blocks
	valueLogFileSize = 64 << 20  // Badger reads the last file at every start: 256 MiB took 0.25 s from memory
	maxSegmentBytes  = 16 << 20  // a row must fit a value log file, a large last block included
)

func badgerOptions(dir string, o Options) badger.Options {
	b := badger.DefaultOptions(dir).
		WithLogger(&badgerLogger{log: o.Logger}).
		WithSyncWrites(true). // one fsync per commit; without it a power cut could keep a row's key and lose its segment
		WithMemTableSize(memTableSize).
		WithNumMemtables(2).
		WithNumCompactors(2).
		WithValueThreshold(valueThreshold).
		WithValueLogFileSize(valueLogFileSize).
		WithNumVersionsToKeep(1).
		WithDetectConflicts(false).    // there is one writer
		WithCompression(options.None). // hashes and ciphertexts do not compress, and plain tables need no block cache
		WithBlockCacheSize(0).
		WithIndexCacheSize(0).
		WithVerifyValueChecksum(o.verifyValues).
		WithMetricsEnabled(false)
	if o.badgerHook != nil {
		b = o.badgerHook(b)
	}
	return b
}

// leftLogs tells whether the database in dir was not closed: then there are logs of its memory tables. Logs without a byte, such as a
// process leaves that is killed right after it has created one, are removed: Badger would take them for logs that it has made this moment,
// and refuse to open.
func leftLogs(dir string) (left bool, err error) {
	for _, pattern := range []string{"*.vlog", "*.mem"} {
		paths, err := filesIn(dir, pattern)
		if err != nil {
			return false, err
		}
		left = len(paths) > 0
		for _, path := range paths {
			info, err := os.Stat(path)
			if err == nil && info.Size() == 0 {
				err = os.Remove(path)
			}
			if err != nil {
				return false, fmt.Errorf("look for empty logs: %w", err)
			}
		}
	}
	return left, nil
}

// badgerLogger sends Badger's lines to slog, one level lower than Badger thinks they deserve, since the store reports what matters.
type badgerLogger struct {
	log *slog.Logger
	// refused is the first error of the operating system that Badger has complained of since it was opened: it goes on after a value log
	// that could not be synced, and tells nobody else.
	refused atomic.Pointer[error]
	// locked is set once Badger has read a row whose length in its value log is wrong: it says so, and forgets the lock that it took to read,
	// for which it would wait when it closes.
	locked atomic.Bool
}

func line(format string, args []any) string {
	return "badger: " + strings.TrimSpace(fmt.Sprintf(format, args...))
}

func (l *badgerLogger) Errorf(format string, args ...any) {
	if strings.HasPrefix(format, "Invalid read") {
		l.locked.Store(true)
	}
	for _, arg := range args {
		if err, ok := arg.(error); ok && fromSystem(err) {
			l.refused.CompareAndSwap(nil, &err)
		}
	}
	l.log.Error(line(format, args))
}

// fromSystem tells whether an error is one of the operating system.
func fromSystem(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno)
}

func (l *badgerLogger) Warningf(format string, args ...any) { l.log.Warn(line(format, args)) }
func (l *badgerLogger) Infof(format string, args ...any)    { l.log.Debug(line(format, args)) }
func (l *badgerLogger) Debugf(string, ...any)               {} // several lines for every commit
