package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// errBreak: a block does not fit the one below it. Which of the two is wrong cannot be told from them.
var errBreak = errors.New("it or the block below is wrong")

// checker is one run of Check.
type checker struct {
	ctx    context.Context
	o      CheckOptions
	read   func(func(*badger.Txn) error) error // looks at the database
	live   *snapshot                           // of a running store, whose rows move on; nil otherwise, like the next
	store  *Store
	report *Report

	state   state
	net     network
	next    chainEnd // what has been verified so far
	lost    bool     // the state row cannot be read: the segments alone say what there is
	unknown bool     // the block below next is not known, since a row is gone: its child cannot be held against it
	spans   []span
	named   map[chain.Hash]struct{} // hashes of the recent blocks that the tip names
	recents []recentKey             // the ones that were verified
	row     []byte                  // a copy of the segment row that is verified
	copy    struct {                // of the segment that was compared last
		last                 chain.Height
		segment, transparent []byte
	}

	trees map[chain.Hash]chain.TreeState
	roots map[chain.Height][]checkedRoot
}

// span is a run of sealed blocks whose segment row has, or had, the key of the last one.
type span struct {
	first, last chain.Height
	missing     bool // there is no such row
	bad         bool // something is wrong with it
	rebuilt     bool // by Repair
}

func newChecker(ctx context.Context, o CheckOptions, read func(func(*badger.Txn) error) error) *checker {
	return &checker{
		ctx: ctx, o: o, read: read, report: &Report{Height: -1, Problems: []Problem{}},
		named: make(map[chain.Hash]struct{}), trees: make(map[chain.Hash]chain.TreeState), roots: make(map[chain.Height][]checkedRoot),
	}
}

func (c *checker) problem(key fmt.Stringer, first, last chain.Height, err error, f fix) {
	c.report.Problems = append(c.report.Problems, Problem{
		Key: key.String(), First: first, Last: last, What: missing(err).Error(), Do: f.do(), fix: f,
	})
}

// drop notes a row that should not be there.
func (c *checker) drop(key fmt.Stringer, row []byte, h chain.Height, err error) {
	c.problem(key, h, h, err, fixDrop)
	c.last().row = row
}

// last is the problem that was noted last.
func (c *checker) last() *Problem { return &c.report.Problems[len(c.report.Problems)-1] }

func (k metaKey) String() string { return string(k) }

func (c *checker) run() error {
	if err := c.meta(); err != nil || c.report.Format == 0 {
		return err
	}
	steps := []func() error{c.outline, c.kept, c.segments, c.recent, c.others}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if c.o.Compare != nil {
		if err := c.compare(); err != nil {
			return err
		}
	}
	c.report.spans = c.spans
	return nil
}

// meta reads the rows that say what the index is. A format that is not ours is an error: nothing else could be understood.
func (c *checker) meta() error {
	return c.read(func(txn *badger.Txn) error {
		format, err := readFormat(txn)
		if err != nil || format == 0 {
			return err
		}
		if c.report.Format = format; format != FormatVersion {
			return unknownFormat(format)
		}
		if c.net, err = readNetwork(txn); err != nil {
			c.problem(keyNetwork, 0, 0, err, fixNetwork)
		}
		c.report.Network, c.report.Genesis = c.net.name, c.net.genesis.String()
		if c.state, err = loadState(txn); err != nil {
			c.problem(keyState, 0, 0, err, fixState)
			c.lost = c.live == nil
		}
		if c.live != nil {
			c.state.sealed, c.state.top = c.live.sealed, c.live.top
		}
		if c.state.top.blocks > 0 {
			c.report.Height, c.report.Tip = int64(c.state.top.blocks)-1, c.state.top.hash.String()
		}
		c.report.Complete = c.state.complete
		return nil
	})
}

