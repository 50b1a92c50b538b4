package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

const serviceName = "cash.z.wallet.sdk.rpc.CompactTxStreamer"

// wallet is a client that sees the bytes of every message as they came over the wire.
type wallet struct{ conn *grpc.ClientConn }

// dial connects to a server that listens already.
func dial(tb testing.TB, addr string) *wallet {
	tb.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return &wallet{conn}
}

// rawCodec sends protobuf messages and receives either those or, into a *[]byte, the bytes themselves.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) { return proto.Marshal(v.(proto.Message)) }

func (rawCodec) Unmarshal(data []byte, v any) error {
	if raw, ok := v.(*[]byte); ok {
		*raw = append((*raw)[:0], data...)
		return nil
	}
	return proto.Unmarshal(data, v.(proto.Message))
}

// call is a unary request; reply is a message or a *[]byte.
func (w *wallet) call(ctx context.Context, method string, request proto.Message, reply any) error {
	return w.conn.Invoke(ctx, "/"+serviceName+"/"+method, request, reply, grpc.ForceCodec(rawCodec{}))
}

// stream reads a server stream to its end. The bytes given to each are valid until it returns.
func (w *wallet) stream(ctx context.Context, method string, request proto.Message, each func([]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := w.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/"+serviceName+"/"+method, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return err
	}
	if err := s.SendMsg(request); err != nil {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	var message []byte
	for {
		if err := s.RecvMsg(&message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := each(message); err != nil {
			return err
		}
	}
}

// latest is the server's tip.
func (w *wallet) latest(ctx context.Context) (*walletrpc.BlockID, error) {
	id := &walletrpc.BlockID{}
	return id, w.call(ctx, "GetLatestBlock", &walletrpc.ChainSpec{}, id)
}

// awaitAnswer waits until the server knows its tip.
func awaitAnswer(tb testing.TB, w *wallet) {
	tb.Helper()
	await(tb, "GetLatestBlock is answered", 15*time.Second, func() bool {
		_, err := w.latest(tb.Context())
		return err == nil
	})
}

// blockRange is the request for from..to.
func (q query) blockRange(from, to int) *walletrpc.BlockRange {
	return &walletrpc.BlockRange{
		Start:     &walletrpc.BlockID{Height: uint64(from)},
		End:       &walletrpc.BlockID{Height: uint64(to)},
		PoolTypes: q.pools,
	}
}

// requireRange reads a range in either direction and compares it byte for byte; want is indexed by height.
func (w *wallet) requireRange(ctx context.Context, q query, from, to int, want [][]byte) error {
	return w.readRange(ctx, q, from, to, want, func() {})
}

// readRange is requireRange with a call after each block.
func (w *wallet) readRange(ctx context.Context, q query, from, to int, want [][]byte, each func()) error {
	height, step := from, 1
	if from > to {
		step = -1
	}
	err := w.stream(ctx, q.method, q.blockRange(from, to), func(got []byte) error {
		if (to-height)*step < 0 {
			return fmt.Errorf("a block after the last one: %x", got)
		}
		if err := sameBlock(got, want[height]); err != nil {
			return fmt.Errorf("height %d: %w", height, err)
		}
		height += step
		each()
		return nil
	})
	if err != nil {
		return fmt.Errorf("%v %d to %d, at height %d: %w", q, from, to, height, err)
	}
	if height != to+step {
		return fmt.Errorf("%v %d to %d ended OK before height %d", q, from, to, height)
	}
	return nil
}

// readBlock asks for one block through one of the unary methods: by height, or by hash where that is given.
func (w *wallet) readBlock(ctx context.Context, method string, height int, hash ...byte) ([]byte, error) {
	var got []byte
	err := w.call(ctx, method, &walletrpc.BlockID{Height: uint64(height), Hash: hash}, &got)
	return got, err
}

// sameBlock explains how two serialized compact blocks differ.
func sameBlock(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	gotBlock, wantBlock := &walletrpc.CompactBlock{}, &walletrpc.CompactBlock{}
	if err := proto.Unmarshal(got, gotBlock); err != nil {
		return fmt.Errorf("does not decode: %w", err)
	}
	if err := proto.Unmarshal(want, wantBlock); err != nil {
		return fmt.Errorf("expectation does not decode: %w", err)
	}
	if proto.Equal(gotBlock, wantBlock) {
		return fmt.Errorf("same fields in other bytes:\n got %x\nwant %x", got, want)
	}
	return fmt.Errorf("\n got %s\nwant %s", prototext.Format(gotBlock), prototext.Format(wantBlock))
}

// requireCode fails unless the error carries one of the codes.
func requireCode(tb testing.TB, what string, err error, want ...codes.Code) {
	tb.Helper()
	if got := status.Code(err); !slices.Contains(want, got) {
		tb.Errorf("%s: got %v, want %v", what, err, want)
	}
}
