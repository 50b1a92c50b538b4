package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Windows of HTTP/2's flow control.
const (
	fullWindow    = 1<<31 - 1 // all that there is: the server is never held back
	defaultWindow = 65_535    // what a client has that says nothing
	giveBack      = 1 << 29   // how much of the full window is used before it is given back in the middle of an answer
)

// CountingClient is a wallet that counts messages and does not look inside: of an answer it reads HTTP/2's frames and the lengths of gRPC's
// messages, and adds up a checksum, so that it leaves as much of the machine as possible to the server. It asks one thing at a time, on a
// connection of its own. Messages and Bytes may be read by others meanwhile; the rest is for one goroutine.
type CountingClient struct {
	conn    net.Conn
	framer  *http2.Framer
	headers *hpack.Encoder
	block   bytes.Buffer // what headers writes to
	scheme  string
	window  uint32
	used    uint32 // of the window of the connection, since it was given back
	next    uint32 // stream
	unwatch func() bool
	waiting time.Time // since when the server may take callLimit

	messages, bytes atomic.Int64
}

// DialCounting connects to host:port, with TLS if there is a configuration for it. The connection is closed when ctx ends.
func DialCounting(ctx context.Context, addr string, security *tls.Config) (*CountingClient, error) {
	return dialFrames(ctx, addr, security, fullWindow)
}

func dialFrames(ctx context.Context, addr string, security *tls.Config, window uint32) (*CountingClient, error) {
	dialer := net.Dialer{Timeout: answerTime}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &CountingClient{conn: conn, scheme: "http", window: window, next: 1}
	if security != nil {
		security = security.Clone()
		security.NextProtos = []string{http2.NextProtoTLS}
		if security.ServerName == "" {
			security.ServerName, _, _ = net.SplitHostPort(addr)
		}
		secure := tls.Client(conn, security)
		if err := handshake(ctx, secure); err != nil {
			conn.Close()
			return nil, err
		}
		c.conn, c.scheme = secure, "https"
	}
	c.framer = http2.NewFramer(c.conn, bufio.NewReaderSize(c.conn, 128<<10))
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.headers = hpack.NewEncoder(&c.block)
	_, err = io.WriteString(c.conn, http2.ClientPreface)
	err = errors.Join(err, c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	if window > defaultWindow {
		err = errors.Join(err, c.framer.WriteWindowUpdate(0, window-defaultWindow))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	c.unwatch = context.AfterFunc(ctx, func() { conn.Close() })
	return c, nil
}

func handshake(ctx context.Context, conn *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return conn.HandshakeContext(ctx)
}

// Close ends the connection, and what is asked on it.
func (c *CountingClient) Close() error {
	c.unwatch()
	return c.conn.Close()
}

// Messages is how many have come so far.
func (c *CountingClient) Messages() int64 { return c.messages.Load() }

// Bytes is what the messages have taken so far, with the five bytes before each.
func (c *CountingClient) Bytes() int64 { return c.bytes.Load() }

// Answer is what came for one call.
type Answer struct {
	Messages int64
	Bytes    int64         // of the messages, with the five bytes before each
	Sum      uint32        // CRC-32C of those bytes
	First    time.Duration // from the call to the end of the first message; 0: none came
}

// Ask calls a method of the wallet protocol with a request that is encoded already, and reads the whole answer. A status other than OK is
// an error of grpc's status package.
func (c *CountingClient) Ask(method string, request []byte) (Answer, error) {
	asked := time.Now()
	if err := c.wait(asked); err != nil {
		return Answer{}, err
	}
	stream, err := c.call(method, request)
	if err != nil {
		return Answer{}, err
	}
	r := reply{stream: stream, asked: asked}
	if err := c.read(&r, false); err != nil {
		return r.Answer, fmt.Errorf("%s after %d messages: %w", method, r.Messages, err)
	}
	if !r.counter.between() {
		return r.Answer, fmt.Errorf("%s: the answer ended with OK in the middle of a message, after %d whole ones", method, r.Messages)
	}
	return r.Answer, c.replenish(0)
}

// wait lets the server take so long again, and no longer.
func (c *CountingClient) wait(now time.Time) error {
	c.waiting = now
	return c.conn.SetDeadline(now.Add(callLimit))
}

// call sends the request and returns its stream.
func (c *CountingClient) call(method string, request []byte) (stream uint32, err error) {
	stream = c.next
	c.next += 2
	c.block.Reset()
	for _, field := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: c.scheme}, {Name: ":path", Value: pathOf(method)},
		{Name: ":authority", Value: "bench"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	} {
		if err := c.headers.WriteField(field); err != nil {
			return 0, err
		}
	}
	prefixed := binary.BigEndian.AppendUint32(make([]byte, 1, 5+len(request)), uint32(len(request)))
	return stream, errors.Join(
		c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.block.Bytes(), EndHeaders: true}),
		c.framer.WriteData(stream, true, append(prefixed, request...)))
}

