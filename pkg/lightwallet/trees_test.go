package lightwallet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

func reversed(b []byte) []byte {
	r := slices.Clone(b)
	slices.Reverse(r)
	return r
}

// startTrees serves a chain of tip+1 blocks from a node that calls it "test".
func startTrees(t testing.TB, source *fakeSource, options ...testOption) *testServer {
	t.Helper()
	if source.blocks == nil {
		source.blocks = fakeBlocks(tip + 1)
	}
	s := start(t, source, options...)
	info := fakeInfo()
	info.Chain = "test"
	s.node.answer.Store(&info)
	return s
}

// treeMessage is what a wallet gets for a block.
func treeMessage(blocks []*walletrpc.CompactBlock, h int) *walletrpc.TreeState {
	hash := chain.Hash(blocks[h].Hash)
	state := fakeTree(chain.BlockID{Height: chain.Height(h), Hash: hash})
	return &walletrpc.TreeState{
		Network: "test", Height: uint64(h), Hash: hash.String(), Time: state.Time,
		SaplingTree: state.Sapling, OrchardTree: "000000", IronwoodTree: state.Ironwood,
	}
}

func TestGetTreeState(t *testing.T) {
	t.Parallel()
	s := startTrees(t, &fakeSource{})
	blocks := s.source.blocks
	unknown := slices.Repeat([]byte("u"), 32)
	const unknownText = "no block has the hash 7575757575757575757575757575757575757575757575757575757575757575, or that with its bytes reversed"
	const neither = "block: neither a height above 0 nor a hash is given"
	for _, c := range []struct {
		name string
		id   *walletrpc.BlockID
		want int
		code codes.Code
		text string
	}{
		{"height", byHeight(7), 7, codes.OK, ""},
		{"height 1", byHeight(1), 1, codes.OK, ""},
		{"tip", byHeight(tip), tip, codes.OK, ""},
		{"height and hash", both(7, blocks[7]), 7, codes.OK, ""},
		{"height and hash in display order", &walletrpc.BlockID{Height: 7, Hash: reversed(blocks[7].Hash)}, 7, codes.OK, ""},
		{"the height wins over another block's hash", both(7, blocks[9]), 7, codes.OK, ""},
		{"the height wins over an unknown hash", &walletrpc.BlockID{Height: 7, Hash: unknown}, 7, codes.OK, ""},
		{"hash in internal order", byHash(blocks[13]), 13, codes.OK, ""},
		{"hash in display order", &walletrpc.BlockID{Hash: reversed(blocks[13].Hash)}, 13, codes.OK, ""},
		{"genesis by hash", byHash(blocks[0]), 0, codes.OK, ""},
		{"genesis by hash in display order", &walletrpc.BlockID{Hash: reversed(blocks[0].Hash)}, 0, codes.OK, ""},
		{"tip by hash", byHash(blocks[tip]), tip, codes.OK, ""},

		{"nothing", &walletrpc.BlockID{}, 0, codes.InvalidArgument, neither},
		{"height 0, empty hash", &walletrpc.BlockID{Hash: []byte{}}, 0, codes.InvalidArgument, neither},
		{"31 bytes", &walletrpc.BlockID{Hash: make([]byte, 31)}, 0, codes.InvalidArgument, "block: a block hash has 32 bytes, not 31"},
		{"33 bytes", &walletrpc.BlockID{Hash: make([]byte, 33)}, 0, codes.InvalidArgument, "block: a block hash has 32 bytes, not 33"},
		{"31 bytes beside a height", &walletrpc.BlockID{Height: 7, Hash: make([]byte, 31)}, 0, codes.InvalidArgument, "block: a block hash has 32 bytes, not 31"},
		{"unknown hash", &walletrpc.BlockID{Hash: unknown}, 0, codes.NotFound, unknownText},
		{"above the tip", byHeight(tip + 1), 0, codes.OutOfRange, "height 41 is above the tip 40"},
		{"above the tip, with the tip's hash", both(tip+1, blocks[tip]), 0, codes.OutOfRange, "height 41 is above the tip 40"},
		{"2^31", byHeight(1 << 31), 0, codes.OutOfRange, "height 2147483648 is above the tip 40"},
		{"2^32", byHeight(1 << 32), 0, codes.OutOfRange, "height 4294967296 is above the tip 40"},
		{"2^32+7", byHeight(1<<32 + 7), 0, codes.OutOfRange, "height 4294967303 is above the tip 40"},
		{"2^63", byHeight(1 << 63), 0, codes.OutOfRange, "height 9223372036854775808 is above the tip 40"},
		{"2^64-1", byHeight(math.MaxUint64), 0, codes.OutOfRange, "height 18446744073709551615 is above the tip 40"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := s.dial(t).GetTreeState(t.Context(), c.id)
			if c.code != codes.OK {
				requireStatus(t, err, c.code, c.text)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			requireEqual(t, got, treeMessage(blocks, c.want))
		})
	}
}

