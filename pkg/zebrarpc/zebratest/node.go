package zebratest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc/envelope"
)

// NodeOptions describe a Node. The zero value is a zebrad 7.0.0 without authentication.
type NodeOptions struct {
	// Listen is the address of Start, an IP address and a port. "" means a free port of 127.0.0.1.
	Listen string
	// CookieDir turns cookie authentication on: Start writes a new secret into the file .cookie there.
	CookieDir string
	// MaxRequests is how many requests may be in flight; more are answered with status 429. 0 means 100.
	MaxRequests int
	// EstimatedHeight is the network's tip as the node guesses it; the node's own tip when that is higher.
	EstimatedHeight chain.Height
	// SubtreeLeaves is how many leaves a subtree has whose root z_getsubtreesbyindex lists. 0 means 65,536, as everywhere else.
	SubtreeLeaves uint32
	// MaxAddressResults is how many txids or outputs the address methods give at most. 0 means 100,000.
	MaxAddressResults int
	// Build and Subversion are what getinfo says.
	Build, Subversion string
	// Observe, when not nil, is called with every call before it is executed; it must be safe for concurrent use.
	Observe func(Call)
}

// Node answers JSON-RPC over HTTP with a Chain. It is an http.Handler, and brings a server for it: Start and Stop.
type Node struct {
	opts   NodeOptions
	pool   mempool
	mining branches

	mu       sync.Mutex // guards what follows
	chain    *Chain
	faults   []*activeFault
	pruned   chain.Height // the blocks below it have no bytes, but for genesis
	requests map[string]int
	inFlight int
	mostBusy int
	idle     *sync.Cond // signalled when inFlight falls to 0
	secret   string     // the cookie's password; "" when authentication is off

	server *server // nil when stopped
	addr   string  // where Start listened last
}

// server is a listening Node.
type server struct {
	http *http.Server
	done chan struct{} // closed when Serve has returned
}

// NewNode returns a node that serves c. It does not listen yet.
func NewNode(c *Chain, o NodeOptions) *Node {
	if o.MaxRequests == 0 {
		o.MaxRequests = envelope.MaxRequests
	}
	if o.Build == "" {
		o.Build = "v7.0.0"
	}
	if o.Subversion == "" {
		o.Subversion = "/Zebra:7.0.0/"
	}
	n := &Node{opts: o, chain: c, requests: make(map[string]int)}
	n.idle = sync.NewCond(&n.mu)
	return n
}

// Start listens on NodeOptions.Listen. Without that it is a free port the first time, then again the same one, as a node that comes back.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server != nil {
		return fmt.Errorf("start the simulated node at %s: it is running", n.addr)
	}
	if err := n.writeCookie(); err != nil {
		return err
	}
	addr := n.addr
	if addr == "" {
		addr = cmp.Or(n.opts.Listen, "127.0.0.1:0")
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return fmt.Errorf("start the simulated node: %w", err)
	}
	n.addr = l.Addr().String()
	s := &server{http: &http.Server{Handler: n, ReadHeaderTimeout: time.Minute}, done: make(chan struct{})}
	s.http.Protocols = new(http.Protocols)
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetUnencryptedHTTP2(true)
	n.server = s
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // ends with ErrServerClosed, from Stop
	}()
	return nil
}

// Stop closes the port and every connection at once, as a node that was killed, and returns when nothing of it runs any more.
// Stopping a stopped node does nothing.
func (n *Node) Stop() error {
	n.mu.Lock()
	s := n.server
	n.server = nil
	n.mu.Unlock()
	if s == nil {
		return nil
	}
	err := s.http.Close()
	<-s.done
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.inFlight > 0 {
		n.idle.Wait() // the closed connections end the requests that a fault delays
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("stop the simulated node: %w", err)
	}
	return nil
}

// URL returns the node's base URL, also after Stop; "" before the first Start.
func (n *Node) URL() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.addr == "" {
		return ""
	}
	return "http://" + n.addr
}

// Chain returns the chain that is served.
func (n *Node) Chain() *Chain {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.chain
}

// SetChain makes the node serve another chain, as if another node had taken its place.
func (n *Node) SetChain(c *Chain) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.chain = c
}

// Prune makes the node forget the bytes of the blocks below height h, as Zakura does, a node made from Zebra: getblock with verbosity 0
// and z_gettreestate say that there is no such block, while headers, hashes and tree sizes stay, and genesis does.
func (n *Node) Prune(h chain.Height) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pruned = h
}

// lacks tells whether the bytes of the block at height h were pruned.
func (n *Node) lacks(h chain.Height) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return 0 < h && h < n.pruned
}

// Requests returns how many calls of a method the node has been asked to execute, those that met a fault included.
func (n *Node) Requests(method string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.requests[method]
}

// MaxInFlight returns the largest number of HTTP requests that were executed at the same time.
func (n *Node) MaxInFlight() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mostBusy
}

// ResetCounts sets Requests and MaxInFlight back to zero.
func (n *Node) ResetCounts() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.requests)
	n.mostBusy = n.inFlight
}

// CookieFile returns the path of the cookie file, "" when authentication is off.
func (n *Node) CookieFile() string {
	if n.opts.CookieDir == "" {
		return ""
	}
	return filepath.Join(n.opts.CookieDir, ".cookie")
}

// writeCookie makes a new secret, as Zebra does at each start. The caller holds n.mu.
func (n *Node) writeCookie() error {
	file := n.CookieFile()
	if file == "" {
		return nil
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	n.secret = base64.StdEncoding.EncodeToString(random)
	if err := os.WriteFile(file, []byte("__cookie__:"+n.secret), 0o600); err != nil {
		return fmt.Errorf("start the simulated node: write its cookie: %w", err)
	}
	return nil
}
