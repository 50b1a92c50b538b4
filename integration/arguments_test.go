package integration

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// TestArguments sends good and bad arguments to the block methods and wants the same status in both positions.
func TestArguments(t *testing.T) {
	t.Parallel()
	n := fixtureNode(t, "")
	tip, tipHash := n.tip()
	genesis, middle := reversed(n.hashAt(0)), reversed(n.hashAt(1000))
	for _, s := range []setup{passthrough, smallSegments} {
		t.Run(s.name, func(t *testing.T) {
			c := newSidecar(t, n.url(), n.cookie(), s)
			c.start()
			w := c.wallet()
			awaitAnswer(t, w)
			if !s.noIndex {
				c.awaitIndex(tip, time.Minute)
			}
			testBlockArguments(t, w, tip, middle)
			testRangeArguments(t, w, tip, genesis, middle, reversed(tipHash))
		})
	}
}

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

func testBlockArguments(t *testing.T, w *wallet, tip int, middle []byte) {
	for _, method := range []string{getBlock, getBlockNullifiers} {
		for _, tc := range []struct {
			name   string
			id     *walletrpc.BlockID
			code   codes.Code
			height uint64 // of the answer
		}{
			{"height", id(1000, nil), codes.OK, 1000},
			{"hash", id(0, middle), codes.OK, 1000},
			{"height and its hash", id(1000, middle), codes.OK, 1000},
			{"height and another's hash", id(999, middle), codes.NotFound, 0},
			{"height and an unknown hash", id(1000, wrongHash), codes.NotFound, 0},
			{"unknown hash", id(0, wrongHash), codes.NotFound, 0},
			{"hash in display order", id(0, reversedBytes(middle)), codes.NotFound, 0},
			{"nothing", id(0, nil), codes.InvalidArgument, 0},
			{"short hash", id(0, middle[:31]), codes.InvalidArgument, 0},
			{"long hash", id(1000, append(middle[:32:32], 0)), codes.InvalidArgument, 0},
			{"tip", id(uint64(tip), nil), codes.OK, uint64(tip)},
			{"above the tip", id(uint64(tip)+1, nil), codes.OutOfRange, 0},
			{"2^31-1", id(math.MaxInt32, nil), codes.OutOfRange, 0},
			{"2^31", id(1<<31, nil), codes.OutOfRange, 0},
			{"2^32", id(1<<32, nil), codes.OutOfRange, 0},
			{"2^32+1", id(1<<32+1, nil), codes.OutOfRange, 0},
			{"2^63", id(1<<63, nil), codes.OutOfRange, 0},
			{"2^64-1", id(math.MaxUint64, nil), codes.OutOfRange, 0},
		} {
			block := &walletrpc.CompactBlock{}
			err := w.call(t.Context(), method, tc.id, block)
			requireCode(t, method+" "+tc.name, err, tc.code)
			requireNamesTip(t, method+" "+tc.name, err, tip)
			if err == nil && block.Height != tc.height {
				t.Errorf("%s %s: answered block %d, want %d", method, tc.name, block.Height, tc.height)
			}
		}
	}
}

// requireNamesTip wants the tip in the text of an OUT_OF_RANGE.
func requireNamesTip(t *testing.T, what string, err error, tip int) {
	t.Helper()
	if status.Code(err) == codes.OutOfRange && !strings.Contains(err.Error(), strconv.Itoa(tip)) {
		t.Errorf("%s: %v does not name the tip %d", what, err, tip)
	}
}

func testRangeArguments(t *testing.T, w *wallet, tip int, genesis, middle, newest []byte) {
	top := uint64(tip)
	pools := func(p ...walletrpc.PoolType) []walletrpc.PoolType { return p }
	for _, tc := range []struct {
		name       string
		start, end *walletrpc.BlockID
		pools      []walletrpc.PoolType
		code       codes.Code
		count      int
	}{
		{"no start", nil, id(1, nil), nil, codes.InvalidArgument, 0},
		{"no end", id(1, nil), nil, nil, codes.InvalidArgument, 0},
		{"empty ids", id(0, nil), id(0, nil), nil, codes.OK, 1},
		{"from an empty id", id(0, nil), id(9, nil), nil, codes.OK, 10},
		{"down to an empty id", id(9, nil), id(0, nil), nil, codes.OK, 10},
		{"genesis by hash", id(0, genesis), id(4, nil), nil, codes.OK, 5},
		{"hashes alone", id(0, genesis), id(0, middle), nil, codes.OK, 1001},
		{"right hash beside a height", id(990, nil), id(1000, middle), nil, codes.OK, 11},
		{"tip as GetLatestBlock gives it", id(top-9, nil), id(top, newest), nil, codes.OK, 10},
		{"wrong hash beside the end", id(990, nil), id(1000, wrongHash), nil, codes.NotFound, 0},
		{"wrong hash beside the start", id(990, middle), id(1000, nil), nil, codes.NotFound, 0},
		{"unknown hash alone", id(0, wrongHash), id(1000, nil), nil, codes.NotFound, 0},
		{"short hash", id(990, nil), id(1000, middle[:31]), nil, codes.InvalidArgument, 0},
		{"long hash", id(990, append(middle[:32:32], 0)), id(1000, nil), nil, codes.InvalidArgument, 0},
		{"across the tip", id(top-9, nil), id(top+5, nil), nil, codes.OutOfRange, 10},
		{"up to 2^64-1", id(top-9, nil), id(math.MaxUint64, nil), nil, codes.OutOfRange, 10},
		{"down across the tip", id(top+1, nil), id(top-9, nil), nil, codes.OutOfRange, 0},
		{"above the tip", id(top+1, nil), id(top+2, nil), nil, codes.OutOfRange, 0},
		{"from 2^32", id(1<<32, nil), id(5, nil), nil, codes.OutOfRange, 0},
		{"from 2^63", id(1<<63, nil), id(1<<63+1, nil), nil, codes.OutOfRange, 0},
		{"pool 0", id(1, nil), id(2, nil), pools(0), codes.InvalidArgument, 0},
		{"pool 99", id(1, nil), id(2, nil), pools(walletrpc.PoolType_SAPLING, 99), codes.InvalidArgument, 0},
		{"negative pool", id(1, nil), id(2, nil), pools(-1), codes.InvalidArgument, 0},
	} {
		for _, method := range []string{getBlockRange, getBlockRangeNullifiers} {
			request := &walletrpc.BlockRange{Start: tc.start, End: tc.end, PoolTypes: tc.pools}
			count := 0
			err := w.stream(t.Context(), method, request, func([]byte) error { count++; return nil })
			requireCode(t, method+" "+tc.name, err, tc.code)
			requireNamesTip(t, method+" "+tc.name, err, tip)
			if count != tc.count {
				t.Errorf("%s %s: %d blocks, want %d", method, tc.name, count, tc.count)
			}
		}
	}
	huge := &walletrpc.BlockRange{Start: id(1, make([]byte, 1<<20)), End: id(2, nil)}
	err := w.stream(t.Context(), getBlockRange, huge, func([]byte) error { return nil })
	requireCode(t, "a request above 1 MiB", err, codes.ResourceExhausted)
}
