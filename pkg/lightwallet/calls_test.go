package lightwallet

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// Whatever an empty request deserves, no method of the protocol is missing.
func TestEveryMethodIsBuilt(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	conn := s.conn(t)
	desc := walletrpc.CompactTxStreamer_ServiceDesc
	for _, m := range desc.Methods {
		err := conn.Invoke(t.Context(), fullName(&desc, m.MethodName), &walletrpc.Empty{}, &walletrpc.Empty{})
		if code := status.Code(err); code == codes.Unimplemented || code == codes.Internal {
			t.Errorf("%s: %v", m.MethodName, err)
		}
	}
	for i, m := range desc.Streams {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // GetMempoolStream has no end
		stream, err := conn.NewStream(ctx, &desc.Streams[i], fullName(&desc, m.StreamName))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(&walletrpc.Empty{}); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			err = stream.RecvMsg(&walletrpc.Empty{})
		}
		if code := status.Code(err); err != io.EOF && (code == codes.Unimplemented || code == codes.Internal || code == codes.Unknown) {
			t.Errorf("%s: %v", m.StreamName, err)
		}
		cancel()
	}
	if n := len(desc.Methods) + len(desc.Streams); n != 20 {
		t.Errorf("the protocol has %d methods", n)
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

	// SendTransaction refuses for itself what is too long for a transaction.
	_, err = client.SendTransaction(t.Context(), &walletrpc.RawTransaction{Data: make([]byte, 3<<20)})
	requireStatus(t, err, codes.InvalidArgument, "data: a transaction has between 1 and 2000000 bytes, not 3145728")
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
	var log logBuffer
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
	for _, want := range []string{"boom", "GetBlockRange", "calls_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not mention %s", want)
		}
	}
}

// Details of an internal error are logged and not sent.
func TestInternalErrorIsLogged(t *testing.T) {
	t.Parallel()
	var log logBuffer
	s := start(t, &fakeSource{viewErr: errFake}, func(o *Options, _ *bool) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	_, err := s.dial(t).GetBlock(t.Context(), byHeight(3))
	requireStatus(t, err, codes.Internal, textInternal)
	if !strings.Contains(log.String(), errFake.Error()) {
		t.Errorf("the log says %s", log.String())
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
