package lightwallet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	if !probeFraming() {
		t.Fatal("this grpc-go does not take runs of frames: ranges are served one message at a time, several times slower")
	}
}

// newHTTPClient is the second client stack: net/http's HTTP/2, which knows nothing of gRPC.
func newHTTPClient(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// post calls a method and returns the answer with its body still to be read.
func (s *testServer) post(t testing.TB, client *http.Client, method string, message proto.Message, headers ...string) *http.Response {
	t.Helper()
	body := appendFrame(nil, message)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.addr+method, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// TestPinFraming shows over real sockets, to two client stacks, that a range written as runs of frames is what gRPC says it must be,
// and byte for byte what one message at a time gives.
func TestPinFraming(t *testing.T) {
	t.Parallel()
	blocks := fakeBlocks(3000) // several runs of many frames; more than one flow-control window
	var want []byte
	for _, b := range blocks {
		want = appendFrame(want, project(b, chain.DefaultProjection))
	}
	ranges := &walletrpc.BlockRange{Start: byHeight(0), End: byHeight(2999)}
	for _, c := range []struct {
		name    string
		options []testOption
		framed  bool
	}{
		{"framed", nil, true},
		{"fallback", []testOption{withFallback}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := &fakeSource{blocks: blocks, runLen: 250, origin: chain.FromZebra}
			s := start(t, source, c.options...)
			if s.Stats().Framed != c.framed {
				t.Fatalf("Framed is %v", s.Stats().Framed)
			}

			got, err := s.blockRange(t, ranges)
			requireStatus(t, err, codes.OK, "")
			var grpcBytes []byte
			for _, b := range got {
				grpcBytes = appendFrame(grpcBytes, b)
			}
			if !bytes.Equal(grpcBytes, want) {
				t.Error("grpc-go's client read other bytes")
			}

			resp := s.post(t, newHTTPClient(t), walletrpc.CompactTxStreamer_GetBlockRange_FullMethodName, ranges)
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(body, want) {
				t.Error("net/http's client read other bytes")
			}
			if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/grpc" || resp.Header.Get("Grpc-Encoding") != "" {
				t.Errorf("status %d, headers %v", resp.StatusCode, resp.Header)
			}
			if resp.Trailer.Get("Grpc-Status") != "0" {
				t.Errorf("trailers %v", resp.Trailer)
			}

			eventually(t, "every run is released", func() bool { return source.taken.Load() == source.released.Load() })
			stats := s.Stats()
			if stats.BlocksServed != [2]uint64{chain.FromZebra: 6000} || (stats.FallbackStreams == 0) != c.framed {
				t.Errorf("stats %+v", stats)
			}
		})
	}
}

// Errors come as trailers after the blocks that were sent, to the second stack too.
func TestPinTrailers(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(tip + 1)})
	resp := s.post(t, newHTTPClient(t), walletrpc.CompactTxStreamer_GetBlockRange_FullMethodName,
		&walletrpc.BlockRange{Start: byHeight(30), End: byHeight(99)})
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	frames := 0
	for start := 0; start < len(body); frames++ {
		n, err := frameAt(body, start)
		if err != nil {
			t.Fatal(err)
		}
		start += chain.FramePrefixLen + n
	}
	if frames != 11 || resp.Trailer.Get("Grpc-Status") != "11" || resp.Trailer.Get("Grpc-Message") != "height 99 is above the tip 40" {
		t.Errorf("%d blocks, trailers %v", frames, resp.Trailer)
	}
}

