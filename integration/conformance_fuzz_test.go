package integration

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/lightwallet"
	"github.com/zsidecar/zsidecar/pkg/mempool"
	joined "github.com/zsidecar/zsidecar/pkg/passthrough"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// fuzzed is what a request is made of. Each method takes what it has fields for.
type fuzzed struct {
	a, b   uint64
	bytes  []byte
	text   string
	number int32
	repeat uint16 // how often an element of a list is repeated; its lowest bits leave messages out
}

// request makes the request of a method.
func (f fuzzed) request(method string) proto.Message {
	start, end := id(f.a, f.bytes), id(f.b, nil)
	if f.repeat&1 != 0 {
		start = nil
	}
	if f.repeat&2 != 0 {
		end = nil
	}
	few := int(f.repeat >> 2)
	span := &walletrpc.BlockRange{Start: start, End: end, PoolTypes: slices.Repeat([]walletrpc.PoolType{walletrpc.PoolType(f.number)}, few%5)}
	switch method {
	case getBlock, getBlockNullifiers, getTreeState:
		return id(f.a, f.bytes)
	case getBlockRange, getBlockRangeNullifiers:
		return span
	case getTransaction:
		return &walletrpc.TxFilter{Hash: f.bytes, Block: start, Index: f.b}
	case sendTransaction:
		return &walletrpc.RawTransaction{Data: f.bytes, Height: f.a}
	case getTaddressTransactions, getTaddressTxids:
		return &walletrpc.TransparentAddressBlockFilter{Address: f.text, Range: span}
	case getTaddressBalance:
		return &walletrpc.AddressList{Addresses: slices.Repeat([]string{f.text}, few)}
	case getTaddressBalanceStream:
		return &walletrpc.Address{Address: f.text}
	case getAddressUtxos, getAddressUtxosStream:
		return &walletrpc.GetAddressUtxosArg{Addresses: slices.Repeat([]string{f.text}, few), StartHeight: f.a, MaxEntries: uint32(f.b)}
	case "GetMempoolTx":
		return &walletrpc.GetMempoolTxRequest{ExcludeTxidSuffixes: slices.Repeat([][]byte{f.bytes}, few), PoolTypes: span.PoolTypes}
	case getSubtreeRoots:
		return &walletrpc.GetSubtreeRootsArg{StartIndex: uint32(f.a), MaxEntries: uint32(f.b), ShieldedProtocol: walletrpc.ShieldedProtocol(f.number)}
	case "Ping":
		return &walletrpc.Duration{IntervalUs: int64(f.a)}
	}
	return &walletrpc.Empty{}
}

// decided are the codes that a method may answer with while its node is well.
func decided(method string) []codes.Code {
	list := []codes.Code{codes.OK, codes.InvalidArgument, codes.ResourceExhausted}
	switch method {
	case getBlock, getBlockNullifiers, getBlockRange, getBlockRangeNullifiers, getTreeState:
		return append(list, codes.NotFound, codes.OutOfRange)
	case getTransaction:
		return append(list, codes.NotFound)
	case getMempoolStream, "Ping":
		return append(list, codes.DeadlineExceeded) // the client's
	}
	return list
}

// Bounds of one request.
const (
	fuzzDeadline = 100 * time.Millisecond // of the two methods that may go on
	fuzzLimit    = 5 * time.Second        // of the others
	fuzzMemory   = 64 << 20               // what answering allocates, on both sides and of the node in all
	fuzzInput    = 64 << 10
)

