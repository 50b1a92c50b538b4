package zebrarpc

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// TestWireUnasked: what a server says on a connection that no request has is not the reply to the next request.
func TestWireUnasked(t *testing.T) {
	t.Parallel()
	const reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for name, unasked := range map[string]string{
		"the last reply once more": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale",
		"a farewell":               "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"part of a reply":          "H",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			more, said := make(chan struct{}), make(chan struct{})
			s := script(t, func(conn net.Conn, n int) bool {
				ok := say(reply)(conn, n)
				if _, more := <-more; more {
					say(unasked)(conn, n)
					said <- struct{}{}
				}
				return ok
			})
			w := newTestWire(t, s, 4)
			t.Cleanup(func() { close(more) })
			for i := range 3 {
				status, body, err := w.askOnce(t.Context(), "question")
				if status != http.StatusOK || body != "ok" || err != nil || len(w.idle) != 1 {
					t.Fatalf("request %d: %d, %q, %v, %d connections kept", i, status, body, err, len(w.idle))
				}
				more <- struct{}{}
				<-said
				w.idle[0].used = w.idle[0].used.Add(-quietLimit)
			}
			if got := s.requests.Load(); got != 3 {
				t.Errorf("%d requests, want 3", got)
			}
		})
	}
}

// TestWireQuiet: a connection on which nothing has come serves again after a pause, in plain text and over TLS.
func TestWireQuiet(t *testing.T) {
	t.Parallel()
	secure, certificate := tlsWire(t)
	secure.tls.RootCAs = x509.NewCertPool()
	secure.tls.RootCAs.AddCert(certificate)
	plain := newTestWire(t, script(t, say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")), 4)
	for _, w := range []*wire{plain, secure} {
		var first *wireConn
		for range 3 {
			if _, _, err := w.askOnce(t.Context(), "question"); err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = w.idle[0]
			}
			if len(w.idle) != 1 || w.idle[0] != first {
				t.Fatalf("another connection, TLS %v", w.tls != nil)
			}
			w.idle[0].used = time.Now().Add(-time.Second)
		}
	}
}

// TestReplyBehind: a connection on which a reply answers another request is used no more.
func TestReplyBehind(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("5a", 32)
	s := scriptFor(t, func(conn net.Conn, request []byte, n int) bool {
		var q struct{ ID int }
		if err := json.Unmarshal(request, &q); err != nil {
			t.Error(err)
		}
		if n > 1 {
			q.ID-- // it has answered twice, and all that it says from now on comes one late
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":"%s"}`, q.ID, hash)
		return say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))(conn, n)
	})
	c, err := New(Options{URL: s.url.String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for i := range 6 {
		got, err := c.BlockHash(t.Context(), 5)
		if behind := i%2 == 1; behind && (err == nil || !strings.Contains(err.Error(), "answers another request")) {
			t.Errorf("question %d: %v, %v", i, got, err)
		} else if want, _ := chain.ParseHash(hash); !behind && (err != nil || got != want) {
			t.Errorf("question %d: %v, %v", i, got, err)
		}
	}
	if got := s.conns.Load(); got != 3 {
		t.Errorf("%d connections, want one for each pair of questions", got)
	}
}
