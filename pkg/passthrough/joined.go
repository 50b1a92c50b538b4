package passthrough

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// moveAhead is how many blocks the index must be ahead of a range that Zebra is answering before the range moves to it: moving costs the
// read-ahead, so a range that outruns the builder must not go back and forth.
const moveAhead = 1000

// reorgDepth is how far below its tip Zebra may replace blocks: its rollback window.
const reorgDepth = 1000

// Indexed is a Source that grows towards the best chain.
type Indexed interface {
	chain.Source
	// Complete tells whether the Source has reached the node's tip and follows it, so that its tip is the tip.
	Complete() bool
	// Apart says why the Source is known to hold another chain than the node's, nil when it is not.
	Apart() error

	// PutTreeState and PutSubtreeRoots keep what Zebra has computed for blocks of this Source, so that its views answer it.
	PutTreeState(chain.TreeState)
	PutSubtreeRoots(pool chain.Pool, roots []chain.SubtreeRoot) // from index 0 on
	// HasTreeState tells whether the tree state of a block is kept.
	HasTreeState(chain.Hash) bool
}

// Joined is the Source of the whole chain: the index for the heights that it has, Zebra for the rest. It is safe for concurrent use.
type Joined struct {
	zebra    *Zebra
	index    atomic.Pointer[Indexed]
	compared atomic.Pointer[comparison] // the last one
	ahead    chan chain.BlockID         // where ranges have ended, for Run
}

// comparison says whether the index's tip is on the chain of Zebra's tip.
type comparison struct {
	index, zebra chain.BlockID
	same         bool
}

// NewJoined returns a Source that asks Zebra for everything until SetIndex is called.
func NewJoined(zebra *Zebra) *Joined {
	return &Joined{zebra: zebra, ahead: make(chan chain.BlockID, maxAhead)}
}

// SetIndex brings the index in, as soon as it is open. Views that are open already don't see it.
func (j *Joined) SetIndex(index Indexed) { j.index.Store(&index) }

// source is the one place that decides who answers a height. It is asked anew for every run, so a long range moves to the index as it
// grows: an index tip of false means that the index has nothing yet.
func source(h, indexTip chain.Height, indexed bool) chain.Origin {
	if indexed && h <= indexTip {
		return chain.FromIndex
	}
	return chain.FromZebra
}

// View joins the two views. While the index is incomplete the tip is the node's; from then on it is the index's, so that the node going
// away takes nothing from wallets and every method names the same block. Two chains that have nothing to do with each other are not
// joined: then the node counts as away, and there is no tip.
func (j *Joined) View(ctx context.Context) (chain.View, error) {
	v := &joinedView{joined: j}
	// The index comes first: should it become complete in between, its tip is the node's tip already.
	if err := j.openIndex(ctx, &v.indexView); err != nil {
		return nil, err
	}
	var apart error
	if index := j.index.Load(); index != nil {
		apart = (*index).Apart()
		v.complete = v.index != nil && apart == nil && (*index).Complete()
	}
	if apart == nil {
		v.zebra, v.zebraErr = j.zebra.view()
	} else {
		v.zebraErr = fmt.Errorf("%w: %w: %w", chain.ErrUnavailable, chain.ErrApart, apart)
	}
	switch {
	case v.complete:
		v.tip = v.indexTip
	case v.zebra != nil:
		v.tip, v.tipErr = v.zebra.Tip()
		if !v.fits(ctx, &v.indexView) {
			v.indexView.close()
			v.indexView = indexView{}
		}
	case v.index != nil:
		v.tipErr = v.zebraErr
	default:
		return nil, v.zebraErr
	}
	return v, nil
}

// fits tells whether what the index has is on the chain of this view's tip. An index that is not complete follows a reorg a moment later
// than Zebra's tip does: until then its newest blocks are nobody's any more. Where that cannot be told the links at the joint will say.
func (v *joinedView) fits(ctx context.Context, x *indexView) bool {
	if x.index == nil || v.complete || v.zebra == nil || v.tipErr != nil {
		return true
	}
	if x.indexTip.Height >= v.tip.Height {
		hash, err := x.index.HashAt(ctx, v.tip.Height)
		return err != nil || hash == v.tip.Hash
	}
	if v.tip.Height-x.indexTip.Height > reorgDepth {
		return true
	}
	last := v.joined.compared.Load()
	if last != nil && last.index == x.indexTip && last.zebra == v.tip {
		return last.same
	}
	hash, err := v.zebra.HashAt(ctx, x.indexTip.Height)
	if err != nil {
		return true
	}
	now := &comparison{index: x.indexTip, zebra: v.tip, same: hash == x.indexTip.Hash}
	v.joined.compared.Store(now)
	return now.same
}

