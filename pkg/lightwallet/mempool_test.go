package lightwallet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// mempoolTx reads GetMempoolTx to its end.
func (s *testServer) mempoolTx(t testing.TB, req *walletrpc.GetMempoolTxRequest) ([]*walletrpc.CompactTx, error) {
	t.Helper()
	stream, err := s.dial(t).GetMempoolTx(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var txs []*walletrpc.CompactTx
	for {
		tx, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return txs, nil
		}
		if err != nil {
			return txs, err
		}
		txs = append(txs, tx)
	}
}

// wantCompact is what the pools show of the transactions, by way of protobuf messages.
func wantCompact(t testing.TB, txs []*chain.PooledTransaction, pools chain.Pools) []*walletrpc.CompactTx {
	t.Helper()
	full := &walletrpc.CompactBlock{}
	for _, tx := range txs {
		if tx.Parsed == nil {
			continue
		}
		m := &walletrpc.CompactTx{}
		if err := proto.Unmarshal(tx.Parsed.AppendCompactTx(nil, 0, chain.Projection{Pools: chain.AllPools}), m); err != nil {
			t.Fatal(err)
		}
		full.Vtx = append(full.Vtx, m)
	}
	return project(full, chain.Projection{Pools: pools}).Vtx
}

func requireTxs(t *testing.T, what any, got, want []*walletrpc.CompactTx) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%v: got %d transactions, want %d", what, len(got), len(want))
	}
	for i := range got {
		requireEqual(t, got[i], want[i])
	}
}

func TestMempoolTxPools(t *testing.T) {
	t.Parallel()
	const none, transparent, sapling, orchard, ironwood = walletrpc.PoolType_POOL_TYPE_INVALID, walletrpc.PoolType_TRANSPARENT,
		walletrpc.PoolType_SAPLING, walletrpc.PoolType_ORCHARD, walletrpc.PoolType_IRONWOOD
	set := func(pools ...chain.Pool) (s chain.Pools) {
		for _, p := range pools {
			s = s.With(p)
		}
		return s
	}
	for _, options := range [][]testOption{nil, {withFallback}} {
		s := start(t, &fakeSource{blocks: fakeBlocks(3)}, options...)
		// What cannot be parsed is left out, whatever is asked.
		s.pool.txs = pooled(append(mixedTxs(t), bytes.Repeat([]byte{9}, 40))...)
		for _, c := range []struct {
			types []walletrpc.PoolType
			pools chain.Pools
		}{
			{nil, chain.ShieldedPools},
			{[]walletrpc.PoolType{ironwood, sapling, orchard, sapling}, chain.ShieldedPools},
			{[]walletrpc.PoolType{transparent}, set(chain.Transparent)},
			{[]walletrpc.PoolType{sapling}, set(chain.Sapling)},
			{[]walletrpc.PoolType{orchard}, set(chain.Orchard)},
			{[]walletrpc.PoolType{ironwood}, set(chain.Ironwood)},
			{[]walletrpc.PoolType{ironwood, transparent}, set(chain.Ironwood, chain.Transparent)},
			{[]walletrpc.PoolType{transparent, sapling, orchard, ironwood}, chain.AllPools},
		} {
			got, err := s.mempoolTx(t, &walletrpc.GetMempoolTxRequest{PoolTypes: c.types})
			requireStatus(t, err, codes.OK, "")
			requireTxs(t, c.types, got, wantCompact(t, s.pool.txs, c.pools))
		}
		for _, c := range []struct {
			pool walletrpc.PoolType
			text string
		}{{none, "poolTypes: there is no pool 0 (POOL_TYPE_INVALID)"}, {99, "poolTypes: there is no pool 99"}} {
			_, err := s.mempoolTx(t, &walletrpc.GetMempoolTxRequest{PoolTypes: []walletrpc.PoolType{sapling, c.pool}})
			requireStatus(t, err, codes.InvalidArgument, c.text)
		}
	}
}

// fakePooled has an id with the given end and otherwise random bytes.
func fakePooled(end ...byte) *chain.PooledTransaction {
	parsed, err := chain.NewEncoder(chain.EncoderOptions{}).Transaction(chaintest.Tx{Version: 6, Ironwood: 1, Seed: rand.Uint64()}.Append(nil))
	if err != nil {
		panic(err)
	}
	copy(parsed.ID[32-len(end):], end)
	return &chain.PooledTransaction{ID: parsed.ID, Parsed: &parsed, Frame: parsed.AppendTxFrame(nil, chain.DefaultProjection)}
}

