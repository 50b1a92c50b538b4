package integration

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// id builds a BlockID.
func id(height uint64, hash []byte) *walletrpc.BlockID {
	return &walletrpc.BlockID{Height: height, Hash: hash}
}

func reversedBytes(b []byte) []byte {
	b = slices.Clone(b)
	slices.Reverse(b)
	return b
}

// wrongHash is the hash of no block.
var wrongHash = []byte(strings.Repeat("\x5a", 32))

// requireNamesTip wants the tip in the text of an OUT_OF_RANGE.
func requireNamesTip(t *testing.T, what string, err error, tip int) {
	t.Helper()
	if status.Code(err) == codes.OutOfRange && !strings.Contains(err.Error(), strconv.Itoa(tip)) {
		t.Errorf("%s: %v does not name the tip %d", what, err, tip)
	}
}

// tipRows: the methods that name the tip name the same.
func tipRows() []row {
	return []row{
		{"GetLatestBlock", "the tip, hash in internal order", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			got, err := e.latest(ctx)
			if err == nil && (got.Height != e.tip || !bytes.Equal(got.Hash, e.newest)) {
				return wrong("%v, want %d %x", got, e.tip, e.newest)
			}
			return err
		}},
		{"GetLatestBlock", "the same tip as GetLightdInfo and GetLatestTreeState", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			info, trees := &walletrpc.LightdInfo{}, &walletrpc.TreeState{}
			if err := e.call(ctx, "GetLightdInfo", &walletrpc.Empty{}, info); err != nil {
				return err
			}
			err := e.call(ctx, "GetLatestTreeState", &walletrpc.Empty{}, trees)
			if err == nil && (info.BlockHeight != e.tip || trees.Height != e.tip) {
				return wrong("GetLightdInfo names %d and GetLatestTreeState %d, the tip is %d", info.BlockHeight, trees.Height, e.tip)
			}
			return err
		}},
	}
}

// named is a BlockID of a case, which depends on the chain.
type named struct {
	name string
	id   func(e *env) *walletrpc.BlockID
	code codes.Code
	text string
}

// blockNames are the ways to name a block that GetBlock and GetBlockNullifiers have to judge alike.
func blockNames() []named {
	names := []named{
		{"height", func(e *env) *walletrpc.BlockID { return id(e.middle, nil) }, codes.OK, ""},
		{"hash", func(e *env) *walletrpc.BlockID { return id(0, e.hash) }, codes.OK, ""},
		{"height and its hash", func(e *env) *walletrpc.BlockID { return id(e.middle, e.hash) }, codes.OK, ""},
		{"tip", func(e *env) *walletrpc.BlockID { return id(e.tip, nil) }, codes.OK, ""},
		{"tip by hash", func(e *env) *walletrpc.BlockID { return id(0, e.newest) }, codes.OK, ""},
		{"height and another block's hash", func(e *env) *walletrpc.BlockID { return id(e.middle-1, e.hash) }, codes.NotFound, ""},
		{"height and an unknown hash", func(e *env) *walletrpc.BlockID { return id(e.middle, wrongHash) }, codes.NotFound, ""},
		{"unknown hash", func(*env) *walletrpc.BlockID { return id(0, wrongHash) }, codes.NotFound, ""},
		{"hash in display order", func(e *env) *walletrpc.BlockID { return id(0, reversedBytes(e.hash)) }, codes.NotFound, ""},
		{"neither height nor hash", func(*env) *walletrpc.BlockID { return id(0, nil) }, codes.InvalidArgument, ""},
		{"hash of 31 bytes", func(e *env) *walletrpc.BlockID { return id(0, e.hash[:31]) }, codes.InvalidArgument, "32 bytes"},
		{"hash of 33 bytes", func(e *env) *walletrpc.BlockID { return id(e.middle, append(e.hash[:32:32], 0)) }, codes.InvalidArgument, "32 bytes"},
		{"above the tip", func(e *env) *walletrpc.BlockID { return id(e.tip+1, nil) }, codes.OutOfRange, ""},
	}
	for _, h := range hugeHeights() {
		name := func(*env) *walletrpc.BlockID { return id(h.height, nil) }
		names = append(names, named{"height " + h.name, name, codes.OutOfRange, strconv.FormatUint(h.height, 10)})
	}
	return names
}

