package index

import (
	"context"
	"fmt"
	"iter"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// view is a chain.View: a snapshot, and no Badger transaction. One lives for each run of blocks.
type view struct {
	store  *Store
	snap   *snapshot
	closed bool
}

// Tip implements chain.View. It never fails.
func (v *view) Tip() (chain.BlockID, error) { return v.snap.top.tip(), nil }

// Close implements chain.View. Rows of blocks that have left the best chain since the view was opened may be deleted now.
func (v *view) Close() {
	if !v.closed {
		v.closed = true
		v.store.release(v.snap)
	}
}

// HeightOf implements chain.View. Besides chain.ErrNotFound it may fail with a CorruptError: then the hash may be in a segment that
// cannot be read.
func (v *view) HeightOf(_ context.Context, hash chain.Hash) (chain.Height, error) {
	if h, ok := v.snap.recentHeightOf(hash); ok {
		return h, nil
	}
	var lost error
	var space [4]chain.Height
	for _, h := range v.store.hashes.Load().candidates(space[:0], hash, v.snap.sealed.blocks) {
		stored, err := v.hashAt(h)
		switch {
		case err == nil && stored == hash:
			return h, nil
		case err != nil:
			lost = err
		}
	}
	if lost == nil && v.snap.unlisted != nil {
		lost = v.snap.unlisted
	}
	if lost != nil {
		return 0, fmt.Errorf("look for block %s: %w", hash, lost)
	}
	return 0, fmt.Errorf("block %s: %w", hash, chain.ErrNotFound)
}

// HashAt implements chain.View. Besides an AboveTipError it may fail with a CorruptError.
func (v *view) HashAt(_ context.Context, h chain.Height) (chain.Hash, error) {
	switch {
	case h >= v.snap.top.blocks:
		return chain.Hash{}, &chain.AboveTipError{Asked: uint64(h), Tip: v.snap.top.blocks - 1}
	case h >= v.snap.sealed.blocks:
		return v.snap.recentAt(h).hash, nil
	}
	hash, err := v.hashAt(h)
	if err != nil {
		return hash, fmt.Errorf("read the hash of block %d: %w", h, err)
	}
	return hash, nil
}

// hashAt reads the hash of a sealed block from its bytes.
func (v *view) hashAt(h chain.Height) (hash chain.Hash, err error) {
	err = v.store.open(func() error {
		return v.store.withSegment(v.snap.segmentAt(h), func(row segmentRow) error {
			s, err := summarize(row, h)
			hash = s.ID.Hash
			return err
		})
	})
	return hash, err
}

// Blocks implements chain.View. A run that touches a corrupt row is a CorruptError.
func (v *view) Blocks(ctx context.Context, from, to chain.Height, p chain.Projection) iter.Seq2[chain.Frames, error] {
	return func(yield func(chain.Frames, error) bool) {
		top := v.snap.top.blocks
		if from >= top {
			yield(chain.Frames{}, &chain.AboveTipError{Asked: uint64(from), Tip: top - 1})
			return
		}
		last := min(to, top-1)
		var link chain.Hash // what the next run has to connect to
		for cur, first := from, true; ; first = false {
			if err := ctx.Err(); err != nil {
				yield(chain.Frames{}, err)
				return
			}
			f, err := v.run(cur, last, p)
			if err == nil && !first {
				err = checkLink(&f, link)
			}
			if err != nil {
				yield(chain.Frames{}, err)
				return
			}
			// Bytes belong to the receiver from here on.
			done, ascending := f.Last.Height == last, from <= last
			link = f.Prev
			if ascending {
				link = f.Last.Hash
			}
			cur = f.Last.Height + 1
			if !ascending {
				cur = f.Last.Height - 1
			}
			if !yield(f, nil) || done && to == last {
				return
			}
			if done {
				yield(chain.Frames{}, &chain.AboveTipError{Asked: uint64(to), Tip: top - 1})
				return
			}
		}
	}
}

// checkLink checks that a run starts where the one before it ended. The builder checked that already: a break means damaged rows.
func checkLink(f *chain.Frames, link chain.Hash) error {
	ascending := f.First.Height <= f.Last.Height && f.Prev == link
	descending := f.First.Height >= f.Last.Height && f.First.Hash == link
	if ascending || descending {
		return nil
	}
	f.Release()
	return &CorruptError{First: f.First.Height, Last: f.Last.Height, Key: "link",
		Err: fmt.Errorf("block %s does not connect to %s", f.First, link)}
}
