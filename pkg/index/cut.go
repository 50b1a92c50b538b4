package index

import (
	"errors"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// cutSegments is how many segments one transaction of cut deletes at most.
const cutSegments = 2000

// cut makes the chain at most n blocks long, wherever that is: among sealed blocks the whole segments below height n stay, as far down
// as one can be read at its end, and nothing is on top of them. The writer calls it. Every step is one transaction with the state that it
// leads to, from the top down, so a crash or an error leaves a shorter chain of the same blocks.
//
// Views of the cut chain read the blocks that are left, and the recent ones, as before. A sealed block that is gone is ErrReorged.
func (s *Store) cut(n chain.Height) error { return s.cutInSteps(n, cutSegments) }

func (s *Store) cutInSteps(n chain.Height, most int) error {
	for {
		cur := s.current.Load()
		keep := len(cur.segments)
		for keep > 0 && cur.segments[keep-1].last >= n {
			keep--
		}
		if keep == len(cur.segments) {
			return s.rewind(max(cur.sealed.blocks, min(n, cur.top.blocks)))
		}
		if err := s.cutTo(cur, max(keep, len(cur.segments)-most)); err != nil {
			return fmt.Errorf("cut the index to %d blocks: %w", n, err)
		}
	}
}

// cutTo drops the recent blocks and all segments but the first keep; more if the last of those cannot be read.
func (s *Store) cutTo(cur *snapshot, keep int) error {
	end, keep, err := s.lastEnd(cur, keep)
	if err != nil {
		return err
	}
	gone := cur.segments[keep:]
	var b batch
	for _, g := range gone {
		b.deletes = append(b.deletes, segmentKey(g.last).bytes(), transparentKey(g.last).bytes())
	}
	s.kept.dropRoots(&b, end.blocks)
	next := s.state
	next.sealed, next.top = end, end
	if err := s.checkSpace(b.bytes); err != nil { // while this is tried again and again, readers go on
		return err
	}
	complete := s.complete.Swap(false)
	// Readers look at the mark after they have read, so it has to be there before the rows go.
	markCut(gone, true)
	if err := s.apply(&b, next); err != nil {
		markCut(gone, false)
		s.complete.Store(complete)
		return err
	}
	garbage := make([][]byte, 0, len(cur.recent))
	for i, r := range cur.recent {
		garbage = append(garbage, recentKey{Height: cur.sealed.blocks + chain.Height(i), Hash: r.hash}.bytes())
	}
	snap := &snapshot{segments: cur.segments[:keep:keep], sealed: end, top: end}
	snap.unlisted = snap.findUnlisted()
	s.publish(snap, garbage)
	hashes := s.hashes.Load().below(end.blocks)
	s.hashes.Store(&hashes)
	s.kept.rootsDropped(end.blocks)
	return nil
}

func markCut(gone []*segment, cut bool) {
	for _, g := range gone {
		g.cut.Store(cut)
	}
}

// lastEnd returns the end of the chain of the first keep segments, or of fewer: the tree sizes are in a segment's last block, which has
// to be readable.
func (s *Store) lastEnd(snap *snapshot, keep int) (end chainEnd, kept int, err error) {
	for ; keep > 0; keep-- {
		g := snap.segments[keep-1]
		var last chain.Summary
		err := s.withSegment(g, func(row segmentRow) (err error) {
			last, err = summarize(row, g.last)
			return err
		})
		var corrupt *CorruptError
		switch {
		case err == nil:
			return chainEnd{blocks: g.last + 1, hash: last.ID.Hash, sizes: last.Sizes}, keep, nil
		case !errors.As(err, &corrupt):
			return chainEnd{}, 0, err
		}
	}
	return chainEnd{}, 0, nil
}

// cutOff tells whether sealed blocks of this chain have been cut off.
func (s *snapshot) cutOff() bool {
	n := len(s.segments)
	return n > 0 && s.segments[n-1].cut.Load()
}

// readBack turns what came of reading a segment's rows into what its reader gets.
func readBack[K rowKey](s *Store, g *segment, key K, err error) error {
	switch {
	case g.cut.Load(): // and then the bytes may have been those of another chain
		return fmt.Errorf("blocks %d to %d were cut off the index: %w", g.first, g.last, chain.ErrReorged)
	case err == nil:
		return nil
	}
	var c *CorruptError
	if errors.As(err, &c) {
		return err
	}
	return s.markCorrupt(g, key.String(), missing(err))
}

// dropRoots adds the deletion of the subtree roots from height n on to a batch, and rootsDropped forgets them after the commit.
func (k *keeper) dropRoots(b *batch, n chain.Height) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for pool := chain.Sapling; pool <= chain.Ironwood; pool++ {
		r := &k.roots[pool]
		for i := rootsBelow(r.list, n); i < r.saved; i++ {
			b.deletes = append(b.deletes, subtreeKey{pool, uint32(i)}.bytes())
		}
	}
}

func (k *keeper) rootsDropped(n chain.Height) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for pool := range k.roots {
		r := &k.roots[pool]
		end := rootsBelow(r.list, n)
		r.list, r.saved = r.list[:end:end], min(r.saved, end)
	}
}
