package integration

import (
	"context"
	"encoding/hex"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// emptyTree is how an empty tree is encoded.
const emptyTree = "000000"

func treeRows() (rows []row) {
	names := []named{
		{"height", func(e *env) *walletrpc.BlockID { return id(e.middle, nil) }, codes.OK, ""},
		{"hash in internal order", func(e *env) *walletrpc.BlockID { return id(0, e.hash) }, codes.OK, ""},
		{"hash in display order", func(e *env) *walletrpc.BlockID { return id(0, reversedBytes(e.hash)) }, codes.OK, ""},
		{"height and its hash", func(e *env) *walletrpc.BlockID { return id(e.middle, e.hash) }, codes.OK, ""},
		{"height and an unknown hash: the height wins", func(e *env) *walletrpc.BlockID { return id(e.middle, wrongHash) }, codes.OK, ""},
		{"unknown hash", func(*env) *walletrpc.BlockID { return id(0, wrongHash) }, codes.NotFound, ""},
		{"neither height nor hash", func(*env) *walletrpc.BlockID { return id(0, nil) }, codes.InvalidArgument, ""},
		{"hash of 31 bytes", func(e *env) *walletrpc.BlockID { return id(0, e.hash[:31]) }, codes.InvalidArgument, "32 bytes"},
		{"height and a hash of 33 bytes", func(e *env) *walletrpc.BlockID { return id(e.middle, append(e.hash[:32:32], 0)) }, codes.InvalidArgument, "32 bytes"},
		{"above the tip", func(e *env) *walletrpc.BlockID { return id(e.tip+1, nil) }, codes.OutOfRange, ""},
	}
	for _, h := range hugeHeights() {
		name := func(*env) *walletrpc.BlockID { return id(h.height, nil) }
		names = append(names, named{"height " + h.name, name, codes.OutOfRange, strconv.FormatUint(h.height, 10)})
	}
	for _, n := range names {
		rows = append(rows, row{getTreeState, n.name, always(n.code), n.text, anywhere, func(ctx context.Context, e *env) error {
			return e.requireTrees(ctx, getTreeState, n.id(e), e.middle)
		}})
	}
	return append(rows,
		row{getTreeState, "tip by height", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			return e.requireTrees(ctx, getTreeState, id(e.tip, nil), e.tip)
		}},
		row{getTreeState, "genesis by hash, below Sapling: 000000 for every pool", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			hash, err := e.hashAt(ctx, 0)
			if err != nil {
				return err
			}
			return e.requireTrees(ctx, getTreeState, id(0, hash), 0)
		}},
		row{getTreeState, "every block: Zebra's trees, 000000 for a pool that is empty or not yet active", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			for height := uint64(1); height < 46; height++ {
				if err := e.requireTrees(ctx, getTreeState, id(height, nil), height); err != nil {
					return err
				}
			}
			return nil
		}},
		row{getLatestTreeState, "the tip's", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			return e.requireTrees(ctx, getLatestTreeState, &walletrpc.Empty{}, e.tip)
		}},
	)
}

// requireTrees asks for trees, and wants those that Zebra has at the height.
func (e *env) requireTrees(ctx context.Context, method string, request proto.Message, height uint64) error {
	got := &walletrpc.TreeState{}
	if err := e.call(ctx, method, request, got); err != nil {
		return err
	}
	type tree struct{ Commitments struct{ FinalState string } }
	var want struct {
		Hash                       string
		Time                       uint32
		Sapling, Orchard, Ironwood tree
	}
	if err := e.rpc.call(ctx, &want, "z_gettreestate", strconv.FormatUint(height, 10)); err != nil {
		return err
	}
	state := func(t tree) string {
		if t.Commitments.FinalState == "" {
			return emptyTree
		}
		return t.Commitments.FinalState
	}
	right := &walletrpc.TreeState{
		Network: "test", Height: height, Hash: want.Hash, Time: want.Time,
		SaplingTree: state(want.Sapling), OrchardTree: state(want.Orchard), IronwoodTree: state(want.Ironwood),
	}
	if !proto.Equal(got, right) {
		return wrong("%v, want %v", got, right)
	}
	return nil
}

func subtreeRows() (rows []row) {
	for _, c := range []struct {
		pool       walletrpc.ShieldedProtocol
		start, max uint32
		name       string
		count      int // in the simulated chain; the real one is too short for a subtree
	}{
		{walletrpc.ShieldedProtocol_sapling, 0, 0, "sapling, maxEntries 0: all", 1},
		{walletrpc.ShieldedProtocol_sapling, 0, 1, "sapling, maxEntries 1", 1},
		{walletrpc.ShieldedProtocol_sapling, 0, 65_536, "sapling, maxEntries 65,536", 1},
		{walletrpc.ShieldedProtocol_sapling, 1, 0, "startIndex at the end: nothing", 0},
		{walletrpc.ShieldedProtocol_sapling, 65_535, 1, "startIndex 65,535: nothing", 0},
		{walletrpc.ShieldedProtocol_sapling, 65_536, 1, "startIndex 65,536: nothing", 0},
		{walletrpc.ShieldedProtocol_sapling, 1<<32 - 1, 1<<32 - 1, "startIndex 2^32-1: nothing", 0},
		{walletrpc.ShieldedProtocol_orchard, 0, 0, "orchard", 0},
		{walletrpc.ShieldedProtocol_ironwood, 0, 0, "ironwood", 0},
	} {
		rows = append(rows, row{getSubtreeRoots, c.name, always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			count := c.count
			if e.place == onZebrad {
				count = 0
			}
			return e.requireRoots(ctx, &walletrpc.GetSubtreeRootsArg{ShieldedProtocol: c.pool, StartIndex: c.start, MaxEntries: c.max}, count)
		}})
	}
	for _, p := range []walletrpc.ShieldedProtocol{3, 99, -1} {
		rows = append(rows, row{getSubtreeRoots, "shieldedProtocol " + strconv.Itoa(int(p)), always(codes.InvalidArgument), "shieldedProtocol", anywhere, func(ctx context.Context, e *env) error {
			return e.requireRoots(ctx, &walletrpc.GetSubtreeRootsArg{ShieldedProtocol: p}, 0)
		}})
	}
	return rows
}

// requireRoots wants Zebra's roots, completed by blocks of the chain, their hashes in display order.
func (e *env) requireRoots(ctx context.Context, arg *walletrpc.GetSubtreeRootsArg, count int) error {
	messages, err := e.read(ctx, getSubtreeRoots, arg)
	if err != nil {
		return err
	}
	if len(messages) != count {
		return wrong("%d roots, want %d", len(messages), count)
	}
	if count == 0 {
		return nil
	}
	var want struct {
		Subtrees []struct {
			Root      string
			EndHeight uint64 `json:"end_height"`
		}
	}
	if err := e.rpc.call(ctx, &want, "z_getsubtreesbyindex", arg.ShieldedProtocol.String(), arg.StartIndex); err != nil {
		return err
	}
	for i, m := range messages {
		got, zebra := &walletrpc.SubtreeRoot{}, want.Subtrees[i]
		if err := proto.Unmarshal(m, got); err != nil {
			return wrong("%v", err)
		}
		hash, err := e.hashAt(ctx, zebra.EndHeight)
		if err != nil {
			return err
		}
		if hex.EncodeToString(got.RootHash) != zebra.Root || got.CompletingBlockHeight != zebra.EndHeight ||
			hex.EncodeToString(got.CompletingBlockHash) != displayed(hash) {
			return wrong("%v, want %v and %s", got, zebra, displayed(hash))
		}
	}
	return nil
}
