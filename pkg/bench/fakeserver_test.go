package bench

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// fakeServerVariable makes the test binary a server; its value says of which kind.
const fakeServerVariable = "ZSIDECAR_BENCH_FAKE"

// fakeServer serves the node's chain as far as it has read it. It has no more than what a start is measured with.
type fakeServer struct {
	walletrpc.UnimplementedCompactTxStreamerServer
	how    string
	node   *node
	height atomic.Uint32 // what it has built
	live   bool          // it goes on with the node

	mu  sync.Mutex // guards tip, which a slow one serves
	tip *walletrpc.CompactBlock
}

// servers in the test's own process follow the node. Kinds: "good"; "late" never serves a new block; "strange" serves a tip that the node
// does not have; "unlinked" blocks name another parent; "mixing" ranges take each block as the node has it then; "orphan" goes on giving
// blocks that the node no longer has; "forgetful" leaves one transaction of the mempool out; "double" streams one twice; "slow"
// looks at the node three times a second.
func startFake(t *testing.T, how string, n *zebratest.Node) TargetOptions {
	t.Helper()
	asker, err := newNode(NodeOptions{URL: n.URL()}, false)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeServer{how: how, node: asker, live: true}
	f.height.Store(uint32(n.Chain().Tip().Height))
	s := grpc.NewServer()
	walletrpc.RegisterCompactTxStreamerServer(s, f)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	ctx, cancel := context.WithCancel(context.Background())
	var looking sync.WaitGroup
	if how == "slow" {
		looking.Go(func() { f.lookSlowly(ctx) })
		if err := poll(t.Context(), time.Minute, func() (bool, error) { _, err := f.slowTip(); return err == nil, nil }); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { s.Stop(); <-served; cancel(); looking.Wait(); asker.close() })
	return TargetOptions{Name: how, Address: l.Addr().String()}
}

// serveFake runs until SIGTERM. Kinds: "good"; "dies" while it builds; "silent" accepts connections and never answers; "stuck" below the
// tip; "lies" about the hash of the tip; "stays" when it is told to end.
//
// A "parent" serves nothing: it starts a process that would run long, says which, and does not care for it.
func serveFake(how string, args []string) error {
	if how == "parent" {
		c, err := startChild("sleeper", "sleep 1000", args[0])
		if err != nil {
			return err
		}
		fmt.Println(c.pid())
		select {}
	}
	flags := flag.NewFlagSet("fake", flag.ExitOnError)
	grpcAddr, httpAddr := flags.String("grpc", "", ""), flags.String("http", "", "")
	dir, url := flags.String("dir", "", ""), flags.String("zebra", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	fmt.Println("a fake server that is", how)
	n, err := newNode(NodeOptions{URL: *url}, false)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", *grpcAddr)
	if err != nil {
		return err
	}
	if how == "silent" {
		select {}
	}
	f := &fakeServer{how: how, node: n}
	s := grpc.NewServer()
	walletrpc.RegisterCompactTxStreamerServer(s, f)
	go func() { _ = s.Serve(l) }()
	tip, err := n.tip(context.Background())
	if err != nil {
		return err
	}
	if *httpAddr != "" {
		go func() { _ = http.ListenAndServe(*httpAddr, http.HandlerFunc(f.health(tip.height))) }()
	}
	if err := f.build(tip.height, *dir); err != nil {
		return err
	}
	if how == "stays" {
		select {}
	}
	<-terminated
	os.Exit(0)
	return nil
}

// build "indexes" a few blocks at a time.
func (f *fakeServer) build(tip uint32, dir string) error {
	file := filepath.Join(dir, "index")
	if _, err := os.Stat(file); err == nil {
		f.height.Store(tip) // a start on what is there
		return nil
	}
	for h := uint32(0); h < tip; h = min(h+5, tip) {
		if f.how == "dies" && h > 0 {
			return errors.New("disk on fire")
		}
		if f.how == "stuck" && h > tip/2 {
			select {}
		}
		f.height.Store(h)
		time.Sleep(60 * time.Millisecond)
	}
	if err := os.WriteFile(file, make([]byte, 100_000), 0o600); err != nil {
		return err
	}
	f.height.Store(tip)
	return nil
}

func (f *fakeServer) health(tip uint32) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		state := "building"
		if f.height.Load() == tip {
			state = "complete"
		}
		fmt.Fprintf(w, `{"ready":true,"index":{"state":%q,"height":%d}}`, state, f.height.Load())
	}
}

func (f *fakeServer) block(ctx context.Context, height uint32) (*walletrpc.CompactBlock, error) {
	hash, err := f.hash(ctx, height)
	if err != nil {
		return nil, err
	}
	b := &walletrpc.CompactBlock{Height: uint64(height), Hash: hash, ChainMetadata: &walletrpc.ChainMetadata{}}
	if height > 0 {
		if b.PrevHash, err = f.hash(ctx, height-1); err != nil {
			return nil, err
		}
	}
	if f.how == "lies" || f.how == "strange" && height > f.height.Load() {
		b.Hash[0] ^= 1
	}
	if f.how == "unlinked" {
		b.PrevHash[0] ^= 1
	}
	return b, nil
}

func (f *fakeServer) hash(ctx context.Context, height uint32) ([]byte, error) {
	text, err := f.node.hashAt(ctx, height)
	if err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	hash, err := hex.DecodeString(text)
	slices.Reverse(hash)
	return hash, err
}

