package lightwallet

import (
	"bytes"
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
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

const serviceName = "cash.z.wallet.sdk.rpc.CompactTxStreamer"

func TestUnbuiltMethodsAreUnimplemented(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	built := []string{"GetLatestBlock", "GetBlock", "GetBlockNullifiers", "GetBlockRange", "GetBlockRangeNullifiers", "GetLightdInfo"}
	conn, unbuilt := s.conn(t), 0
	desc := walletrpc.CompactTxStreamer_ServiceDesc
	for _, m := range desc.Methods {
		if slices.Contains(built, m.MethodName) {
			continue
		}
		unbuilt++
		err := conn.Invoke(t.Context(), fullName(&desc, m.MethodName), &walletrpc.Empty{}, &walletrpc.Empty{})
		requireStatus(t, err, codes.Unimplemented, "method "+m.MethodName+" not implemented")
	}
	for i, m := range desc.Streams {
		if slices.Contains(built, m.StreamName) {
			continue
		}
		unbuilt++
		stream, err := conn.NewStream(t.Context(), &desc.Streams[i], fullName(&desc, m.StreamName))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(&walletrpc.Empty{}); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		requireStatus(t, stream.RecvMsg(&walletrpc.Empty{}), codes.Unimplemented, "method "+m.StreamName+" not implemented")
	}
	if unbuilt != 14 {
		t.Errorf("%d of 20 methods are not built", unbuilt)
	}
}

func TestRequestSize(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	client := s.dial(t)
	// A range whose request has exactly the given size: repeated pools are packed, one byte each.
	ranges := func(size int) *walletrpc.BlockRange {
		req := &walletrpc.BlockRange{Start: byHeight(1), End: byHeight(1), PoolTypes: make([]walletrpc.PoolType, size-13)}
		for i := range req.PoolTypes {
			req.PoolTypes[i] = walletrpc.PoolType_SAPLING
		}
		for proto.Size(req) < size {
			req.PoolTypes = append(req.PoolTypes, walletrpc.PoolType_SAPLING)
		}
		req.PoolTypes = req.PoolTypes[:len(req.PoolTypes)-(proto.Size(req)-size)]
		return req
	}
	_, err := s.blockRange(t, ranges(maxRequest))
	requireStatus(t, err, codes.OK, "")
	_, err = s.blockRange(t, ranges(maxRequest+1))
	requireStatus(t, err, codes.ResourceExhausted, "the request has 1048577 bytes, more than 1048576")

	long := &walletrpc.BlockID{Height: 1, Hash: make([]byte, maxRequest)}
	_, err = client.GetBlock(t.Context(), long)
	requireStatus(t, err, codes.ResourceExhausted, "the request has 1048582 bytes, more than 1048576")

	// SendTransaction is to be, and to refuse for itself what is too long for a transaction.
	_, err = client.SendTransaction(t.Context(), &walletrpc.RawTransaction{Data: make([]byte, 3<<20)})
	requireStatus(t, err, codes.Unimplemented, "method SendTransaction not implemented")
	_, err = client.SendTransaction(t.Context(), &walletrpc.RawTransaction{Data: make([]byte, 4<<20)})
	requireStatus(t, err, codes.ResourceExhausted, "grpc: received message larger than max (4194309 vs. 4194304)")
}

// A message that is not protobuf is the client's mistake, in unary calls and streams.
func TestMalformedRequest(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	conn := s.conn(t, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newCodec())))
	malformed := func() *rawMessage { return &rawMessage{newBuffer([]byte{0x0a, 0xff}, func() {})} }
	for _, method := range []string{"GetBlock", "GetBlockNullifiers"} {
		err := conn.Invoke(t.Context(), "/"+serviceName+"/"+method, malformed(), &walletrpc.CompactBlock{})
		requireStatus(t, err, codes.InvalidArgument, "the request is not a valid BlockID message")
	}
	err := conn.Invoke(t.Context(), "/"+serviceName+"/GetLatestBlock", malformed(), &walletrpc.BlockID{})
	requireStatus(t, err, codes.InvalidArgument, "the request is not a valid ChainSpec message")
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/"+serviceName+"/GetBlockRange")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(malformed()); err != nil {
		t.Fatal(err)
	}
	requireStatus(t, stream.RecvMsg(&walletrpc.CompactBlock{}), codes.InvalidArgument, "the request is not a valid BlockRange message")
}

