package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// CheckOptions of Check. The zero value is ready for use.
type CheckOptions struct {
	Logger   *slog.Logger            // gets Badger's own complaints; nil discards
	Progress func(done, total int64) // called now and then with blocks verified and blocks in all; may be nil

	freeHook func() int64 // as in Options
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

	Problems []Problem `json:"problems"`
}

// Problem is one thing that is wrong.
type Problem struct {
	Key   string       `json:"key"` // of the row, readable
	First chain.Height `json:"first"`
	Last  chain.Height `json:"last"` // heights that it concerns, both included
	What  string       `json:"what"`
	Do    string       `json:"do"`
}

// String is the line that a person reads.
func (p Problem) String() string {
	return fmt.Sprintf("%s (blocks %d to %d): %s: %s", p.Key, p.First, p.Last, p.What, p.Do)
}

// What to do about problems.
const (
	doRefetch = "these blocks count as not indexed, and the node answers for them; to index them again, delete the directory and start zsidecar"
	doRestart = "start zsidecar: it fetches the recent blocks again"
	doRebuild = "delete the directory and start zsidecar: all of it can be built again"
	doAgain   = "nothing: the node is asked for it again when a wallet wants it"
	doReport  = "this row does nothing; please report it"
)

// Check verifies every row of the index in dir: checksums, links between blocks, hash prefixes, tree sizes that never fall, transparent
// columns that fit their blocks. It changes no row. It needs the index for itself, and fails with ErrLocked while a process has it open;
// what it finds wrong is no error but a Problem of the Report.
func Check(ctx context.Context, dir string, o CheckOptions) (Report, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	r := Report{Dir: dir, Height: -1, Problems: []Problem{}}
	if _, err := os.Stat(filepath.Join(dir, badger.ManifestFilename)); err != nil {
		return r, fmt.Errorf("check index %s: there is none: %w", dir, err)
	}
	lock, err := lockDir(dir, unix.LOCK_EX)
	if err != nil {
		return r, err
	}
	defer lock.Close()
	db, recovered, err := openForCheck(dir, o.Logger, o.freeHook)
	if err != nil {
		return r, fmt.Errorf("check index %s: %w", dir, err)
	}
	r.Recovered = recovered
	defer db.Close()
	txn := db.NewTransactionAt(latest, false)
	defer txn.Discard()
	c := checker{ctx: ctx, txn: txn, report: &r, progress: o.Progress}
	if err := c.run(); err != nil {
		return r, fmt.Errorf("check index %s: %w", dir, err)
	}
	r.DiskBytes = allocatedBytes(dir)
	return r, nil
}

// openForCheck opens the database for reading. One that was not closed has logs of its memory tables to replay first, for which Badger
// wants to write.
func openForCheck(dir string, log *slog.Logger, free func() int64) (db *badger.DB, recovered bool, err error) {
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return nil, false, err
	}
	if recovered = len(logs) > 0; recovered {
		if err := checkRoom(dir, badgerRoom, free); err != nil {
			return nil, false, err
		}
	}
	db, err = badger.OpenManaged(badgerOptions(dir, Options{Logger: log}).WithReadOnly(!recovered))
	return db, recovered, err
}

// checker is one run of Check.
type checker struct {
	ctx      context.Context
	txn      *badger.Txn
	report   *Report
	progress func(done, total int64)

	state   state
	next    chainEnd // what has been verified so far
	buf     []byte
	unknown bool // the block below next is not known, since a row is gone: its child's link cannot be checked
}

func (c *checker) problem(key fmt.Stringer, first, last chain.Height, err error, do string) {
	c.report.Problems = append(c.report.Problems, Problem{Key: key.String(), First: first, Last: last, What: err.Error(), Do: do})
}

func (k metaKey) String() string { return string(k) }

