package zebrarpc

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// scripted is a server whose bytes a test writes. It counts connections and requests.
type scripted struct {
	url      *url.URL
	conns    atomic.Int32
	requests atomic.Int32
}

// script starts a server that calls answer for each request, with its number from 1 in its connection. A false answer closes the
// connection.
func script(t *testing.T, answer func(conn net.Conn, n int) bool) *scripted {
	t.Helper()
	return scriptFor(t, func(conn net.Conn, _ []byte, n int) bool { return answer(conn, n) })
}

// scriptFor is script with the bodies of the requests.
func scriptFor(t *testing.T, answer func(conn net.Conn, request []byte, n int) bool) *scripted {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{url: &url.URL{Scheme: "http", Host: lis.Addr().String()}}
	var served sync.WaitGroup
	serve := func(conn net.Conn) {
		defer conn.Close()
		reader := bufio.NewReader(conn)
		for n := 1; ; n++ {
			req, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			s.requests.Add(1)
			if !answer(conn, body, n) {
				return
			}
		}
	}
	served.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			served.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() { lis.Close(); served.Wait() })
	return s
}

// say writes a reply as it stands.
func say(reply string) func(net.Conn, int) bool {
	return func(conn net.Conn, _ int) bool {
		_, err := io.WriteString(conn, reply)
		return err == nil
	}
}

func newTestWire(t *testing.T, s *scripted, keep int) *wire {
	t.Helper()
	w := newWire(s.url, keep)
	t.Cleanup(w.CloseIdleConnections)
	return w
}

// ask puts a request and reads the reply.
func (w *wire) askOnce(ctx context.Context, text string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.address, strings.NewReader(text))
	if err != nil {
		return 0, "", err
	}
	resp, err := w.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// Replies are read as HTTP/1.1 has them, and the connection serves again exactly when the reply allows it.
func TestWireReplies(t *testing.T) {
	t.Parallel()
	long := "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", maxReplyHeader+wireRead) + "\r\nContent-Length: 0\r\n\r\n"
	for _, test := range []struct {
		name, reply string
		close       bool // the server closes after the reply
		status      int
		body        string
		conns       int32 // for three requests
		err         error
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", 1, nil},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, 200, "", 1, nil},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", false, 200, "hello", 1, nil},
		{"status", "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 3\r\n\r\nno!", false, 429, "no!", 1, nil},
		{"informed first", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false, 200, "ok", 1, nil},
		{"no length", "HTTP/1.1 200 OK\r\n\r\nhello", true, 200, "hello", 3, nil},
		{"last reply", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", 3, nil},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", 3, nil},
		{"more than a reply", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, world", false, 200, "hello", 3, nil},
		{"cut off", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", true, 200, "hello", 3, io.ErrUnexpectedEOF},
		{"cut off in the header", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", true, 0, "", 3, io.ErrUnexpectedEOF},
		{"endless header", long, false, 0, "", 3, errLongHeader},
		{"informed for ever", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20), false, 0, "", 3, errLongHeader},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := script(t, func(conn net.Conn, n int) bool { return say(test.reply)(conn, n) && !test.close })
			w := newTestWire(t, s, 4)
			for range 3 {
				status, body, err := w.askOnce(t.Context(), "question")
				if status != test.status || body != test.body || !errors.Is(err, test.err) {
					t.Errorf("got %d, %q, %v", status, body, err)
				}
			}
			if got := s.conns.Load(); got != test.conns {
				t.Errorf("%d connections for three requests, want %d", got, test.conns)
			}
			if got := s.requests.Load(); got != 3 {
				t.Errorf("%d requests, want 3", got)
			}
		})
	}
}

// A kept connection that the server has closed is no error: the question is put again. One that dies while it is new is.
func TestWireKeptConnectionClosed(t *testing.T) {
	t.Parallel()
	ok := say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	for name, half := range map[string]string{"nothing": "", "part of a reply": "HTTP/1.1 200 OK\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := script(t, func(conn net.Conn, n int) bool {
				if n == 1 {
					return ok(conn, n)
				}
				say(half)(conn, n) // it dies under the second request
				return false
			})
			w := newTestWire(t, s, 4)
			for i := range 5 {
				_, body, err := w.askOnce(t.Context(), "question")
				if again := half == ""; again && (body != "ok" || err != nil) {
					t.Fatalf("request %d: %q, %v", i, body, err)
				} else if !again && i%2 == 1 && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("request %d was put again after part of its reply: %q, %v", i, body, err)
				}
			}
		})
	}
	dead := script(t, func(net.Conn, int) bool { return false })
	for _, keep := range []int{0, 4} {
		dead.requests.Store(0)
		_, _, err := newTestWire(t, dead, keep).askOnce(t.Context(), "question")
		if !hungUp(err) || dead.requests.Load() != 1 {
			t.Errorf("keep %d: %v after %d requests, want a closed connection after 1", keep, err, dead.requests.Load())
		}
	}
}

