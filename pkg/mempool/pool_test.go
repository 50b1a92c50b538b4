package mempool

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		wantSnapshot(t, p) // empty, and the first question ever
		a, b, c := ironwood(1), transparent(2), ironwood(3)
		n.add(a, b)
		time.Sleep(MaxAge + time.Millisecond)
		wantSnapshot(t, p, a, b)
		n.remove(a)
		n.add(c)
		time.Sleep(MaxAge + time.Millisecond)
		wantSnapshot(t, p, b, c)
		if got := n.asked().fetches; got != 3 {
			t.Errorf("%d transactions were fetched, want each once", got)
		}
	})
}

// A snapshot holds parsed transactions with their frames.
func TestTransactionForms(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		shielded, plain := ironwood(1), transparent(2)
		n.add(shielded, plain)
		txs, err := p.Snapshot(t.Context())
		if err != nil || len(txs) != 2 {
			t.Fatal(len(txs), err)
		}
		for _, tx := range txs {
			want := tx.Parsed.AppendTxFrame(nil, chain.DefaultProjection)
			if !bytes.Equal(tx.Frame, want) || (len(want) == 0) != (tx.ID == idOf(plain)) {
				t.Errorf("%s: frame %x, want %x", tx.ID, tx.Frame, want)
			}
		}
	})
}

// Nobody asks: nothing is polled. Somebody asked: for some time, so that the next one need not wait.
func TestPollsOnlyWhenWanted(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		time.Sleep(time.Hour)
		if got := n.asked().lists; got != 0 {
			t.Errorf("%d polls before anybody asked", got)
		}
		wantSnapshot(t, p)
		time.Sleep(time.Hour)
		if got := n.asked().lists; got < 9 || got > 11 {
			t.Errorf("%d polls after one question, want one a second for 10 s", got)
		}
		polls := n.asked().lists
		f := follow(t, p)
		time.Sleep(10 * time.Second)
		f.cancel()
		f.wantEnd(t, context.Canceled)
		if got := n.asked().lists - polls; got < 23 || got > 26 {
			t.Errorf("%d polls in 10 s with a follower, want one each 400 ms", got)
		}
		polls = n.asked().lists
		time.Sleep(time.Hour)
		if got := n.asked().lists - polls; got > 1 {
			t.Errorf("%d polls after the follower left", got)
		}
	})
}

// A thousand callers at once cost the node one poll.
func TestOnePollForAll(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		tx := ironwood(1)
		n.add(tx)
		n.change(func() { n.delay = time.Second })
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() { wantSnapshot(t, p, tx) })
		}
		callers.Wait()
		if got := n.asked(); got.lists != 1 || got.fetches != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// Refresh makes a snapshot that is fresh by its age too old, also one that is being read already.
func TestRefresh(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		wantSnapshot(t, p)
		a, b := ironwood(1), ironwood(2)
		n.add(a)
		wantSnapshot(t, p) // at most 2 s old
		p.Refresh()
		wantSnapshot(t, p, a)

		n.change(func() { n.delay = 500 * time.Millisecond })
		time.Sleep(1200 * time.Millisecond) // a poll runs, and has its ids already
		p.mu.Lock()
		running := p.begun > p.state.done
		p.mu.Unlock()
		if !running {
			t.Fatal("no poll is running")
		}
		n.add(b)
		p.Refresh()
		wantSnapshot(t, p, a, b)
	})
}

// The errors of the node reach who waits, and end when the node is back.
func TestNodeAway(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		n.change(func() { n.err = errAway })
		for range 3 {
			if _, err := p.Snapshot(t.Context()); !errors.Is(err, chain.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		}
		f := follow(t, p)
		time.Sleep(200 * time.Millisecond)
		f.wantEnd(t, chain.ErrUnavailable)
		n.change(func() { n.err = nil })
		wantSnapshot(t, p)

		// A snapshot outlives a short outage, by no more than its age.
		n.change(func() { n.err = errAway })
		time.Sleep(time.Second)
		wantSnapshot(t, p)
		time.Sleep(time.Second + 10*time.Millisecond)
		if _, err := p.Snapshot(t.Context()); !errors.Is(err, chain.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
}

// Whoever comes while a poll hangs learns that with it, and need not wait for another that hangs as long.
func TestNodeHangs(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		wantSnapshot(t, p)
		n.change(func() { n.err, n.delay = errAway, 10*time.Second })
		time.Sleep(MaxAge + 2*time.Second) // a poll has begun, too long ago for a snapshot
		begin := time.Now()
		if _, err := p.Snapshot(t.Context()); !errors.Is(err, chain.ErrUnavailable) || time.Since(begin) > 10*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		time.Sleep(5 * time.Second)
		begin = time.Now()
		for _, err := range p.Follow(t.Context()) {
			if !errors.Is(err, chain.ErrUnavailable) || time.Since(begin) > 10*time.Second {
				t.Errorf("a follower got %v after %v", err, time.Since(begin))
			}
		}
	})
}

