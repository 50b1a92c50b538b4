package lightwallet

import (
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// sequence checks that the runs of a range follow each other without a gap and without a change of chain.
// It is the last look at the blocks before a client gets them; the views check the same things closer to the source.
type sequence struct {
	from, to chain.Height
	sent     uint64
	// edge is the block that was sent last; in a descending range prev is the hash its parent must have.
	edge chain.BlockID
	prev chain.Hash
}

func newSequence(from, to chain.Height) *sequence { return &sequence{from: from, to: to} }

func (s *sequence) descending() bool { return s.from > s.to }

// want is the number of blocks of the whole range.
func (s *sequence) want() uint64 {
	if s.descending() {
		return uint64(s.from-s.to) + 1
	}
	return uint64(s.to-s.from) + 1
}

// next accepts a run as the continuation of those before it. A broken link is chain.ErrReorged; anything else that does not fit is
// the source's fault.
func (s *sequence) next(run chain.Frames) error {
	first, last := uint64(s.from)+s.sent, uint64(s.from)+s.sent+uint64(run.Count)-1
	if s.descending() {
		first, last = uint64(s.from)-s.sent, uint64(s.from)-s.sent-uint64(run.Count)+1
	}
	if run.Count < 1 || s.sent+uint64(run.Count) > s.want() || uint64(run.First.Height) != first || uint64(run.Last.Height) != last {
		return fmt.Errorf("after %d of the blocks %d to %d the source gave %d from %s to %s", s.sent, s.from, s.to, run.Count, run.First, run.Last)
	}
	if s.sent > 0 && !s.linked(run) {
		return fmt.Errorf("the blocks from %s do not link to %s: %w", run.First, s.edge, chain.ErrReorged)
	}
	s.sent += uint64(run.Count)
	s.edge, s.prev = run.Last, run.Prev
	return nil
}

// linked tells whether the run touches the block sent last as parent and child.
func (s *sequence) linked(run chain.Frames) bool {
	if s.descending() {
		return run.First.Hash == s.prev
	}
	return run.Prev == s.edge.Hash
}

// complete is nil when every block of the range was accepted.
func (s *sequence) complete() error {
	if s.sent != s.want() {
		return fmt.Errorf("the source ended after %d of the %d blocks %d to %d", s.sent, s.want(), s.from, s.to)
	}
	return nil
}
