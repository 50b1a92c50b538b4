package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// tipBlocks is how many blocks are mined in a round.
const tipBlocks = 5

// tipCases measures how long it takes until a block that the node has just mined is served. One target at a time is asked, each as often
// as the others, so that their answers do not wait for each other.
func tipCases(r *run) []testCase {
	return []testCase{{name: "new block", client: Decoding, measure: r.measureTip}}
}

func (r *run) measureTip(ctx context.Context, t *target) (got round, err error) {
	tip, err := r.node.tip(ctx)
	if err != nil {
		return got, err
	}
	if _, err := r.awaitServed(ctx, t, tip, nil); err != nil {
		return got, err
	}
	for range tipBlocks {
		if err := offBeat(ctx); err != nil {
			return got, err
		}
		hashes, err := r.node.generate(ctx, 1)
		mined := time.Now()
		if err != nil {
			return got, err
		}
		block := blockRef{height: tip.height + 1, hash: hashes[0], prev: tip.hash}
		served, err := r.awaitServed(ctx, t, block, func(served blockRef) bool { return served.height >= block.height })
		got.times = append(got.times, time.Since(mined))
		if err == nil && served.prev != block.prev {
			err = fmt.Errorf("block %d names %s as the one before it, and the tip was %s", block.height, served.prev, block.prev)
		}
		if err == nil {
			err = r.node.awaitTip(ctx, block.hash)
		}
		if err != nil {
			return got, err
		}
		tip = block
	}
	return got, nil
}

// offBeat waits for a moment of random length. A server that polls its node has just done so when a round goes on, and would always be
// found at the same point of its interval, which is the longest way from the next poll.
func offBeat(ctx context.Context) error {
	const longest = 300 * time.Millisecond
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(longest)):
		return nil
	}
}

// awaitServed waits until the target serves a block of the node as its tip. wrong tells of another tip that it may not serve meanwhile;
// nil: it may serve any, since it may not have followed yet what the node did before.
func (r *run) awaitServed(ctx context.Context, t *target, want blockRef, wrong func(served blockRef) bool) (served blockRef, err error) {
	wallet := walletrpc.NewCompactTxStreamerClient(t.conn)
	var last error
	err = poll(ctx, r.options.Patience, func() (bool, error) {
		limited, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		if served, last = servedTip(limited, wallet); last != nil {
			return false, nil // the tip may have moved between the two questions
		}
		if served.hash == want.hash {
			return true, nil
		}
		if wrong != nil && wrong(served) {
			return false, fmt.Errorf("it serves %s at height %d, which the node does not have: the node has %s at %d",
				served.hash, served.height, want.hash, want.height)
		}
		return false, nil
	})
	if errors.Is(err, errPatience) {
		err = fmt.Errorf("it does not serve %s at height %d within %v, but height %d (%v)", want.hash, want.height, r.options.Patience, served.height, last)
	}
	return served, err
}