// A failing fetch fails the poll, and what came before it is not fetched again.
func TestFetchFails(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		var txs [][]byte
		for i := range uint64(100) {
			txs = append(txs, ironwood(i))
		}
		n.add(txs...)
		n.change(func() { n.txErr, n.txDelay = errAway, time.Millisecond })
		if _, err := p.Snapshot(t.Context()); !errors.Is(err, chain.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		wantSnapshot(t, p, txs...)
		if got := n.asked(); got.fetches > 100+fetchers || got.mostAtOnce != fetchers {
			t.Errorf("%+v, want %d at once", got, fetchers)
		}
	})
}

func TestGoneBeforeFetched(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		a, b := ironwood(1), ironwood(2)
		n.add(a, b)
		n.change(func() { n.gone[idOf(b)] = true })
		wantSnapshot(t, p, a)
	})
}

// A transaction that cannot be parsed, or is another one than was asked for, stays without a compact form and is counted once.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	bubble(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, n *fakeNode, p *Pool) {
		good, other := ironwood(1), ironwood(9)
		n.add(good)
		n.change(func() {
			n.txs[chain.TxID{1}] = []byte{7, 0, 0, 128, 1, 2, 3, 4} // version 7
			n.txs[chain.TxID{2}] = other
		})
		for range 3 {
			txs, err := p.Snapshot(t.Context())
			if err != nil || len(txs) != 3 {
				t.Fatal(len(txs), err)
			}
			for _, tx := range txs {
				if readable := tx.ID == idOf(good); (tx.Parsed != nil) != readable || (tx.Frame != nil) != readable || len(tx.Raw) == 0 {
					t.Errorf("%s: parsed %v, frame %x", tx.ID, tx.Parsed, tx.Frame)
				}
			}
			time.Sleep(5 * time.Second)
		}
		if got := p.Stats(); got.Unreadable != 2 || got.Transactions != 3 {
			t.Errorf("%+v", got)
		}
	})
	for _, want := range []string{"unknown transaction version 7", "its id is " + idOf(ironwood(9)).String()} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q: %s", want, log.String())
		}
	}
}

func TestMaxBytes(t *testing.T) {
	t.Parallel()
	one := int64(len(ironwood(1)))
	bubble(t, Options{MaxBytes: 10 * one}, func(t *testing.T, n *fakeNode, p *Pool) {
		var txs [][]byte
		for i := range uint64(50) {
			txs = append(txs, ironwood(i))
		}
		n.add(txs...)
		got, err := p.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := p.Stats()
		if len(got) < 5 || len(got) > 10+fetchers || s.LeftOut != 50-len(got) || s.Bytes > 20*one {
			t.Errorf("%d transactions, %+v", len(got), s)
		}
		n.remove(txs[2:]...) // there is room again
		time.Sleep(MaxAge + time.Millisecond)
		wantSnapshot(t, p, txs[:2]...)
		if s := p.Stats(); s.LeftOut != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Whoever waits when Run ends is told.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode()
		n.delay = time.Hour
		p := New(n, Options{Tip: n.readTip})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		f := follow(t, p)
		time.Sleep(time.Second)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		<-f.done
		if f.err == nil {
			t.Error("the follower ended as if the tip had changed")
		}
		if _, err := p.Snapshot(t.Context()); !errors.Is(err, chain.ErrUnavailable) {
			t.Errorf("a snapshot after the end: %v", err)
		}
	})
}

// A transaction that makes us panic is one that cannot be read, and ends nothing.
func TestPanickingTransaction(t *testing.T) {
	t.Parallel()
	bubble(t, Options{}, func(t *testing.T, n *fakeNode, p *Pool) {
		p.reader.encoders.New = func() any { return (*chain.Encoder)(nil) } // whoever uses that panics
		a := ironwood(1)
		n.add(a)
		txs, err := p.Snapshot(t.Context())
		if err != nil || len(txs) != 1 || txs[0].Parsed != nil || !bytes.Equal(txs[0].Raw, a) {
			t.Errorf("%+v, %v", txs, err)
		}
		if got := p.Stats(); got.Unreadable != 1 {
			t.Errorf("%+v", got)
		}
	})
}
