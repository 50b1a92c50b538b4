package integration

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// TestReorg replaces the last three blocks of the chain, then the tip by another of the same height, and wants zsidecar to follow
// within a second.
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

	n.invalidate(oldTip - 2)
	n.mine(4, anyoneCanSpend)
	requireTip(t, n, w)
	requireOrphan(t, w, reversed(oldHash))

	tip, hash := n.tip()
	n.invalidate(tip)
	n.mine(1, keyHash)
	requireTip(t, n, w)
	requireOrphan(t, w, reversed(hash))
	c.stop()
	if !s.noIndex {
		requireClean(t, c)
	}
}

// requireOrphan wants a block that left the best chain to be unknown.
func requireOrphan(t *testing.T, w *wallet, hash []byte) {
	t.Helper()
	_, err := w.readBlock(t.Context(), getBlock, 0, hash...)
	requireCode(t, "GetBlock of an orphaned hash", err, codes.NotFound)
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