// indexView is an open view of the index and its tip; index is nil while the index is not open or empty.
type indexView struct {
	indexed  Indexed // whose view it is
	index    chain.View
	indexTip chain.BlockID
}

// openIndex opens a view of the index, if there is one that has blocks.
func (j *Joined) openIndex(ctx context.Context, v *indexView) error {
	index := j.index.Load()
	if index == nil {
		return nil
	}
	view, err := (*index).View(ctx)
	if errors.Is(err, chain.ErrUnavailable) {
		return nil
	}
	if err != nil {
		return err
	}
	tip, err := view.Tip()
	if err != nil {
		view.Close()
		return err
	}
	v.indexed, v.index, v.indexTip = *index, view, tip
	return nil
}

func (v *indexView) close() {
	if v.index != nil {
		v.index.Close()
	}
}

type joinedView struct {
	joined *Joined
	indexView
	complete bool
	zebra    *zebraView // nil with zebraErr
	zebraErr error
	tip      chain.BlockID
	tipErr   error
}

// Tip returns the index's tip when the index is complete, else the node's (ErrUnavailable while the node is away).
func (v *joinedView) Tip() (chain.BlockID, error) { return v.tip, v.tipErr }

// Close closes both views.
func (v *joinedView) Close() {
	v.indexView.close()
	if v.zebra != nil {
		v.zebra.Close()
	}
}

// HeightOf asks the index first, and Zebra for what the index need not know.
func (v *joinedView) HeightOf(ctx context.Context, hash chain.Hash) (chain.Height, error) {
	if v.index != nil {
		h, err := v.index.HeightOf(ctx, hash)
		var unreadable *chain.UnreadableError
		switch {
		case err == nil:
			return h, nil
		case errors.As(err, &unreadable):
		case v.complete || !errors.Is(err, chain.ErrNotFound):
			return 0, err
		}
	}
	if v.zebra == nil {
		return 0, v.zebraErr
	}
	return v.zebra.HeightOf(ctx, hash)
}

// HashAt asks whoever source names.
func (v *joinedView) HashAt(ctx context.Context, h chain.Height) (chain.Hash, error) {
	if v.tipErr == nil && h > v.tip.Height {
		return chain.Hash{}, &chain.AboveTipError{Asked: uint64(h), Tip: v.tip.Height}
	}
	if source(h, v.indexTip.Height, v.index != nil) == chain.FromIndex {
		hash, err := v.index.HashAt(ctx, h)
		var unreadable *chain.UnreadableError
		if err == nil || !errors.As(err, &unreadable) {
			return hash, err
		}
	}
	if v.zebra == nil {
		return chain.Hash{}, v.zebraErr
	}
	return v.zebra.HashAt(ctx, h)
}

// Blocks reads runs from whoever source names for the next height, until the range ends or somebody has a reason to end it.
func (v *joinedView) Blocks(ctx context.Context, from, to chain.Height, p chain.Projection) iter.Seq2[chain.Frames, error] {
	return func(yield func(chain.Frames, error) bool) {
		r := joinedRange{
			view: v, ctx: ctx, projection: p, yield: yield,
			indexView: v.indexView, next: from, last: to, ascending: from <= to,
		}
		defer r.releaseIndex()
		if v.tipErr == nil {
			if from > v.tip.Height {
				r.fail(&chain.AboveTipError{Asked: uint64(from), Tip: v.tip.Height})
				return
			}
			r.last = min(to, v.tip.Height)
		}
		for !r.done {
			next, skip := r.next, r.skip
			if !r.part() {
				return
			}
			if r.next == next && r.skip == skip && !r.done {
				r.fail(fmt.Errorf("neither the index nor zebra yields block %d", next))
				return
			}
		}
		if from < r.last && r.ascending {
			v.rangeEnded(r.before.Last)
		}
		if r.last < to && r.ascending {
			r.fail(&chain.AboveTipError{Asked: uint64(to), Tip: v.tip.Height})
		}
	}
}
