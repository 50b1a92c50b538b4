package mempool

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

var errEnded = fmt.Errorf("the mempool is not read any more: %w", chain.ErrUnavailable)

// Refresh has everybody who asks from now on wait for an answer that the node gives after this call, and followers looked after at once:
// the node has taken a transaction, which is in that answer.
func (p *Pool) Refresh() {
	p.mu.Lock()
	p.least = p.begun + 1
	followed := p.followers > 0
	p.mu.Unlock()
	if followed {
		p.nudge()
	}
}

// Snapshot returns the mempool, ascending by id in display order: as it was at most MaxAge ago, and after the last Refresh. The slice is
// shared and must not be changed. The error is that of the poll that was waited for.
func (p *Pool) Snapshot(ctx context.Context) ([]*chain.PooledTransaction, error) {
	p.mu.Lock()
	now := time.Now()
	p.asked = now
	if s := p.state; s.poll > 0 && s.poll >= p.least && now.Sub(s.at) <= MaxAge {
		p.mu.Unlock()
		return s.txs, nil
	}
	number := p.begun + 1
	if running := p.begun > p.state.done; running && now.Sub(p.begunAt) <= MaxAge {
		number = p.begun
	}
	number = max(number, p.least)
	p.mu.Unlock()
	s, _, err := p.await(ctx, number)
	return s.txs, err
}

// await waits for the outcome of the poll of that number, or a later one, and returns the state with it and the channel that tells of
// changes since. A poll that fails meanwhile is an answer too: a node that hangs is waited for once, not for the next poll as well.
func (p *Pool) await(ctx context.Context, number uint64) (state, <-chan struct{}, error) {
	p.mu.Lock()
	came := p.state.done
	p.mu.Unlock()
	for {
		p.mu.Lock()
		s, changed, polled, begun := p.state, p.changed, p.polled, p.begun
		p.mu.Unlock()
		switch {
		case s.poll >= number:
			return s, changed, nil
		case s.done >= number, s.done > came && s.err != nil:
			return s, changed, s.err
		}
		if begun < number {
			p.nudge()
		}
		select {
		case <-polled:
		case <-ctx.Done():
			return state{}, nil, ctx.Err()
		case <-p.ended:
			return state{}, nil, errEnded
		}
	}
}

// Follow yields everything that is in the mempool when the iteration begins, and then what is new in it, each transaction once, until
// the tip is another than it was at the beginning: that is the iteration's end. The slices must not be changed.
//
// It ends with an error when the tip or the mempool cannot be read at the beginning, when polls have failed for ten seconds, and when
// ctx ends.
func (p *Pool) Follow(ctx context.Context) iter.Seq2[[]*chain.PooledTransaction, error] {
	return func(yield func([]*chain.PooledTransaction, error) bool) {
		p.mu.Lock()
		p.followers++
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.followers--
		}()
		if err := p.follow(ctx, func(txs []*chain.PooledTransaction) bool { return yield(txs, nil) }); err != nil && !errors.Is(err, errLeft) {
			yield(nil, err)
		}
	}
}

// errLeft means that the follower wants no more.
var errLeft = errors.New("left")

func (p *Pool) follow(ctx context.Context, yield func([]*chain.PooledTransaction) bool) error {
	tips, err := p.readTip(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	number := p.begun + 1
	p.mu.Unlock()
	s, changed, err := p.await(ctx, number)
	if err != nil {
		return err
	}
	var seen set
	last := uint64(0) // the poll whose transactions were looked at
	for s.tips == tips {
		if !s.failing.IsZero() && time.Since(s.failing) >= outagePatience {
			return s.err
		}
		if s.poll != last {
			last = s.poll
			if news := seen.addNew(s.txs); len(news) > 0 && !yield(news) {
				return errLeft
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.ended:
			return errEnded
		}
		p.mu.Lock()
		s, changed = p.state, p.changed
		p.mu.Unlock()
	}
	return nil
}

// set is a set of slots. The zero value is empty.
type set []uint64

// addNew adds the slots of the transactions, and returns those that were not there.
func (s *set) addNew(txs []*chain.PooledTransaction) (news []*chain.PooledTransaction) {
	for _, tx := range txs {
		word, bit := tx.Slot/64, uint64(1)<<(tx.Slot%64)
		if word >= len(*s) {
			*s = append(*s, make([]uint64, word+1-len(*s))...)
		}
		if (*s)[word]&bit == 0 {
			(*s)[word] |= bit
			news = append(news, tx)
		}
	}
	return news
}
