package lightwallet

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

const tip = 40 // of the chains in these tests

func byHeight(h uint64) *walletrpc.BlockID { return &walletrpc.BlockID{Height: h} }

func byHash(b *walletrpc.CompactBlock) *walletrpc.BlockID { return &walletrpc.BlockID{Hash: b.Hash} }

func both(h uint64, b *walletrpc.CompactBlock) *walletrpc.BlockID {
	return &walletrpc.BlockID{Height: h, Hash: b.Hash}
}

func TestGetBlock(t *testing.T) {
	t.Parallel()
	blocks := fakeBlocks(tip + 1)
	all := chain.Projection{Pools: chain.AllPools, KeepEmpty: true}
	servers := map[chain.Pools]*testServer{}
	for _, pools := range []chain.Pools{0, chain.AllPools, chain.ShieldedPools} {
		servers[pools] = start(t, &fakeSource{blocks: blocks}, func(o *Options, _ *bool) { o.GetBlockPools = pools })
	}
	for _, c := range []struct {
		name  string
		pools chain.Pools
		id    *walletrpc.BlockID
		want  int
		p     chain.Projection
	}{
		{"height", 0, byHeight(7), 7, all},
		{"height, all pools", chain.AllPools, byHeight(11), 11, all},
		{"height, shielded", chain.ShieldedPools, byHeight(11), 11, chain.DefaultProjection},
		{"tip", 0, byHeight(tip), tip, all},
		{"hash", 0, byHash(blocks[13]), 13, all},
		{"hash of genesis", 0, byHash(blocks[0]), 0, all},
		{"both", 0, both(3, blocks[3]), 3, all},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := servers[c.pools].dial(t).GetBlock(t.Context(), c.id)
			if err != nil {
				t.Fatal(err)
			}
			requireEqual(t, got, project(blocks[c.want], c.p))
		})
	}
	t.Run("nullifiers", func(t *testing.T) {
		for h := range uint64(tip) {
			got, err := servers[0].dial(t).GetBlockNullifiers(t.Context(), byHeight(h+1))
			if err != nil {
				t.Fatal(err)
			}
			requireEqual(t, got, project(blocks[h+1], chain.Projection{Pools: chain.ShieldedPools, NullifiersOnly: true}))
		}
	})
}

func TestGetLatestBlock(t *testing.T) {
	t.Parallel()
	blocks := fakeBlocks(tip + 1)
	got, err := start(t, &fakeSource{blocks: blocks}).dial(t).GetLatestBlock(t.Context(), &walletrpc.ChainSpec{})
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, got, both(tip, blocks[tip]))
}

func requireEqual(t *testing.T, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
}

// readRange reads a range to its end.
func readRange(t *testing.T, open func() (grpc.ServerStreamingClient[walletrpc.CompactBlock], error)) ([]*walletrpc.CompactBlock, error) {
	t.Helper()
	stream, err := open()
	if err != nil {
		t.Fatal(err)
	}
	var got []*walletrpc.CompactBlock
	for {
		b, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, b)
	}
}

func (s *testServer) blockRange(t *testing.T, req *walletrpc.BlockRange) ([]*walletrpc.CompactBlock, error) {
	t.Helper()
	return readRange(t, func() (grpc.ServerStreamingClient[walletrpc.CompactBlock], error) {
		return s.dial(t).GetBlockRange(t.Context(), req)
	})
}

