package sockets

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Connections are taken until only the spare descriptors are left, and again as soon as one has ended. The others know at once.
func TestSpare(t *testing.T) { // not parallel: the limit is the process's
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	l := New(inner, 20, slog.New(slog.NewTextHandler(&log, nil)))
	taken := make(chan net.Conn, 100)
	ended := make(chan error)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			taken <- conn
		}
	}()
	connect := func() (client, server net.Conn) {
		t.Helper()
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() {
			_, err := client.Read(make([]byte, 1))
			closed <- err
		}()
		select {
		case server := <-taken:
			return client, server
		case <-closed:
			client.Close()
			return nil, nil
		case <-time.After(20 * time.Second):
			t.Fatal("neither taken nor closed")
		}
		return nil, nil
	}
	first, server := connect()
	// Both ends of a connection are this process's: room for ten of them below the spare ones.
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(number(server) + 1 + 2*10 + 20), Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}()
	conns := []io.Closer{first, server}
	got := 0
	for range 15 {
		if c, s := connect(); c != nil {
			conns = append(conns, c, s)
			got++
		}
	}
	if got < 9 || got > 10 || l.Refused() != uint64(15-got) {
		t.Errorf("%d of 15 connections taken, %d refused; want 10 at most", got, l.Refused())
	}
	if n := strings.Count(log.String(), "file descriptors are running out"); n != 1 {
		t.Errorf("told %d times:\n%s", n, &log)
	}
	for _, c := range conns[len(conns)-4:] {
		c.Close()
	}
	c, s := connect()
	if c == nil {
		t.Fatal("refused though there is room again")
	}
	for _, c := range append(conns, c, s) {
		c.Close()
	}
	inner.Close()
	if err := <-ended; err == nil {
		t.Error("no error after Close")
	}
}
