package zebratest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// post gives a node a request without a network between them.
func post(n *Node, text string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	n.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text)))
	return w
}

func TestMaxRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := NewNode(newChain(t, 1, Small), NodeOptions{})
		n.Fault(Fault{Method: "getblockcount", Delay: time.Second, Times: 100})
		var replies sync.WaitGroup
		for range 100 {
			replies.Go(func() {
				if w := post(n, call("getblockcount", "").body); w.Code != http.StatusOK {
					t.Errorf("one of the first hundred: status %d", w.Code)
				}
			})
		}
		synctest.Wait()
		const want = "Too many connections. Please try again later."
		if w := post(n, call("getblockcount", "").body); w.Code != http.StatusTooManyRequests || w.Body.String() != want {
			t.Errorf("the hundred and first: status %d, %q", w.Code, w.Body)
		}
		replies.Wait()
		if w := post(n, call("getblockcount", "").body); w.Code != http.StatusOK {
			t.Errorf("afterwards: status %d", w.Code)
		}
		if n.MaxInFlight() != 100 || n.Requests("getblockcount") != 101 {
			t.Errorf("%d in flight, %d requests, want 100 and 101", n.MaxInFlight(), n.Requests("getblockcount"))
		}
	})
}

func TestCounts(t *testing.T) {
	t.Parallel()
	var seen []string
	n := NewNode(newChain(t, 3, Small), NodeOptions{Observe: func(c Call) { seen = append(seen, c.Method) }})
	for _, method := range []string{"getinfo", "getblockcount", "nosuchmethod", "getinfo"} {
		post(n, call(method, "").body)
	}
	if got := strings.Join(seen, " "); got != "getinfo getblockcount nosuchmethod getinfo" {
		t.Errorf("observed %s", got)
	}
	if n.Requests("getinfo") != 2 || n.Requests("nosuchmethod") != 1 || n.Requests("getblock") != 0 || n.MaxInFlight() != 1 {
		t.Errorf("counted %d, %d, %d, %d in flight", n.Requests("getinfo"), n.Requests("nosuchmethod"), n.Requests("getblock"), n.MaxInFlight())
	}
	n.ResetCounts()
	if n.Requests("getinfo") != 0 || n.MaxInFlight() != 0 {
		t.Errorf("after the reset %d, %d in flight", n.Requests("getinfo"), n.MaxInFlight())
	}
}

func TestCookie(t *testing.T) {
	t.Parallel()
	n := NewNode(newChain(t, 1, Small), NodeOptions{CookieDir: t.TempDir()})
	start(t, n)
	e := endpoint{n.URL(), n.CookieFile()}
	if info, err := os.Stat(n.CookieFile()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("cookie file %v (%v), want mode 0600", info, err)
	}
	old, err := os.ReadFile(n.CookieFile())
	if err != nil || !strings.HasPrefix(string(old), "__cookie__:") {
		t.Fatalf("cookie %q (%v)", old, err)
	}
	if a := e.ask(t, call("getblockcount", "")); a.status != http.StatusOK {
		t.Errorf("the right cookie: %+v", a)
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	// The node has a new secret now; the old one closes the connection.
	stale := call("getblockcount", "")
	stale.auth = func(string) string { return basic(string(old)) }
	if a := e.ask(t, stale); !a.closed {
		t.Errorf("the cookie of the last start: %+v", a)
	}
	if a := e.ask(t, call("getblockcount", "")); a.status != http.StatusOK {
		t.Errorf("the new cookie: %+v", a)
	}
}

func TestStopAndStart(t *testing.T) {
	t.Parallel()
	n := NewNode(newChain(t, 2, Small), NodeOptions{})
	if n.URL() != "" {
		t.Errorf("before the first start the URL is %q", n.URL())
	}
	start(t, n)
	url := n.URL()
	if err := n.Start(); err == nil {
		t.Error("a running node was started")
	}
	if a := (endpoint{url: url}).ask(t, call("getblockcount", "")); string(a.body) != `{"jsonrpc":"2.0","id":1,"result":2}` {
		t.Errorf("running: %s", a.body)
	}
	for range 2 {
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		if a := (endpoint{url: url}).ask(t, call("getblockcount", "")); !a.closed {
			t.Errorf("stopped: %+v", a)
		}
	}
	n.SetChain(newChain(t, 7, Small))
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if n.URL() != url {
		t.Errorf("the URL became %s, it was %s", n.URL(), url)
	}
	if a := (endpoint{url: url}).ask(t, call("getblockcount", "")); string(a.body) != `{"jsonrpc":"2.0","id":1,"result":7}` {
		t.Errorf("running again with another chain: %s", a.body)
	}
}

// HTTP/2 without TLS works on the same port.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	n := NewNode(newChain(t, 2, Small), NodeOptions{})
	start(t, n)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Post(n.URL(), "application/json", strings.NewReader(call("getblockcount", "").body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK {
		t.Errorf("HTTP/%d, status %d", resp.ProtoMajor, resp.StatusCode)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