func (f *fakeServer) GetLatestBlock(ctx context.Context, _ *walletrpc.ChainSpec) (*walletrpc.BlockID, error) {
	height := f.height.Load()
	if height == 0 {
		return nil, status.Error(codes.Unavailable, "nothing yet")
	}
	if f.how == "slow" {
		b, err := f.slowTip()
		return &walletrpc.BlockID{Height: b.GetHeight(), Hash: b.GetHash()}, err
	}
	if f.live && f.how != "late" {
		tip, err := f.node.tip(ctx)
		if err != nil {
			return nil, err
		}
		height = tip.height
	}
	b, err := f.block(ctx, height)
	if err != nil {
		return nil, err
	}
	return &walletrpc.BlockID{Height: b.Height, Hash: b.Hash}, nil
}

func (f *fakeServer) slowTip() (*walletrpc.CompactBlock, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tip == nil {
		return nil, status.Error(codes.Unavailable, "nothing yet")
	}
	return f.tip, nil
}

// lookSlowly reads the node's tip now and then, until ctx ends.
func (f *fakeServer) lookSlowly(ctx context.Context) {
	for ctx.Err() == nil {
		if tip, err := f.node.tip(ctx); err == nil {
			if b, err := f.block(ctx, tip.height); err == nil {
				f.mu.Lock()
				f.tip = b
				f.mu.Unlock()
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func (f *fakeServer) GetBlock(ctx context.Context, id *walletrpc.BlockID) (*walletrpc.CompactBlock, error) {
	switch {
	case len(id.Hash) == 0 && f.how == "slow":
		return f.slowTip()
	case len(id.Hash) == 0:
		return f.block(ctx, uint32(id.Height))
	case f.how == "orphan":
		return &walletrpc.CompactBlock{Hash: id.Hash}, nil
	}
	return nil, status.Error(codes.NotFound, "no such block")
}

// GetBlockRange has all blocks but the last before it sends the first, and waits until the chain has moved before it asks for that.
func (f *fakeServer) GetBlockRange(r *walletrpc.BlockRange, stream grpc.ServerStreamingServer[walletrpc.CompactBlock]) error {
	ctx := stream.Context()
	tip, err := f.node.tip(ctx)
	if err != nil {
		return err
	}
	first, err := f.block(ctx, uint32(r.Start.Height))
	blocks := []*walletrpc.CompactBlock{first}
	for h := r.Start.Height + 1; h < r.End.Height && err == nil; h++ {
		b := &walletrpc.CompactBlock{Height: h, PrevHash: blocks[len(blocks)-1].Hash}
		b.Hash, err = f.hash(ctx, uint32(h))
		blocks = append(blocks, b)
	}
	for _, b := range blocks {
		if err == nil {
			err = stream.Send(b)
		}
	}
	if err != nil {
		return err
	}
	err = poll(ctx, time.Minute, func() (bool, error) {
		now, err := f.node.tip(ctx)
		return now != tip, err
	})
	if err != nil {
		return err
	}
	last, err := f.block(ctx, uint32(r.End.Height))
	if err == nil && f.how != "mixing" && !slices.Equal(last.PrevHash, blocks[len(blocks)-1].Hash) {
		err = status.Error(codes.Aborted, "the chain has moved")
	}
	if err != nil {
		return err
	}
	return stream.Send(last)
}

func (f *fakeServer) mempool(ctx context.Context, without [][]byte) ([][]byte, error) {
	texts, err := f.node.mempool(ctx)
	if err != nil {
		return nil, err
	}
	var ids [][]byte
	for _, text := range texts {
		id, err := hex.DecodeString(text)
		if err != nil {
			return nil, err
		}
		slices.Reverse(id)
		if !slices.ContainsFunc(without, func(w []byte) bool { return bytes.Equal(w, id) }) {
			ids = append(ids, id)
		}
	}
	if f.how == "forgetful" && len(without) > 0 {
		ids = ids[1:]
	}
	return ids, nil
}

func (f *fakeServer) GetMempoolTx(r *walletrpc.GetMempoolTxRequest, stream grpc.ServerStreamingServer[walletrpc.CompactTx]) error {
	ids, err := f.mempool(stream.Context(), r.ExcludeTxidSuffixes)
	for _, id := range ids {
		err = errors.Join(err, stream.Send(&walletrpc.CompactTx{Txid: id}))
	}
	return err
}

func (f *fakeServer) GetMempoolStream(_ *walletrpc.Empty, stream grpc.ServerStreamingServer[walletrpc.RawTransaction]) error {
	ids, err := f.mempool(stream.Context(), nil)
	for i, id := range ids {
		if f.how == "double" && i > 0 {
			id = ids[0]
		}
		var text string
		err = errors.Join(err, f.node.call(stream.Context(), &text, "getrawtransaction", displayHex(id)))
		raw, _ := hex.DecodeString(text) // the test sees what is missing
		err = errors.Join(err, stream.Send(&walletrpc.RawTransaction{Data: raw}))
	}
	return err
}

func (f *fakeServer) GetLightdInfo(context.Context, *walletrpc.Empty) (*walletrpc.LightdInfo, error) {
	return &walletrpc.LightdInfo{Vendor: "fake", Version: f.how, ChainName: "regtest"}, nil
}
