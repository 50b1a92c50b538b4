package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
)

// proxy stands between zsidecar and Zebra. It counts what is asked, can slow down raw blocks, and can stop listening.
// Credentials pass through; where Zebra closes the connection without an answer, so does the proxy.
type proxy struct {
	tb     testing.TB
	addr   string
	target string
	client *http.Client
	delay  atomic.Int64 // nanoseconds that each getblock of verbosity 0 takes longer
	page   atomic.Bool  // answer with an HTML page instead of asking Zebra
	about  atomic.Int64 // calls of the methods about addresses

	mu     sync.Mutex
	server *http.Server   // nil while refusing
	raw    map[string]int // calls of getblock at verbosity 0, by their first parameter
}

// newProxy listens in front of the node.
func newProxy(tb testing.TB, target *node) *proxy {
	tb.Helper()
	p := &proxy{
		tb: tb, addr: servertest.FreeAddr(tb), target: target.url(), raw: map[string]int{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}},
	}
	p.accept()
	tb.Cleanup(p.refuse)
	return p
}

func (p *proxy) url() string { return "http://" + p.addr }

// accept starts listening, at the same address as ever.
func (p *proxy) accept() {
	p.tb.Helper()
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.tb.Fatal(err)
	}
	server := &http.Server{Handler: p}
	p.mu.Lock()
	p.server = server
	p.mu.Unlock()
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.tb.Errorf("proxy: %v", err)
		}
	}()
}

// refuse closes every connection; new ones are refused from then on.
func (p *proxy) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		p.server.Close()
		p.server = nil
	}
}

// rawCalls is how often raw blocks were asked for, and the lowest height among them (-1 for none). Requests by hash count as well, but
// have no height.
func (p *proxy) rawCalls() (calls, lowest int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lowest = -1
	for param, n := range p.raw {
		calls += n
		if height, err := strconv.Atoi(param); err == nil && (lowest < 0 || height < lowest) {
			lowest = height
		}
	}
	return calls, lowest
}

// addressCalls is how often Zebra was asked about transparent addresses.
func (p *proxy) addressCalls() int { return int(p.about.Load()) }

// resetCalls starts counting from zero.
func (p *proxy) resetCalls() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.raw)
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if p.page.Load() {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html><body>Welcome to nginx!</body></html>")
		return
	}
	if bytes.Contains(body, []byte(`"getaddress`)) {
		p.about.Add(1)
	}
	if block, ok := rawBlockParam(body); ok {
		p.mu.Lock()
		p.raw[block]++
		p.mu.Unlock()
		select {
		case <-time.After(time.Duration(p.delay.Load())):
		case <-r.Context().Done():
			return
		}
	}
	p.forward(w, r, body)
}

func (p *proxy) forward(w http.ResponseWriter, r *http.Request, body []byte) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, p.target, bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	out.Header = r.Header.Clone()
	resp, err := p.client.Do(out)
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection without an answer
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer) // a client that has gone is no concern of ours
}

// rawBlockParam returns the first parameter of a getblock request of verbosity 0.
func rawBlockParam(body []byte) (string, bool) {
	var request struct {
		Method string
		Params []any
	}
	if err := json.Unmarshal(body, &request); err != nil || request.Method != "getblock" || len(request.Params) < 2 {
		return "", false
	}
	block, _ := request.Params[0].(string)
	return block, request.Params[1] == float64(0)
}
