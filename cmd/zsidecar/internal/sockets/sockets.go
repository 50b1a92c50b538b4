// Package sockets keeps the connections of clients from taking the process's last file descriptors: the files of the index and the
// connections to Zebra need some at any time.
package sockets

import (
	"log/slog"
	"math"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listener closes the connections for which too few descriptors are left.
type Listener struct {
	net.Listener
	spare   int
	log     *slog.Logger
	refused atomic.Uint64
	told    time.Time // of the last log line; used by Accept alone, which has one caller
}

// warnEvery is the time between two log lines.
const warnEvery = time.Minute

// New wraps a listener so that its connections leave spare descriptors of the limit to others, or half of the limit when that is less.
func New(l net.Listener, spare int, log *slog.Logger) *Listener {
	return &Listener{Listener: l, spare: spare, log: log}
}

// Refused counts the connections that were closed at once.
func (l *Listener) Refused() uint64 { return l.refused.Load() }

// Accept implements net.Listener, for one goroutine at a time.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		limit := openFiles()
		if number(conn) < limit-min(l.spare, limit/2) {
			return conn, nil
		}
		l.refused.Add(1) // first, so that whoever sees the end finds it counted
		conn.Close()
		if l.told.IsZero() || time.Since(l.told) >= warnEvery {
			l.told = time.Now()
			l.log.Warn("a connection was closed at once: file descriptors are running out; raise the limit (ulimit -n, LimitNOFILE=)",
				"addr", l.Addr().String(), "limit", limit, "kept", min(l.spare, limit/2), "closed", l.refused.Load())
		}
	}
}

// openFiles is how many files the process may have open. The Go runtime has raised the soft limit to the hard one at the start.
func openFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}

// number is a connection's descriptor. The kernel gives the lowest that is free, so all below it are taken.
func number(conn net.Conn) int {
	fd := -1
	if raw, ok := conn.(syscall.Conn); ok {
		if c, err := raw.SyscallConn(); err == nil {
			_ = c.Control(func(n uintptr) { fd = int(n) }) // closed already: then it is no burden
		}
	}
	return fd
}
