package lightwallet

import (
	"context"
	"encoding/binary"
	"fmt"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// frameWriter sends runs of finished gRPC frames over one server stream.
//
// grpc-go's stream of the transport has a method Write(header []byte, data mem.BufferSlice, options *T) that queues bytes for the
// stream without looking inside, so a run of many messages goes out in one call. T is internal to grpc-go: the method is looked up by
// reflection, with its exact type checked, and without it every message goes out by SendMsg. See docs/adr for the figures.
//
// grpc-go bounds what Write queues by bytes alone (it blocks once 64 KiB wait), and short runs lie in buffers much larger than
// themselves; so the runs are counted as well, and send blocks while maxQueuedRuns wait. That is how a stalled reader stops us.
type frameWriter struct {
	ctx     context.Context
	stream  grpc.ServerStream
	write   reflect.Value // the transport's Write; the zero Value when there is none
	options reflect.Value // its third argument
	queued  chan struct{} // one element per run that the transport still holds
}

// newFrameWriter prepares a stream's writer. It looks for the transport's Write unless fallback is set.
func newFrameWriter(stream grpc.ServerStream, fallback bool) *frameWriter {
	w := &frameWriter{ctx: stream.Context(), stream: stream, queued: make(chan struct{}, maxQueuedRuns)}
	if !fallback {
		w.write, w.options = transportWrite(grpc.ServerTransportStreamFromContext(w.ctx))
	}
	return w
}

// framed tells whether runs go out whole.
func (w *frameWriter) framed() bool { return w.write.IsValid() }

// transportWrite returns the stream's Write as a func([]byte, mem.BufferSlice, *T) error and a new T, or zero Values.
func transportWrite(stream grpc.ServerTransportStream) (write, options reflect.Value) {
	if stream == nil {
		return reflect.Value{}, reflect.Value{}
	}
	write = reflect.ValueOf(stream).MethodByName("Write")
	if !write.IsValid() || !isTransportWrite(write.Type()) {
		return reflect.Value{}, reflect.Value{}
	}
	return write, reflect.New(write.Type().In(2).Elem())
}

func isTransportWrite(t reflect.Type) bool {
	return t.NumIn() == 3 && !t.IsVariadic() &&
		t.In(0) == reflect.TypeFor[[]byte]() &&
		t.In(1) == reflect.TypeFor[mem.BufferSlice]() &&
		t.In(2).Kind() == reflect.Pointer && t.In(2).Elem().Kind() == reflect.Struct &&
		t.NumOut() == 1 && t.Out(0) == reflect.TypeFor[error]()
}

// send queues a run, blocking while the client takes nothing. It takes f over, and releases it when the transport has written it
// or dropped it. A run that is queued when its connection breaks may be left to the garbage collector instead.
func (w *frameWriter) send(f chain.Frames) error {
	select {
	case w.queued <- struct{}{}:
	case <-w.ctx.Done():
		f.Release()
		return w.ctx.Err()
	}
	run := newBuffer(f.Bytes, func() {
		f.Release()
		<-w.queued
	})
	defer run.Free()
	if w.framed() {
		return w.sendRun(run)
	}
	return w.sendMessages(run)
}

func (w *frameWriter) sendRun(run mem.Buffer) error {
	results := w.write.Call([]reflect.Value{reflect.ValueOf([]byte(nil)), reflect.ValueOf(mem.BufferSlice{run}), w.options})
	if err, _ := results[0].Interface().(error); err != nil {
		return fmt.Errorf("write a run of blocks: %w: %w", errClientGone, err)
	}
	return nil
}

func (w *frameWriter) sendMessages(run mem.Buffer) error {
	frames := run.ReadOnlyData()
	for start := 0; start < len(frames); {
		message, err := frameAt(frames, start)
		if err != nil {
			return err
		}
		end := start + chain.FramePrefixLen + message
		if err := w.stream.SendMsg(&rawMessage{run.Slice(start+chain.FramePrefixLen, end)}); err != nil {
			return fmt.Errorf("send a block: %w: %w", errClientGone, err)
		}
		start = end
	}
	return nil
}

// frameAt returns the length of the message of the frame that begins at start.
func frameAt(frames []byte, start int) (int, error) {
	rest := frames[start:]
	if len(rest) < chain.FramePrefixLen || rest[0] != 0 {
		return 0, fmt.Errorf("no frame at byte %d of a run of %d", start, len(frames))
	}
	length := binary.BigEndian.Uint32(rest[1:])
	if uint64(length) > uint64(len(rest)-chain.FramePrefixLen) {
		return 0, fmt.Errorf("frame at byte %d of a run of %d has %d bytes", start, len(frames), length)
	}
	return int(length), nil
}

// newBuffer lends b to the transport: done is called once, by whatever goroutine frees the last reference.
func newBuffer(b []byte, done func()) mem.Buffer {
	if mem.IsBelowBufferPoolingThreshold(cap(b)) {
		// Package mem never tells when it is done with so small a buffer.
		b = append(make([]byte, 0, 4<<10), b...)
	}
	return mem.NewBuffer(&b, lender(done))
}

// lender is a mem.BufferPool whose buffers come from elsewhere.
type lender func()

// Get makes a plain buffer; the transport only ever gives back.
func (lender) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put tells the owner that its buffer is free.
func (done lender) Put(*[]byte) { done() }