// outline finds out which segment row has which sealed blocks. It goes down from the last sealed block, since each row names its first.
func (c *checker) outline() error {
	if c.live != nil {
		for _, g := range c.live.segments {
			c.spans = append(c.spans, span{first: g.first, last: g.last})
		}
		return nil
	}
	return c.read(func(txn *badger.Txn) error {
		var lasts []chain.Height
		for key := range rowsOf(txn, prefixSegment, false) {
			if last, err := parseHeightKey(prefixSegment, key); err == nil && (c.lost || last < c.state.sealed.blocks) {
				lasts = append(lasts, last)
			}
		}
		end := c.state.sealed.blocks
		if c.lost && len(lasts) > 0 {
			end = lasts[len(lasts)-1] + 1
		}
		c.spans = outline(end, lasts, func(last chain.Height) (first chain.Height, ok bool) {
			err := readRow(txn, segmentKey(last).bytes(), func(v []byte) error {
				row, err := decodeSegment(v)
				if err == nil {
					err = row.verifyTables()
				}
				first, ok = row.first, err == nil && row.lastHeight() == last && row.first <= last
				return err
			})
			return first, ok && err == nil
		})
		return c.ctx.Err()
	})
}

// outline divides the blocks 0..end-1 among the segment rows of the given last heights, ascending; header reads the first height of one.
func outline(end chain.Height, lasts []chain.Height, header func(last chain.Height) (first chain.Height, ok bool)) []span {
	var down []span
	for i := len(lasts) - 1; end > 0; {
		for i >= 0 && lasts[i] >= end {
			i--
		}
		below := chain.Height(0) // where the row below ends
		if i >= 0 {
			below = lasts[i] + 1
		}
		g := span{first: below, last: end - 1, missing: true}
		if below == end {
			first, ok := header(end - 1)
			if g = (span{first: first, last: end - 1}); !ok {
				g.first = 0
				if i > 0 {
					g.first = lasts[i-1] + 1
				}
			}
		}
		down = append(down, g)
		end = g.first
	}
	spans := make([]span, 0, len(down))
	for i := range down {
		spans = append(spans, down[len(down)-1-i])
	}
	return spans
}

// segments verifies the sealed blocks.
func (c *checker) segments() error {
	for i := range c.spans {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		g := &c.spans[i]
		began := time.Now()
		key, err := c.segment(*g)
		switch {
		case errors.Is(err, ErrClosed), errors.Is(err, ErrDamaged):
			return err
		case err != nil && c.live != nil && c.live.segments[i].cut.Load():
			return fmt.Errorf("blocks %d to %d were cut off meanwhile: %w", g.first, g.last, chain.ErrReorged)
		case err != nil:
			g.bad = true
			if c.live != nil {
				c.store.markCorrupt(c.live.segments[i], key.String(), missing(err))
			}
			first := g.first
			if i > 0 && errors.Is(err, errBreak) && c.next.blocks == g.first {
				first = c.spans[i-1].first
			}
			c.problem(key, first, g.last, err, fixBlocks)
			c.next, c.unknown = chainEnd{blocks: g.last + 1}, true
		default:
			c.report.Segments++
		}
		c.pause(time.Since(began))
		c.o.Progress(int64(c.next.blocks), max(int64(c.state.top.blocks), int64(c.next.blocks)))
	}
	c.report.SealedBlocks = int64(c.next.blocks)
	if c.unknown {
		return nil
	}
	c.report.rows = state{sealed: c.next, top: c.next}
	if !c.lost && c.next != c.state.sealed {
		c.problem(keyState, 0, c.state.sealed.blocks-1, fmt.Errorf("the sealed blocks end with %s and %+v, but the last segment with %s and %+v",
			c.state.sealed.tip(), c.state.sealed.sizes, c.next.tip(), c.next.sizes), fixState)
	}
	return nil
}

// pause leaves the processor to the wallets of a running store as long as it was taken from them.
func (c *checker) pause(d time.Duration) {
	if c.live == nil {
		return
	}
	select {
	case <-c.ctx.Done():
	case <-time.After(d):
	}
}

