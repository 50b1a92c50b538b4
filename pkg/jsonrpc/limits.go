package jsonrpc

import (
	"net"
	"sync"
	"time"
)

// What clients may hold. The size of a request and how many are in progress are Zebra's own limits (package envelope).
const (
	maxConnections = 1000
	maxHeaderBytes = 16 << 10

	// Nearly all requests are short; the long ones send transactions. Twice their bytes are in memory until they are done.
	longBody   = 64 << 10
	longBodies = 16

	headerLimit = 10 * time.Second
	bodyLimit   = 30 * time.Second // for the whole body
	idleLimit   = 5 * time.Minute  // Zebra has none: clients keep their connections

	// A reply has to be taken within replyLimit, and one second more for each replyRate bytes.
	replyLimit = time.Minute
	replyRate  = 256 << 10
	replyChunk = 32 << 10
)

// listener closes connections beyond a number at once, so that whoever opens many takes no file descriptor from the wallets.
type listener struct {
	net.Listener
	slots chan struct{}
}

func newListener(l net.Listener, most int) *listener {
	return &listener{Listener: l, slots: make(chan struct{}, most)}
}

// Accept returns the next connection that finds room.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &conn{Conn: c, leave: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			c.Close()
		}
	}
}

// conn gives its slot back when it is closed.
type conn struct {
	net.Conn
	leave func()
}

func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}
