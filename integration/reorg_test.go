package integration

import (
	"bytes"
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

	requireOneChain(t, n, w, oldTip-2)
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

// requireOneChain replaces the blocks from fork on by four others while a wallet reads the chain up to the tip. The wallet has to get
// the blocks of one chain, the old or the new one; the answer may end with ABORTED, but not OK before the last block.
func requireOneChain(t *testing.T, n *node, w *wallet, fork int) {
	t.Helper()
	tip, _ := n.tip()
	q := query{getBlockRange, []walletrpc.PoolType{walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING}}
	before := q.encoded(t, expectChain(t, n, 0, tip))
	var got [][]byte
	err := w.stream(t.Context(), q.method, q.blockRange(0, tip), func(block []byte) error {
		if got = append(got, slices.Clone(block)); len(got) == 1 {
			n.invalidate(fork)
			n.mine(4, anyoneCanSpend)
		}
		return nil
	})
	requireCode(t, "a range while the chain changes", err, codes.OK, codes.Aborted)
	if err == nil && len(got) != tip+1 {
		t.Errorf("a range of %d blocks ended OK after %d", tip+1, len(got))
	}
	want := before
	if len(got) > fork && !bytes.Equal(got[fork], before[fork]) {
		want = q.encoded(t, expectChain(t, n, 0, tip))
	}
	for height, block := range got {
		if err := sameBlock(block, want[height]); err != nil {
			t.Errorf("height %d of a range while the chain changes: %v", height, err)
		}
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