// reply is an answer that is being read.
type reply struct {
	Answer
	stream  uint32
	asked   time.Time
	counter messageCounter
}

// read reads until the stream ends with OK, or until the first message is whole.
func (c *CountingClient) read(r *reply, onlyFirst bool) error {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return err
		}
		switch f := frame.(type) {
		case *http2.DataFrame:
			if err = c.take(r, f); err == nil && onlyFirst && r.Messages > 0 {
				return nil
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = c.framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = c.framer.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			if f.StreamID == r.stream && f.StreamEnded() {
				return statusOf(f)
			}
		case *http2.GoAwayFrame:
			err = fmt.Errorf("the server hung up: %s", f.ErrCode)
		case *http2.RSTStreamFrame:
			err = fmt.Errorf("the server gave the stream up: %s", f.ErrCode)
		}
		if err != nil {
			return err
		}
	}
}

// take counts a frame of messages.
func (c *CountingClient) take(r *reply, f *http2.DataFrame) error {
	data := f.Data()
	messages, err := r.counter.add(data)
	now := time.Now()
	if messages > 0 && r.Messages == 0 {
		r.First = now.Sub(r.asked)
	}
	if now.Sub(c.waiting) > callLimit/8 {
		err = errors.Join(err, c.wait(now))
	}
	r.Messages += int64(messages)
	r.Bytes += int64(len(data))
	r.Sum = crc32.Update(r.Sum, castagnoli(), data)
	c.messages.Add(int64(messages))
	c.bytes.Add(int64(len(data)))
	c.used += f.Length // padding counts
	if err == nil && c.window == fullWindow && c.used >= giveBack {
		err = c.replenish(r.stream)
	}
	return err
}

// replenish gives back what was used of the connection's window, and of that of a stream that goes on. Another stream has its own.
func (c *CountingClient) replenish(stream uint32) error {
	used := c.used
	if used == 0 {
		return nil
	}
	c.used = 0
	err := c.framer.WriteWindowUpdate(0, used)
	if stream != 0 {
		err = errors.Join(err, c.framer.WriteWindowUpdate(stream, used))
	}
	return err
}

// castagnoli is the table that processors have an instruction for; the library keeps it.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// statusOf turns trailers into an error, nil for OK.
func statusOf(trailers *http2.MetaHeadersFrame) error {
	code, message := "", ""
	for _, field := range trailers.Fields {
		switch field.Name {
		case "grpc-status":
			code = field.Value
		case "grpc-message":
			message = field.Value
			if text, err := url.PathUnescape(message); err == nil { // gRPC escapes as URLs do
				message = text
			}
		}
	}
	n, err := strconv.ParseUint(code, 10, 32)
	if err != nil {
		return fmt.Errorf("the stream ended without a status: %v", trailers.Fields)
	}
	return status.Error(codes.Code(n), message)
}

// messageCounter finds where the messages of a gRPC stream end.
type messageCounter struct {
	prefix [5]byte
	have   int // bytes of the prefix
	rest   int // bytes of the message that are still to come
}

// between tells whether the stream stands between two messages.
func (m *messageCounter) between() bool { return m.have == 0 && m.rest == 0 }

// add takes the next bytes of the stream and returns how many messages end in them.
func (m *messageCounter) add(data []byte) (messages int, err error) {
	for len(data) > 0 {
		if m.rest > 0 {
			n := min(m.rest, len(data))
			m.rest, data = m.rest-n, data[n:]
		} else {
			n := copy(m.prefix[m.have:], data)
			m.have, data = m.have+n, data[n:]
			if m.have < len(m.prefix) {
				break
			}
			if m.prefix[0] != 0 {
				return messages, fmt.Errorf("a message begins with %x", m.prefix)
			}
			m.have, m.rest = 0, int(binary.BigEndian.Uint32(m.prefix[1:]))
		}
		if m.rest == 0 {
			messages++
		}
	}
	return messages, nil
}