// segment verifies the two rows of a span, and returns the key of the one that an error is about.
func (c *checker) segment(g span) (key fmt.Stringer, err error) {
	key = segmentKey(g.last)
	if g.missing {
		return key, errMissing
	}
	err = c.read(func(txn *badger.Txn) error {
		// Of a running store, no row may be read while another one is: see readHeld.
		err := readRow(txn, segmentKey(g.last).bytes(), func(v []byte) error { c.row = append(c.row[:0], v...); return nil })
		if err != nil {
			return err
		}
		row, err := decodeSegment(c.row)
		if err == nil {
			err = errors.Join(row.verifyTables(), row.verifyFrames())
		}
		if err == nil && (row.first != g.first || row.lastHeight() != g.last) {
			err = fmt.Errorf("it says blocks %d to %d: %w", row.first, row.lastHeight(), errTable)
		}
		if err != nil {
			return err
		}
		key = transparentKey(g.last)
		return readRow(txn, transparentKey(g.last).bytes(), func(v []byte) error {
			columns, err := decodeTransparent(v)
			if err == nil {
				err = columns.verify()
			}
			if err == nil && (columns.first != row.first || columns.ends.len() != row.ends.len()) {
				err = fmt.Errorf("it says %d blocks from %d: %w", columns.ends.len(), columns.first, errTable)
			}
			if err != nil {
				return err
			}
			key = segmentKey(g.last)
			return c.segmentBlocks(row, columns)
		})
	})
	return key, err
}

func (c *checker) segmentBlocks(row segmentRow, columns transparentRow) error {
	parent := row.prev
	for h := row.first; h <= row.lastHeight(); h++ {
		frame, err := row.frame(h)
		if err != nil {
			return err
		}
		column, err := columns.column(h)
		if err != nil {
			return err
		}
		s, added, err := inspect(frame, column)
		if err == nil {
			err = row.expect(h, s)
		}
		if err != nil {
			return fmt.Errorf("block %d: %w", h, err)
		}
		if s.Prev != parent {
			return fmt.Errorf("block %s has parent %s, but the row says %s", s.ID, s.Prev, parent)
		}
		parent = s.ID.Hash
		if err := c.block(s, added); err != nil {
			return err
		}
	}
	if parent != row.last {
		return fmt.Errorf("the last block is %s, but the row says %s", parent, row.last)
	}
	c.report.FrameBytes += int64(len(row.frames))
	c.report.ColumnBytes += int64(len(columns.columns))
	return nil
}

// inspect reads one block strictly: the gRPC prefix too, which nobody looks at again before it is sent.
func inspect(frame, column []byte) (chain.Summary, chain.TreeSizes, error) {
	message, err := messageOf(frame)
	if err != nil {
		return chain.Summary{}, chain.TreeSizes{}, err
	}
	return chain.Inspect(message, column)
}

// messageOf returns the message of a frame whose prefix is right.
func messageOf(frame []byte) ([]byte, error) {
	message := frame[chain.FramePrefixLen:]
	if frame[0] != 0 || binary.BigEndian.Uint32(frame[1:]) != uint32(len(message)) {
		return nil, fmt.Errorf("its gRPC prefix is %x before a message of %d bytes", frame[:chain.FramePrefixLen], len(message))
	}
	return message, nil
}

