package lightwallet

import (
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// http2Preface opens every HTTP/2 connection of a client that knows it speaks to an HTTP/2 server (RFC 9113 section 3.4).
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// http1Answer tells HTTP/1.1 clients, health checks of proxies among them, that this port speaks gRPC.
const http1Answer = "HTTP/1.1 415 Unsupported Media Type\r\n" +
	"Content-Type: text/plain; charset=utf-8\r\n" +
	"Content-Length: 34\r\n" +
	"Connection: close\r\n" +
	"\r\n" +
	"this port speaks gRPC over HTTP/2\n"

// sniffer is the handshake of plaintext connections: it reads the first bytes, passes HTTP/2 on untouched, and answers HTTP/1.
// grpc-go calls it on the connection's own goroutine, with a deadline, before it writes anything.
type sniffer struct {
	credentials.TransportCredentials
}

func newSniffer() credentials.TransportCredentials { return &sniffer{insecure.NewCredentials()} }

// Clone returns the sniffer itself: it has no state.
func (s *sniffer) Clone() credentials.TransportCredentials { return s }

// ServerHandshake returns io.EOF, which grpc-go takes silently, when the connection was answered.
func (s *sniffer) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	var first [len(http2Preface)]byte
	for n := 0; n < len(first); {
		got, err := conn.Read(first[n:])
		n += got
		if !strings.HasPrefix(http2Preface, string(first[:n])) {
			return nil, nil, refuse(conn, first[0])
		}
		if err != nil && n < len(first) {
			return nil, nil, err
		}
	}
	_, info, err := s.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		return nil, nil, err
	}
	return &replayConn{Conn: conn, replay: first[:]}, info, nil
}

// refuse answers a connection that does not speak HTTP/2. Methods of HTTP/1 begin with a capital letter; whatever else it is gets
// nothing.
func refuse(conn net.Conn, first byte) error {
	if first < 'A' || first > 'Z' {
		return fmt.Errorf("the client speaks neither HTTP/2 nor HTTP/1, its first byte is %#02x", first)
	}
	if _, err := io.WriteString(conn, http1Answer); err != nil {
		return err
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		if conn.SetReadDeadline(time.Now().Add(lingerTimeout)) == nil {
			// Errors do not matter any more: the answer is on its way, and the connection is closed next.
			_, _ = io.Copy(io.Discard, io.LimitReader(conn, lingerBytes))
		}
	}
	return io.EOF
}

// replayConn gives back bytes that were read already, then goes on reading. One goroutine reads it at a time.
type replayConn struct {
	net.Conn
	replay []byte
}

func (c *replayConn) Read(p []byte) (int, error) {
	if len(c.replay) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.replay)
	c.replay = c.replay[n:]
	return n, nil
}