func TestGetBlockRange(t *testing.T) {
	t.Parallel()
	blocks := fakeBlocks(tip + 1)
	s := start(t, &fakeSource{blocks: blocks})
	tail := "is above the tip 40"
	for _, c := range []struct {
		name       string
		start, end *walletrpc.BlockID
		from, to   int // what is sent; from < 0: nothing
		code       codes.Code
		text       string
	}{
		{"one", byHeight(5), byHeight(5), 5, 5, codes.OK, ""},
		{"ascending", byHeight(3), byHeight(29), 3, 29, codes.OK, ""},
		{"descending", byHeight(29), byHeight(3), 29, 3, codes.OK, ""},
		{"empty ids are height 0", byHeight(0), byHeight(0), 0, 0, codes.OK, ""},
		{"the whole chain", byHeight(0), byHeight(tip), 0, tip, codes.OK, ""},
		{"the whole chain, descending", byHeight(tip), byHeight(0), tip, 0, codes.OK, ""},
		{"hashes alone", byHash(blocks[4]), byHash(blocks[20]), 4, 20, codes.OK, ""},
		{"hashes alone, descending", byHash(blocks[20]), byHash(blocks[4]), 20, 4, codes.OK, ""},
		{"hash of genesis", byHash(blocks[0]), byHeight(2), 0, 2, codes.OK, ""},
		{"heights and hashes", both(4, blocks[4]), both(tip, blocks[tip]), 4, tip, codes.OK, ""},
		{"past the tip", byHeight(30), byHeight(50), 30, tip, codes.OutOfRange, "height 50 " + tail},
		{"from the tip on", byHeight(tip), byHeight(tip + 1), tip, tip, codes.OutOfRange, "height 41 " + tail},
		{"above the tip", byHeight(41), byHeight(50), -1, 0, codes.OutOfRange, "height 41 " + tail},
		{"above the tip, descending", byHeight(50), byHeight(30), -1, 0, codes.OutOfRange, "height 50 " + tail},
		{"end 2^31-1", byHeight(39), byHeight(math.MaxInt32), 39, tip, codes.OutOfRange, "height 2147483647 " + tail},
		{"end 2^31", byHeight(39), byHeight(1 << 31), 39, tip, codes.OutOfRange, "height 2147483648 " + tail},
		{"end 2^32", byHeight(39), byHeight(1 << 32), 39, tip, codes.OutOfRange, "height 4294967296 " + tail},
		{"end 2^32+5", byHeight(39), byHeight(1<<32 + 5), 39, tip, codes.OutOfRange, "height 4294967301 " + tail},
		{"end 2^64-1", byHeight(39), byHeight(math.MaxUint64), 39, tip, codes.OutOfRange, "height 18446744073709551615 " + tail},
		{"start 2^31", byHeight(1 << 31), byHeight(3), -1, 0, codes.OutOfRange, "height 2147483648 " + tail},
		{"start 2^32", byHeight(1 << 32), byHeight(3), -1, 0, codes.OutOfRange, "height 4294967296 " + tail},
		{"start 2^63", byHeight(1 << 63), byHeight(1 << 63), -1, 0, codes.OutOfRange, "height 9223372036854775808 " + tail},
		{"start 2^64-1", byHeight(math.MaxUint64), byHeight(0), -1, 0, codes.OutOfRange, "height 18446744073709551615 " + tail},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := s.blockRange(t, &walletrpc.BlockRange{Start: c.start, End: c.end})
			requireStatus(t, err, c.code, c.text)
			var want []chain.Height
			if c.from >= 0 {
				want = heightsOf(chain.Height(c.from), chain.Height(c.to))
			}
			if len(got) != len(want) {
				t.Fatalf("got %d blocks, want %d", len(got), len(want))
			}
			for i, h := range want {
				requireEqual(t, got[i], project(blocks[h], chain.DefaultProjection))
			}
		})
	}
}

func TestPoolFilter(t *testing.T) {
	t.Parallel()
	blocks := fakeBlocks(tip + 1)
	s := start(t, &fakeSource{blocks: blocks})
	const tr, sa, or, ir = walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING, walletrpc.PoolType_ORCHARD, walletrpc.PoolType_IRONWOOD
	set := func(pools ...chain.Pool) (s chain.Pools) {
		for _, p := range pools {
			s = s.With(p)
		}
		return s
	}
	for _, c := range []struct {
		asked          []walletrpc.PoolType
		pools, reduced chain.Pools // of GetBlockRange, of GetBlockRangeNullifiers
	}{
		{nil, chain.ShieldedPools, chain.ShieldedPools},
		{[]walletrpc.PoolType{tr}, set(chain.Transparent), chain.ShieldedPools},
		{[]walletrpc.PoolType{sa}, set(chain.Sapling), set(chain.Sapling)},
		{[]walletrpc.PoolType{or}, set(chain.Orchard), set(chain.Orchard)},
		{[]walletrpc.PoolType{ir}, set(chain.Ironwood), set(chain.Ironwood)},
		{[]walletrpc.PoolType{ir, or, sa}, chain.ShieldedPools, chain.ShieldedPools},
		{[]walletrpc.PoolType{tr, tr, ir, tr}, set(chain.Transparent, chain.Ironwood), set(chain.Ironwood)},
		{[]walletrpc.PoolType{ir, tr, or, sa, sa}, chain.AllPools, chain.ShieldedPools},
	} {
		t.Run(fmt.Sprint(c.asked), func(t *testing.T) {
			req := &walletrpc.BlockRange{Start: byHeight(0), End: byHeight(tip), PoolTypes: c.asked}
			got, err := s.blockRange(t, req)
			requireStatus(t, err, codes.OK, "")
			reduced, err := readRange(t, func() (grpc.ServerStreamingClient[walletrpc.CompactBlock], error) {
				return s.dial(t).GetBlockRangeNullifiers(t.Context(), req)
			})
			requireStatus(t, err, codes.OK, "")
			if len(got) != tip+1 || len(reduced) != tip+1 {
				t.Fatalf("got %d and %d blocks", len(got), len(reduced))
			}
			for h := range blocks {
				requireEqual(t, got[h], project(blocks[h], chain.Projection{Pools: c.pools}))
				requireEqual(t, reduced[h], project(blocks[h], chain.Projection{Pools: c.reduced, NullifiersOnly: true}))
			}
		})
	}
}

