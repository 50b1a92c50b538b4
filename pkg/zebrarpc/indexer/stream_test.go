package indexer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/zebraindexer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is Zebra's indexer server with one script for all streams.
type server struct {
	zebraindexer.UnimplementedIndexerServer
	script func(zebraindexer.Indexer_ChainTipChangeServer) error
}

func (s *server) ChainTipChange(_ *zebraindexer.Empty, stream zebraindexer.Indexer_ChainTipChangeServer) error {
	return s.script(stream)
}

// accept sends the headers, as Zebra does before it has anything to say.
func accept(stream zebraindexer.Indexer_ChainTipChangeServer) error {
	return stream.SendHeader(metadata.MD{})
}

// rest waits in a script, unless the client leaves.
func rest(stream zebraindexer.Indexer_ChainTipChangeServer, d time.Duration) {
	select {
	case <-stream.Context().Done():
	case <-time.After(d):
	}
}

// message is the tip as Zebra names it. The hash begins, in display order, with zeros and ends with last.
func message(h uint32, last byte) *zebraindexer.BlockHashAndHeight {
	hash := make([]byte, 32)
	hash[31] = last
	return &zebraindexer.BlockHashAndHeight{Hash: hash, Height: h}
}

// tip is what message means: internal order.
func tip(h chain.Height, last byte) chain.BlockID {
	return chain.BlockID{Height: h, Hash: chain.Hash{last}}
}

// tips collects what a stream names.
type tips struct {
	mu  sync.Mutex
	ids []chain.BlockID
}

func (t *tips) add(id chain.BlockID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ids = append(t.ids, id)
}

func (t *tips) all() []chain.BlockID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]chain.BlockID(nil), t.ids...)
}

// logBuffer is a log that a test reads while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

const (
	runs = "tip stream runs"
	gone = "tip stream cannot be used"
)

// scripted runs a Stream against a server in a bubble: time stands still but for sleeps.
func scripted(t *testing.T, script func(zebraindexer.Indexer_ChainTipChangeServer) error, test func(t *testing.T, s *Stream, got *tips, log *logBuffer)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lis := bufconn.Listen(64 << 10)
		srv := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second})) // Zebra has no such policy
		zebraindexer.RegisterIndexerServer(srv, &server{script: script})
		served := make(chan error)
		go func() { served <- srv.Serve(lis) }()
		got, log := &tips{}, &logBuffer{}
		s := New(Options{Addr: "zebra", Tip: got.add, Logger: slog.New(slog.NewTextHandler(log, nil))})
		s.extra = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) })}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run returned %v", err)
			}
			if s.Stats().Running {
				t.Error("running after the end")
			}
			srv.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		test(t, s, got, log)
	})
}

func want(t *testing.T, got *tips, ids ...chain.BlockID) {
	t.Helper()
	have := got.all()
	if len(have) != len(ids) {
		t.Fatalf("got %v, want %v", have, ids)
	}
	for i := range ids {
		if have[i] != ids[i] {
			t.Fatalf("got %v, want %v", have, ids)
		}
	}
}

// Tips come in internal order, each as soon as it is sent; a quiet chain is no failure.
func TestTips(t *testing.T) {
	scripted(t, func(stream zebraindexer.Indexer_ChainTipChangeServer) error {
		_ = accept(stream)
		rest(stream, time.Hour)
		_ = stream.Send(message(7, 3))
		rest(stream, time.Second)
		_ = stream.Send(message(6, 4))
		<-stream.Context().Done()
		return nil
	}, func(t *testing.T, s *Stream, got *tips, log *logBuffer) {
		if st := s.Stats(); !st.Running || st.Messages != 0 {
			t.Errorf("at first: %+v", st)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		want(t, got, tip(7, 3))
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, got, tip(7, 3), tip(6, 4))
		if st := s.Stats(); st != (Stats{Running: true, Messages: 2}) {
			t.Errorf("at last: %+v", st)
		}
		if log.count(runs) != 1 || log.count(gone) != 0 {
			t.Errorf("log: %s", &log.buf)
		}
	})
}

// A server that ends every stream is asked again ever more seldom, and one that comes back is found within the last pause.
func TestEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(zebraindexer.Indexer_ChainTipChangeServer) error
		text string
		ran  bool
	}{
		{"with OK", func(s zebraindexer.Indexer_ChainTipChangeServer) error { return accept(s) }, "the server ended it", true},
		{"with an error", func(s zebraindexer.Indexer_ChainTipChangeServer) error {
			_ = accept(s)
			return status.Error(codes.Unavailable, "no tip")
		}, "Unavailable: no tip", true},
		{"before it begins", func(zebraindexer.Indexer_ChainTipChangeServer) error {
			return status.Error(codes.ResourceExhausted, "too many")
		}, "ResourceExhausted: too many", false},
		{"unknown method", func(zebraindexer.Indexer_ChainTipChangeServer) error {
			return status.Error(codes.Unimplemented, "unknown")
		}, "Unimplemented: unknown", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begin, well := time.Time{}, 10*time.Minute
			scripted(t, func(s zebraindexer.Indexer_ChainTipChangeServer) error {
				if begin.IsZero() {
					begin = time.Now()
				}
				if time.Since(begin) < well {
					return tt.end(s)
				}
				_ = accept(s)
				<-s.Context().Done()
				return nil
			}, func(t *testing.T, s *Stream, _ *tips, log *logBuffer) {
				time.Sleep(well - time.Second)
				synctest.Wait()
				// Pauses of 0.5 to 1, 1 to 2, … 15 to 30 s: at least twenty, at most forty-five in ten minutes.
				breaks := s.Stats().Breaks
				if breaks < 20 || breaks > 45 {
					t.Errorf("%d tries in %v", breaks, well)
				}
				told := 1
				if tt.ran {
					told = int(breaks)
				}
				if log.count(gone) != told || log.count(tt.text) != told {
					t.Errorf("%d tries, told %d times:\n%s", breaks, log.count(gone), &log.buf)
				}
				time.Sleep(lastPause + time.Second)
				synctest.Wait()
				if !s.Stats().Running {
					t.Error("not running after the server came back")
				}
			})
		})
	}
}