func blockRows() (rows []row) {
	for _, method := range []string{getBlock, getBlockNullifiers} {
		for _, n := range blockNames() {
			rows = append(rows, row{method, n.name, always(n.code), n.text, anywhere, func(ctx context.Context, e *env) error {
				block, request := &walletrpc.CompactBlock{}, n.id(e)
				err := e.call(ctx, method, request, block)
				want := e.middle
				if strings.HasPrefix(n.name, "tip") {
					want = e.tip
				}
				if err == nil && block.Height != want {
					return wrong("block %d, want %d", block.Height, want)
				}
				return err
			}})
		}
	}
	return append(rows,
		row{getBlock, "genesis by hash, whose prevHash is 32 zero bytes", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			hash, err := e.hashAt(ctx, 0)
			if err != nil {
				return err
			}
			block := &walletrpc.CompactBlock{}
			err = e.call(ctx, getBlock, id(0, hash), block)
			if err == nil && (block.Height != 0 || !bytes.Equal(block.PrevHash, make([]byte, 32)) || block.ChainMetadata == nil) {
				return wrong("%v", block)
			}
			return err
		}},
		row{getBlock, "every pool, every transaction, tree sizes", always(codes.OK), "", anywhere, wholeBlock},
		row{getBlockNullifiers, "nothing but nullifiers, chainMetadata present and empty", always(codes.OK), "", anywhere, onlyNullifiers},
	)
}

// wholeBlock compares the number of transactions with Zebra's; every byte is compared by TestEveryBlock.
func wholeBlock(ctx context.Context, e *env) error {
	var want struct{ Tx []string }
	if err := e.rpc.call(ctx, &want, "getblock", strconv.FormatUint(e.middle, 10), 1); err != nil {
		return err
	}
	block := &walletrpc.CompactBlock{}
	if err := e.call(ctx, getBlock, id(e.middle, nil), block); err != nil {
		return err
	}
	if len(block.Vtx) != len(want.Tx) || block.ChainMetadata == nil {
		return wrong("%v, want the %d transactions %v", block, len(want.Tx), want.Tx)
	}
	for i, tx := range block.Vtx {
		if tx.Index != uint64(i) || displayed(tx.Txid) != want.Tx[i] || len(tx.Vout) == 0 {
			return wrong("transaction %d is %v, want %s", i, tx, want.Tx[i])
		}
	}
	return nil
}

func onlyNullifiers(ctx context.Context, e *env) error {
	for height := uint64(1); height <= 22; height++ {
		block := &walletrpc.CompactBlock{}
		if err := e.call(ctx, getBlockNullifiers, id(height, nil), block); err != nil {
			return err
		}
		if block.ChainMetadata == nil || proto.Size(block.ChainMetadata) != 0 {
			return wrong("block %d has the chainMetadata %v", height, block.ChainMetadata)
		}
		for _, tx := range block.Vtx {
			if len(tx.Vin)+len(tx.Vout)+len(tx.Outputs) > 0 {
				return wrong("block %d: %v", height, tx)
			}
			for _, a := range slices.Concat(tx.Actions, tx.IronwoodActions) {
				if len(a.Nullifier) != 32 || len(a.Cmx)+len(a.EphemeralKey)+len(a.Ciphertext) > 0 {
					return wrong("block %d: %v", height, a)
				}
			}
		}
	}
	return nil
}

// ranged is a case of the range methods; count is the number of blocks that come before the status.
type ranged struct {
	name  string
	ends  func(e *env) (start, end *walletrpc.BlockID)
	code  codes.Code
	count func(e *env) int
}