// block verifies one block on top of those before it.
func (c *checker) block(s chain.Summary, added chain.TreeSizes) error {
	if s.ID.Height != c.next.blocks {
		return fmt.Errorf("block %s where height %d belongs", s.ID, c.next.blocks)
	}
	if c.o.madeUpSizes {
		added, _ = s.Sizes.Minus(c.next.sizes)
	}
	before, err := s.Sizes.Minus(added)
	if err != nil {
		return fmt.Errorf("block %s: %w", s.ID, err)
	}
	switch {
	case c.unknown:
	case s.Prev != c.next.hash:
		return fmt.Errorf("block %s has parent %s, but the block below is %s: %w", s.ID, s.Prev, c.next.hash, errBreak)
	case before != c.next.sizes:
		return fmt.Errorf("without the notes of block %s its tree sizes are %+v, but at the block below they are %+v: %w", s.ID, before, c.next.sizes, errBreak)
	}
	if s.ID.Height == 0 && c.net.genesis != (chain.Hash{}) && c.net.genesis != s.ID.Hash {
		c.problem(keyNetwork, 0, 0, fmt.Errorf("it says genesis %s, but block 0 is %s", c.net.genesis, s.ID.Hash), fixNetwork)
	}
	c.keptOf(s, before)
	c.next, c.unknown = chainEnd{blocks: s.ID.Height + 1, hash: s.ID.Hash, sizes: s.Sizes}, false
	return nil
}

// recent verifies the recent blocks: each by itself from the tip down, and then on top of each other.
func (c *checker) recent() error {
	if c.lost || c.state.top.blocks < c.next.blocks {
		return nil
	}
	type block struct {
		chain.Summary
		added chain.TreeSizes
	}
	blocks := make([]block, c.state.top.blocks-c.next.blocks)
	id := c.state.top.tip()
	for i := len(blocks) - 1; i >= 0; i-- {
		err := c.recentRow(recentKey(id), func(row recentRow) (err error) {
			blocks[i].Summary, blocks[i].added, err = inspectRecent(id, row)
			c.report.FrameBytes += int64(len(row.frame))
			c.report.ColumnBytes += int64(len(row.column))
			return err
		})
		if err != nil {
			return c.recentProblem(recentKey(id), err)
		}
		c.named[id.Hash] = struct{}{}
		id = chain.BlockID{Height: id.Height - 1, Hash: blocks[i].Prev}
	}
	for _, b := range blocks {
		if err := c.block(b.Summary, b.added); err != nil {
			return c.recentProblem(recentKey(b.ID), err)
		}
		c.recents = append(c.recents, recentKey(b.ID))
		c.report.RecentBlocks++
		c.o.Progress(int64(c.next.blocks), int64(c.state.top.blocks))
	}
	if c.unknown {
		return nil
	}
	c.report.rows.top = c.next
	if c.next != c.state.top {
		c.problem(keyState, 0, c.state.top.blocks-1, fmt.Errorf("the tip is %s with %+v, but the last block is %s with %+v",
			c.state.top.tip(), c.state.top.sizes, c.next.tip(), c.next.sizes), fixState)
	}
	return nil
}

func (c *checker) recentRow(key recentKey, fn func(recentRow) error) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	return c.read(func(txn *badger.Txn) error {
		return readRow(txn, key.bytes(), func(v []byte) error {
			row, err := decodeRecentRow(v)
			if err != nil {
				return err
			}
			return fn(row)
		})
	})
}

// recentProblem notes what is wrong with a recent block. The ones above it are not known without it.
func (c *checker) recentProblem(key recentKey, err error) error {
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrDamaged) || c.ctx.Err() != nil {
		return err
	}
	c.problem(key, c.state.sealed.blocks, c.state.top.blocks-1, err, fixRecent)
	c.last().row = key.bytes()
	c.next, c.unknown = chainEnd{blocks: c.state.top.blocks}, true
	return nil
}

// inspectRecent reads the row of a recent block strictly.
func inspectRecent(id chain.BlockID, row recentRow) (chain.Summary, chain.TreeSizes, error) {
	s, added, err := inspect(row.frame, row.column)
	if err == nil && (s.ID != id || s.Prev != row.prev || s.Sizes != row.sizes) {
		err = fmt.Errorf("the row says parent %s and %+v, but its bytes are block %s with parent %s and %+v", row.prev, row.sizes, s.ID, s.Prev, s.Sizes)
	}
	return s, added, err
}