// A wire that keeps nothing puts every request once, each on a connection of its own.
func TestWireWithoutKeeping(t *testing.T) {
	t.Parallel()
	s := script(t, say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	w := newTestWire(t, s, 0)
	for range 3 {
		if _, body, err := w.askOnce(t.Context(), "question"); body != "ok" || err != nil {
			t.Fatal(body, err)
		}
	}
	if s.conns.Load() != 3 || s.requests.Load() != 3 {
		t.Errorf("%d connections, %d requests", s.conns.Load(), s.requests.Load())
	}
}

// The end of the context ends a request in every phase, with the context's error, and its connection serves nobody again.
func TestWireContext(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"before the reply": "",
		"in its header":    "HTTP/1.1 200 OK\r\nContent-",
		"in its body":      "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			s := script(t, func(conn net.Conn, n int) bool {
				say(reply)(conn, n)
				<-release
				return false
			})
			t.Cleanup(func() { close(release) })
			w := newTestWire(t, s, 4)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			if _, _, err := w.askOnce(ctx, "question"); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, _, err := w.askOnce(ctx, "question"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("timed out: %v", err)
			}
			if len(w.idle) != 0 {
				t.Errorf("%d connections were kept", len(w.idle))
			}
		})
	}
	_, _, err := newWire(&url.URL{Scheme: "http", Host: "127.0.0.1:1"}, 4).askOnce(t.Context(), "question")
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("nobody listens: %v", err)
	}
}

// A reply that nobody reads to its end costs its connection, an idle one some time, and those above the limit.
func TestWireKeeps(t *testing.T) {
	t.Parallel()
	s := script(t, say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	w := newTestWire(t, s, 2)
	open := func() *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url.String(), strings.NewReader("question"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := w.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	open().Body.Close()
	if len(w.idle) != 0 {
		t.Error("a connection with an unread reply on it was kept")
	}
	var replies []*http.Response
	for range 4 {
		replies = append(replies, open())
	}
	for _, resp := range replies {
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		resp.Body.Close()
	}
	if len(w.idle) != 2 {
		t.Fatalf("%d connections were kept, want 2", len(w.idle))
	}
	w.idle[0].used = time.Now().Add(-idleLimit - time.Second)
	young := w.idle[1]
	if resp := open(); len(w.idle) != 0 {
		t.Errorf("%d connections are left, one of them old", len(w.idle))
	} else if resp.Body.(*wireBody).conn != young {
		t.Error("the connection that was used last was not used again")
	} else {
		resp.Body.Close()
	}
}

// A request that is too long for the server is answered before it was read.
func TestWireEarlyReply(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := lis.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.ReadFull(conn, make([]byte, 100))
		_, _ = io.WriteString(conn, "HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlong")
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	}()
	w := newWire(&url.URL{Scheme: "http", Host: lis.Addr().String()}, 4)
	status, body, err := w.askOnce(t.Context(), strings.Repeat("a", 8<<20))
	if status != http.StatusRequestEntityTooLarge || body != "long" || err != nil {
		t.Errorf("got %d, %q, %v", status, body, err)
	}
	w.CloseIdleConnections()
	<-done
	lis.Close()
}

// tlsWire starts a server with a certificate, and makes a wire to it that does not know the certificate yet.
func tlsWire(t *testing.T) (*wire, *x509.Certificate) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(rw, "%s %s", r.Proto, bytes.ToUpper(b))
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(u, 4)
	t.Cleanup(w.CloseIdleConnections)
	return w, server.Certificate()
}

// A server with a certificate is checked by the name in the URL.
func TestWireTLS(t *testing.T) {
	t.Parallel()
	w, certificate := tlsWire(t)
	if _, _, err := w.askOnce(t.Context(), "question"); !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Errorf("a certificate of nobody: %v", err)
	}
	w.tls.RootCAs = x509.NewCertPool()
	w.tls.RootCAs.AddCert(certificate)
	for range 2 {
		if _, body, err := w.askOnce(t.Context(), "question"); body != "HTTP/1.1 QUESTION" || err != nil {
			t.Errorf("got %q, %v", body, err)
		}
	}
	w.tls.ServerName = "elsewhere.invalid"
	w.CloseIdleConnections()
	if _, _, err := w.askOnce(t.Context(), "question"); !errors.As(err, new(x509.HostnameError)) {
		t.Errorf("the certificate of another name: %v", err)
	}
}

// The port of a URL without one is its scheme's.
func TestWireAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://h": "h:80", "https://h": "h:443", "http://h:1": "h:1", "http://[::1]": "[::1]:80", "https://[::1]:5/x": "[::1]:5",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if w := newWire(u, 1); w.address != want || (w.tls != nil) != (u.Scheme == "https") {
			t.Errorf("%s: %s, TLS %v", text, w.address, w.tls != nil)
		}
	}
}
