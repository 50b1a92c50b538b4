package lightwallet

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/indexrpc"
)

// movingSource is a source of which only the tip matters; nil: not known.
type movingSource struct {
	chain.Source
	tip    atomic.Pointer[chain.BlockID]
	opened atomic.Int64
	closed atomic.Int64
}

type movingView struct {
	chain.View
	source *movingSource
}

func (s *movingSource) View(context.Context) (chain.View, error) {
	s.opened.Add(1)
	return movingView{source: s}, nil
}

func (v movingView) Close() { v.source.closed.Add(1) }

func (v movingView) Tip() (chain.BlockID, error) {
	if tip := v.source.tip.Load(); tip != nil {
		return *tip, nil
	}
	return chain.BlockID{}, fmt.Errorf("no tip: %w", chain.ErrUnavailable)
}

func subscribe(t *testing.T, s *testServer) (grpc.ServerStreamingClient[indexrpc.IndexedTip], context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := indexrpc.NewIndexedTipServiceClient(s.conn(t)).SubscribeIndexedTips(ctx, &indexrpc.SubscribeIndexedTipsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return stream, cancel
}

func TestIndexedTips(t *testing.T) {
	t.Parallel()
	source := &movingSource{}
	s := start(t, &fakeSource{}, func(o *Options, _ *bool) { o.Source = source })

	stream, cancel := subscribe(t, s)
	_, err := stream.Recv()
	requireStatus(t, err, codes.Unavailable, textUnavailable)
	cancel()

	move := func(h chain.Height, hash byte) { source.tip.Store(&chain.BlockID{Height: h, Hash: chain.Hash{hash}}) }
	move(5, 1)
	stream, cancel = subscribe(t, s)
	require := func(h uint32, hash byte) {
		t.Helper()
		got, err := stream.Recv()
		if want := (chain.Hash{hash}); err != nil || got.Height != h || !slices.Equal(got.Hash, want[:]) {
			t.Fatalf("%v, %v; want %d with %s", got, err, h, want)
		}
	}
	require(5, 1)
	move(6, 2)
	require(6, 2)
	move(6, 3) // another block of the same height
	require(6, 3)
	source.tip.Store(nil) // an outage is no change
	time.Sleep(3 * tipInterval)
	move(6, 3)
	time.Sleep(3 * tipInterval)
	move(4, 4) // back
	require(4, 4)

	cancel()
	eventually(t, "the subscription has ended", func() bool { return s.Stats().Streams == 0 })
	_, err = stream.Recv()
	requireStatus(t, err, codes.Canceled, "context canceled")
	if opened, closed := source.opened.Load(), source.closed.Load(); opened != closed {
		t.Errorf("%d views were opened and %d closed", opened, closed)
	}
}

// A stop does not wait for those who would stay for ever.
func TestIndexedTipsEndWithServer(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	stream, cancel := subscribe(t, s)
	defer cancel()
	if tip, err := stream.Recv(); err != nil || tip.Height != 2 {
		t.Fatal(tip, err)
	}
	begin := time.Now()
	ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
	defer end()
	s.Stop(ctx)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if got, err := readAll(stream); err != nil || len(got) != 0 {
		t.Errorf("%v, %v; want the end", got, err)
	}
}