func TestHeadersAtOnce(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	s := start(t, &fakeSource{blocks: fakeBlocks(tip + 1), before: func(ctx context.Context, _ int) error {
		select {
		case <-goOn:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	stream, err := s.dial(t).GetBlockRange(t.Context(), &walletrpc.BlockRange{Start: byHeight(0), End: byHeight(3)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil { // before any block: the source waits for us
		t.Fatal(err)
	}
	close(goOn)
	if b, err := stream.Recv(); err != nil || b.Height != 0 {
		t.Fatal(b, err)
	}
}

// A reader that takes nothing stops the source after a constant number of runs, whether they are long or hold one block each.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	blocks := fakeBlocks(20_000)
	for _, c := range []struct {
		name    string
		runLen  int
		options []testOption
	}{
		{"long runs", 250, nil},
		{"one block a run", 1, nil},
		{"one block a run, fallback", 1, []testOption{withFallback}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			source := &fakeSource{blocks: blocks, runLen: c.runLen}
			s := start(t, source, c.options...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			const stalled = 4
			for range stalled {
				stream, err := s.dial(t, grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10)).
					GetBlockRange(ctx, &walletrpc.BlockRange{Start: byHeight(0), End: byHeight(19_999)})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := stream.Recv(); err != nil {
					t.Fatal(err)
				}
			}
			held := func() int64 { return source.taken.Load() - source.released.Load() }
			last := int64(-1)
			eventually(t, "the source is asked for nothing more", func() bool {
				before := last
				last = source.taken.Load()
				time.Sleep(50 * time.Millisecond)
				return before == last
			})
			if n := held(); n > stalled*(maxQueuedRuns+1) {
				t.Errorf("%d stalled readers hold %d runs", stalled, n)
			}
			// Each client has taken one window of 64 KiB; the rest of its range is still to come.
			if served := s.Stats().BlocksServed[chain.FromIndex]; served > stalled*2_500 {
				t.Errorf("%d blocks were taken from the source", served)
			}
			if stats := s.Stats(); stats.Calls != stalled || stats.Streams != stalled {
				t.Errorf("%d calls and %d streams in progress", stats.Calls, stats.Streams)
			}

			// Another reader does not notice.
			got, err := s.blockRange(t, &walletrpc.BlockRange{Start: byHeight(0), End: byHeight(1_999)})
			requireStatus(t, err, codes.OK, "")
			if len(got) != 2_000 {
				t.Errorf("the other reader got %d blocks", len(got))
			}

			cancel()
			eventually(t, "the calls have ended and all runs are released", func() bool {
				stats := s.Stats()
				return stats.Calls == 0 && stats.Streams == 0 && held() == 0
			})
		})
	}
}

// When the client goes, the source stops within the second that the protocol allows, also while it waits for a block.
func TestClientGone(t *testing.T) {
	t.Parallel()
	waiting := make(chan struct{}, 1)
	calls := make(chan Call, 1)
	s := start(t, &fakeSource{blocks: fakeBlocks(tip + 1), before: func(ctx context.Context, run int) error {
		if run < 2 {
			return nil
		}
		waiting <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}, func(o *Options, _ *bool) { o.Observe = func(c Call) { calls <- c } })
	requireEnd := func(t *testing.T, code codes.Code) {
		t.Helper()
		select {
		case call := <-calls:
			if call.Code != code || call.Blocks != [2]uint64{14, 0} {
				t.Errorf("call %+v", call)
			}
		case <-time.After(time.Second):
			t.Error("the source still works")
		}
	}
	all := &walletrpc.BlockRange{Start: byHeight(0), End: byHeight(tip)}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if _, err := s.dial(t).GetBlockRange(ctx, all); err != nil {
			t.Fatal(err)
		}
		<-waiting
		cancel()
		requireEnd(t, codes.Canceled)
	})
	t.Run("deadline", func(t *testing.T) { // of a client that leaves it to the server
		s.post(t, newHTTPClient(t), walletrpc.CompactTxStreamer_GetBlockRange_FullMethodName, all, "Grpc-Timeout", "200m")
		<-waiting
		requireEnd(t, codes.DeadlineExceeded)
	})
}

// A message that the source did not frame is never sent by the fallback, which has to look inside.
func TestFrameAt(t *testing.T) {
	t.Parallel()
	frame := func(flag byte, length uint32, body string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{flag}, length), body...)
	}
	for _, c := range []struct {
		name string
		run  []byte
		want int
		text string
	}{
		{"good", frame(0, 3, "abc"), 3, ""},
		{"empty message", frame(0, 0, ""), 0, ""},
		{"more follows", frame(0, 1, "abc"), 1, ""},
		{"short prefix", []byte{0, 0, 0, 0}, 0, "no frame at byte 0 of a run of 4"},
		{"compressed", frame(1, 3, "abc"), 0, "no frame at byte 0 of a run of 8"},
		{"short message", frame(0, 4, "abc"), 0, "frame at byte 0 of a run of 8 has 4 bytes"},
		{"2^32-1", frame(0, 1<<32-1, "abc"), 0, "frame at byte 0 of a run of 8 has 4294967295 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, err := frameAt(c.run, 0)
			if n != c.want || (err == nil) != (c.text == "") || (err != nil && err.Error() != c.text) {
				t.Errorf("got %d, %v", n, err)
			}
		})
	}
}

// The writer is used only where the method has exactly the known type.
func TestTransportWrite(t *testing.T) {
	t.Parallel()
	type opts struct{ Last bool }
	for _, c := range []struct {
		name string
		f    any
		want bool
	}{
		{"as it is", func([]byte, mem.BufferSlice, *opts) error { return nil }, true},
		{"no options", func([]byte, mem.BufferSlice) error { return nil }, false},
		{"options by value", func([]byte, mem.BufferSlice, opts) error { return nil }, false},
		{"io.Writer", func([]byte) (int, error) { return 0, nil }, false},
		{"other data", func([]byte, []byte, *opts) error { return nil }, false},
		{"other header", func(string, mem.BufferSlice, *opts) error { return nil }, false},
		{"other result", func([]byte, mem.BufferSlice, *opts) (int, error) { return 0, nil }, false},
		{"variadic", func([]byte, mem.BufferSlice, ...*opts) error { return nil }, false},
	} {
		if got := isTransportWrite(reflect.TypeOf(c.f)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if write, _ := transportWrite(nil); write.IsValid() {
		t.Error("found a Write without a stream")
	}
}

// The buffer's owner is told exactly once, and only after the last reference is gone, whatever the size.
func TestNewBuffer(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 1000, 1025, 100_000} {
		done := 0
		b := newBuffer(make([]byte, size), func() { done++ })
		b.Ref()
		part := b.Slice(0, (size+1)/2)
		b.Free()
		b.Free()
		if want := 0; size > 1 && done != want {
			t.Errorf("%d bytes: told too early", size)
		}
		part.Free()
		if done != 1 {
			t.Errorf("%d bytes: told %d times", size, done)
		}
	}
}

// After a write error the run still goes back, and the call ends as CANCELED.
func TestWriteError(t *testing.T) {
	t.Parallel()
	released := 0
	w := &frameWriter{
		ctx:    t.Context(),
		queued: make(chan struct{}, maxQueuedRuns),
		write: reflect.ValueOf(func([]byte, mem.BufferSlice, *struct{}) error {
			return errors.New("transport is closing")
		}),
		options: reflect.ValueOf((*struct{})(nil)),
	}
	err := w.send(chain.Frames{Bytes: make([]byte, 2000), Free: func() { released++ }})
	if st := statusOf(t.Context(), err); st.Code() != codes.Canceled || released != 1 || len(w.queued) != 0 {
		t.Errorf("%v, released %d times, %d queued", err, released, len(w.queued))
	}
}
