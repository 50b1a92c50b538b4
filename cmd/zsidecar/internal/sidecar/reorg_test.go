package sidecar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// position is how much of the chain the index has.
type position string

const (
	withoutIndex position = "no index"
	partlyBuilt  position = "partly built"
	complete     position = "complete"
)

// threePositions runs a test beside a node with so many blocks of every kind. A partly built index has at most a third of them, and grows on
// when the tip changes.
func threePositions(t *testing.T, blocks, inFlight int, test func(t *testing.T, p position, n *zebratest.Node, s *Sidecar)) {
	for _, p := range []position{withoutIndex, partlyBuilt, complete} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			n := newNode(t, 0, zebratest.NodeOptions{})
			if err := n.Chain().Extend(blocks, zebratest.Mixed); err != nil {
				t.Fatal(err)
			}
			startNode(t, n)
			stuck := chain.Height(blocks / 3)
			heal := func() {}
			if p == partlyBuilt {
				heal = n.Fault(zebratest.Fault{Method: "getblock", Where: zebratest.AtHeight(stuck), Raw: zebratest.FlipMerkleRoot})
			}
			s, end := run(t, settings(t, func(c *config.Config) {
				c.Zebra, c.NoIndex, c.SealDepth, c.SegmentBlocks = n.URL(), p == withoutIndex, uint32(blocks)-20, 8
				c.InFlight = inFlight
			}))
			await(t, "the index is as far as it shall be", func() bool {
				h := s.Health()
				switch p {
				case withoutIndex:
					return h.Ready
				case partlyBuilt:
					return h.Index.Height != nil && h.Index.Error != ""
				default:
					return h.Ready && h.Index.State == "complete"
				}
			})
			heal()
			test(t, p, n, s)
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// branchOf is what the node's chain has at each height.
type branchOf struct {
	hashes []chain.Hash
	sizes  []chain.TreeSizes
}

func branchNow(t *testing.T, n *zebratest.Node) (b branchOf) {
	t.Helper()
	for h := chain.Height(0); h <= n.Chain().Tip().Height; h++ {
		hash, err := n.Chain().Hash(h)
		sizes, err2 := n.Chain().Sizes(h)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		b.hashes, b.sizes = append(b.hashes, hash), append(b.sizes, sizes)
	}
	return b
}

// has tells whether the block is the branch's, and comes with its tree sizes if it comes with any.
func (b *branchOf) has(block *walletrpc.CompactBlock) bool {
	h := block.Height
	if h >= uint64(len(b.hashes)) || !bytes.Equal(block.Hash, b.hashes[h][:]) {
		return false
	}
	m := block.ChainMetadata
	sizes := chain.TreeSizes{Sapling: m.SaplingCommitmentTreeSize, Orchard: m.OrchardCommitmentTreeSize, Ironwood: m.IronwoodCommitmentTreeSize}
	return sizes == b.sizes[h] || sizes == chain.TreeSizes{} // of nullifiers
}

// stalledRange is a reader that has taken the first block of a range, and no more.
type stalledRange struct {
	name     string
	from, to uint64
	first    *walletrpc.CompactBlock
	stream   grpc.ServerStreamingClient[walletrpc.CompactBlock]
}

// dialSmall connects a client of its own that never has more than 64 KiB on the way to it.
func dialSmall(t *testing.T, s *Sidecar) walletrpc.CompactTxStreamerClient {
	t.Helper()
	conn, err := grpc.NewClient(s.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return walletrpc.NewCompactTxStreamerClient(conn)
}

// stallAll begins ranges of every kind, in both directions: up to the tip, up to a block below it, and from either down to genesis.
func stallAll(t *testing.T, s *Sidecar, tip uint64) (stalled []*stalledRange) {
	t.Helper()
	kinds := []struct {
		name       string
		nullifiers bool
		pools      []walletrpc.PoolType
	}{
		{name: "default"}, {name: "sapling", pools: []walletrpc.PoolType{walletrpc.PoolType_SAPLING}}, {name: "nullifiers", nullifiers: true},
		{name: "transparent", pools: []walletrpc.PoolType{walletrpc.PoolType_TRANSPARENT}},
		{name: "all", pools: []walletrpc.PoolType{walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING, walletrpc.PoolType_ORCHARD, walletrpc.PoolType_IRONWOOD}},
	}
	ranges := [][2]uint64{{0, tip}, {tip, 0}, {1, tip - 1}, {tip - 1, 1}}
	for i := range 2 * len(kinds) { // each kind in two ranges
		kind, r := kinds[i%len(kinds)], ranges[i%len(ranges)]
		client := dialSmall(t, s)
		get := client.GetBlockRange
		if kind.nullifiers {
			get = client.GetBlockRangeNullifiers
		}
		stream, err := get(t.Context(), &walletrpc.BlockRange{Start: &walletrpc.BlockID{Height: r[0]}, End: &walletrpc.BlockID{Height: r[1]}, PoolTypes: kind.pools})
		stalled = append(stalled, stall(t, fmt.Sprintf("%s %d..%d", kind.name, r[0], r[1]), r, stream, err))
	}
	return stalled
}

func stall(t *testing.T, name string, r [2]uint64, stream grpc.ServerStreamingClient[walletrpc.CompactBlock], err error) *stalledRange {
	t.Helper()
	s := &stalledRange{name: name, from: r[0], to: r[1], stream: stream}
	if err == nil {
		s.first, err = stream.Recv()
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// finish reads the rest: the blocks have to follow each other, link, and be all of one branch. It returns OK or ABORTED.
func (s *stalledRange) finish(t *testing.T, branches ...branchOf) codes.Code {
	t.Helper()
	fits := make([]bool, len(branches))
	for i := range fits {
		fits[i] = true
	}
	step, want := uint64(1), s.to-s.from+1
	if s.from > s.to {
		step, want = math.MaxUint64, s.from-s.to+1
	}
	var before *walletrpc.CompactBlock
	block, err := s.first, error(nil)
	var count uint64
	for ; err == nil; block, err = s.stream.Recv() {
		if block.Height != s.from+count*step {
			t.Fatalf("%s: block %d came after %d others", s.name, block.Height, count)
		}
		linked := before == nil || step == 1 && bytes.Equal(block.PrevHash, before.Hash) || step != 1 && bytes.Equal(before.PrevHash, block.Hash)
		if !linked {
			t.Errorf("%s: block %d does not link to the one before", s.name, block.Height)
		}
		any := false
		for i := range branches {
			fits[i] = fits[i] && branches[i].has(block)
			any = any || fits[i]
		}
		if !any {
			t.Fatalf("%s: block %d is of another branch than those before", s.name, block.Height)
		}
		before, count = block, count+1
	}
	switch {
	case errors.Is(err, io.EOF) && count != want:
		t.Errorf("%s: ended OK after %d of %d blocks", s.name, count, want)
	case errors.Is(err, io.EOF):
		return codes.OK
	case status.Code(err) != codes.Aborted:
		t.Errorf("%s: ended with %v", s.name, err)
	}
	return status.Code(err)
}

// Readers that stop over a reorg of any depth get the blocks of one chain: the old one to the end, or ABORTED.
func TestStalledOverReorg(t *testing.T) {
	for _, depth := range stalledDepths() {
		t.Run(fmt.Sprint(depth), func(t *testing.T) {
			t.Parallel()
			blocks := depth + 200 // no range may have been read to its end by then
			threePositions(t, blocks, 1, func(t *testing.T, p position, n *zebratest.Node, s *Sidecar) {
				client, old := treeClient(t, s), branchNow(t, n)
				slow := n.Fault(zebratest.Fault{Method: "getblock", Delay: 2 * time.Millisecond}) // so that no range has been read to its end
				stalled := stallAll(t, s, uint64(blocks))
				if err := n.Chain().Reorg(depth, depth+2, zebratest.Mixed); err != nil {
					t.Fatal(err)
				}
				awaitTip(t, client, n)
				slow()
				requireOrphans(t, client, old, blocks-depth+1)

				now := branchNow(t, n)
				ended := make(map[codes.Code]int)
				for _, r := range stalled {
					ended[r.finish(t, old, now)]++
				}
				if (p == complete) != (ended[codes.Aborted] == 0) {
					t.Errorf("the streams ended with %v", ended)
				}
				for _, r := range stallAll(t, s, uint64(blocks)+2)[:2] {
					if code := r.finish(t, now); code != codes.OK {
						t.Errorf("afterwards %s: %v", r.name, code)
					}
				}
			})
		})
	}
}

// awaitTip waits until wallets are told the node's tip.
func awaitTip(t *testing.T, client walletrpc.CompactTxStreamerClient, n *zebratest.Node) {
	t.Helper()
	await(t, "the node's tip is served", func() bool {
		id, err := client.GetLatestBlock(t.Context(), &walletrpc.ChainSpec{})
		tip := n.Chain().Tip()
		return err == nil && id.Height == uint64(tip.Height) && bytes.Equal(id.Hash, tip.Hash[:])
	})
}

// requireOrphans wants the blocks of a branch from fork on to be unknown to every method that takes a hash.
func requireOrphans(t *testing.T, client walletrpc.CompactTxStreamerClient, old branchOf, fork int) {
	t.Helper()
	for _, h := range []int{fork, len(old.hashes) - 1} {
		hash := old.hashes[h][:]
		for _, id := range []*walletrpc.BlockID{{Hash: hash}, {Height: uint64(h), Hash: hash}} {
			for name, ask := range hashMethods(client) {
				if name == "GetTreeState" && id.Height != 0 {
					continue // there the height wins
				}
				if err := ask(t.Context(), id); status.Code(err) != codes.NotFound {
					t.Errorf("%s of the orphan %v: %v, want NOT_FOUND", name, id, err)
				}
			}
		}
	}
}

// hashMethods are the methods that take the hash of a block.
func hashMethods(client walletrpc.CompactTxStreamerClient) map[string]func(context.Context, *walletrpc.BlockID) error {
	first := func(stream grpc.ServerStreamingClient[walletrpc.CompactBlock], err error) error {
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	return map[string]func(context.Context, *walletrpc.BlockID) error{
		"GetBlock": func(ctx context.Context, id *walletrpc.BlockID) error { _, err := client.GetBlock(ctx, id); return err },
		"GetBlockNullifiers": func(ctx context.Context, id *walletrpc.BlockID) error {
			_, err := client.GetBlockNullifiers(ctx, id)
			return err
		},
		"GetTreeState": func(ctx context.Context, id *walletrpc.BlockID) error {
			_, err := client.GetTreeState(ctx, id)
			return err
		},
		"GetBlockRange to it": func(ctx context.Context, id *walletrpc.BlockID) error {
			return first(client.GetBlockRange(ctx, &walletrpc.BlockRange{Start: &walletrpc.BlockID{Height: 1}, End: id}))
		},
		"GetBlockRange from it": func(ctx context.Context, id *walletrpc.BlockID) error {
			return first(client.GetBlockRange(ctx, &walletrpc.BlockRange{Start: id, End: &walletrpc.BlockID{Height: 1}}))
		},
		"GetBlockRangeNullifiers to it": func(ctx context.Context, id *walletrpc.BlockID) error {
			return first(client.GetBlockRangeNullifiers(ctx, &walletrpc.BlockRange{Start: &walletrpc.BlockID{Height: 1}, End: id}))
		},
	}
}
