package lightwallet

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// rawMessage is an answer that is serialized already.
type rawMessage struct{ bytes mem.Buffer }

// request receives a client's message. It never fails: what grpc-go does with a failing codec is answer INTERNAL by itself, while a
// malformed message is the client's mistake. The caller looks at size and err.
type request struct {
	message any // to be filled, a protobuf message
	limit   int // in bytes; a longer message is not decoded
	size    int
	err     error
}

// codec is the protobuf codec, except that it takes rawMessage and request for what they are.
type codec struct{ proto encoding.CodecV2 }

func newCodec() codec { return codec{proto: encoding.GetCodecV2(protocodec.Name)} }

// Name is the content subtype: wallets send application/grpc or application/grpc+proto.
func (codec) Name() string { return protocodec.Name }

// Marshal hands a rawMessage's buffer over, and serializes everything else.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if raw, ok := v.(*rawMessage); ok {
		return mem.BufferSlice{raw.bytes}, nil
	}
	return c.proto.Marshal(v)
}

// Unmarshal decodes into v, or into the message of a *request.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*request)
	if !ok {
		return c.proto.Unmarshal(data, v)
	}
	if r.size = data.Len(); r.size <= r.limit {
		r.err = c.proto.Unmarshal(data, r.message)
	}
	return nil
}

// check says what is wrong with the request that was received.
func (r *request) check() error {
	if r.size > r.limit {
		return tooLarge("the request has %d bytes, more than %d", r.size, r.limit)
	}
	if r.err != nil {
		return invalidArgument("the request is not a valid %s message", messageName(r.message))
	}
	return nil
}

func messageName(m any) string {
	if p, ok := m.(proto.Message); ok {
		return string(p.ProtoReflect().Descriptor().Name())
	}
	return fmt.Sprintf("%T", m)
}