// FuzzRequests: whatever a request holds, it ends with one of the decided codes, nothing panics, and memory stays bounded.
func FuzzRequests(f *testing.F) {
	addFuzzSeeds(f)
	server, w := startFuzzed(f)
	methods := methodNames()
	f.Fuzz(func(t *testing.T, which byte, a, b uint64, data []byte, text string, number int32, repeat uint16) {
		if len(data) > fuzzInput || len(text) > fuzzInput || int(repeat)*max(len(data), len(text)) > 16<<20 {
			t.Skip("too long")
		}
		method := methods[int(which)%len(methods)]
		text = strings.ToValidUTF8(text, "?") // no client of ours can send anything else; raw requests can
		request := fuzzed{a, b, data, text, number, repeat}.request(method)
		if which >= 128 {
			request = raw(data) // whatever it is
		}
		limit := fuzzLimit
		if slices.Contains(decided(method), codes.DeadlineExceeded) {
			limit = fuzzDeadline
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := (&env{wallet: w}).put(ctx, method, request)
		runtime.ReadMemStats(&after)
		if code := status.Code(err); !slices.Contains(decided(method), code) {
			t.Errorf("%s of %v: %v", method, request, err)
		}
		if n := server.Stats().Panics; n != 0 {
			t.Errorf("%s of %v: a handler panicked", method, request)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > fuzzMemory {
			t.Errorf("%s of %d bytes: %d bytes were allocated", method, proto.Size(request), allocated)
		}
	})
}

// addFuzzSeeds adds boundary values of every kind for every method.
func addFuzzSeeds(f *testing.F) {
	heights := []uint64{0, 1, 40, 49, 50, 51, 1<<31 - 1, 1 << 31, 1 << 32, 1<<32 + 1, 1 << 63, 1<<64 - 1}
	texts := []string{keyHash, texAddress, anyoneCanSpend, mainAddress, mainTexAddress, saplingOnly, orchardOnly, "", "tm", "\xff\x00"}
	numbers := []int32{0, 1, 2, 3, 4, 5, 99, -1, -1 << 31}
	lengths := []int{0, 1, 31, 32, 33, 64, 2000}
	for m := range methodNames() {
		for i, h := range heights {
			length := lengths[i%len(lengths)]
			if m%2 == 0 && i < 6 {
				length = 0 // a height alone
			}
			f.Add(byte(m), h, heights[(i*5+m)%len(heights)], make([]byte, length), texts[i%len(texts)], numbers[i%len(numbers)], uint16(i)<<2|uint16(i*m%7))
		}
		f.Add(byte(m), uint64(1), uint64(30), wrongHash, keyHash, int32(1), uint16(10_001)<<2)
		f.Add(byte(m)+140, uint64(0), uint64(0), []byte{0x0a, 100, 1}, "", int32(0), uint16(0))
		f.Add(byte(m)+140, uint64(0), uint64(0), []byte{0x0a, 2, 0xff, 0}, "", int32(0), uint16(0)) // a string that is not UTF-8
		f.Add(byte(m)+140, uint64(0), uint64(0), binary.AppendUvarint([]byte{0x08}, 1<<63), "", int32(0), uint16(0))
	}
}

// startFuzzed serves a simulated node in this process.
func startFuzzed(f *testing.F) (*lightwallet.Server, *wallet) {
	f.Helper()
	n := newSimulatedNode(f, newSimulatedChain(f))
	client, err := zebrarpc.New(zebrarpc.Options{URL: n.URL(), Auth: zebrarpc.Auth{CookieFile: n.CookieFile()}})
	if err != nil {
		f.Fatal(err)
	}
	source := joined.NewJoined(joined.New(client))
	pool := mempool.New(client, mempool.Options{Logger: slog.New(slog.DiscardHandler), Tip: func(ctx context.Context) (chain.BlockID, error) {
		view, err := source.View(ctx)
		if err != nil {
			return chain.BlockID{}, err
		}
		defer view.Close()
		return view.Tip()
	}})
	server, err := lightwallet.New(lightwallet.Options{
		Source: source, Node: client, Mempool: pool, MaxUnaryReply: 1 << 20, Ping: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return client.Watch(ctx) })
	g.Go(func() error { return pool.Run(ctx) })
	g.Go(func() error { return server.Serve(lis) })
	w := dial(f, lis.Addr().String())
	f.Cleanup(func() { // before the node stops
		stopping, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		server.Stop(stopping)
		cancel()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			f.Error(err)
		}
		client.Close()
	})
	awaitAnswer(f, w)
	return server, w
}
