package integration

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay passes TCP connections on, whatever they carry, to a target that can be changed. It always listens.
type relay struct {
	addr     string
	listener net.Listener

	mu     sync.Mutex
	target string // "" accepts and closes, silence accepts and says nothing
	conns  map[net.Conn]bool
}

const silence = "silence"

func newRelay(tb testing.TB, target string) *relay {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &relay{addr: listener.Addr().String(), listener: listener, target: target, conns: map[net.Conn]bool{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { r.serve(conn) })
		}
	})
	tb.Cleanup(func() {
		listener.Close()
		r.aim("")
		running.Wait()
	})
	return r
}

// aim closes every connection; new ones go to the target.
func (r *relay) aim(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
	for conn := range r.conns {
		conn.Close()
	}
	clear(r.conns)
}

func (r *relay) serve(conn net.Conn) {
	defer conn.Close()
	r.mu.Lock()
	target := r.target
	r.conns[conn] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.conns, conn)
		r.mu.Unlock()
	}()
	switch target {
	case "":
		return
	case silence:
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	other, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(conn, other)
		conn.Close()
	})
	_, _ = io.Copy(other, conn)
	other.Close()
	back.Wait()
}
