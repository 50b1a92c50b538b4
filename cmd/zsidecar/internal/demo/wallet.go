package demo

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// wallet is a client as a wallet has one.
type wallet struct {
	conn   *grpc.ClientConn
	client walletrpc.CompactTxStreamerClient
}

func dial(addr string) (*wallet, error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return &wallet{conn: conn, client: walletrpc.NewCompactTxStreamerClient(conn)}, nil
}

// tip asks for the newest block.
func (w *wallet) tip(ctx context.Context) (chain.BlockID, error) {
	id, err := w.client.GetLatestBlock(ctx, &walletrpc.ChainSpec{})
	if err != nil {
		return chain.BlockID{}, err
	}
	if len(id.Hash) != len(chain.Hash{}) || id.Height > uint64(chain.MaxHeight) {
		return chain.BlockID{}, fmt.Errorf("GetLatestBlock answered height %d and a hash of %d bytes", id.Height, len(id.Hash))
	}
	return chain.BlockID{Height: chain.Height(id.Height), Hash: chain.Hash(id.Hash)}, nil
}

// firstTip asks until there is an answer.
func (w *wallet) firstTip(ctx context.Context) (chain.BlockID, error) {
	for {
		id, err := w.tip(ctx)
		if err == nil {
			return id, nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return id, err
		}
	}
}

// stream is what a range of blocks came to.
type stream struct {
	blocks, bytes uint64
	digest        [sha256.Size]byte // over the messages, each with its length
	took          time.Duration
}

func (s stream) blocksPerSecond() uint64 { return uint64(float64(s.blocks) / s.took.Seconds()) }

// readRange reads the default range from..to without decoding the blocks, as fast as they come. With digest it hashes them.
func (w *wallet) readRange(ctx context.Context, from, to chain.Height, digest bool) (stream, error) {
	start := time.Now()
	messages, err := w.client.GetBlockRange(ctx, &walletrpc.BlockRange{
		Start: &walletrpc.BlockID{Height: uint64(from)}, End: &walletrpc.BlockID{Height: uint64(to)},
	}, grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		return stream{}, err
	}
	var s stream
	var sum hash.Hash
	if digest {
		sum = sha256.New()
	}
	block := frame{sum: sum}
	for {
		err := messages.RecvMsg(&block)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return s, fmt.Errorf("blocks %d to %d, after %d of them: %w", from, to, s.blocks, err)
		}
		s.blocks++
		s.bytes += uint64(block.length)
	}
	s.took = time.Since(start)
	if digest {
		sum.Sum(s.digest[:0])
	}
	return s, nil
}

// frame is a message that is counted, and hashed if there is a sum, but not decoded.
type frame struct {
	length int
	sum    hash.Hash
}

// rawCodec fills frames, and encodes requests as usual.
type rawCodec struct{}

// Name implements encoding.CodecV2.
func (rawCodec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("a %T is no request", v)
	}
	b, err := proto.Marshal(m)
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

// Unmarshal implements encoding.CodecV2.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("a %T takes no bytes", v)
	}
	f.length = data.Len()
	if f.sum != nil {
		fmt.Fprintf(f.sum, "%d ", f.length)
		for _, b := range data {
			f.sum.Write(b.ReadOnlyData())
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
