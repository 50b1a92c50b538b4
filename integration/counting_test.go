package integration

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

// countingClient is a wallet that counts blocks and does not look inside: of a reply it reads HTTP/2's frames and the lengths of gRPC's
// messages, so that it leaves as much of the machine as possible to the server. It asks for one range at a time, on a connection of its
// own.
type countingClient struct {
	conn    net.Conn
	framer  *http2.Framer
	headers *hpack.Encoder
	block   bytes.Buffer // what headers writes to
	next    uint32       // stream
	counter messageCounter

	// The totals so far; others may read them while a range comes in.
	blocks, bytes atomic.Int64
}

// countingWindow is all the flow control that HTTP/2 has. The client gives back what it used after each range.
const countingWindow = 1<<31 - 1

func newCountingClient(tb testing.TB, addr string) *countingClient {
	tb.Helper()
	c, err := dialCounting(addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.conn.Close() })
	return c
}

func dialCounting(addr string) (*countingClient, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &countingClient{conn: conn, framer: http2.NewFramer(conn, bufio.NewReaderSize(conn, 128<<10)), next: 1}
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.headers = hpack.NewEncoder(&c.block)
	_, err = io.WriteString(conn, http2.ClientPreface)
	return c, errors.Join(err,
		c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: countingWindow}),
		c.framer.WriteWindowUpdate(0, countingWindow-65_535))
}

// fetch reads the range from..to, which has to come whole.
func (c *countingClient) fetch(q query, from, to int) error {
	message, err := proto.Marshal(q.blockRange(from, to))
	if err != nil {
		return err
	}
	request := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	stream := c.next
	c.next += 2
	c.counter = messageCounter{}
	if err := c.ask(stream, q.method, append(request, message...)); err != nil {
		return err
	}
	blocks, bytes := c.blocks.Load(), c.bytes.Load()
	if err := c.receive(stream); err != nil {
		return fmt.Errorf("%v %d to %d: %w", q, from, to, err)
	}
	if got, want := int(c.blocks.Load()-blocks), max(from, to)-min(from, to)+1; got != want || !c.counter.between() {
		return fmt.Errorf("%v %d to %d: %d whole blocks came, want %d", q, from, to, got, want)
	}
	return c.framer.WriteWindowUpdate(0, uint32(c.bytes.Load()-bytes))
}

func (c *countingClient) ask(stream uint32, method string, request []byte) error {
	c.block.Reset()
	for _, field := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/" + serviceName + "/" + method},
		{Name: ":authority", Value: "bench"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	} {
		if err := c.headers.WriteField(field); err != nil {
			return err
		}
	}
	return errors.Join(
		c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.block.Bytes(), EndHeaders: true}),
		c.framer.WriteData(stream, true, request))
}

// receive counts until the stream ends, which it has to do with gRPC's OK.
func (c *countingClient) receive(stream uint32) error {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return err
		}
		switch f := frame.(type) {
		case *http2.DataFrame:
			messages, err := c.counter.add(f.Data())
			if err != nil {
				return err
			}
			c.blocks.Add(int64(messages))
			c.bytes.Add(int64(len(f.Data())))
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = c.framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = c.framer.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			if f.StreamID == stream && f.StreamEnded() {
				return requireOK(f)
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

func requireOK(trailers *http2.MetaHeadersFrame) error {
	for _, field := range trailers.RegularFields() {
		if field.Name == "grpc-status" && field.Value == "0" {
			return nil
		}
	}
	return fmt.Errorf("the stream ended with %v", trailers.RegularFields())
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
