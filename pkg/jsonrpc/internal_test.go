package jsonrpc

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/jsonrpc/envelope"
)

// timedWriter notes the deadlines for writing, and fails after a number of bytes.
type timedWriter struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
	room      int
}

func (w *timedWriter) SetWriteDeadline(t time.Time) error {
	w.deadlines = append(w.deadlines, t)
	return nil
}

func (w *timedWriter) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room < 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return w.ResponseRecorder.Write(p)
}

// A client has a minute for a reply, and a second more for each 256 KiB that it takes; what it does not take is not held for it.
func TestReplyTime(t *testing.T) {
	t.Parallel()
	const size = 10 << 20
	answer, err := result([]byte(strings.Repeat("x", size)))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(1, 0)
	w := &timedWriter{ResponseRecorder: httptest.NewRecorder(), room: 2 * size}
	out := newOutput(w, http.NewResponseController(w), start)
	out.answer(envelope.Plain, []byte("1"), answer)
	out.finish()
	if w.Body.Len() < size || len(w.deadlines) < size/replyChunk {
		t.Fatalf("%d bytes, %d deadlines", w.Body.Len(), len(w.deadlines))
	}
	first, last := w.deadlines[0].Sub(start), w.deadlines[len(w.deadlines)-1].Sub(start)
	if first != replyLimit || last < replyLimit+39*time.Second || last > replyLimit+40*time.Second {
		t.Errorf("deadlines from %v to %v after the request", first, last)
	}

	answer, _ = result([]byte(strings.Repeat("x", size)))
	w = &timedWriter{ResponseRecorder: httptest.NewRecorder(), room: size / 2}
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("a client that takes no more: %v", p)
		}
	}()
	newOutput(w, http.NewResponseController(w), start).answer(envelope.Plain, []byte("1"), answer)
}

// Connections beyond the limit are closed at once, and one that ends makes room.
func TestListener(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(inner, 2)
	accepted := make(chan net.Conn, 10)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	dial()
	first, second := <-accepted, <-accepted
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("a third connection is served")
	}
	first.Close()
	first.Close()
	dial()
	third := <-accepted
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("a connection that was closed twice made room twice")
	}
	l.Close()
	second.Close()
	third.Close()
	for range accepted {
	}
}

func TestCookie(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, ".cookie")
	first, err := WriteCookie(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "__cookie__:"+first.Secret || len(first.Secret) != 44 || first.Path() != path {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	second, err := WriteCookie(dir)
	if err != nil || second.Secret == first.Secret {
		t.Errorf("a second cookie: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := first.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the first one took the second away: %v", err)
	}
	for range 2 {
		if err := second.Remove(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Remove: %v", err)
	}

	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteCookie(dir); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a link: %v", err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "precious" {
		t.Errorf("what the link leads to: %q, %v", text, err)
	}
	if _, err := WriteCookie(target); err == nil {
		t.Error("a file in place of a folder is taken")
	}
}