func rangeCases() []ranged {
	fixed := func(start, end *walletrpc.BlockID) func(*env) (_, _ *walletrpc.BlockID) {
		return func(*env) (_, _ *walletrpc.BlockID) { return start, end }
	}
	// near counts from the middle, or from the tip.
	near := func(from, to int64, fromHash, toHash []byte) func(*env) (_, _ *walletrpc.BlockID) {
		return func(e *env) (_, _ *walletrpc.BlockID) {
			return id(e.middle+uint64(from), fromHash), id(e.middle+uint64(to), toHash)
		}
	}
	top := func(from, to int64) func(*env) (_, _ *walletrpc.BlockID) {
		return func(e *env) (_, _ *walletrpc.BlockID) { return id(e.tip+uint64(from), nil), id(e.tip+uint64(to), nil) }
	}
	n := func(count int) func(*env) int { return func(*env) int { return count } }
	type pair = func(*env) (_, _ *walletrpc.BlockID)
	return []ranged{
		{"start absent", fixed(nil, id(1, nil)), codes.InvalidArgument, n(0)},
		{"end absent", fixed(id(1, nil), nil), codes.InvalidArgument, n(0)},
		{"both empty: genesis", fixed(id(0, nil), id(0, nil)), codes.OK, n(1)},
		{"from an empty id", fixed(id(0, nil), id(9, nil)), codes.OK, n(10)},
		{"down to an empty id", fixed(id(9, nil), id(0, nil)), codes.OK, n(10)},
		{"ascending", near(-9, 0, nil, nil), codes.OK, n(10)},
		{"descending", near(0, -9, nil, nil), codes.OK, n(10)},
		{"a single block", near(0, 0, nil, nil), codes.OK, n(1)},
		{"hash alone at the end", pair(func(e *env) (_, _ *walletrpc.BlockID) { return id(e.middle-9, nil), id(0, e.hash) }), codes.OK, n(10)},
		{"hash alone at the start", pair(func(e *env) (_, _ *walletrpc.BlockID) { return id(0, e.hash), id(e.middle+9, nil) }), codes.OK, n(10)},
		{"right hash beside a height", pair(func(e *env) (_, _ *walletrpc.BlockID) { return id(e.middle-9, nil), id(e.middle, e.hash) }), codes.OK, n(10)},
		{"tip as GetLatestBlock gives it", pair(func(e *env) (_, _ *walletrpc.BlockID) { return id(e.tip-9, nil), id(e.tip, e.newest) }), codes.OK, n(10)},
		{"unknown hash beside the end", near(-9, 0, nil, wrongHash), codes.NotFound, n(0)},
		{"another block's hash beside the start", pair(func(e *env) (_, _ *walletrpc.BlockID) { return id(e.middle-9, e.hash), id(e.middle, nil) }), codes.NotFound, n(0)},
		{"unknown hash alone", fixed(id(0, wrongHash), id(9, nil)), codes.NotFound, n(0)},
		{"hash of 31 bytes", near(-9, 0, nil, wrongHash[:31]), codes.InvalidArgument, n(0)},
		{"hash of 33 bytes", near(-9, 0, append(wrongHash[:32:32], 0), nil), codes.InvalidArgument, n(0)},
		{"up across the tip: every block, then the status", top(-9, 5), codes.OutOfRange, n(10)},
		{"up to 2^64-1", pair(func(e *env) (_, _ *walletrpc.BlockID) { return id(e.tip-9, nil), id(math.MaxUint64, nil) }), codes.OutOfRange, n(10)},
		{"down across the tip", top(1, -9), codes.OutOfRange, n(0)},
		{"above the tip", top(1, 2), codes.OutOfRange, n(0)},
		{"from 2^31", fixed(id(1<<31, nil), id(5, nil)), codes.OutOfRange, n(0)},
		{"from 2^32", fixed(id(1<<32, nil), id(5, nil)), codes.OutOfRange, n(0)},
		{"from 2^63", fixed(id(1<<63, nil), id(1<<63+1, nil)), codes.OutOfRange, n(0)},
		{"from 2^64-1", fixed(id(math.MaxUint64, nil), id(math.MaxUint64, nil)), codes.OutOfRange, n(0)},
		{"the whole chain", pair(func(e *env) (_, _ *walletrpc.BlockID) { return id(0, nil), id(e.tip, nil) }), codes.OK, func(e *env) int { return int(e.tip) + 1 }},
		{"the whole chain downwards", pair(func(e *env) (_, _ *walletrpc.BlockID) { return id(e.tip, nil), id(0, nil) }), codes.OK, func(e *env) int { return int(e.tip) + 1 }},
	}
}

func rangeRows() (rows []row) {
	for _, method := range []string{getBlockRange, getBlockRangeNullifiers} {
		for _, c := range rangeCases() {
			rows = append(rows, row{method, c.name, always(c.code), "", anywhere, func(ctx context.Context, e *env) error {
				start, end := c.ends(e)
				return e.requireChain(ctx, method, &walletrpc.BlockRange{Start: start, End: end}, c.count(e))
			}})
		}
		moves := outcome{codes.Aborted, codes.OK}
		rows = append(rows, row{method, "the chain moves meanwhile: never two branches", moves, "", simulated, func(ctx context.Context, e *env) error {
			return e.readMovingChain(ctx, method)
		}})
	}
	return rows
}