func TestMempoolTxExclude(t *testing.T) {
	t.Parallel()
	a, b, c := fakePooled(1, 2, 3), fakePooled(9, 2, 3), fakePooled(3, 2, 1)
	unreadable := &chain.PooledTransaction{ID: chain.TxID{31: 7, 30: 7}, Raw: []byte{1}}
	d := fakePooled(8, 7)
	all := []*chain.PooledTransaction{a, b, c, d}
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	s.pool.txs = append(slices.Clone(all), unreadable)
	sortPooled(s.pool.txs)
	longer := append([]byte{0xee}, a.ID[1:]...)
	for _, test := range []struct {
		name     string
		suffixes [][]byte
		excluded []*chain.PooledTransaction
	}{
		{"none", nil, nil},
		{"empty", [][]byte{{}}, nil},
		{"of one", [][]byte{{1}}, []*chain.PooledTransaction{c}},
		{"of two", [][]byte{{3}}, nil},
		{"of two, longer", [][]byte{{2, 3}}, nil},
		{"enough to tell them apart", [][]byte{{9, 2, 3}}, []*chain.PooledTransaction{b}},
		{"an ambiguous one beside an exact one", [][]byte{{2, 3}, a.ID[:]}, []*chain.PooledTransaction{a}},
		{"both by exact ones", [][]byte{a.ID[:], {2, 3}, b.ID[:]}, []*chain.PooledTransaction{a, b}},
		{"twice the same", [][]byte{c.ID[:], c.ID[:], {1}, {1}}, []*chain.PooledTransaction{c}},
		{"of none", [][]byte{{5}, {1, 1}, longer}, nil},
		{"a prefix is no suffix", [][]byte{a.ID[:3]}, nil},
		{"display order is no suffix", [][]byte{{3, 2, 1}, {1, 2, 3}}, []*chain.PooledTransaction{a, c}},
		{"also of one that cannot be shown", [][]byte{{7}}, nil},
		{"of one beside one that cannot be shown", [][]byte{{8, 7}}, []*chain.PooledTransaction{d}},
		{"all", [][]byte{a.ID[:], b.ID[:], c.ID[:], d.ID[:]}, all},
	} {
		got, err := s.mempoolTx(t, &walletrpc.GetMempoolTxRequest{ExcludeTxidSuffixes: test.suffixes})
		requireStatus(t, err, codes.OK, "")
		left := slices.DeleteFunc(slices.Clone(s.pool.txs), func(tx *chain.PooledTransaction) bool { return slices.Contains(test.excluded, tx) })
		requireTxs(t, test.name, got, wantCompact(t, left, chain.ShieldedPools))
	}

	// An empty suffix fits a single transaction too, but says nothing about it.
	s.pool.txs = []*chain.PooledTransaction{a}
	got, err := s.mempoolTx(t, &walletrpc.GetMempoolTxRequest{ExcludeTxidSuffixes: [][]byte{{}}})
	if err != nil || len(got) != 1 {
		t.Errorf("%d transactions, %v", len(got), err)
	}
}

func TestMempoolTxLimits(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	s.pool.txs = []*chain.PooledTransaction{fakePooled(5)}
	many := make([][]byte, 20_001)
	for i := range many {
		many[i] = binary.BigEndian.AppendUint32(make([]byte, 28), uint32(i)<<8)
	}
	got, err := s.mempoolTx(t, &walletrpc.GetMempoolTxRequest{ExcludeTxidSuffixes: many[:20_000]})
	if err != nil || len(got) != 1 {
		t.Errorf("20,000 suffixes: %d transactions, %v", len(got), err)
	}
	_, err = s.mempoolTx(t, &walletrpc.GetMempoolTxRequest{ExcludeTxidSuffixes: many})
	requireStatus(t, err, codes.InvalidArgument, "exclude_txid_suffixes: there are 20001, more than 20000")
	_, err = s.mempoolTx(t, &walletrpc.GetMempoolTxRequest{ExcludeTxidSuffixes: [][]byte{make([]byte, 32), make([]byte, 33)}})
	requireStatus(t, err, codes.InvalidArgument, "exclude_txid_suffixes: number 1 has 33 bytes, more than the 32 of a transaction id")

	for _, c := range []struct {
		err  error
		code codes.Code
		text string
	}{
		{fmt.Errorf("http://secret: %w", chain.ErrUnavailable), codes.Unavailable, textUnavailable},
		{fmt.Errorf("http://secret: %w", chain.ErrNode), codes.Unavailable, textUnavailable},
		{chain.ErrBusy, codes.ResourceExhausted, textBusy},
	} {
		s.pool.err = c.err
		_, err = s.mempoolTx(t, &walletrpc.GetMempoolTxRequest{})
		requireStatus(t, err, c.code, c.text)
	}
}