func TestPanic(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := start(t, &fakeSource{blocks: fakeBlocks(tip + 1), before: func(_ context.Context, run int) error {
		if run == 1 {
			panic("boom")
		}
		return nil
	}}, func(o *Options, _ *bool) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	got, err := s.blockRange(t, &walletrpc.BlockRange{Start: byHeight(0), End: byHeight(tip)})
	requireStatus(t, err, codes.Internal, textInternal)
	if len(got) != 7 || s.Stats().Panics != 1 {
		t.Errorf("%d blocks, stats %+v", len(got), s.Stats())
	}
	// The server lives.
	if _, err := s.dial(t).GetBlock(t.Context(), byHeight(3)); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"boom", "GetBlockRange", "server_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not mention %s", want)
		}
	}
}

// Details of an internal error are logged and not sent.
func TestInternalErrorIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := start(t, &fakeSource{viewErr: errFake}, func(o *Options, _ *bool) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	_, err := s.dial(t).GetBlock(t.Context(), byHeight(3))
	requireStatus(t, err, codes.Internal, textInternal)
	if !strings.Contains(log.String(), errFake.Error()) {
		t.Errorf("the log says %s", &log)
	}
}

func TestObserve(t *testing.T) {
	t.Parallel()
	calls := make(chan Call, 1)
	blocks := fakeBlocks(tip + 1)
	s := start(t, &fakeSource{blocks: blocks, origin: chain.FromZebra}, func(o *Options, _ *bool) { o.Observe = func(c Call) { calls <- c } })
	require := func(method string, code codes.Code, n, bytes int) {
		t.Helper()
		c := <-calls
		if c.Method != method || c.Code != code || c.Blocks != [2]uint64{0, uint64(n)} || c.Bytes != uint64(bytes) || c.Duration <= 0 {
			t.Errorf("%+v, want %s %s with %d blocks in %d bytes", c, method, code, n, bytes)
		}
	}
	size := func(b *walletrpc.CompactBlock, p chain.Projection) int { return len(appendFrame(nil, project(b, p))) }

	_, err := s.dial(t).GetBlock(t.Context(), byHeight(7))
	requireStatus(t, err, codes.OK, "")
	require("/"+serviceName+"/GetBlock", codes.OK, 1, size(blocks[7], chain.Projection{Pools: chain.AllPools, KeepEmpty: true}))

	_, err = s.dial(t).GetBlock(t.Context(), byHeight(0))
	requireStatus(t, err, codes.InvalidArgument, "block: neither a height above 0 nor a hash is given")
	require("/"+serviceName+"/GetBlock", codes.InvalidArgument, 0, 0)

	_, err = s.blockRange(t, &walletrpc.BlockRange{Start: byHeight(39), End: byHeight(50)})
	requireStatus(t, err, codes.OutOfRange, "height 50 is above the tip 40")
	require("/"+serviceName+"/GetBlockRange", codes.OutOfRange, 2, size(blocks[39], chain.DefaultProjection)+size(blocks[40], chain.DefaultProjection))

	if s.Stats().BlocksServed != [2]uint64{0, 3} || s.Stats().Calls != 0 {
		t.Errorf("%+v", s.Stats())
	}
}

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
	want := []string{serviceName, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}
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

	alpha, err := reflectionalphapb.NewServerReflectionClient(s.conn(t)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := alpha.Send(&reflectionalphapb.ServerReflectionRequest{MessageRequest: &reflectionalphapb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	if resp, err := alpha.Recv(); err != nil || len(resp.GetListServicesResponse().GetService()) != 4 {
		t.Error(resp, err)
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
			g := grpc.NewServer(serverOptions(minClientPing / 100)...)
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
