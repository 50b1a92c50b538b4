package index

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// snapshot is one best chain. It never changes once published, but for the two fields that Store.mu guards; its slices share their
// backing arrays with those of older and newer snapshots, which only ever append behind what others see.
type snapshot struct {
	segments []*segment
	sealed   chainEnd      // what the segments hold
	recent   []recentBlock // of heights sealed.blocks, sealed.blocks+1, ...
	top      chainEnd
	unlisted *CorruptError // of a segment whose hashes are in no table; nil when there is none

	refs    int      // open views; guarded by Store.mu
	garbage [][]byte // rows that this snapshot or an older one names, and the next one does not; guarded by Store.mu
}

// segment is what is known of a segment without reading it.
type segment struct {
	first, last chain.Height
	prev, hash  chain.Hash // parent of the first block, hash of the last
	checked     atomic.Uint32
	corrupt     atomic.Pointer[CorruptError] // nil while nothing wrong was found
	unlisted    bool                         // its hashes are in no table
	cut         atomic.Bool                  // its blocks have left the index: its rows may be deleted or be others' by now

	frames, columns heldRow
}

func (g *segment) count() int { return int(g.last-g.first) + 1 }

// Bits of segment.checked: each checksum is verified the first time that its bytes are read.
const (
	framesChecked = 1 << iota
	columnsChecked
)

// recentBlock is what is kept in memory of a recent block.
type recentBlock struct {
	hash, prev     chain.Hash
	sizes          chain.TreeSizes
	frame, columns uint32 // bytes of the row's two parts
	short          []byte // the frame, unless it is long: then finding the row costs little beside copying it
}

// recentAt returns a recent block by height, which must be in sealed..tip.
func (s *snapshot) recentAt(h chain.Height) *recentBlock { return &s.recent[h-s.sealed.blocks] }

// recentHeightOf finds a recent block, the newest first, since those are what wallets mostly ask for.
func (s *snapshot) recentHeightOf(hash chain.Hash) (chain.Height, bool) {
	start := binary.LittleEndian.Uint64(hash[:])
	for i := len(s.recent) - 1; i >= 0; i-- {
		r := &s.recent[i]
		if binary.LittleEndian.Uint64(r.hash[:]) == start && r.hash == hash {
			return s.sealed.blocks + chain.Height(i), true
		}
	}
	return 0, false
}

// segmentAt returns the segment of a sealed height.
func (s *snapshot) segmentAt(h chain.Height) *segment {
	lo, hi := 0, len(s.segments)-1
	for lo < hi {
		mid := (lo + hi) / 2
		if s.segments[mid].last < h {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return s.segments[lo]
}

// endAt returns the end of the chain's first n blocks; n is in sealed.blocks..top.blocks.
func (s *snapshot) endAt(n chain.Height) chainEnd {
	if n == s.sealed.blocks {
		return s.sealed
	}
	r := s.recentAt(n - 1)
	return chainEnd{blocks: n, hash: r.hash, sizes: r.sizes}
}

// child returns a snapshot of the same chain that the writer changes and publishes.
func (s *snapshot) child() *snapshot {
	return &snapshot{segments: s.segments, sealed: s.sealed, recent: s.recent, top: s.top, unlisted: s.unlisted}
}

// findUnlisted returns what is wrong with a segment whose hashes are in no table, nil when there is none.
func (s *snapshot) findUnlisted() *CorruptError {
	for _, g := range s.segments {
		if g.unlisted {
			return g.corrupt.Load()
		}
	}
	return nil
}

// acquire takes a reference to the current snapshot, or returns nil when the index is empty.
func (s *Store) acquire() *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := s.snapshots[len(s.snapshots)-1]
	if snap.top.blocks == 0 {
		return nil
	}
	snap.refs++
	return snap
}

func (s *Store) release(snap *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap.refs--
	s.sweep()
}

// publish makes next current. The rows named by garbage are in older snapshots alone: they are deleted once the last view of those is
// closed.
func (s *Store) publish(next *snapshot, garbage [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.snapshots); n > 0 {
		old := s.snapshots[n-1]
		old.garbage = append(old.garbage, garbage...)
	}
	s.snapshots = append(s.snapshots, next)
	s.current.Store(next)
	s.sweep()
}

// sweep drops the snapshots that nobody reads. What one of them leaves to delete may still be named by older ones, so it moves to the
// next older, or is due when there is none. Store.mu is held.
func (s *Store) sweep() {
	kept := s.snapshots[:0]
	last := len(s.snapshots) - 1
	for i, snap := range s.snapshots {
		switch {
		case i == last || snap.refs > 0:
			kept = append(kept, snap)
		case len(kept) == 0:
			s.garbage = append(s.garbage, snap.garbage...)
		default:
			older := kept[len(kept)-1]
			older.garbage = append(older.garbage, snap.garbage...)
		}
	}
	clear(s.snapshots[len(kept):])
	s.snapshots = kept
}
