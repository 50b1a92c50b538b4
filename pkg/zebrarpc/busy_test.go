package zebrarpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// The hard sides of a node, over real sockets: every block arrives in order, once, and single questions are answered all the while.

// beside asks single questions until the returned function is called, which gives their number and the failed ones.
func beside(t *testing.T, c *Client) (stop func() (asked, failed int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var asked, failed int
	var last error
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			if _, err := c.BlockHash(ctx, 1); err != nil && ctx.Err() == nil {
				failed++
				last = err
			}
			asked++
		}
	})
	return func() (int, int) {
		cancel()
		all.Wait()
		if last != nil {
			t.Logf("the last error of a single question: %v", last)
		}
		return asked, failed
	}
}

// fetchAll wants the whole chain, and reports the lowest bulk limit on the way.
func fetchAll(t *testing.T, c *Client, n *zebratest.Node) (lowest int) {
	t.Helper()
	tip := n.Chain().Tip().Height
	h, limit := chain.Height(0), c.options.InFlight
	got := drain(c, t.Context(), 0, tip, Build, func(f chain.Fetched) {
		if f.ID.Height != h {
			t.Fatalf("block %d instead of %d", f.ID.Height, h)
		}
		h++
		limit = min(limit, c.Stats().BulkLimit)
	})
	if got.err != nil || h != tip+1 {
		t.Fatalf("%d of %d blocks, %v", h, tip+1, got.err)
	}
	return limit
}

// restored wants the bulk limit to come back while requests succeed, one step in restorePause.
func restored(t *testing.T, c *Client, n *zebratest.Node, from int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); c.Stats().BulkLimit <= from; fetchAll(t, c, n) {
		if time.Now().After(end) {
			t.Fatalf("the bulk limit stays at %d", c.Stats().BulkLimit)
		}
	}
}

// TestEveryThirdRefused: a node that others keep busy answers one request in three with 429, the polls among them.
func TestEveryThirdRefused(t *testing.T) {
	t.Parallel()
	n := zebratest.NewNode(newChain(t, 300, zebratest.Small), zebratest.NodeOptions{})
	c := nodeClient(t, Options{}, n)
	var count atomic.Int64
	remove := n.Fault(zebratest.Fault{Where: func(zebratest.Call) bool { return count.Add(1)%3 == 0 }, Status: http.StatusTooManyRequests})
	stop := beside(t, c)
	if lowest := fetchAll(t, c, n); lowest > DefaultInFlight/2 {
		t.Errorf("the bulk limit fell to %d only", lowest)
	}
	for range 20 {
		if _, err := c.BestBlock(t.Context()); err != nil {
			t.Errorf("a poll: %v", err)
		}
	}
	if asked, failed := stop(); asked < 10 || failed > asked/20 {
		t.Errorf("%d of %d single questions failed", failed, asked)
	}
	remove()
	restored(t, c, n, c.Stats().BulkLimit)
}

// TestFewPermits: a node that has fewer permits left than we use. The bulk limit settles below what it has.
func TestFewPermits(t *testing.T) {
	t.Parallel()
	const permits = 4
	n := zebratest.NewNode(newChain(t, 400, zebratest.Small), zebratest.NodeOptions{MaxRequests: permits})
	n.Fault(zebratest.Fault{Method: "getblock", Delay: 5 * time.Millisecond})
	c := nodeClient(t, Options{}, n)
	stop := beside(t, c)
	if lowest := fetchAll(t, c, n); lowest > permits {
		t.Errorf("the bulk limit fell to %d only, of %d permits", lowest, permits)
	}
	if asked, failed := stop(); asked < 10 || failed > asked/20 {
		t.Errorf("%d of %d single questions failed", failed, asked)
	}
}

// TestHangUps: connections that are closed in the middle of a request are a sign of overload, too.
func TestHangUps(t *testing.T) {
	t.Parallel()
	n := zebratest.NewNode(newChain(t, 300, zebratest.Small), zebratest.NodeOptions{})
	c := nodeClient(t, Options{}, n)
	if _, err := c.BestBlock(t.Context()); err != nil { // an answer: what follows is no refusal of credentials
		t.Fatal(err)
	}
	var count atomic.Int64
	remove := n.Fault(zebratest.Fault{Method: "getblock", Where: func(zebratest.Call) bool { return count.Add(1)%5 == 0 }, Drop: true})
	if lowest := fetchAll(t, c, n); lowest > DefaultInFlight/2 {
		t.Errorf("the bulk limit fell to %d only", lowest)
	}
	remove()
	restored(t, c, n, c.Stats().BulkLimit)
}

// TestWarmUp: what a node says that is not ready yet holds up nothing but the blocks that it concerns, and is no overload.
func TestWarmUp(t *testing.T) {
	t.Parallel()
	for _, code := range []int{-28, -10} {
		n := zebratest.NewNode(newChain(t, 100, zebratest.Small), zebratest.NodeOptions{})
		n.Fault(zebratest.Fault{Method: "getblock", Times: 40, Error: &zebratest.Error{Code: code, Message: "loading block index"}})
		c := nodeClient(t, Options{}, n)
		if lowest := fetchAll(t, c, n); lowest != DefaultInFlight {
			t.Errorf("code %d: the bulk limit fell to %d", code, lowest)
		}
	}
}

// TestWrongVerbosity: what Zebra says to a parameter that it does not know is an answer, not a reason to go on asking.
func TestWrongVerbosity(t *testing.T) {
	t.Parallel()
	n := zebratest.NewNode(newChain(t, 10, zebratest.Small), zebratest.NodeOptions{})
	n.Fault(zebratest.Fault{Method: "getblock", Error: &zebratest.Error{Code: -8, Message: "invalid verbosity value"}})
	c := nodeClient(t, Options{}, n)
	got := drain(c, t.Context(), 0, 10, Build, nil)
	var e *Error
	if !errors.As(got.err, &e) || e.Class != Answerable || e.Message != "invalid verbosity value" {
		t.Errorf("got %v", got.err)
	}
	if n.Requests("getblock") > 3*DefaultInFlight {
		t.Errorf("asked %d times", n.Requests("getblock"))
	}
}

// TestClosedAfterEachReply: servers that keep no connection, with and without a word of it.
func TestClosedAfterEachReply(t *testing.T) {
	t.Parallel()
	for name, closeAfter := range map[string]func(*http.Server){
		"announced": func(s *http.Server) { s.SetKeepAlivesEnabled(false) },
		"silently": func(s *http.Server) {
			s.ConnState = func(conn net.Conn, state http.ConnState) {
				if state == http.StateIdle {
					conn.Close()
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := zebratest.NewNode(newChain(t, 300, zebratest.Small), zebratest.NodeOptions{})
			server := httptest.NewUnstartedServer(n)
			closeAfter(server.Config)
			server.Start()
			defer server.Close()
			c, err := New(Options{URL: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			stop := beside(t, c)
			fetchAll(t, c, n)
			if asked, failed := stop(); asked < 10 || failed > 0 {
				t.Errorf("%d of %d single questions failed", failed, asked)
			}
		})
	}
}
