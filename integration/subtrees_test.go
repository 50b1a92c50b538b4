package integration

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// subtreeNode runs a simulated Zebra whose chain completes two Sapling subtrees, which takes more notes than a real node could be made
// to mine here. It returns what wallets are to get of them.
func subtreeNode(t *testing.T) (*zebratest.Node, []*walletrpc.SubtreeRoot) {
	t.Helper()
	c, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Test})
	if err != nil {
		t.Fatal(err)
	}
	for {
		sizes, err := c.Sizes(c.Tip().Height)
		if err != nil {
			t.Fatal(err)
		}
		if sizes.Sapling > 2*chain.SubtreeLeaves {
			break
		}
		if err := c.Extend(10, zebratest.DenseV4); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Extend(100, zebratest.Small); err != nil { // so that the blocks before are sealed
		t.Fatal(err)
	}
	n := zebratest.NewNode(c, zebratest.NodeOptions{CookieDir: t.TempDir()})
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	var z struct {
		Subtrees []struct {
			Root      string
			EndHeight uint64 `json:"end_height"`
		}
	}
	rpc := newRPCClient(n.URL()[len("http://"):], n.CookieFile())
	if err := rpc.call(t.Context(), &z, "z_getsubtreesbyindex", "sapling", 0); err != nil || len(z.Subtrees) != 2 {
		t.Fatal(z, err)
	}
	var roots []*walletrpc.SubtreeRoot
	for _, s := range z.Subtrees {
		hash, err := c.Hash(chain.Height(s.EndHeight))
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, &walletrpc.SubtreeRoot{
			RootHash: unhex(s.Root), CompletingBlockHash: unhex(hash.String()), CompletingBlockHeight: s.EndHeight,
		})
	}
	return n, roots
}

// requireRoots asks for Sapling roots.
func (w *wallet) requireRoots(ctx context.Context, start, most uint32, want []*walletrpc.SubtreeRoot) error {
	i := 0
	err := w.stream(ctx, getSubtreeRoots, &walletrpc.GetSubtreeRootsArg{StartIndex: start, MaxEntries: most}, func(message []byte) error {
		got := &walletrpc.SubtreeRoot{}
		if err := proto.Unmarshal(message, got); err != nil {
			return err
		}
		if i >= len(want) || !proto.Equal(got, want[i]) {
			return fmt.Errorf("number %d is %v", i, got)
		}
		i++
		return nil
	})
	if err == nil && i != len(want) {
		err = fmt.Errorf("%d of %d", i, len(want))
	}
	if err != nil {
		return fmt.Errorf("subtree roots from %d, at most %d: %w", start, most, err)
	}
	return nil
}

// TestSubtreeRoots reads roots in both positions, with Zebra gone, and after a restart without Zebra.
func TestSubtreeRoots(t *testing.T) {
	t.Parallel()
	n, roots := subtreeNode(t)
	tip := int(n.Chain().Tip().Height)
	bare := newSidecar(t, n.URL(), n.CookieFile(), passthrough)
	indexed := newSidecar(t, n.URL(), n.CookieFile(), smallSegments)
	bare.start()
	indexed.start()
	awaitAnswer(t, bare.wallet())
	indexed.awaitIndex(tip, time.Minute)
	all := func(w *wallet) {
		t.Helper()
		for range 2 { // the second time they are known
			for _, r := range []struct{ start, most, from, to uint32 }{
				{0, 0, 0, 2}, {0, 1, 0, 1}, {0, 65_536, 0, 2}, {1, 0, 1, 2}, {1, math.MaxUint32, 1, 2}, {2, 0, 2, 2}, {3, 1, 2, 2}, {math.MaxUint32, 0, 2, 2},
			} {
				if err := w.requireRoots(t.Context(), r.start, r.most, roots[r.from:r.to]); err != nil {
					t.Error(err)
				}
			}
		}
	}
	all(bare.wallet())
	// An index that has kept no root yet, and is complete, asks for them once.
	asked := n.Requests("z_getsubtreesbyindex")
	all(indexed.wallet())
	if asked = n.Requests("z_getsubtreesbyindex") - asked; asked != 1 {
		t.Errorf("zebra was asked %d times for what never changes", asked)
	}

	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	all(indexed.wallet())
	time.Sleep(noticed)
	requireCode(t, "GetSubtreeRoots without an index", bare.wallet().requireRoots(t.Context(), 0, 0, roots), codes.Unavailable)
	indexed.stop()
	requireClean(t, indexed)
	indexed.start()
	indexed.awaitIndex(tip, 10*time.Second) // it is opened
	all(indexed.wallet())
}
