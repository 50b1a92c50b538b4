package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	// grpc-go encodes and decodes through the codec of that name, which has to be there.
	_ "google.golang.org/grpc/encoding/proto"
)

// decodingClient is a wallet on grpc-go that decodes every message. It may be used by many goroutines at once.
type decodingClient struct{ conn *grpc.ClientConn }

// ask calls a method and gives every message to each, which may keep it.
func (c decodingClient) ask(ctx context.Context, q *question, each func(proto.Message) error) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var a Answer
	got := &decoded{answer: &a}
	asked := time.Now()
	next := func() error {
		if a.Messages == 0 {
			a.First = time.Since(asked)
		}
		a.Messages++
		return each(got.message)
	}
	codec := grpc.ForceCodecV2(sumCodec{encoding.GetCodecV2("proto")})
	if !q.method.stream {
		got.message = q.method.answer()
		if err := c.conn.Invoke(ctx, pathOf(q.method.name), q.request, got, codec); err != nil {
			return a, err
		}
		return a, next()
	}
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, pathOf(q.method.name), codec)
	if err != nil {
		return a, err
	}
	if err := errors.Join(stream.SendMsg(q.request), stream.CloseSend()); err != nil {
		return a, err
	}
	for {
		got.message = q.method.answer()
		if err := stream.RecvMsg(got); errors.Is(err, io.EOF) {
			return a, nil
		} else if err != nil {
			return a, err
		}
		if err := next(); err != nil {
			return a, err
		}
	}
}

// decoded is a message that is to be decoded, and the answer to which its bytes are added.
type decoded struct {
	message proto.Message
	answer  *Answer
}

// sumCodec adds up the bytes of what it decodes.
type sumCodec struct{ encoding.CodecV2 }

func (c sumCodec) Unmarshal(data mem.BufferSlice, v any) error {
	d, ok := v.(*decoded)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	var prefix [5]byte
	binary.BigEndian.PutUint32(prefix[1:], uint32(data.Len()))
	sum := crc32.Update(d.answer.Sum, castagnoli(), prefix[:])
	for _, part := range data {
		sum = crc32.Update(sum, castagnoli(), part.ReadOnlyData())
	}
	d.answer.Sum = sum
	d.answer.Bytes += int64(len(prefix) + data.Len())
	return c.CodecV2.Unmarshal(data, d.message)
}
