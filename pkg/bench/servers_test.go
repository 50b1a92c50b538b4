package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"path"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/index"
	"github.com/zsidecar/zsidecar/pkg/lightwallet"
	"github.com/zsidecar/zsidecar/pkg/mempool"
	"github.com/zsidecar/zsidecar/pkg/passthrough"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// chainLength is the tip's height in the tests.
const chainLength = 260

// startServer serves a simulated chain from a complete index, and returns the address.
func startServer(t *testing.T, security *tls.Config) string {
	t.Helper()
	client := startNode(t)
	log := slog.New(slog.DiscardHandler)
	store, err := index.Open(t.TempDir(), index.Options{MinFree: -1, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	source := passthrough.NewJoined(passthrough.New(client))
	source.SetIndex(store)
	pool := mempool.New(client, mempool.Options{Logger: log, Tip: func(context.Context) (chain.BlockID, error) {
		tip, ok := store.Tip()
		if !ok {
			return tip, chain.ErrUnavailable
		}
		return tip, nil
	}})
	server, err := lightwallet.New(lightwallet.Options{Source: source, Node: client, Mempool: pool, TLS: security, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return client.Watch(ctx) })
	g.Go(func() error { return pool.Run(ctx) })
	g.Go(func() error { return index.NewBuilder(store, watched{client}, index.BuilderOptions{}).Run(ctx) })
	g.Go(func() error { return server.Serve(lis) })
	t.Cleanup(func() {
		stopping, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		server.Stop(stopping)
		cancel()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(time.Minute); !store.Complete(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the index is not complete")
		}
	}
	return lis.Addr().String()
}

// startNode starts a simulated Zebra and returns a client of it.
func startNode(t *testing.T) *zebrarpc.Client {
	t.Helper()
	simulated, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Test})
	if err != nil {
		t.Fatal(err)
	}
	if err := simulated.Extend(chainLength, zebratest.Mixed); err != nil {
		t.Fatal(err)
	}
	node := zebratest.NewNode(simulated, zebratest.NodeOptions{})
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := zebrarpc.New(zebrarpc.Options{URL: node.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// watched is a client as the builder of an index sees it.
type watched struct{ *zebrarpc.Client }

func (w watched) Tip() (chain.BlockID, error) {
	state := w.Client.Tip()
	if !state.Up() {
		return chain.BlockID{}, chain.ErrUnavailable
	}
	return state.ID, nil
}

func (w watched) Blocks(ctx context.Context, from, to chain.Height) iter.Seq2[chain.Fetched, error] {
	return w.Client.Blocks(ctx, from, to, zebrarpc.Build)
}

// change is what a wrong server does to message n of the answers of a method, counted from 0 in each answer: it returns the messages that it
// sends in its place, or the error with which it ends the answer.
type change func(method string, n int, message []byte) ([][]byte, error)

// raw passes messages on as they are.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }
func (raw) Name() string                       { return "raw" }

// startWrong serves what another server answers, changed.
func startWrong(t *testing.T, behind string, change change) string {
	t.Helper()
	conn, err := grpc.NewClient(behind, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(func(_ any, wallet grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(wallet)
		return pass(wallet, conn, method, change)
	}))
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	t.Cleanup(func() {
		server.Stop()
		conn.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}

// pass passes one call on.
func pass(wallet grpc.ServerStream, conn *grpc.ClientConn, method string, change change) error {
	var request []byte
	if err := wallet.RecvMsg(&request); err != nil {
		return err
	}
	stream, err := conn.NewStream(wallet.Context(), &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := errors.Join(stream.SendMsg(&request), stream.CloseSend()); err != nil {
		return err
	}
	for n := 0; ; n++ {
		var message []byte
		if err := stream.RecvMsg(&message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		messages, err := change(path.Base(method), n, message)
		for _, m := range messages {
			if err := wallet.SendMsg(&m); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}