// readMovingChain reads the whole chain while its last 40 blocks are replaced: when Zebra is asked for the last of them, or, where the
// index answers, after the first block has come.
func (e *env) readMovingChain(ctx context.Context, method string) error {
	var once sync.Once
	var failed error
	tip, c := e.tip, e.sim.Chain() // asked for before the fault, which must not use the node
	move := func() { once.Do(func() { failed = c.Reorg(40, 41, zebratest.Small) }) }
	defer e.sim.Fault(zebratest.Fault{Method: "getblock", Where: func(asked zebratest.Call) bool {
		if h, ok := asked.Height(); ok && uint64(h) == tip-1 {
			move()
		}
		return false
	}})()
	var last *walletrpc.CompactBlock
	err := e.stream(ctx, method, &walletrpc.BlockRange{Start: id(1, nil), End: id(tip, nil)}, func(m []byte) error {
		if !e.position.noIndex {
			move()
		}
		b := &walletrpc.CompactBlock{}
		if err := proto.Unmarshal(m, b); err != nil {
			return wrong("%v", err)
		}
		if last != nil && !bytes.Equal(b.PrevHash, last.Hash) {
			return wrong("block %d does not link to block %d", b.Height, last.Height)
		}
		last = b
		return nil
	})
	if failed != nil || e.settle(ctx) != nil || e.tip == tip {
		return wrong("the chain has not moved (%v): %v", failed, err)
	}
	if err == nil && last.Height != tip {
		return wrong("the last block is %d, not %d", last.Height, tip)
	}
	return err
}

// requireChain reads a range and wants so many blocks, each linked to the one before it.
func (e *env) requireChain(ctx context.Context, method string, request *walletrpc.BlockRange, count int) error {
	messages, err := e.read(ctx, method, request)
	if len(messages) != count {
		return wrong("%d blocks (%v), want %d", len(messages), err, count)
	}
	var last *walletrpc.CompactBlock
	for _, m := range messages {
		b := &walletrpc.CompactBlock{}
		if err := proto.Unmarshal(m, b); err != nil {
			return wrong("%v", err)
		}
		if last != nil && !bytes.Equal(b.PrevHash, last.Hash) && !bytes.Equal(last.PrevHash, b.Hash) {
			return wrong("block %d does not link to block %d", b.Height, last.Height)
		}
		last = b
	}
	return err
}

// poolRows are the pool filters of every method that has one.
func poolRows() (rows []row) {
	type pools = []walletrpc.PoolType
	for _, method := range []string{getBlockRange, getBlockRangeNullifiers, "GetMempoolTx"} {
		request := func(e *env, p pools) proto.Message {
			if method == "GetMempoolTx" {
				return &walletrpc.GetMempoolTxRequest{PoolTypes: p}
			}
			return &walletrpc.BlockRange{Start: id(1, nil), End: id(30, nil), PoolTypes: p}
		}
		for _, c := range []struct {
			name  string
			pools pools
		}{{"0", pools{0}}, {"5", pools{5}}, {"99 beside a good one", pools{walletrpc.PoolType_SAPLING, 99}}, {"-1", pools{-1}}} {
			rows = append(rows, row{method, "pool type " + c.name, always(codes.InvalidArgument), "poolTypes", anywhere, func(ctx context.Context, e *env) error {
				return e.requireCount(ctx, method, request(e, c.pools), 0)
			}})
		}
		same := func(name string, a, b pools) {
			rows = append(rows, row{method, name, always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
				first, err := e.read(ctx, method, request(e, a))
				if err != nil {
					return err
				}
				second, err := e.read(ctx, method, request(e, b))
				if err == nil && !slices.EqualFunc(first, second, bytes.Equal) {
					return wrong("the answers of %v and %v differ", a, b)
				}
				return err
			}})
		}
		same("no pool types: all shielded pools", nil, pools{walletrpc.PoolType_SAPLING, walletrpc.PoolType_ORCHARD, walletrpc.PoolType_IRONWOOD})
		same("pool types repeated, in any order", pools{walletrpc.PoolType_IRONWOOD, 1, 1, walletrpc.PoolType_IRONWOOD}, pools{1, walletrpc.PoolType_IRONWOOD})
		if method == getBlockRangeNullifiers {
			same("TRANSPARENT alone: all shielded pools", pools{walletrpc.PoolType_TRANSPARENT}, nil)
			same("TRANSPARENT beside another is nothing", pools{walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING}, pools{walletrpc.PoolType_SAPLING})
		}
	}
	return rows
}
