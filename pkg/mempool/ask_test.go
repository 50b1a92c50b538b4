package mempool

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// The very first call sees a mempool that is full already, and then everything new within a second.
func TestFollow(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		a, b, c := ironwood(1), transparent(2), ironwood(3)
		n.add(a, b)
		f := follow(t, p)
		synctest.Wait()
		f.want(t, a, b)
		n.add(c)
		time.Sleep(time.Second)
		f.want(t, a, b, c)
		n.remove(a)
		time.Sleep(time.Second)
		n.add(a) // it comes back: the follower has it already
		late := follow(t, p)
		time.Sleep(time.Second)
		f.want(t, a, b, c)
		late.want(t, a, b, c)
		time.Sleep(time.Hour) // quiet
		f.wantOpen(t)

		n.change(func() { n.tip.Hash = chain.Hash{1} }) // at the same height
		time.Sleep(tipPause)
		f.wantEnd(t, nil)
		late.wantEnd(t, nil)
	})
}

// What came while the old tip stood does not count for the follower of the new one, and numbers are used again.
func TestFollowAfterTipChange(t *testing.T) {
	t.Parallel()
	var pool *Pool
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		pool = p
		stays := ironwood(1000)
		n.add(stays)
		for round := range uint64(20) {
			f := follow(t, p)
			var txs [][]byte
			for i := range uint64(50) {
				txs = append(txs, transparent(100*round+i))
			}
			synctest.Wait()
			n.add(txs...)
			time.Sleep(time.Second)
			f.want(t, append(txs, stays)...)
			n.remove(txs...)
			n.change(func() { n.tip.Height++ })
			time.Sleep(tipPause)
			f.wantEnd(t, nil)
		}
	})
	if n := len(pool.reader.slots) + len(pool.reader.free); n > 151 {
		t.Errorf("there are %d slots for at most 51 transactions at a time", n)
	}
}

// A follower sees a transaction that was sent at once, whatever the pause.
func TestFollowRefresh(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		f := follow(t, p)
		time.Sleep(time.Second)
		tx := ironwood(1)
		n.add(tx)
		p.Refresh()
		time.Sleep(leastPause)
		synctest.Wait()
		f.want(t, tx)
		f.cancel()
		f.wantEnd(t, context.Canceled)
	})
}

// A client that leaves in mid-refresh costs nobody a transaction.
func TestFollowerLeaves(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		a, b := ironwood(1), ironwood(2)
		n.change(func() { n.delay, n.txDelay = 100*time.Millisecond, 100*time.Millisecond })
		n.add(a)
		stays, leaves := follow(t, p), follow(t, p)
		time.Sleep(150 * time.Millisecond) // the first poll fetches a
		leaves.cancel()
		leaves.wantEnd(t, context.Canceled)
		leaves.want(t)
		n.add(b)
		time.Sleep(time.Second)
		stays.want(t, a, b)
		stays.cancel()
		stays.wantEnd(t, context.Canceled)
	})
}

// A thousand followers cost the node no more than one, and each gets everything.
func TestManyFollowers(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		a, b := ironwood(1), ironwood(2)
		n.add(a)
		followers := make([]*follower, 1000)
		for i := range followers {
			followers[i] = follow(t, p)
		}
		time.Sleep(5 * time.Second)
		n.add(b)
		time.Sleep(time.Second)
		for _, f := range followers {
			f.want(t, a, b)
		}
		if got := n.asked(); got.lists > 18 || got.fetches != 2 {
			t.Errorf("%+v in 6 s, want a list each 400 ms, and each transaction once", got)
		}
		n.change(func() { n.tip.Height++ })
		time.Sleep(tipPause)
		for _, f := range followers {
			f.wantEnd(t, nil)
		}
	})
}

// One that stops reading holds up nobody, and goes on where it stopped.
func TestSlowFollower(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		a, b, c := ironwood(1), ironwood(2), ironwood(3)
		n.add(a)
		read := make(chan []*chain.PooledTransaction)
		ended := make(chan error, 1)
		go func() {
			for txs, err := range p.Follow(t.Context()) {
				if err != nil {
					ended <- err
					return
				}
				read <- txs
			}
			ended <- nil
		}()
		fast := follow(t, p)
		time.Sleep(time.Second)
		n.add(b)
		time.Sleep(time.Minute)
		n.add(c)
		time.Sleep(time.Minute)
		fast.want(t, a, b, c)
		wantTransactions(t, <-read, a)
		wantTransactions(t, <-read, b, c)
		n.change(func() { n.tip.Height++ })
		if err := <-ended; err != nil {
			t.Error(err)
		}
		fast.wantEnd(t, nil)
	})
}

// A short outage is nothing to a follower, a long one ends it, and neither looks like a new block.
func TestFollowOutage(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		tx := ironwood(1)
		f := follow(t, p)
		time.Sleep(time.Second)
		n.change(func() { n.err, n.tipErr = errAway, errAway })
		time.Sleep(outagePatience - time.Second)
		n.change(func() { n.err, n.tipErr = nil, nil })
		n.add(tx)
		time.Sleep(time.Second)
		f.wantOpen(t)
		f.want(t, tx)
		n.change(func() { n.err, n.tipErr = errAway, errAway })
		time.Sleep(outagePatience + time.Second)
		f.wantEnd(t, chain.ErrUnavailable)

		f = follow(t, p) // the tip is not known
		f.wantEnd(t, chain.ErrUnavailable)
	})
}

// Whoever breaks the loop ends the iteration.
func TestFollowBreak(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		n.add(ironwood(1))
		for txs, err := range p.Follow(t.Context()) {
			if len(txs) != 1 || err != nil {
				t.Error(len(txs), err)
			}
			break
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, err := range p.Follow(ctx) {
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
	})
}
