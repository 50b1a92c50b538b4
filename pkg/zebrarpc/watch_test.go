package zebrarpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// scriptedTip is a node whose tip the test moves.
type scriptedTip struct {
	id       atomic.Pointer[chain.BlockID]
	down     atomic.Bool
	refusing atomic.Bool // what Zebra does with wrong credentials
	polls    atomic.Int32
}

func (s *scriptedTip) set(h chain.Height, hash byte) {
	s.id.Store(&chain.BlockID{Height: h, Hash: chain.Hash{hash}})
}

func (s *scriptedTip) answer(q question) (*http.Response, error) {
	s.polls.Add(1)
	if s.down.Load() {
		return nil, syscall.ECONNREFUSED
	}
	if s.refusing.Load() {
		return nil, io.EOF
	}
	id := s.id.Load()
	numbers := strings.Trim(strings.ReplaceAll(fmt.Sprint(id.Hash[:]), " ", ","), "[]")
	return q.result(fmt.Sprintf(`{"height":%d,"hash":[%s]}`, id.Height, numbers))
}

// watching runs Watch in a bubble. Time stands still but for the test's own sleeps.
func watching(t *testing.T, test func(t *testing.T, c *Client, node *scriptedTip, log *bytes.Buffer)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		node, log := &scriptedTip{}, &bytes.Buffer{}
		node.set(5, 1)
		c := fakeClient(t, Options{Logger: slog.New(slog.NewTextHandler(log, nil))}, node.answer)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Watch(ctx) }()
		synctest.Wait()
		test(t, c, node, log)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Watch returned %v", err)
		}
	})
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestTipBeforeWatch(t *testing.T) {
	t.Parallel()
	c := fakeClient(t, Options{}, (&scriptedTip{}).answer)
	if s := c.Tip(); s.Known || s.Up() || s.Err != nil || isClosed(c.Changed()) {
		t.Errorf("%+v", s)
	}
}

func TestWatchTip(t *testing.T) {
	watching(t, func(t *testing.T, c *Client, node *scriptedTip, _ *bytes.Buffer) {
		begin := time.Now()
		if s := c.Tip(); !s.Up() || s.ID != (chain.BlockID{Height: 5, Hash: chain.Hash{1}}) || !s.Confirmed.Equal(begin) {
			t.Errorf("at first: %+v", s)
		}
		changed := c.Changed()
		time.Sleep(time.Second)
		synctest.Wait()
		if isClosed(changed) {
			t.Error("told of a change that was none")
		}
		if s := c.Tip(); !s.Confirmed.Equal(begin.Add(time.Second)) {
			t.Errorf("confirmed %v after the start", s.Confirmed.Sub(begin))
		}
		for _, next := range []struct {
			height chain.Height
			hash   byte
		}{{6, 2}, {6, 3}, {4, 4}} { // a block, a switch at the same height, a shorter chain
			node.set(next.height, next.hash)
			time.Sleep(time.Second)
			synctest.Wait()
			if !isClosed(changed) {
				t.Errorf("not told of %v", next)
			}
			changed = c.Changed()
			if s := c.Tip(); s.ID != (chain.BlockID{Height: next.height, Hash: chain.Hash{next.hash}}) || isClosed(changed) {
				t.Errorf("got %+v, want %v", s, next)
			}
		}
	})
}

func TestWatchPace(t *testing.T) {
	watching(t, func(t *testing.T, c *Client, node *scriptedTip, _ *bytes.Buffer) {
		polls := func(d time.Duration) int32 {
			before := node.polls.Load()
			time.Sleep(d)
			synctest.Wait()
			return node.polls.Load() - before
		}
		if n := polls(10 * time.Second); n != 10 {
			t.Errorf("idle: %d polls in 10 s", n)
		}
		time.Sleep(500 * time.Millisecond)
		c.SetFollowing(true)
		if n := polls(0); n != 1 {
			t.Errorf("following begins with %d polls", n)
		}
		if n := polls(3 * time.Second); n != 20 {
			t.Errorf("following: %d polls in 3 s", n)
		}
		c.SetFollowing(true)
		if n := polls(0); n != 0 {
			t.Error("polled for nothing")
		}
		node.down.Store(true)
		time.Sleep(150 * time.Millisecond)
		synctest.Wait()
		if n := polls(10 * time.Second); n != 10 {
			t.Errorf("in an outage: %d polls in 10 s", n)
		}
		node.down.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := polls(3 * time.Second); n != 20 {
			t.Errorf("following again: %d polls in 3 s", n)
		}
		c.SetFollowing(false)
		time.Sleep(150 * time.Millisecond)
		synctest.Wait()
		if n := polls(10 * time.Second); n != 10 {
			t.Errorf("idle again: %d polls in 10 s", n)
		}
	})
}

func TestWatchOutage(t *testing.T) {
	watching(t, func(t *testing.T, c *Client, node *scriptedTip, log *bytes.Buffer) {
		begin := time.Now()
		changed := c.Changed()
		node.down.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		s := c.Tip()
		if !isClosed(changed) || s.Up() || !s.Known || s.ID.Height != 5 || !s.Confirmed.Equal(begin) || !errors.Is(s.Err, chain.ErrUnavailable) {
			t.Errorf("down: %+v", s)
		}
		changed = c.Changed()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if isClosed(changed) {
			t.Error("told again that it is down")
		}
		node.down.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if s = c.Tip(); !isClosed(changed) || !s.Up() || s.ID.Height != 5 || !s.Confirmed.Equal(begin.Add(7*time.Second)) {
			t.Errorf("up: %+v", s)
		}
		for text, want := range map[string]int{"zebra answers": 2, "zebra cannot be asked": 1} {
			if n := strings.Count(log.String(), text); n != want {
				t.Errorf("logged %q %d times, want %d:\n%s", text, n, want, log)
			}
		}
	})
}