// requireStatus checks the code and the whole text.
func requireStatus(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	st, ok := status.FromError(err)
	if !ok || st.Code() != code || st.Message() != text {
		t.Fatalf("got  %v %q\nwant %v %q", st.Code(), st.Message(), code, text)
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	blocks := fakeBlocks(tip + 1)
	s := start(t, &fakeSource{blocks: blocks})
	unknown := &walletrpc.BlockID{Hash: []byte(strings.Repeat("u", 32))}
	const unknownText = "no block has the hash 7575757575757575757575757575757575757575757575757575757575757575"
	mismatch := fmt.Sprintf("block %s has the height 7, not 8", chain.Hash(blocks[7].Hash))
	short, long := make([]byte, 31), make([]byte, 33)

	for _, c := range []struct {
		name string
		id   *walletrpc.BlockID
		code codes.Code
		text string
	}{
		{"empty", byHeight(0), codes.InvalidArgument, "block: neither a height above 0 nor a hash is given"},
		{"31 bytes", &walletrpc.BlockID{Hash: short}, codes.InvalidArgument, "block: a block hash has 32 bytes, not 31"},
		{"33 bytes beside a height", &walletrpc.BlockID{Height: 5, Hash: long}, codes.InvalidArgument, "block: a block hash has 32 bytes, not 33"},
		{"unknown hash", unknown, codes.NotFound, unknownText},
		{"unknown hash beside a height", &walletrpc.BlockID{Height: 5, Hash: unknown.Hash}, codes.NotFound, unknownText},
		{"hash of another height", both(8, blocks[7]), codes.NotFound, mismatch},
		{"above the tip", byHeight(41), codes.OutOfRange, "height 41 is above the tip 40"},
		{"2^31", byHeight(1 << 31), codes.OutOfRange, "height 2147483648 is above the tip 40"},
		{"2^32", byHeight(1 << 32), codes.OutOfRange, "height 4294967296 is above the tip 40"},
		{"2^32+7", byHeight(1<<32 + 7), codes.OutOfRange, "height 4294967303 is above the tip 40"},
		{"2^63", byHeight(1 << 63), codes.OutOfRange, "height 9223372036854775808 is above the tip 40"},
		{"2^64-1", byHeight(math.MaxUint64), codes.OutOfRange, "height 18446744073709551615 is above the tip 40"},
	} {
		t.Run("GetBlock/"+c.name, func(t *testing.T) {
			_, err := s.dial(t).GetBlock(t.Context(), c.id)
			requireStatus(t, err, c.code, c.text)
			_, err = s.dial(t).GetBlockNullifiers(t.Context(), c.id)
			requireStatus(t, err, c.code, c.text)
		})
	}

	for _, c := range []struct {
		name string
		req  *walletrpc.BlockRange
		code codes.Code
		text string
	}{
		{"empty", &walletrpc.BlockRange{}, codes.InvalidArgument, "start is missing"},
		{"no start", &walletrpc.BlockRange{End: byHeight(3)}, codes.InvalidArgument, "start is missing"},
		{"no end", &walletrpc.BlockRange{Start: byHeight(3)}, codes.InvalidArgument, "end is missing"},
		{"start of 31 bytes", &walletrpc.BlockRange{Start: &walletrpc.BlockID{Hash: short}, End: byHeight(3)}, codes.InvalidArgument, "start: a block hash has 32 bytes, not 31"},
		{"end of 33 bytes", &walletrpc.BlockRange{Start: byHeight(3), End: &walletrpc.BlockID{Hash: long}}, codes.InvalidArgument, "end: a block hash has 32 bytes, not 33"},
		{"unknown start", &walletrpc.BlockRange{Start: unknown, End: byHeight(3)}, codes.NotFound, unknownText},
		{"unknown end", &walletrpc.BlockRange{Start: byHeight(3), End: unknown}, codes.NotFound, unknownText},
		{"start of another height", &walletrpc.BlockRange{Start: both(8, blocks[7]), End: byHeight(9)}, codes.NotFound, mismatch},
		{"end of another height", &walletrpc.BlockRange{Start: byHeight(3), End: both(8, blocks[7])}, codes.NotFound, mismatch},
		{"pool 0", &walletrpc.BlockRange{Start: byHeight(3), End: byHeight(3), PoolTypes: []walletrpc.PoolType{2, 0}}, codes.InvalidArgument, "poolTypes: there is no pool 0 (POOL_TYPE_INVALID)"},
		{"pool 5", &walletrpc.BlockRange{Start: byHeight(3), End: byHeight(3), PoolTypes: []walletrpc.PoolType{5}}, codes.InvalidArgument, "poolTypes: there is no pool 5"},
		{"pool 99", &walletrpc.BlockRange{Start: byHeight(3), End: byHeight(3), PoolTypes: []walletrpc.PoolType{99, 2}}, codes.InvalidArgument, "poolTypes: there is no pool 99"},
		{"pool -1", &walletrpc.BlockRange{Start: byHeight(3), End: byHeight(3), PoolTypes: []walletrpc.PoolType{-1}}, codes.InvalidArgument, "poolTypes: there is no pool -1"},
		{"pool 257", &walletrpc.BlockRange{Start: byHeight(3), End: byHeight(3), PoolTypes: []walletrpc.PoolType{257}}, codes.InvalidArgument, "poolTypes: there is no pool 257"},
	} {
		t.Run("GetBlockRange/"+c.name, func(t *testing.T) {
			got, err := s.blockRange(t, c.req)
			requireStatus(t, err, c.code, c.text)
			reduced, err := readRange(t, func() (grpc.ServerStreamingClient[walletrpc.CompactBlock], error) {
				return s.dial(t).GetBlockRangeNullifiers(t.Context(), c.req)
			})
			requireStatus(t, err, c.code, c.text)
			if len(got)+len(reduced) != 0 {
				t.Fatal("blocks came before the refusal")
			}
		})
	}
}

// What a source must not do is never passed on as a good answer.
func TestBadSource(t *testing.T) {
	t.Parallel()
	blocks := fakeBlocks(tip + 1)
	onRun := func(n int, change func(f *chain.Frames)) func(int, *chain.Frames) {
		return func(run int, f *chain.Frames) {
			if run == n {
				change(f)
			}
		}
	}
	fail := func(err error) func(t *fakeSource) {
		return func(s *fakeSource) {
			s.before = failAt(2, err)
		}
	}
	mangle := func(n int, change func(f *chain.Frames)) func(*fakeSource) {
		return func(s *fakeSource) { s.mangle = onRun(n, change) }
	}
	for _, c := range []struct {
		name     string
		from, to uint64
		setup    func(*fakeSource)
		blocks   int // sent before the error
		code     codes.Code
		text     string
	}{
		{"broken link", 0, tip, mangle(2, func(f *chain.Frames) { f.Prev[0]++ }), 14, codes.Aborted, textReorged},
		{"broken link, descending", tip, 0, mangle(2, func(f *chain.Frames) { f.First.Hash[0]++ }), 14, codes.Aborted, textReorged},
		{"gap", 0, tip, mangle(1, func(f *chain.Frames) { f.First.Height++ }), 7, codes.Internal, textInternal},
		{"wrong first height", 3, tip, mangle(0, func(f *chain.Frames) { f.First.Height, f.Last.Height = 4, 10 }), 0, codes.Internal, textInternal},
		{"wrong count", 0, tip, mangle(1, func(f *chain.Frames) { f.Count-- }), 7, codes.Internal, textInternal},
		{"no blocks", 0, tip, mangle(1, func(f *chain.Frames) { f.Count = 0 }), 7, codes.Internal, textInternal},
		{"more than asked", 0, 3, mangle(0, func(f *chain.Frames) { f.Count, f.Last.Height = 5, 4 }), 0, codes.Internal, textInternal},
		{"reorg", 0, tip, fail(fmt.Errorf("x: %w", chain.ErrReorged)), 14, codes.Aborted, textReorged},
		{"unavailable", 0, tip, fail(fmt.Errorf("x: %w", chain.ErrUnavailable)), 14, codes.Unavailable, textUnavailable},
		{"busy", 0, tip, fail(chain.ErrBusy), 14, codes.ResourceExhausted, textBusy},
		{"anything else", 0, tip, fail(errFake), 14, codes.Internal, textInternal},
		{"no view", 0, tip, func(s *fakeSource) { s.viewErr = chain.ErrUnavailable }, 0, codes.Unavailable, textUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := &fakeSource{blocks: blocks}
			c.setup(source)
			s := start(t, source)
			got, err := s.blockRange(t, &walletrpc.BlockRange{Start: byHeight(c.from), End: byHeight(c.to)})
			requireStatus(t, err, c.code, c.text)
			if len(got) != c.blocks {
				t.Errorf("%d blocks came, want %d", len(got), c.blocks)
			}
			eventually(t, "every run is released", func() bool { return source.taken.Load() == source.released.Load() })
		})
	}
	t.Run("short", func(t *testing.T) {
		seq := newSequence(3, 9)
		if err := seq.next(chain.Frames{Count: 6, First: chain.BlockID{Height: 3}, Last: chain.BlockID{Height: 8}}); err != nil {
			t.Fatal(err)
		}
		if err := seq.complete(); err == nil || err.Error() != "the source ended after 6 of the 7 blocks 3 to 9" {
			t.Fatal(err)
		}
	})
	t.Run("GetBlock", func(t *testing.T) {
		source := &fakeSource{blocks: blocks}
		s := start(t, source)
		for _, change := range []func(*chain.Frames){
			func(f *chain.Frames) { f.First.Height++ },
			func(f *chain.Frames) { f.Count = 2 },
			func(f *chain.Frames) { f.Bytes = f.Bytes[:len(f.Bytes)-1] },
			func(f *chain.Frames) { f.Bytes = append(f.Bytes, 0) },
		} {
			source.mangle = onRun(0, change)
			_, err := s.dial(t).GetBlock(t.Context(), byHeight(5))
			requireStatus(t, err, codes.Internal, textInternal)
		}
		if source.released.Load() != 4 {
			t.Errorf("%d of 4 runs were released", source.released.Load())
		}
	})
}