func TestGetLatestTreeState(t *testing.T) {
	t.Parallel()
	s := startTrees(t, &fakeSource{})
	got, err := s.dial(t).GetLatestTreeState(t.Context(), &walletrpc.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, got, treeMessage(s.source.blocks, tip))
}

// TestTreeStateNetwork: the name is GetLightdInfo's, and the node need not answer for it each time.
func TestTreeStateNetwork(t *testing.T) {
	t.Parallel()
	s := startTrees(t, &fakeSource{})
	for range 3 {
		if _, err := s.dial(t).GetTreeState(t.Context(), byHeight(5)); err != nil {
			t.Fatal(err)
		}
		s.node.answer.Store(nil) // away
		time.Sleep(nodeInfoFresh + 10*time.Millisecond)
	}
	if n := s.node.asked.Load(); n != 1 {
		t.Errorf("the node was asked for its name %d times", n)
	}

	named := start(t, &fakeSource{blocks: fakeBlocks(tip + 1)}, func(o *Options, _ *bool) { o.ChainName = "regtest" })
	got, err := named.dial(t).GetTreeState(t.Context(), byHeight(5))
	if err != nil || got.Network != "regtest" || named.node.asked.Load() != 0 {
		t.Errorf("%v, %v", got.GetNetwork(), err)
	}

	away := start(t, &fakeSource{blocks: fakeBlocks(tip + 1)})
	_, err = away.dial(t).GetTreeState(t.Context(), byHeight(5))
	requireStatus(t, err, codes.Unavailable, textUnavailable)
}

// TestTreesOutage: whatever is wrong, no method answers OK, or anything about the request.
func TestTreesOutage(t *testing.T) {
	t.Parallel()
	blocks := fakeBlocks(tip + 1)
	unavailable := func(string) (codes.Code, string) { return codes.Unavailable, textUnavailable }
	for name, c := range map[string]struct {
		source func() *fakeSource
		answer func(what string) (codes.Code, string)
	}{
		"no view": {func() *fakeSource { return &fakeSource{blocks: blocks, viewErr: chain.ErrUnavailable} }, unavailable},
		"trees not known": {func() *fakeSource {
			return &fakeSource{blocks: blocks, trees: fakeTrees{treeErr: chain.ErrUnavailable}}
		}, unavailable},
		"nonsense": {func() *fakeSource { return &fakeSource{blocks: blocks, trees: fakeTrees{treeErr: chain.ErrNode}} }, unavailable},
		"too late": {func() *fakeSource {
			return &fakeSource{blocks: blocks, trees: fakeTrees{treeErr: context.DeadlineExceeded}}
		}, unavailable},
		"reorg": {func() *fakeSource { return &fakeSource{blocks: blocks, trees: fakeTrees{treeErr: chain.ErrReorged}} },
			func(string) (codes.Code, string) { return codes.Aborted, textReorged }},
		"busy": {func() *fakeSource { return &fakeSource{blocks: blocks, trees: fakeTrees{treeErr: chain.ErrBusy}} },
			func(string) (codes.Code, string) { return codes.ResourceExhausted, textBusy }},
		"our bug": {func() *fakeSource { return &fakeSource{blocks: blocks, trees: fakeTrees{treeErr: errFake}} },
			func(string) (codes.Code, string) { return codes.Internal, textInternal }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := startTrees(t, c.source()).dial(t)
			_, byHeightErr := client.GetTreeState(t.Context(), byHeight(7))
			_, byHashErr := client.GetTreeState(t.Context(), byHash(blocks[7]))
			_, latestErr := client.GetLatestTreeState(t.Context(), &walletrpc.Empty{})
			_, rootsErr := readRoots(t, client, &walletrpc.GetSubtreeRootsArg{})
			for what, err := range map[string]error{"height": byHeightErr, "hash": byHashErr, "latest": latestErr, "roots": rootsErr} {
				code, text := c.answer(what)
				requireStatus(t, err, code, text)
			}
		})
	}
	t.Run("tip not known", func(t *testing.T) {
		t.Parallel()
		client := startTrees(t, &fakeSource{blocks: blocks, noTip: true}).dial(t)
		got, err := client.GetTreeState(t.Context(), byHeight(7))
		if err != nil {
			t.Fatal(err)
		}
		requireEqual(t, got, treeMessage(blocks, 7))
		_, err = client.GetLatestTreeState(t.Context(), &walletrpc.Empty{})
		requireStatus(t, err, codes.Unavailable, textUnavailable)
		for _, h := range []uint64{tip + 1, 1 << 40} {
			_, err = client.GetTreeState(t.Context(), byHeight(h))
			requireStatus(t, err, codes.Unavailable, textUnavailable)
		}
	})
	t.Run("another block by then", func(t *testing.T) {
		t.Parallel()
		source := &fakeSource{blocks: blocks}
		source.trees.moved = func(s *chain.TreeState) { s.ID.Hash[0] ^= 1 }
		client := startTrees(t, source).dial(t)
		_, err := client.GetTreeState(t.Context(), byHash(blocks[7]))
		requireStatus(t, err, codes.Aborted, textReorged)
		_, err = client.GetLatestTreeState(t.Context(), &walletrpc.Empty{})
		requireStatus(t, err, codes.Aborted, textReorged)
	})
}