// A node that comes up and refuses our credentials is told of, although it could not be asked before either; a node that falters in two
// ways in turn does not fill the log.
func TestWatchOutageReasons(t *testing.T) {
	watching(t, func(t *testing.T, _ *Client, node *scriptedTip, log *bytes.Buffer) {
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		logged := func(refused, closed int) {
			t.Helper()
			again := strings.Count(log.String(), "zebra still cannot be asked, now for another reason")
			if r, c := strings.Count(log.String(), "connection refused"), strings.Count(log.String(), "rpc.enable_cookie_auth"); r != refused || c != closed || again != r+c-1 {
				t.Fatalf("told of %d refused connections and %d refused requests, want %d and %d:\n%s", r, c, refused, closed, log)
			}
		}
		node.down.Store(true)
		pass(time.Minute)
		logged(1, 0)
		node.refusing.Store(true)
		node.down.Store(false)
		pass(time.Minute)
		logged(1, 1)
		for range 60 {
			node.down.Store(!node.down.Load())
			pass(time.Second)
		}
		if n := strings.Count(log.String(), "another reason"); n < 2 || n > 8 {
			t.Errorf("told %d reasons in another minute:\n%s", n, log)
		}
	})
}

func TestWatchTwice(t *testing.T) {
	watching(t, func(t *testing.T, c *Client, _ *scriptedTip, _ *bytes.Buffer) {
		if err := c.Watch(t.Context()); !errors.Is(err, ErrWatching) {
			t.Errorf("got %v", err)
		}
	})
}

// A hint of a tip that is not known brings the next poll forward, and nothing else: the poll says what the tip is.
func TestHint(t *testing.T) {
	watching(t, func(t *testing.T, c *Client, node *scriptedTip, _ *bytes.Buffer) {
		hint := func(h chain.Height, hash byte) int32 {
			before := node.polls.Load()
			c.Hint(chain.BlockID{Height: h, Hash: chain.Hash{hash}})
			synctest.Wait()
			return node.polls.Load() - before
		}
		if n := hint(5, 1); n != 0 {
			t.Errorf("the known tip: %d polls", n)
		}
		node.set(6, 2)
		if n := hint(6, 2); n != 1 || c.Tip().ID.Height != 6 {
			t.Errorf("a new tip: %d polls, tip %v", n, c.Tip().ID)
		}
		if n := hint(1000, 9); n != 1 || c.Tip().ID.Height != 6 {
			t.Errorf("a tip that the node does not name: %d polls, tip %v", n, c.Tip().ID)
		}
		node.down.Store(true)
		if n := hint(7, 3); n != 1 || c.Tip().Up() {
			t.Errorf("in an outage: %d polls, %+v", n, c.Tip())
		}
		node.down.Store(false)
		if n := hint(6, 2); n != 1 || !c.Tip().Up() { // the node may be back
			t.Errorf("the known tip, in an outage: %d polls, %+v", n, c.Tip())
		}
		before := node.polls.Load()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := node.polls.Load() - before; n != 10 {
			t.Errorf("%d polls in 10 s without hints", n)
		}
	})
}

// Hints from another chain are told of once, and once more after they had been right; a chain that runs ahead of the polls is no other.
func TestForeignHints(t *testing.T) {
	watching(t, func(t *testing.T, c *Client, node *scriptedTip, log *bytes.Buffer) {
		const warning = "the tip stream names blocks that this node does not"
		warned := func(want int) {
			t.Helper()
			if n := strings.Count(log.String(), warning); n != want {
				t.Fatalf("warned %d times, want %d:\n%s", n, want, log)
			}
		}
		hint := func(id chain.BlockID) {
			c.Hint(id)
			synctest.Wait()
		}
		foreign := chain.BlockID{Height: 4_000_000, Hash: chain.Hash{9}}
		for range 1000 { // fast blocks: the poll after a hint finds the next one
			h := c.Tip().ID.Height + 1
			node.set(h+1, 1)
			hint(chain.BlockID{Height: h, Hash: chain.Hash{1}})
			time.Sleep(foreignTime / 2001)
		}
		warned(0)
		hint(chain.BlockID{Height: c.Tip().ID.Height, Hash: chain.Hash{2}})
		node.set(10_000, 1)
		hint(chain.BlockID{Height: 10_000, Hash: chain.Hash{1}}) // right
		for range foreignHints + 2 {
			hint(foreign)
		}
		warned(0)
		time.Sleep(foreignTime)
		hint(foreign)
		warned(1)
		time.Sleep(time.Hour)
		hint(foreign)
		warned(1)
		node.set(10_001, 1)
		hint(chain.BlockID{Height: 10_001, Hash: chain.Hash{1}}) // right again
		hint(foreign)
		time.Sleep(foreignTime)
		hint(foreign)
		warned(1) // two are not three
		hint(foreign)
		warned(2)
	})
}
