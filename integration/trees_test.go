package integration

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// The methods about note commitment trees.
const (
	getTreeState       = "GetTreeState"
	getLatestTreeState = "GetLatestTreeState"
	getSubtreeRoots    = "GetSubtreeRoots"
)

// zTreeState is what z_gettreestate replies.
type zTreeState struct {
	Hash                       string
	Height                     uint64
	Time                       uint32
	Sapling, Orchard, Ironwood struct{ Commitments struct{ FinalState string } }
}

// expectTree makes the answer from Zebra's reply. A pool that Zebra says nothing about is not active.
func expectTree(ctx context.Context, rpc *rpcClient, height int) (*walletrpc.TreeState, error) {
	var z zTreeState
	if err := rpc.call(ctx, &z, "z_gettreestate", strconv.Itoa(height)); err != nil {
		return nil, err
	}
	tree := func(finalState string) string {
		if finalState == "" {
			return "000000"
		}
		return finalState
	}
	return &walletrpc.TreeState{
		Network: "test", Height: z.Height, Hash: z.Hash, Time: z.Time, SaplingTree: tree(z.Sapling.Commitments.FinalState),
		OrchardTree: tree(z.Orchard.Commitments.FinalState), IronwoodTree: tree(z.Ironwood.Commitments.FinalState),
	}, nil
}

// leaves counts the leaves of an encoded tree: two places for leaves, and then for each parent a bit of the number of pairs below it.
func leaves(tree string) (n uint32) {
	raw := unhex(tree)
	place := func() uint32 {
		there := raw[0]
		raw = raw[1+32*int(there):]
		return uint32(there)
	}
	n = place() + place()
	parents := int(raw[0])
	raw = raw[1:]
	for i := range parents {
		n += place() << (i + 1)
	}
	return n
}

func (w *wallet) treeState(ctx context.Context, id *walletrpc.BlockID) (*walletrpc.TreeState, error) {
	state := &walletrpc.TreeState{}
	return state, w.call(ctx, getTreeState, id, state)
}

func (w *wallet) subtreeRoots(ctx context.Context, req *walletrpc.GetSubtreeRootsArg) (n int, err error) {
	err = w.stream(ctx, getSubtreeRoots, req, func([]byte) error { n++; return nil })
	return n, err
}

