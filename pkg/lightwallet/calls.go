package lightwallet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// Call is what is known of an RPC when it has ended.
type Call struct {
	Method   string // full name, such as "/cash.z.wallet.sdk.rpc.CompactTxStreamer/GetBlock"; only methods that exist
	Code     codes.Code
	Duration time.Duration
	Blocks   [2]uint64 // compact blocks handed to the transport, by chain.Origin
	Bytes    uint64    // of those blocks, with their 5-byte prefixes
}

// call counts what one RPC sends. Only the goroutine of its handler touches it.
type call struct {
	blocks [2]uint64
	bytes  uint64
}

type callKey struct{}

// Stats is what a Server counts. All numbers are since New, those of the second group are now.
type Stats struct {
	Framed          bool      // ranges go out as runs of frames; false: one message at a time, several times slower
	FallbackStreams uint64    // streams that had to be sent one message at a time
	BlocksServed    [2]uint64 // by chain.Origin, counted while streams run
	Panics          uint64    // calls that ended with INTERNAL because a handler panicked

	Calls   int64 // in progress, streams among them
	Streams int64 // in progress
}

// counters are the live form of Stats.
type counters struct {
	fallbackStreams atomic.Uint64
	blocks          [2]atomic.Uint64
	panics          atomic.Uint64
	calls           atomic.Int64
	streams         atomic.Int64
	pings           atomic.Int64
}

// served counts blocks that were handed to the transport.
func (c *counters) served(ctx context.Context, f chain.Frames, bytes int) {
	c.blocks[f.Origin].Add(uint64(f.Count))
	if own, ok := ctx.Value(callKey{}).(*call); ok {
		own.blocks[f.Origin] += uint64(f.Count)
		own.bytes += uint64(bytes)
	}
}

// guard stands around every method of every service: it bounds and checks requests, turns errors into codes and panics into
// INTERNAL, counts, and reports the call.
type guard struct {
	counters *counters
	observe  func(Call)
	nodeAway func() bool
	log      *slog.Logger
}

// service returns a copy of a service's description with every method guarded.
func (g *guard) service(desc *grpc.ServiceDesc) *grpc.ServiceDesc {
	guarded := *desc
	guarded.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, m := range desc.Methods {
		guarded.Methods[i] = grpc.MethodDesc{MethodName: m.MethodName, Handler: g.unary(fullName(desc, m.MethodName), m.Handler)}
	}
	guarded.Streams = make([]grpc.StreamDesc, len(desc.Streams))
	for i, m := range desc.Streams {
		m.Handler = g.stream(fullName(desc, m.StreamName), m.Handler)
		guarded.Streams[i] = m
	}
	return &guarded
}

func fullName(desc *grpc.ServiceDesc, method string) string {
	return "/" + desc.ServiceName + "/" + method
}

func (g *guard) unary(method string, handle grpc.MethodHandler) grpc.MethodHandler {
	limit := requestLimit(method)
	return func(srv any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (reply any, err error) {
		err = g.run(ctx, method, func(ctx context.Context) (err error) {
			reply, err = handle(srv, ctx, func(m any) error {
				r := &request{message: m, limit: limit}
				if err := receive(r); err != nil {
					return err
				}
				return r.check()
			}, nil)
			return err
		})
		if err != nil {
			return nil, err
		}
		return reply, nil
	}
}

func (g *guard) stream(method string, handle grpc.StreamHandler) grpc.StreamHandler {
	limit := requestLimit(method)
	return func(srv any, stream grpc.ServerStream) error {
		g.counters.streams.Add(1)
		defer g.counters.streams.Add(-1)
		return g.run(stream.Context(), method, func(ctx context.Context) error {
			return handle(srv, &guardedStream{ServerStream: stream, ctx: ctx, limit: limit})
		})
	}
}

// requestLimit is the size in bytes up to which a method's request is decoded.
func requestLimit(method string) int {
	if method == walletrpc.CompactTxStreamer_SendTransaction_FullMethodName {
		return maxSendTransactionRequest
	}
	return maxRequest
}

// guardedStream checks each message that a client sends.
type guardedStream struct {
	grpc.ServerStream
	ctx   context.Context
	limit int
}

func (s *guardedStream) Context() context.Context { return s.ctx }

func (s *guardedStream) RecvMsg(m any) error {
	r := &request{message: m, limit: s.limit}
	if err := s.ServerStream.RecvMsg(r); err != nil {
		return err
	}
	return r.check()
}

// run calls a handler and accounts for it. What it returns carries a status code.
func (g *guard) run(ctx context.Context, method string, handle func(context.Context) error) (err error) {
	start, counted := time.Now(), &call{}
	g.counters.calls.Add(1)
	defer func() {
		if p := recover(); p != nil {
			g.counters.panics.Add(1)
			g.log.Error("a handler panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = status.Error(codes.Internal, textInternal)
		}
		g.counters.calls.Add(-1)
		if g.observe != nil {
			g.observe(Call{method, status.Code(err), time.Since(start), counted.blocks, counted.bytes})
		}
	}()
	ctx = context.WithValue(ctx, callKey{}, counted)
	if cause := handle(ctx); cause != nil {
		if errors.Is(cause, chain.ErrBusy) && g.nodeAway != nil && g.nodeAway() {
			// Whoever was before it in the queue waits for the node, too.
			cause = fmt.Errorf("the node does not answer: %w: %v", chain.ErrUnavailable, cause)
		}
		st := statusOf(ctx, cause)
		g.report(ctx, method, st, cause)
		return st.Err()
	}
	return nil
}

// report logs the details of an error, which the client does not get to see.
func (g *guard) report(ctx context.Context, method string, st *status.Status, cause error) {
	level := slog.LevelDebug
	if st.Code() == codes.Internal {
		level = slog.LevelError
	}
	g.log.Log(ctx, level, "a call failed", "method", method, "code", st.Code().String(), "err", cause)
}
