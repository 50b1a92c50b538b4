package lightwallet

import (
	"context"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

const serviceName = "cash.z.wallet.sdk.rpc.CompactTxStreamer"

func TestHealth(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	client := healthpb.NewHealthClient(s.conn(t))
	require := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, name := range []string{"", serviceName} {
			got, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
			if err != nil || got.Status != want {
				t.Errorf("%q: %v, %v", name, got, err)
			}
		}
	}
	require(healthpb.HealthCheckResponse_NOT_SERVING)
	s.SetServing(true)
	require(healthpb.HealthCheckResponse_SERVING)
	s.SetServing(false)
	require(healthpb.HealthCheckResponse_NOT_SERVING)
	_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "other"})
	requireStatus(t, err, codes.NotFound, "unknown service")
}

func TestReflection(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	stream, err := reflectionpb.NewServerReflectionClient(s.conn(t)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(req *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	var names []string
	for _, s := range ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}).GetListServicesResponse().GetService() {
		names = append(names, s.Name)
	}
	want := []string{serviceName, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
		"zaino.index.v1.IndexedTipService"}
	if !slices.Equal(names, want) {
		t.Errorf("services %v", names)
	}
	files := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: serviceName}})
	var file descriptorpb.FileDescriptorProto
	if err := proto.Unmarshal(files.GetFileDescriptorResponse().GetFileDescriptorProto()[0], &file); err != nil {
		t.Fatal(err)
	}
	if n := len(file.GetService()[0].GetMethod()); n != 20 {
		t.Errorf("the service has %d methods", n)
	}
}

// Wallets ping every 10 s, also without a call. The test runs the policy a hundred times faster.
func TestClientPings(t *testing.T) {
	t.Parallel()
	if minClientPing > 9*time.Second || serverPing < 30*time.Second {
		t.Fatal("the protocol allows a ping each 10 s, and ours no more often than each 30 s")
	}
	for _, c := range []struct {
		name     string
		interval time.Duration
		pings    int
		wantEnd  bool
	}{
		{"as wallets do", 100 * time.Millisecond, 6, false},
		{"a flood", 0, 30, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := grpc.NewServer(serverOptions(minClientPing/100, nil)...)
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go g.Serve(lis) //nolint:errcheck // it ends with Stop
			t.Cleanup(g.Stop)
			conn, err := net.Dial("tcp", lis.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			if _, err := io.WriteString(conn, http2Preface); err != nil {
				t.Fatal(err)
			}
			framer := http2.NewFramer(conn, conn)
			if err := framer.WriteSettings(); err != nil {
				t.Fatal(err)
			}
			acks, ended := pingAndCount(t, conn, framer, c.interval, c.pings)
			if ended != c.wantEnd || (!ended && acks != c.pings) {
				t.Errorf("%d of %d pings were answered, the server hung up: %v", acks, c.pings, ended)
			}
		})
	}
}

// pingAndCount sends pings and tells how many were answered, and whether the server said GOAWAY or hung up instead.
func pingAndCount(t *testing.T, conn net.Conn, framer *http2.Framer, interval time.Duration, pings int) (acks int, ended bool) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	go func() {
		for range pings {
			time.Sleep(interval)
			if framer.WritePing(false, [8]byte{1}) != nil {
				return
			}
		}
	}()
	for acks < pings {
		f, err := framer.ReadFrame()
		if err != nil {
			return acks, true
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			return acks, true
		case *http2.PingFrame:
			if f.IsAck() {
				acks++
			}
		}
	}
	return acks, false
}

// Stop says so to health checks, lets calls end, cuts them off when its time is over, and leaves no handler behind.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		after func(context.CancelFunc) // the call is in progress and Stop has begun
		code  codes.Code
	}{
		{"graceful", nil, codes.OK},
		{"hard", func(cancel context.CancelFunc) { cancel() }, codes.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			goOn, inside := make(chan struct{}), make(chan struct{})
			source := &fakeSource{blocks: fakeBlocks(tip + 1), before: func(ctx context.Context, run int) error {
				if run != 0 {
					return nil
				}
				close(inside)
				select {
				case <-goOn:
					return nil
				case <-ctx.Done():
					time.Sleep(20 * time.Millisecond) // Stop must wait for this
					return ctx.Err()
				}
			}}
			s := start(t, source)
			s.SetServing(true)
			watch, err := healthpb.NewHealthClient(s.conn(t)).Watch(t.Context(), &healthpb.HealthCheckRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := watch.Recv(); err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
				t.Fatal(got, err)
			}
			stream, err := s.dial(t).GetBlockRange(t.Context(), &walletrpc.BlockRange{Start: byHeight(0), End: byHeight(3)})
			if err != nil {
				t.Fatal(err)
			}
			<-inside
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stopped := make(chan struct{})
			go func() {
				s.Stop(ctx)
				if open := source.opened.Load() - source.closed.Load(); open != 0 {
					t.Errorf("%d views are open after Stop", open)
				}
				close(stopped)
			}()
			if got, err := watch.Recv(); err != nil || got.Status != healthpb.HealthCheckResponse_NOT_SERVING {
				t.Fatal(got, err)
			}
			if c.after != nil {
				c.after(cancel)
			} else {
				close(goOn)
			}
			var got int
			for err == nil {
				if _, err = stream.Recv(); err == nil {
					got++
				}
			}
			if c.code == codes.OK {
				if err != io.EOF || got != 4 {
					t.Errorf("%d blocks, %v", got, err)
				}
				cancel() // the health watch is still open
			} else if got != 0 {
				t.Errorf("%d blocks, %v", got, err)
			}
			select {
			case <-stopped:
			case <-time.After(10 * time.Second):
				t.Fatal("Stop does not return")
			}
		})
	}
}

// The start-up line says how ranges leave; operators and CI look for it.
func TestStartUpLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options []testOption
		want    string
	}{
		{nil, `level=INFO msg="serving wallets" addr=127.0.0.1:`},
		{nil, "framed=true"},
		{[]testOption{withFallback}, "level=WARN"},
		{[]testOption{withFallback}, "framed=false"},
	} {
		var log logBuffer
		options := append(c.options, func(o *Options, _ *bool) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		s := start(t, &fakeSource{blocks: fakeBlocks(3)}, options...)
		if _, err := s.dial(t).GetLatestBlock(t.Context(), &walletrpc.ChainSpec{}); err != nil { // it has started
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), c.want) {
			t.Errorf("the log lacks %q: %s", c.want, log.String())
		}
	}
}
