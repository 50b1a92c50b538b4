package integration

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// TestReorg replaces the last three blocks of the chain, then takes one away, and wants zsidecar to follow within a second.
func TestReorg(t *testing.T) { // not parallel: it measures time
	for _, s := range []setup{passthrough, smallSegments} {
		t.Run(s.name, func(t *testing.T) { testReorg(t, s) })
	}
}

func testReorg(t *testing.T, s setup) {
	n := fixtureNode(t, "")
	oldTip, oldHash := n.tip()
	c := newSidecar(t, n.url(), n.cookie(), s)
	c.start()
	w := c.wallet()
	awaitAnswer(t, w)
	if !s.noIndex {
		c.awaitIndex(oldTip, time.Minute)
	}

	n.call(nil, "invalidateblock", n.hashAt(oldTip-2))
	n.mine(4, anyoneCanSpend)
	requireTip(t, n, w)
	orphan := &walletrpc.BlockID{Hash: reversed(oldHash)}
	var block []byte
	requireCode(t, "GetBlock of an orphaned hash", w.call(t.Context(), getBlock, orphan, &block), codes.NotFound)

	tip, hash := n.tip()
	n.call(nil, "invalidateblock", hash)
	await(t, "zebra drops its tip", 5*time.Second, func() bool {
		now, _ := n.tip()
		return now == tip-1
	})
	requireTip(t, n, w)
	_, err := w.readBlock(t.Context(), getBlock, tip)
	requireCode(t, "GetBlock of a height that is gone", err, codes.OutOfRange)
	c.stop()
	if !s.noIndex {
		requireClean(t, c)
	}
}

// requireTip waits for Zebra's present tip to be served, at most a second, and then reads the whole chain in both directions.
func requireTip(t *testing.T, n *node, w *wallet) {
	t.Helper()
	const limit = time.Second
	tip, hash := n.tip()
	begin := time.Now()
	await(t, "the new tip is served", 10*time.Second, func() bool {
		id, err := w.latest(t.Context())
		return err == nil && id.Height == uint64(tip) && slices.Equal(id.Hash, reversed(hash))
	})
	if took := time.Since(begin); took > limit {
		t.Errorf("the new tip was served after %v, want at most %v", took, limit)
	}
	full := expectChain(t, n, 0, tip)
	for _, q := range []query{{method: getBlockRange}, {getBlockRange, []walletrpc.PoolType{walletrpc.PoolType_TRANSPARENT}}} {
		want := q.encoded(t, full)
		if err := w.requireRange(t.Context(), q, 0, tip, want); err != nil {
			t.Error(err)
		}
		if err := w.requireRange(t.Context(), q, tip, 0, want); err != nil {
			t.Error(err)
		}
	}
}