// TestTrees reads the tree state of every block and wants what Zebra says of it, in both positions.
func TestTrees(t *testing.T) {
	t.Parallel()
	n := fixtureNode(t, "")
	tip, _ := n.tip()
	want := make([]*walletrpc.TreeState, tip+1)
	for height := range want {
		var err error
		if want[height], err = expectTree(t.Context(), n.rpc, height); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []setup{passthrough, smallSegments} {
		t.Run(s.name, func(t *testing.T) {
			c := newSidecar(t, n.url(), n.cookie(), s)
			c.start()
			w := c.wallet()
			awaitAnswer(t, w)
			if !s.noIndex {
				c.awaitIndex(tip, time.Minute)
			}
			requireTrees(t, w, want)
			requireSizes(t, w, want)
			testTreeArguments(t, w, want)
			testSubtreeArguments(t, w)
			c.stop()
			if !s.noIndex {
				requireClean(t, c)
			}
		})
	}
}

// requireTrees asks for every height, and twice for some, since the second answer comes from elsewhere.
func requireTrees(t *testing.T, w *wallet, want []*walletrpc.TreeState) {
	t.Helper()
	errs := make([]error, 8)
	var workers sync.WaitGroup
	for i := range errs {
		workers.Go(func() {
			for h := i; h < len(want) && errs[i] == nil; h += len(errs) {
				errs[i] = requireTree(t.Context(), w, id(uint64(h), reversed(want[h].Hash)), want[h])
				if errs[i] == nil && h%7 == 0 {
					errs[i] = requireTree(t.Context(), w, id(0, reversed(want[h].Hash)), want[h])
				}
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	latest := &walletrpc.TreeState{}
	if err := w.call(t.Context(), getLatestTreeState, &walletrpc.Empty{}, latest); err != nil || !proto.Equal(latest, want[len(want)-1]) {
		t.Errorf("GetLatestTreeState: %v, %v", latest, err)
	}
}

func requireTree(ctx context.Context, w *wallet, id *walletrpc.BlockID, want *walletrpc.TreeState) error {
	got, err := w.treeState(ctx, id)
	if err != nil {
		return fmt.Errorf("tree state of %v: %w", id, err)
	}
	if !proto.Equal(got, want) {
		return fmt.Errorf("tree state of %v:\n%v\nwant\n%v", id, got, want)
	}
	return nil
}

// requireSizes compares the trees with the sizes that compact blocks name.
func requireSizes(t *testing.T, w *wallet, want []*walletrpc.TreeState) {
	t.Helper()
	height, notes := 0, uint32(0)
	whole := &walletrpc.BlockRange{Start: id(0, nil), End: id(uint64(len(want)-1), nil)}
	err := w.stream(t.Context(), getBlockRange, whole, func(message []byte) error {
		block := &walletrpc.CompactBlock{}
		if err := proto.Unmarshal(message, block); err != nil {
			return err
		}
		sizes := &walletrpc.ChainMetadata{
			SaplingCommitmentTreeSize: leaves(want[height].SaplingTree), OrchardCommitmentTreeSize: leaves(want[height].OrchardTree),
			IronwoodCommitmentTreeSize: leaves(want[height].IronwoodTree),
		}
		if block.Height != uint64(height) || !proto.Equal(sizes, block.ChainMetadata) {
			return fmt.Errorf("block %d has %v, its trees %v", block.Height, block.ChainMetadata, sizes)
		}
		notes = min(sizes.SaplingCommitmentTreeSize, sizes.OrchardCommitmentTreeSize, sizes.IronwoodCommitmentTreeSize)
		height++
		return nil
	})
	if err != nil || height != len(want) || notes == 0 {
		t.Errorf("%d blocks of %d, %d notes at least, %v", height, len(want), notes, err)
	}
}

func testTreeArguments(t *testing.T, w *wallet, want []*walletrpc.TreeState) {
	tip := uint64(len(want) - 1)
	middle := reversed(want[1000].Hash)
	for _, tc := range []struct {
		name   string
		id     *walletrpc.BlockID
		code   codes.Code
		height int
	}{
		{"height", id(1000, nil), codes.OK, 1000},
		{"height and hash in display order", id(1000, reversedBytes(middle)), codes.OK, 1000},
		{"height and another's hash", id(999, middle), codes.OK, 999},
		{"height and an unknown hash", id(999, wrongHash), codes.OK, 999},
		{"hash in internal order", id(0, middle), codes.OK, 1000},
		{"hash in display order", id(0, reversedBytes(middle)), codes.OK, 1000},
		{"genesis", id(0, reversed(want[0].Hash)), codes.OK, 0},
		{"below NU5", id(1, nil), codes.OK, 1},
		{"nothing", id(0, nil), codes.InvalidArgument, 0},
		{"short hash", id(0, middle[:31]), codes.InvalidArgument, 0},
		{"long hash", id(0, append(middle[:32:32], 0)), codes.InvalidArgument, 0},
		{"unknown hash", id(0, wrongHash), codes.NotFound, 0},
		{"above the tip", id(tip+1, nil), codes.OutOfRange, 0},
		{"2^31", id(1<<31, nil), codes.OutOfRange, 0},
		{"2^32", id(1<<32, nil), codes.OutOfRange, 0},
		{"2^32+1000", id(1<<32+1000, nil), codes.OutOfRange, 0},
		{"2^63", id(1<<63, nil), codes.OutOfRange, 0},
		{"2^64-1", id(math.MaxUint64, nil), codes.OutOfRange, 0},
	} {
		got, err := w.treeState(t.Context(), tc.id)
		requireCode(t, "GetTreeState, "+tc.name, err, tc.code)
		if err == nil && !proto.Equal(got, want[tc.height]) {
			t.Errorf("GetTreeState, %s: %v", tc.name, got)
		}
		if tc.code == codes.OutOfRange {
			requireNamesTip(t, "GetTreeState, "+tc.name, err, len(want)-1)
		}
	}
}

// testSubtreeArguments asks for subtree roots, of which a chain with so few notes has none.
func testSubtreeArguments(t *testing.T, w *wallet) {
	for protocol, code := range map[walletrpc.ShieldedProtocol]codes.Code{
		walletrpc.ShieldedProtocol_sapling: codes.OK, walletrpc.ShieldedProtocol_orchard: codes.OK, walletrpc.ShieldedProtocol_ironwood: codes.OK,
		3: codes.InvalidArgument, 99: codes.InvalidArgument,
	} {
		for _, start := range []uint32{0, 1, 65_535, 65_536, math.MaxUint32} {
			for _, most := range []uint32{0, 1, 65_536, math.MaxUint32} {
				n, err := w.subtreeRoots(t.Context(), &walletrpc.GetSubtreeRootsArg{ShieldedProtocol: protocol, StartIndex: start, MaxEntries: most})
				requireCode(t, fmt.Sprintf("GetSubtreeRoots of pool %d from %d, at most %d", protocol, start, most), err, code)
				if n != 0 {
					t.Errorf("%d subtree roots", n)
				}
			}
		}
	}
}

// TestTreesOutage kills Zebra: what the index has kept is still answered, and all else is UNAVAILABLE.
func TestTreesOutage(t *testing.T) {
	t.Parallel()
	n := fixtureNode(t, "")
	tip, _ := n.tip()
	indexed := newSidecar(t, n.url(), n.cookie(), smallSegments)
	bare := newSidecar(t, n.url(), n.cookie(), passthrough)
	indexed.start()
	bare.start()
	w, b := indexed.wallet(), bare.wallet()
	awaitAnswer(t, b)
	indexed.awaitIndex(tip, time.Minute)
	kept := map[int]*walletrpc.TreeState{}
	for _, height := range []int{1, 9, 20, 44, 1500, tip - 10, tip} {
		var err error
		if kept[height], err = expectTree(t.Context(), n.rpc, height); err != nil {
			t.Fatal(err)
		}
		for _, w := range []*wallet{w, b} {
			if err := requireTree(t.Context(), w, id(uint64(height), nil), kept[height]); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The state of a range's last block is asked for before any wallet does.
	ahead := 2000
	var err error
	if kept[ahead], err = expectTree(t.Context(), n.rpc, ahead); err != nil {
		t.Fatal(err)
	}
	if err := w.stream(t.Context(), getBlockRange, &walletrpc.BlockRange{Start: id(1900, nil), End: id(uint64(ahead), nil)}, func([]byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)

	n.proc.kill()
	time.Sleep(noticed)
	for height, want := range kept {
		for _, id := range []*walletrpc.BlockID{id(uint64(height), nil), id(0, reversed(want.Hash)), id(0, reversedBytes(reversed(want.Hash)))} {
			if err := requireTree(t.Context(), w, id, want); err != nil {
				t.Error(err)
			}
		}
		_, err := b.treeState(t.Context(), id(uint64(height), nil))
		requireCode(t, "GetTreeState without an index", err, codes.Unavailable)
	}
	latest := &walletrpc.TreeState{}
	if err := w.call(t.Context(), getLatestTreeState, &walletrpc.Empty{}, latest); err != nil || !proto.Equal(latest, kept[tip]) {
		t.Errorf("GetLatestTreeState: %v, %v", latest, err)
	}
	requireCode(t, "GetLatestTreeState without an index", b.call(t.Context(), getLatestTreeState, &walletrpc.Empty{}, latest), codes.Unavailable)
	for _, height := range []uint64{2, 1501, uint64(tip) - 11} {
		_, err := w.treeState(t.Context(), id(height, nil))
		requireCode(t, "GetTreeState of what is not kept", err, codes.Unavailable)
	}
	_, err = w.treeState(t.Context(), id(uint64(tip)+1, nil))
	requireCode(t, "GetTreeState above the tip", err, codes.OutOfRange)
	testSubtreeArguments(t, w) // by the sizes of its trees the index knows that there are none
	_, err = b.subtreeRoots(t.Context(), &walletrpc.GetSubtreeRootsArg{})
	requireCode(t, "GetSubtreeRoots without an index", err, codes.Unavailable)
}