// Many transactions leave in runs of bounded size and arrive one by one.
func TestMempoolTxRuns(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	for range 2000 {
		s.pool.txs = append(s.pool.txs, fakePooled())
	}
	sortPooled(s.pool.txs)
	got, err := s.mempoolTx(t, &walletrpc.GetMempoolTxRequest{})
	requireStatus(t, err, codes.OK, "")
	requireTxs(t, "all", got, wantCompact(t, s.pool.txs, chain.ShieldedPools))
}

// follow begins a GetMempoolStream and waits for its headers.
func (s *testServer) follow(t *testing.T) grpc.ServerStreamingClient[walletrpc.RawTransaction] {
	t.Helper()
	stream, err := s.dial(t).GetMempoolStream(t.Context(), &walletrpc.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	return stream
}

func TestMempoolStream(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	// A transaction that we cannot parse may be one that the wallet can.
	raw := append(mixedTxs(t), bytes.Repeat([]byte{9}, 40))
	s.pool.txs = pooled(raw...)
	stream := s.follow(t)
	receive := func(want ...*chain.PooledTransaction) {
		t.Helper()
		for _, tx := range want {
			got, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			requireEqual(t, got, &walletrpc.RawTransaction{Data: tx.Raw})
		}
	}
	receive(s.pool.txs...)
	more := pooled(chaintest.Tx{Version: 5, Orchard: 1, Seed: 99}.Append(nil))
	s.pool.batches <- more
	receive(more...)
	close(s.pool.batches) // another tip
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end", err)
	}
}

func TestMempoolStreamErrors(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	s.pool.err = fmt.Errorf("http://secret: %w", chain.ErrUnavailable)
	_, err := s.follow(t).Recv()
	requireStatus(t, err, codes.Unavailable, textUnavailable)

	s.pool.err = nil
	stream := s.follow(t)
	s.pool.followErr = fmt.Errorf("http://secret: an HTML page: %w", chain.ErrNode)
	s.pool.batches <- nil
	_, err = stream.Recv()
	requireStatus(t, err, codes.Unavailable, textUnavailable)
}

// A stream without an end of its own does not hold up the stop, and does not look as if a block had come.
func TestMempoolStreamStop(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	stream := s.follow(t)
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s.Stop(ctx)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	_, err := stream.Recv()
	requireStatus(t, err, codes.Unavailable, textUnavailable)
}

func benchPool(n int) []*chain.PooledTransaction {
	txs := make([]*chain.PooledTransaction, n)
	parsed := fakePooled()
	for i := range txs {
		txs[i] = &chain.PooledTransaction{Parsed: parsed.Parsed, Frame: parsed.Frame}
		for j := range 4 {
			binary.BigEndian.PutUint64(txs[i].ID[8*j:], rand.Uint64())
		}
	}
	sortPooled(txs)
	return txs
}

// The goal is 50 ms for 20,000 suffixes and 50,000 transactions.
func BenchmarkMatchedAlone(b *testing.B) {
	txs := benchPool(50_000)
	for _, length := range []int{4, 32} {
		b.Run(fmt.Sprint(length), func(b *testing.B) {
			suffixes := make([][]byte, 20_000)
			for i := range suffixes {
				suffixes[i] = txs[rand.IntN(len(txs))].ID[32-length:]
			}
			for b.Loop() {
				matchedAlone(txs, suffixes)
			}
		})
	}
}

// The goal is 10 ms for 5,000 transactions.
func BenchmarkGetMempoolTx(b *testing.B) {
	s := start(b, &fakeSource{blocks: fakeBlocks(3)})
	s.pool.txs = benchPool(5000)
	conn := s.conn(b, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newCodec())))
	for b.Loop() {
		stream, err := conn.NewStream(b.Context(), &grpc.StreamDesc{ServerStreams: true}, walletrpc.CompactTxStreamer_GetMempoolTx_FullMethodName)
		if err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(stream.SendMsg(&walletrpc.GetMempoolTxRequest{}), stream.CloseSend()); err != nil {
			b.Fatal(err)
		}
		n := 0
		for ; err == nil; n++ {
			err = stream.RecvMsg(&request{limit: -1}) // counts, and does not decode
		}
		if !errors.Is(err, io.EOF) || n != 5001 {
			b.Fatal(n, err)
		}
	}
}