// A stream that lasted is tried again soon when it ends.
func TestEndsAfterLong(t *testing.T) {
	scripted(t, func(s zebraindexer.Indexer_ChainTipChangeServer) error {
		_ = accept(s)
		rest(s, 10*time.Minute)
		return nil
	}, func(t *testing.T, s *Stream, _ *tips, _ *logBuffer) {
		for breaks := range uint64(8) {
			for s.Stats().Breaks == breaks {
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(firstPause)
			synctest.Wait()
			if !s.Stats().Running {
				t.Fatal("not tried again within a second")
			}
		}
	})
}

// Messages without end are read no faster than leastGap allows.
func TestFlood(t *testing.T) {
	scripted(t, func(s zebraindexer.Indexer_ChainTipChangeServer) error {
		for h := uint32(1); s.Send(message(h, 1)) == nil; h++ {
		}
		return nil
	}, func(t *testing.T, s *Stream, _ *tips, _ *logBuffer) {
		before := s.Stats().Messages
		time.Sleep(time.Second)
		synctest.Wait()
		if n := s.Stats().Messages - before; n < 99 || n > 101 {
			t.Errorf("%d messages read in a second, want 100", n)
		}
	})
}

// What names no block ends the stream, and is not passed on.
func TestGarbage(t *testing.T) {
	for name, m := range map[string]*zebraindexer.BlockHashAndHeight{
		"short hash":  {Hash: make([]byte, 31), Height: 1},
		"no hash":     {Height: 1},
		"long hash":   {Hash: make([]byte, 33), Height: 1},
		"high height": {Hash: make([]byte, 32), Height: 1 << 31},
		"too large":   {Hash: make([]byte, maxMessage), Height: 1},
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, func(s zebraindexer.Indexer_ChainTipChangeServer) error {
				_ = s.Send(m)
				<-s.Context().Done()
				return nil
			}, func(t *testing.T, s *Stream, got *tips, log *logBuffer) {
				want(t, got)
				if st := s.Stats(); st.Running || st.Breaks != 1 || log.count(gone) != 1 {
					t.Errorf("%+v, log: %s", st, &log.buf)
				}
			})
		})
	}
}

// A server that takes the call and never accepts it is given up.
func TestHangs(t *testing.T) {
	scripted(t, func(s zebraindexer.Indexer_ChainTipChangeServer) error {
		<-s.Context().Done()
		return nil
	}, func(t *testing.T, s *Stream, _ *tips, log *logBuffer) {
		time.Sleep(beginLimit + time.Millisecond)
		synctest.Wait()
		if st := s.Stats(); st.Running || st.Breaks != 1 || log.count("the stream did not begin within 10s") != 1 {
			t.Errorf("%+v, log: %s", st, &log.buf)
		}
	})
}

// What is no such server at all: nobody listens, silence after the connection, something else than HTTP/2, an HTTP/1 page.
func TestStrangers(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"refuses": nil,
		"hangs up": func(c net.Conn) {
			c.Close()
		},
		"noise": func(c net.Conn) {
			_, _ = io.WriteString(c, strings.Repeat("noise ", 1000))
			c.Close()
		},
		"HTTP/1": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
			c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if serve == nil {
				lis.Close()
			} else {
				defer lis.Close()
				go func() {
					for {
						c, err := lis.Accept()
						if err != nil {
							return
						}
						serve(c)
					}
				}()
			}
			got, log := &tips{}, &logBuffer{}
			s := New(Options{Addr: lis.Addr().String(), Tip: got.add, Logger: slog.New(slog.NewTextHandler(log, nil))})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- s.Run(ctx) }()
			for end := time.Now().Add(30 * time.Second); s.Stats().Breaks < 2; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("not tried twice: %+v", s.Stats())
				}
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if log.count(gone) != 1 || s.Stats().Messages != 0 {
				t.Errorf("%+v, log: %s", s.Stats(), &log.buf)
			}
		})
	}
}

// An HTTP/2 server that knows nothing of gRPC.
func TestOtherHTTP2(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Protocols: new(http.Protocols), Handler: http.NotFoundHandler()}
	web.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan error)
	go func() { served <- web.Serve(lis) }()
	s := New(Options{Addr: lis.Addr().String(), Tip: func(chain.BlockID) { t.Error("a tip") }})
	ran, err := s.listen(t.Context())
	if ran || err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("ran %v, %v", ran, err)
	}
	web.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
