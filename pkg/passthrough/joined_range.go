package passthrough

import (
	"context"
	"errors"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// joinedRange is a range on its way through one or both sources.
type joinedRange struct {
	view       *joinedView
	ctx        context.Context
	projection chain.Projection
	yield      func(chain.Frames, error) bool
	ascending  bool

	indexView                        // the view's, or a newer one of the grown index
	skip      *chain.UnreadableError // the heights that the index has said it cannot read
	next      chain.Height           // to be yielded next
	last      chain.Height           // the range's end, not above the tip where the tip is known
	before    chain.Frames           // the run before, without its bytes; Count is 0 at the start
	done      bool                   // last was yielded
}

// fail ends the range with an error.
func (r *joinedRange) fail(err error) bool {
	r.yield(chain.Frames{}, err)
	return false
}

// releaseIndex closes the index view if it is the range's own.
func (r *joinedRange) releaseIndex() {
	if r.index != r.view.index {
		r.indexView.close()
	}
}

// adoptIndex takes a newer view of the index if that has height h, and reports whether it did. The view's own chain does not change:
// links are checked at the joint.
func (r *joinedRange) adoptIndex(h chain.Height) bool {
	var newer indexView
	if err := r.view.joined.openIndex(r.ctx, &newer); err != nil || newer.index == nil {
		return false // whoever answers now goes on answering
	}
	if newer.indexTip.Height < h || !r.view.fits(r.ctx, &newer) {
		newer.close()
		return false
	}
	r.releaseIndex()
	r.indexView = newer
	return true
}

// unreadable tells whether the index has said that it cannot read height h.
func (r *joinedRange) unreadable(h chain.Height) bool {
	return r.skip != nil && r.skip.First <= h && h <= r.skip.Last
}

// part yields runs from one source until it is no longer the one to ask; it reports whether the range may go on.
func (r *joinedRange) part() bool {
	if r.unreadable(r.next) {
		return r.zebraPart()
	}
	origin := source(r.next, r.indexTip.Height, r.index != nil)
	if origin == chain.FromZebra && r.adoptIndex(r.next) {
		origin = source(r.next, r.indexTip.Height, true)
	}
	if origin == chain.FromIndex {
		return r.indexPart()
	}
	return r.zebraPart()
}

// indexPart reads what the index has of the rest of the range.
func (r *joinedRange) indexPart() bool {
	last := r.last
	if r.ascending {
		last = min(last, r.indexTip.Height)
	}
	for f, err := range r.index.Blocks(r.ctx, r.next, last, r.projection) {
		var unreadable *chain.UnreadableError
		if errors.As(err, &unreadable) && unreadable.First <= r.next && r.next <= unreadable.Last {
			r.skip = unreadable
			return true
		}
		if err != nil {
			return r.fail(err)
		}
		if !r.pass(f) {
			return false
		}
	}
	return true
}

// zebraPart reads from Zebra: through the heights that the index lacks or cannot read, or until it has grown far enough.
func (r *joinedRange) zebraPart() bool {
	if r.view.zebra == nil {
		return r.fail(r.view.zebraErr)
	}
	for f, err := range r.view.zebra.Blocks(r.ctx, r.next, r.lastFromZebra(), r.projection) {
		if err != nil {
			return r.fail(err)
		}
		if !r.pass(f) {
			return false
		}
		if !r.done && r.skip == nil && r.adoptIndex(r.worthMoving()) {
			return true
		}
	}
	return true
}

// worthMoving is the height that the index must have for the range to move to it. Descending, it then has all the rest.
func (r *joinedRange) worthMoving() chain.Height {
	if r.ascending {
		return min(r.last, r.next+moveAhead)
	}
	return r.next
}

// lastFromZebra is the last height to ask Zebra for in one go.
func (r *joinedRange) lastFromZebra() chain.Height {
	switch {
	case r.unreadable(r.next) && r.ascending:
		return min(r.last, r.skip.Last)
	case r.unreadable(r.next):
		return max(r.last, r.skip.First)
	case !r.ascending && r.index != nil: // down to where the index takes over
		return max(r.last, r.indexTip.Height+1)
	default:
		return r.last
	}
}

// pass checks a run's place in the chain (P1, P2), hands it on, and reports whether the range may go on.
func (r *joinedRange) pass(f chain.Frames) bool {
	if err := r.checkPlace(f); err != nil {
		f.Release()
		return r.fail(err)
	}
	r.before = f
	r.before.Bytes, r.before.Free = nil, nil
	r.done = f.Last.Height == r.last
	switch {
	case r.done:
	case r.ascending:
		r.next = f.Last.Height + 1
	default:
		r.next = f.Last.Height - 1
	}
	return r.yield(f, nil)
}

// checkPlace returns ErrReorged unless the run links to the run before it, and to the tip where it reaches it.
func (r *joinedRange) checkPlace(f chain.Frames) error {
	lowest, highest := f.First, f.Last
	if !r.ascending {
		lowest, highest = f.Last, f.First
	}
	if r.view.tipErr == nil && highest.Height == r.view.tip.Height && highest != r.view.tip {
		return fmt.Errorf("block %s is not the tip %s: %w", highest, r.view.tip, chain.ErrReorged)
	}
	switch {
	case r.before.Count == 0:
		return nil
	case r.ascending:
		return chain.CheckLink(r.before.Last, &chain.Block{ID: lowest, Prev: f.Prev})
	default:
		return chain.CheckLink(highest, &chain.Block{ID: r.before.Last, Prev: r.before.Prev})
	}
}