// Zebra away and the index not complete: what is there is served, what needs the tip is not.
func TestUnknownTip(t *testing.T) {
	t.Parallel()
	blocks := fakeBlocks(tip + 1)
	s := start(t, &fakeSource{blocks: blocks, noTip: true})
	_, err := s.dial(t).GetLatestBlock(t.Context(), &walletrpc.ChainSpec{})
	requireStatus(t, err, codes.Unavailable, textUnavailable)
	_, err = s.dial(t).GetLightdInfo(t.Context(), &walletrpc.Empty{})
	requireStatus(t, err, codes.Unavailable, textUnavailable)
	got, err := s.blockRange(t, &walletrpc.BlockRange{Start: byHeight(3), End: byHeight(20)})
	requireStatus(t, err, codes.OK, "")
	if len(got) != 18 {
		t.Errorf("got %d blocks", len(got))
	}
	for _, end := range []uint64{tip + 1, 1 << 40} {
		got, err = s.blockRange(t, &walletrpc.BlockRange{Start: byHeight(3), End: byHeight(end)})
		requireStatus(t, err, codes.Unavailable, textUnavailable)
		if len(got) != tip-2 {
			t.Errorf("got %d blocks", len(got))
		}
		_, err = s.dial(t).GetBlock(t.Context(), byHeight(end))
		requireStatus(t, err, codes.Unavailable, textUnavailable)
	}
}