// TestTreeStateByUnsureHash: the node is away, and the index has the block under the hash in the other order.
func TestTreeStateByUnsureHash(t *testing.T) {
	t.Parallel()
	source := &fakeSource{blocks: fakeBlocks(tip + 1)}
	source.trees.unsure = true
	client := startTrees(t, source).dial(t)
	got, err := client.GetTreeState(t.Context(), &walletrpc.BlockID{Hash: reversed(source.blocks[13].Hash)})
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, got, treeMessage(source.blocks, 13))
	_, err = client.GetTreeState(t.Context(), &walletrpc.BlockID{Hash: make([]byte, 32)})
	requireStatus(t, err, codes.Unavailable, textUnavailable)
}

func readRoots(t testing.TB, client walletrpc.CompactTxStreamerClient, req *walletrpc.GetSubtreeRootsArg) ([]*walletrpc.SubtreeRoot, error) {
	t.Helper()
	stream, err := client.GetSubtreeRoots(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var roots []*walletrpc.SubtreeRoot
	for {
		root, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return roots, nil
		}
		if err != nil {
			return roots, err
		}
		roots = append(roots, root)
	}
}

// fakeRoots makes n subtree roots whose blocks are those of every third height.
func fakeRoots(pool chain.Pool, n int) []chain.SubtreeRoot {
	roots := make([]chain.SubtreeRoot, n)
	for i := range roots {
		roots[i] = chain.SubtreeRoot{
			Root:       [32]byte(pattern("root", pool, i)),
			Completing: chain.BlockID{Height: chain.Height(3 * i), Hash: chain.Hash(pattern("completing", pool, i))},
		}
	}
	return roots
}