func (c *checker) run() error {
	format, err := readFormat(c.txn)
	if err != nil || format == 0 {
		return err
	}
	c.report.Format = format
	if format != FormatVersion {
		return fmt.Errorf("%w: it has format %d and this release knows format %d: use the release that wrote it", ErrFormat, format, FormatVersion)
	}
	net, err := readNetwork(c.txn)
	if err != nil {
		c.problem(keyNetwork, 0, 0, err, doRebuild)
	}
	c.report.Network, c.report.Genesis = net.name, net.genesis.String()
	if c.state, err = readState(c.txn); err != nil {
		c.problem(keyState, 0, 0, err, doRebuild)
		return nil
	}
	if c.state.top.blocks > 0 {
		c.report.Height, c.report.Tip = int64(c.state.top.blocks)-1, c.state.top.hash.String()
	}
	c.report.Complete = c.state.complete
	if err := c.segments(); err != nil {
		return err
	}
	if err := c.recent(); err != nil {
		return err
	}
	if c.next.hash != c.state.top.hash && !c.unknown {
		c.problem(keyState, 0, c.state.top.blocks-1, fmt.Errorf("the tip is %s, but the last block is %s", c.state.top.tip(), c.next.tip()), doRebuild)
	}
	if err := c.kept(net.genesis); err != nil {
		return err
	}
	return c.others()
}

// rows calls fn for every row of a prefix, in order.
func (c *checker) rows(prefix string, fn func(item *badger.Item) error) error {
	it := c.txn.NewIterator(badger.IteratorOptions{Prefix: []byte(prefix)})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := fn(it.Item()); err != nil {
			return err
		}
	}
	return nil
}

// segments verifies the sealed blocks.
func (c *checker) segments() error {
	sealed := c.state.sealed.blocks
	err := c.rows(prefixSegment, func(item *badger.Item) error {
		last, err := parseHeightKey(prefixSegment, item.Key())
		if err != nil || last < c.next.blocks || last >= sealed {
			c.report.UnnamedRows++
			return nil
		}
		first := c.next.blocks
		c.report.Segments++
		if err := item.Value(func(v []byte) error { return c.segment(segmentKey(last), v) }); err != nil {
			c.problem(segmentKey(last), first, last, err, doRefetch)
			c.skip(last + 1)
		}
		c.progress(int64(c.next.blocks), int64(c.state.top.blocks))
		return nil
	})
	if err != nil {
		return err
	}
	c.gap(sealed)
	c.report.SealedBlocks = int64(sealed)
	if !c.unknown && sealed > 0 && c.next != c.state.sealed {
		c.problem(keyState, 0, sealed-1, fmt.Errorf("the sealed blocks end with %s, but the last segment with %s", c.state.sealed.tip(), c.next.tip()), doRebuild)
	}
	return nil
}

// skip goes on behind blocks that could not be verified.
func (c *checker) skip(to chain.Height) { c.next, c.unknown = chainEnd{blocks: to}, true }

// gap notes that the segment that ends below height to is gone, if there is something missing.
func (c *checker) gap(to chain.Height) {
	if c.next.blocks < to {
		c.problem(segmentKey(to-1), c.next.blocks, to-1, errMissing, doRefetch)
		c.skip(to)
	}
}

