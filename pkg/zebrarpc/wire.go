package zebrarpc

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	dialLimit      = 3 * time.Second
	handshakeLimit = 5 * time.Second
	idleLimit      = 90 * time.Second // until a connection that nobody used is closed
	quietLimit     = time.Millisecond // until it is looked at before it is used again; a build, which pays for looks, comes sooner
	wireRead       = 16 << 10         // most replies in one read
	wireWrite      = 1 << 10
	maxReplyHeader = 64 << 10 // bytes, rounded up to a read
	maxInformed    = 5        // replies of status 1xx before the one that counts
)

// wire speaks HTTP/1.1 with one server, as an http.RoundTripper.
//
// The goroutine that asks writes its request and reads the reply itself. The Transport of net/http hands both over to two goroutines of
// the connection, and the switches between them cost more than all else that we do for a small block (docs/performance.md); what it
// offers beyond, such as proxies and HTTP/2, Zebra has no use for.
//
// A request that found a kept connection closed is put again, on a new one, if no byte of a reply had come: so a wire that keeps
// connections is for questions, which may be asked twice. One that keeps none puts every request once.
type wire struct {
	address string      // host:port
	tls     *tls.Config // nil: plain text
	dialer  net.Dialer
	keep    int // connections, at most

	mu   sync.Mutex
	idle []*wireConn // guarded by mu; the one that was used last is last
}

// newWire makes the way to the server of u. keep 0 gives each request a connection of its own.
func newWire(u *url.URL, keep int) *wire {
	w := &wire{address: u.Host, dialer: net.Dialer{Timeout: dialLimit, KeepAlive: 30 * time.Second}, keep: keep}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		w.tls = &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}}
	}
	if u.Port() == "" {
		w.address = net.JoinHostPort(u.Hostname(), port)
	}
	return w
}

// wireConn is a connection, which one request has at a time.
type wireConn struct {
	net.Conn
	raw    syscall.RawConn // its socket
	reader *bufio.Reader
	writer *bufio.Writer
	quota  int       // bytes that may still be read of a reply's header; negative: no header is being read
	used   time.Time // when it brought its last reply
}

var errLongHeader = errors.New("the header of the reply is too long")

// Read is what the buffered reader reads from.
func (c *wireConn) Read(p []byte) (int, error) {
	if c.quota == 0 {
		return 0, errLongHeader
	}
	n, err := c.Conn.Read(p)
	if c.quota > 0 {
		c.quota = max(c.quota-n, 0)
	}
	return n, err
}

// RoundTrip implements http.RoundTripper. The context of the request bounds the reading of the reply's body too.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if c := w.take(); c != nil {
		resp, err := w.ask(c, req)
		if !errors.As(err, new(*silence)) || req.Context().Err() != nil {
			return resp, err
		}
		if req, err = repeated(req); err != nil {
			return nil, err
		}
	}
	c, err := w.dial(req.Context())
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	return w.ask(c, req)
}

// ask puts the request on the connection, which it takes over.
func (w *wire) ask(c *wireConn, req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	// When the context ends, whatever waits for the connection fails.
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	resp, err := c.exchange(req)
	if err != nil {
		stop()
		c.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	resp.Body = &wireBody{ReadCloser: resp.Body, wire: w, conn: c, resp: resp, ctx: ctx, stop: stop}
	return resp, nil
}

// silence is the error of a connection on which no byte of a reply came.
type silence struct{ error }

func (s *silence) Unwrap() error { return s.error }

// exchange writes the request and reads the reply up to its body.
func (c *wireConn) exchange(req *http.Request) (*http.Response, error) {
	err := req.Write(c.writer)
	if err == nil {
		err = c.writer.Flush()
	}
	// A server that does not want all of a request may have said so before it closed the connection.
	c.quota = maxReplyHeader
	defer func() { c.quota = -1 }()
	if _, silent := c.reader.Peek(1); silent != nil {
		if err == nil {
			err = silent
		}
		return nil, &silence{err}
	}
	for range maxInformed {
		resp, err := http.ReadResponse(c.reader, req)
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
	return nil, errLongHeader
}

// repeated is the request with a body that was not read yet.
func repeated(req *http.Request) (*http.Request, error) {
	if req.GetBody == nil {
		return nil, errors.New("the body cannot be read again")
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	again := *req
	again.Body = body
	return &again, nil
}

// take returns a kept connection on which nothing has come since its last reply, or nil.
func (w *wire) take() *wireConn {
	for {
		c := w.pop()
		if c == nil || c.quiet() {
			return c
		}
		c.Close()
	}
}

// quiet tells whether the server has neither said anything since its last reply nor closed the connection. What it says unasked, as some
// proxies do with status 408 before they close, would be taken for the reply to the next request.
func (c *wireConn) quiet() bool {
	if time.Since(c.used) < quietLimit {
		return true
	}
	var ready int
	var err error
	look := func(fd uintptr) { ready, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) }
	return c.raw.Control(look) == nil && err == nil && ready == 0
}

// pop takes the connection that was used last off the kept ones; nil when there is none.
func (w *wire) pop() *wireConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prune()
	last := len(w.idle) - 1
	if last < 0 {
		return nil
	}
	c := w.idle[last]
	w.idle[last] = nil
	w.idle = w.idle[:last]
	return c
}

// put keeps a connection whose reply was read to its end.
func (w *wire) put(c *wireConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.prune(); len(w.idle) >= w.keep {
		c.Close()
		return
	}
	c.used = time.Now()
	w.idle = append(w.idle, c)
}

// prune closes what nobody used for long. w.mu is held.
func (w *wire) prune() {
	old := 0
	for old < len(w.idle) && time.Since(w.idle[old].used) > idleLimit {
		w.idle[old].Close()
		old++
	}
	w.idle = slices.Delete(w.idle, 0, old)
}

// CloseIdleConnections closes the connections that no request has.
func (w *wire) CloseIdleConnections() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.idle {
		c.Close()
	}
	w.idle = nil
}

func (w *wire) dial(ctx context.Context) (*wireConn, error) {
	conn, err := w.dialer.DialContext(ctx, "tcp", w.address)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		conn.Close()
		return nil, err
	}
	if w.tls != nil {
		secure := tls.Client(conn, w.tls)
		limit, cancel := context.WithTimeout(ctx, handshakeLimit)
		defer cancel()
		if err := secure.HandshakeContext(limit); err != nil {
			conn.Close()
			return nil, err
		}
		conn = secure
	}
	c := &wireConn{Conn: conn, raw: raw, quota: -1, writer: bufio.NewWriterSize(conn, wireWrite)}
	c.reader = bufio.NewReaderSize(c, wireRead)
	return c, nil
}

// wireBody gives the connection back once it was read to its end, and closes it otherwise.
type wireBody struct {
	io.ReadCloser
	wire *wire
	conn *wireConn // nil when it is given back or closed
	resp *http.Response
	ctx  context.Context
	stop func() bool
}

func (b *wireBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.end(true)
	case b.ctx.Err() != nil:
		err = b.ctx.Err()
	}
	return n, err
}

// Close reads nothing more: a connection with half a reply on it is of no use.
func (b *wireBody) Close() error {
	b.end(b.resp.ContentLength == 0)
	return nil
}

// end parts with the connection. whole: the reply was read to its end.
func (b *wireBody) end(whole bool) {
	c := b.conn
	if c == nil {
		return
	}
	b.conn = nil
	inTime := b.stop() // else its deadline is over, or is being set
	if whole && inTime && !b.resp.Close && c.reader.Buffered() == 0 {
		b.wire.put(c)
		return
	}
	c.Close()
}
