package bench

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// scripted is a server that answers every call with the same frames, written by hand.
type scripted struct {
	*http2.Framer
	stream uint32
}

// serveFrames serves one connection at a time and plays the script for each call.
func serveFrames(t *testing.T, script func(s scripted)) (addr string) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			playFrames(conn, script)
		}
	}()
	t.Cleanup(func() { lis.Close(); <-done })
	return lis.Addr().String()
}

func playFrames(conn net.Conn, script func(s scripted)) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	framer.WriteSettings()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if data, ok := frame.(*http2.DataFrame); ok && data.StreamEnded() {
			script(scripted{framer, data.StreamID})
		}
	}
}

// headers writes header fields, given as name and value in turns.
func (s scripted) headers(end bool, fields ...string) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
}

func (s scripted) begin()               { s.headers(false, ":status", "200", "content-type", "application/grpc") }
func (s scripted) end(fields ...string) { s.headers(true, fields...) }

// message is a message as gRPC frames it.
func message(content string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(content))), content...)
}

// The client counts messages wherever frames cut them, and takes nothing for an answer that is none.
func TestCountingClient(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		script   func(s scripted)
		messages int64
		want     string // in the error; empty: there is none
	}{
		{"none", func(s scripted) { s.begin(); s.end("grpc-status", "0") }, 0, ""},
		{"cut everywhere", func(s scripted) {
			s.begin()
			for _, b := range append(append(message("abc"), message("")...), message("defg")...) {
				s.WriteData(s.stream, false, []byte{b})
			}
			s.WritePing(false, [8]byte{1})
			s.end("grpc-status", "0", "grpc-message", "")
		}, 3, ""},
		{"padded", func(s scripted) {
			s.begin()
			s.WriteDataPadded(s.stream, false, message("abc"), make([]byte, 200))
			s.end("grpc-status", "0")
		}, 1, ""},
		{"half a message", func(s scripted) {
			s.begin()
			s.WriteData(s.stream, false, append(message("abc"), message("defg")[:7]...))
			s.end("grpc-status", "0")
		}, 1, "in the middle of a message, after 1 whole ones"},
		{"half a prefix", func(s scripted) {
			s.begin()
			s.WriteData(s.stream, false, message("abc")[:3])
			s.end("grpc-status", "0")
		}, 0, "in the middle of a message"},
		{"compressed", func(s scripted) {
			s.begin()
			s.WriteData(s.stream, false, []byte{1, 0, 0, 0, 0})
			s.end("grpc-status", "0")
		}, 0, "a message begins with 01"},
		{"no status", func(s scripted) { s.begin(); s.end("x", "y") }, 0, "without a status"},
		{"not gRPC", func(s scripted) { s.headers(true, ":status", "502") }, 0, "without a status"},
		{"status at once", func(s scripted) {
			s.headers(true, ":status", "200", "content-type", "application/grpc", "grpc-status", "12", "grpc-message", "not here")
		}, 0, "code = Unimplemented desc = not here"},
		{"error at the end", func(s scripted) {
			s.begin()
			s.WriteData(s.stream, false, message("abc"))
			s.end("grpc-status", "14", "grpc-message", "gone%20away")
		}, 1, "after 1 messages: rpc error: code = Unavailable desc = gone away"},
		{"reset", func(s scripted) { s.begin(); s.WriteRSTStream(s.stream, http2.ErrCodeRefusedStream) }, 0, "gave the stream up: REFUSED_STREAM"},
		{"hung up", func(s scripted) { s.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil) }, 0, "hung up: ENHANCE_YOUR_CALM"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := DialCounting(t.Context(), serveFrames(t, tt.script), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			got, err := c.Ask("GetBlockRange", []byte("a request"))
			if got.Messages != tt.messages || c.Messages() != tt.messages || got.Bytes != c.Bytes() {
				t.Errorf("%d messages of %d bytes came, %d of %d in all; want %d", got.Messages, got.Bytes, c.Messages(), c.Bytes(), tt.messages)
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if (status.Code(err) == codes.Unimplemented) != (tt.name == "status at once") {
				t.Errorf("the code is %v", status.Code(err))
			}
		})
	}
}

// What is counted are the bytes that came: the same ones have the same sum, however they were cut, and others have another.
func TestCountingSum(t *testing.T) {
	t.Parallel()
	answer := append(message("one"), message("two")...)
	ask := func(parts ...[]byte) Answer {
		c, err := DialCounting(t.Context(), serveFrames(t, func(s scripted) {
			s.begin()
			for _, part := range parts {
				s.WriteData(s.stream, false, part)
			}
			s.end("grpc-status", "0")
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var got Answer
		for range 2 { // a second call on the same connection starts anew
			if got, err = c.Ask("GetBlockRange", nil); err != nil {
				t.Fatal(err)
			}
		}
		return got
	}
	whole, cut, other := ask(answer), ask(answer[:6], answer[6:]), ask(append(message("one"), message("twp")...))
	if whole.Bytes != int64(len(answer)) || whole.Messages != 2 || whole.First <= 0 {
		t.Errorf("%+v", whole)
	}
	if cut.Sum != whole.Sum || other.Sum == whole.Sum {
		t.Errorf("sums: %08x, cut %08x, other %08x", whole.Sum, cut.Sum, other.Sum)
	}
}