func (c *checker) segment(key segmentKey, v []byte) error {
	row, err := decodeSegment(v)
	if err != nil {
		return err
	}
	if err := errors.Join(row.verifyTables(), row.verifyFrames()); err != nil {
		return err
	}
	if row.first < c.next.blocks || row.lastHeight() != chain.Height(key) {
		return fmt.Errorf("it says blocks %d to %d: %w", row.first, row.lastHeight(), errTable)
	}
	c.gap(row.first)
	err = readRow(c.txn, transparentKey(key).bytes(), func(v []byte) error {
		columns, err := decodeTransparent(v)
		if err == nil {
			err = columns.verify()
		}
		if err == nil && (columns.first != row.first || columns.ends.len() != row.ends.len()) {
			err = fmt.Errorf("it says %d blocks from %d: %w", columns.ends.len(), columns.first, errTable)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", transparentKey(key), err)
		}
		return c.segmentBlocks(row, columns)
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return fmt.Errorf("%s: %w", transparentKey(key), errMissing)
	}
	return err
}

func (c *checker) segmentBlocks(row segmentRow, columns transparentRow) error {
	parent := row.prev
	for h := row.first; h <= row.lastHeight(); h++ {
		s, err := summarize(row, h)
		if err != nil {
			return err
		}
		if s.Prev != parent {
			return fmt.Errorf("block %s has parent %s, not %s", s.ID, s.Prev, parent)
		}
		parent = s.ID.Hash
		frame, err := row.frame(h)
		if err != nil {
			return err
		}
		column, err := columns.column(h)
		if err != nil {
			return err
		}
		if err := c.block(s, frame, column); err != nil {
			return err
		}
	}
	if parent != row.last {
		return fmt.Errorf("the last block is %s, not %s", parent, row.last)
	}
	return nil
}

// block verifies one block on top of those before it.
func (c *checker) block(s chain.Summary, frame, column []byte) error {
	if s.ID.Height != c.next.blocks {
		return fmt.Errorf("block %s where height %d belongs", s.ID, c.next.blocks)
	}
	if !c.unknown && s.Prev != c.next.hash {
		return fmt.Errorf("block %s has parent %s, not %s", s.ID, s.Prev, c.next.hash)
	}
	if _, err := s.Sizes.Minus(c.next.sizes); err != nil {
		return fmt.Errorf("tree sizes of block %s fall: %w", s.ID, err)
	}
	all := chain.Projection{Pools: chain.AllPools, KeepEmpty: true}
	var err error
	if c.buf, err = chain.Project(c.buf[:0], frame[chain.FramePrefixLen:], column, all); err != nil {
		return fmt.Errorf("block %s: %w", s.ID, err)
	}
	c.report.FrameBytes += int64(len(frame))
	c.report.ColumnBytes += int64(len(column))
	c.next, c.unknown = chainEnd{blocks: s.ID.Height + 1, hash: s.ID.Hash, sizes: s.Sizes}, false
	return nil
}

// recent verifies the recent blocks from the tip down, and then the bytes of each in order.
func (c *checker) recent() error {
	n := int(c.state.top.blocks - c.next.blocks)
	keys := make([]recentKey, n)
	id := c.state.top.tip()
	for i := n - 1; i >= 0; i-- {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		keys[i] = recentKey(id)
		err := readRow(c.txn, keys[i].bytes(), func(v []byte) error {
			row, err := decodeRecentRow(v)
			id = chain.BlockID{Height: id.Height - 1, Hash: row.prev}
			return err
		})
		if err != nil {
			c.problem(keys[i], c.next.blocks, c.state.top.blocks-1, missing(err), doRestart)
			c.skip(c.state.top.blocks)
			return nil
		}
	}
	for _, key := range keys {
		err := readRow(c.txn, key.bytes(), func(v []byte) error { return c.recentBlock(key, v) })
		if err != nil {
			c.problem(key, c.next.blocks, c.state.top.blocks-1, err, doRestart)
			c.skip(c.state.top.blocks)
			return nil
		}
		c.report.RecentBlocks++
		c.progress(int64(c.next.blocks), int64(c.state.top.blocks))
	}
	return nil
}

func (c *checker) recentBlock(key recentKey, v []byte) error {
	row, err := decodeRecentRow(v)
	if err != nil {
		return err
	}
	s, err := chain.Summarize(row.frame[chain.FramePrefixLen:])
	if err != nil {
		return err
	}
	if s.ID != chain.BlockID(key) || s.Prev != row.prev || s.Sizes != row.sizes {
		return fmt.Errorf("the row's bytes are those of block %s", s.ID)
	}
	return c.block(s, row.frame, row.column)
}

// others counts the rows that nothing names, and complains of those that are none of ours.
func (c *checker) others() error {
	err := c.rows(prefixRecent, func(*badger.Item) error { c.report.UnnamedRows++; return nil })
	if err != nil {
		return err
	}
	c.report.UnnamedRows -= int(c.report.RecentBlocks)
	transparent := 0
	if err := c.rows(prefixTransparent, func(*badger.Item) error { transparent++; return nil }); err != nil {
		return err
	}
	c.report.UnnamedRows += max(transparent-c.report.Segments, 0)
	return c.rows("", func(item *badger.Item) error {
		key := string(item.Key())
		for _, prefix := range []string{prefixMeta, prefixSegment, prefixTransparent, prefixRecent, prefixTree, prefixSubtree} {
			if strings.HasPrefix(key, prefix) {
				return nil
			}
		}
		c.problem(metaKey(fmt.Sprintf("%q", key)), 0, 0, errors.New("this release knows no such row"), doReport)
		return nil
	})
}
