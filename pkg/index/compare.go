package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Comparison says how the stored blocks were held against a node's. What differs in a block that both have is a Problem.
type Comparison struct {
	Seed     uint64 `json:"seed,omitempty"`  // of the sample; 0: every block
	Blocks   int64  `json:"blocks"`          // compared: hash, all bytes, tree sizes
	AboveTip int64  `json:"above_tip"`       // that were to be compared, but are above the node's tip: it is behind
	Left     int64  `json:"left"`            // recent blocks that are not on the node's best chain: the next start follows it
	Error    string `json:"error,omitempty"` // why the rest was not compared
	Err      error  `json:"-"`               // the same
}

// compare holds stored blocks that have been verified against the node's.
func (c *checker) compare() error {
	n := new(Comparison)
	if c.report.Node = n; !c.o.All {
		n.Seed = c.o.Seed
	}
	if c.lost || c.state.top.blocks == 0 {
		return nil
	}
	err := c.sameGenesis()
	if err == nil {
		err = c.compareRanges(n)
	}
	if err != nil && c.ctx.Err() != nil {
		return err
	}
	if n.Err = err; err != nil {
		n.Error = err.Error()
	}
	return nil
}

func (c *checker) sameGenesis() error { return sameGenesis(c.ctx, c.o.Compare, c.net) }

// sameGenesis fails when the node is of another network than the index.
func sameGenesis(ctx context.Context, node BestChain, net network) error {
	genesis, err := node.BlockHash(ctx, 0)
	if err != nil {
		return fmt.Errorf("ask the node for its genesis block: %w", err)
	}
	if net.genesis != (chain.Hash{}) && genesis != net.genesis {
		return fmt.Errorf("%w: it holds the chain of genesis %s, but the node's genesis is %s", ErrOtherNetwork, net.genesis, genesis)
	}
	return nil
}

// compareRanges compares what was asked for, from the lowest height up.
func (c *checker) compareRanges(n *Comparison) error {
	heights := c.sample()
	total, done := int64(len(heights)), int64(0)
	if c.o.All {
		total = int64(c.state.top.blocks)
	}
	sizesAt := func(h chain.Height) bool { return true }
	ranges := func(yield func(from, to chain.Height) bool) {
		for _, h := range heights {
			if !yield(h, h) {
				return
			}
		}
	}
	if c.o.All {
		// Sizes follow from the notes that were counted: the ends of segments are enough.
		sizesAt = func(h chain.Height) bool {
			return h == c.state.top.blocks-1 || h < c.state.sealed.blocks && c.spanOf(h).last == h
		}
		ranges = func(yield func(from, to chain.Height) bool) { yield(0, c.state.top.blocks-1) }
	}
	for from, to := range ranges {
		for f, err := range c.o.Compare.Blocks(c.ctx, from, to) {
			if errors.Is(err, chain.ErrAboveTip) {
				n.AboveTip = total - done
				return nil
			}
			if err != nil {
				return fmt.Errorf("compare blocks %d to %d with the node's: %w", from, to, err)
			}
			more, err := c.compareBlock(n, f.Block, sizesAt(f.ID.Height))
			if err != nil || !more {
				return err
			}
			done++
			c.o.Progress(done, total)
		}
	}
	return nil
}

// sample chooses the heights to compare, ascending.
func (c *checker) sample() []chain.Height {
	sealed, top := c.state.sealed.blocks, c.state.top.blocks
	heights := []chain.Height{0, top - 1}
	if sealed > 0 && sealed < top {
		heights = append(heights, sealed-1, sealed)
	}
	rng := rand.New(rand.NewPCG(c.o.Seed, 0))
	for range c.o.Sample {
		heights = append(heights, chain.Height(rng.Uint32N(uint32(top))))
	}
	slices.Sort(heights)
	return slices.Compact(heights)
}