func TestGetSubtreeRoots(t *testing.T) {
	t.Parallel()
	const n = 1500
	all := map[chain.Pool][]chain.SubtreeRoot{
		chain.Sapling: fakeRoots(chain.Sapling, n), chain.Orchard: fakeRoots(chain.Orchard, 2), chain.Ironwood: {},
	}
	for name, options := range map[string][]testOption{"framed": nil, "fallback": {withFallback}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := startTrees(t, &fakeSource{trees: fakeTrees{roots: all}}, options...).dial(t)
			for _, c := range []struct {
				protocol   walletrpc.ShieldedProtocol
				start, max uint32
				pool       chain.Pool
				from, to   int
			}{
				{walletrpc.ShieldedProtocol_sapling, 0, 0, chain.Sapling, 0, n},
				{walletrpc.ShieldedProtocol_sapling, 0, 1, chain.Sapling, 0, 1},
				{walletrpc.ShieldedProtocol_sapling, 700, 65_536, chain.Sapling, 700, n},
				{walletrpc.ShieldedProtocol_sapling, n - 1, 0, chain.Sapling, n - 1, n},
				{walletrpc.ShieldedProtocol_sapling, n, 0, chain.Sapling, n, n},
				{walletrpc.ShieldedProtocol_sapling, n + 1, 1, chain.Sapling, n, n},
				{walletrpc.ShieldedProtocol_sapling, 65_536, 0, chain.Sapling, n, n},
				{walletrpc.ShieldedProtocol_sapling, math.MaxUint32, math.MaxUint32, chain.Sapling, n, n},
				{walletrpc.ShieldedProtocol_orchard, 0, 0, chain.Orchard, 0, 2},
				{walletrpc.ShieldedProtocol_orchard, 1, math.MaxUint32, chain.Orchard, 1, 2},
				{walletrpc.ShieldedProtocol_ironwood, 0, 0, chain.Ironwood, 0, 0},
			} {
				got, err := readRoots(t, client, &walletrpc.GetSubtreeRootsArg{ShieldedProtocol: c.protocol, StartIndex: c.start, MaxEntries: c.max})
				want := all[c.pool][c.from:c.to]
				if err != nil || len(got) != len(want) {
					t.Fatalf("%v from %d, at most %d: %d roots, %v; want %d", c.protocol, c.start, c.max, len(got), err, len(want))
				}
				for i, r := range want {
					requireEqual(t, got[i], &walletrpc.SubtreeRoot{
						RootHash: r.Root[:], CompletingBlockHash: reversed(r.Completing.Hash[:]), CompletingBlockHeight: uint64(r.Completing.Height),
					})
				}
			}
			for _, protocol := range []walletrpc.ShieldedProtocol{3, 99, -1} {
				_, err := readRoots(t, client, &walletrpc.GetSubtreeRootsArg{ShieldedProtocol: protocol})
				requireStatus(t, err, codes.InvalidArgument, fmt.Sprintf("shieldedProtocol: there is no pool %d", int32(protocol)))
			}
		})
	}
}

// TestSubtreeRootsSendHeadersAtOnce: the answer may take long, and wallets give up on streams without headers.
func TestSubtreeRootsSendHeadersAtOnce(t *testing.T) {
	t.Parallel()
	source := &slowRoots{release: make(chan struct{})}
	s := startTrees(t, &fakeSource{}, func(o *Options, _ *bool) { o.Source = source })
	stream, err := s.dial(t).GetSubtreeRoots(t.Context(), &walletrpc.GetSubtreeRootsArg{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	close(source.release)
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// slowRoots is a Source whose subtree roots take until release is closed.
type slowRoots struct {
	benchSource
	release chan struct{}
}

func (s *slowRoots) View(context.Context) (chain.View, error) { return s, nil }

func (s *slowRoots) SubtreeRoots(ctx context.Context, _ chain.Pool, _, _ uint32) ([]chain.SubtreeRoot, error) {
	select {
	case <-s.release:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// BenchmarkGetSubtreeRoots reads 1,500 roots, as many as the main network has in a few years, over a socket.
func BenchmarkGetSubtreeRoots(b *testing.B) {
	roots := map[chain.Pool][]chain.SubtreeRoot{chain.Sapling: fakeRoots(chain.Sapling, 1500)}
	client := startTrees(b, &fakeSource{trees: fakeTrees{roots: roots}}).dial(b)
	for b.Loop() {
		if got, err := readRoots(b, client, &walletrpc.GetSubtreeRootsArg{}); err != nil || len(got) != 1500 {
			b.Fatal(len(got), err)
		}
	}
}

// However many questions an answer about trees takes, and whoever else asks them, it comes within its time, or UNAVAILABLE does.
func TestTreesInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{chainName: "test", trees: newTurns()}
		view, err := (&fakeSource{blocks: fakeBlocks(tip + 1), trees: fakeTrees{hang: true}}).View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name, ask := range map[string]func() error{
			"GetTreeState": func() error { _, err := s.treeState(t.Context(), view, 3, nil); return err },
			"GetSubtreeRoots": func() error {
				_, err := subtreeRoots(t.Context(), view, chain.Orchard, &walletrpc.GetSubtreeRootsArg{})
				return err
			},
		} {
			begin := time.Now()
			if code := statusOf(t.Context(), ask()).Code(); code != codes.Unavailable || time.Since(begin) != treesWithin {
				t.Errorf("%s: %v after %v", name, code, time.Since(begin))
			}
		}
	})
}
