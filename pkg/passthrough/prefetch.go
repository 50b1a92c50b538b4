package passthrough

import (
	"context"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// maxAhead is how many ends of ranges wait for their tree state; more are forgotten.
const maxAhead = 8

// restAhead is how many times longer than a question took Run rests after it. Nobody has asked for these answers: they may cost the node
// and us a tenth of the time, however many short ranges are read. At the pace of wallets that changes nothing.
const restAhead = 9

// Run asks ahead until ctx ends, and then returns nil. A wallet that has read a range of blocks asks for the tree state of the range's
// last block next, so that is asked for when the range ends: one at a time, with rests, and nothing that is kept already. Without Run
// wallets wait a little longer, that is all.
func (j *Joined) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case id := <-j.ahead:
			began := time.Now()
			j.askAhead(ctx, id)
			rest := time.NewTimer(restAhead * time.Since(began))
			select {
			case <-rest.C:
			case <-ctx.Done():
				rest.Stop()
			}
		}
	}
}

// rangeEnded notes where a range of several blocks ended, unless its tree state is kept, as that of the tip mostly is, or there is too much
// to do already.
func (v *joinedView) rangeEnded(last chain.BlockID) {
	if v.indexed != nil && v.indexed.HasTreeState(last.Hash) {
		return // it would wake Run for nothing, which costs more than all else here
	}
	select {
	case v.joined.ahead <- last:
	default:
	}
}

// askAhead asks for a tree state, which is kept on the way. An error is for whoever asks in earnest, a panic too.
func (j *Joined) askAhead(ctx context.Context, id chain.BlockID) {
	_ = chain.Guard(func() error {
		view, err := j.View(ctx)
		if err != nil {
			return err
		}
		defer view.Close()
		_, err = view.TreeState(ctx, id.Height)
		return err
	})
}