// compareBlock compares one block; false when the chains have parted, so that no block above can be the same.
func (c *checker) compareBlock(n *Comparison, b *chain.Block, askSizes bool) (bool, error) {
	h := b.ID.Height
	s, frame, column, err := c.stored(h)
	if err != nil {
		return true, nil // that it cannot be read is a problem which was told already
	}
	if b.ID.Hash != s.ID.Hash {
		if h >= c.state.sealed.blocks {
			n.Left = int64(c.state.top.blocks - h)
		} else {
			c.problem(segmentKey(c.spanOf(h).last), h, h, fmt.Errorf("block %s is not the node's, which is %s", s.ID, b.ID.Hash), fixNone)
			c.last().compared = true
		}
		return false, nil
	}
	n.Blocks++
	switch {
	case !bytes.Equal(frame, chain.AppendFrame(nil, b.Shielded, s.Sizes)):
		c.differs(h, errors.New("its compact block is not the one made of the node's block"), false)
	case !bytes.Equal(column, b.Transparent):
		c.differs(h, errors.New("its transparent column is not the one made of the node's block"), true)
	case askSizes:
		sizes, err := c.o.Compare.TreeSizes(c.ctx, s.ID.Hash)
		if err != nil {
			return false, fmt.Errorf("ask the node for the tree sizes of block %s: %w", s.ID, err)
		}
		if sizes != s.Sizes {
			c.differs(h, fmt.Errorf("its tree sizes are %+v, but the node's %+v", s.Sizes, sizes), false)
		}
	}
	return true, nil
}

// differs notes that what is stored of a block is not what the node has. A segment is noted once.
func (c *checker) differs(h chain.Height, err error, transparent bool) {
	err = fmt.Errorf("block %d: %w", h, err)
	if h >= c.state.sealed.blocks {
		key := c.recents[h-c.state.sealed.blocks]
		c.problem(key, h, h, err, fixRecent)
		c.last().row, c.last().compared = key.bytes(), true
		return
	}
	g := c.spanOf(h)
	var key fmt.Stringer = segmentKey(g.last)
	if transparent {
		key = transparentKey(g.last)
	}
	g.bad = true
	c.problem(key, g.first, g.last, err, fixBlocks)
	c.last().compared = true
}

// spanOf returns the span of a sealed height.
func (c *checker) spanOf(h chain.Height) *span {
	i, _ := slices.BinarySearchFunc(c.spans, h, func(g span, h chain.Height) int { return int(g.last) - int(h) })
	return &c.spans[i]
}

// stored returns a block that was verified. The bytes are valid until the next call.
func (c *checker) stored(h chain.Height) (s chain.Summary, frame, column []byte, err error) {
	if h >= c.state.sealed.blocks {
		i := int(h - c.state.sealed.blocks)
		if i >= len(c.recents) {
			return s, nil, nil, errMissing
		}
		err = c.recentRow(c.recents[i], func(row recentRow) error {
			frame, column = bytes.Clone(row.frame), bytes.Clone(row.column)
			return nil
		})
	} else {
		frame, column, err = c.sealedBlock(h)
	}
	if err == nil {
		s, err = chain.Summarize(frame[chain.FramePrefixLen:])
	}
	return s, frame, column, err
}

// sealedBlock reads a block of a segment, of which it keeps a copy for the next one.
func (c *checker) sealedBlock(h chain.Height) (frame, column []byte, err error) {
	g := c.spanOf(h)
	if g.missing || g.bad {
		return nil, nil, errMissing
	}
	if c.copy.segment == nil || c.copy.last != g.last {
		err := c.read(func(txn *badger.Txn) error {
			return errors.Join(
				readRow(txn, segmentKey(g.last).bytes(), func(v []byte) error { c.copy.segment = append(c.copy.segment[:0], v...); return nil }),
				readRow(txn, transparentKey(g.last).bytes(), func(v []byte) error { c.copy.transparent = append(c.copy.transparent[:0], v...); return nil }))
		})
		if err != nil {
			c.copy.segment = nil
			return nil, nil, err
		}
		c.copy.last = g.last
	}
	row, err := decodeSegment(c.copy.segment)
	if err == nil {
		frame, err = row.frame(h)
	}
	if err != nil {
		return nil, nil, err
	}
	columns, err := decodeTransparent(c.copy.transparent)
	if err == nil {
		column, err = columns.column(h)
	}
	return frame, column, err
}
