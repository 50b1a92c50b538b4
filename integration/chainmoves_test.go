package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// TestReorgDepths has a real Zebra replace 1, 5, 50 and 110 blocks by one more, go back to the old chain, which is one block shorter, and
// be killed while zsidecar follows it.
func TestReorgDepths(t *testing.T) {
	n := fixtureNode(t, "")
	tip, _ := n.tip()
	c := newSidecar(t, n.url(), n.cookie(), defaultSegments)
	c.start()
	w := c.wallet()
	c.awaitIndex(tip, time.Minute)
	requireFollowed(t, n, w, tip-1)

	for i, depth := range []int{1, 5, 50, 110} {
		old, oldHash := n.tip()
		fork := old - depth
		oldFirst := n.hashAt(fork + 1)
		n.invalidate(fork + 1)
		n.mine(depth+1, []string{keyHash, anyoneCanSpend}[i%2])
		requireFollowed(t, n, w, fork)
		requireOrphan(t, w, reversed(oldHash))

		_, newHash := n.tip()
		n.call(nil, "reconsiderblock", oldFirst)
		n.call(nil, "invalidateblock", n.hashAt(fork+1))
		await(t, "zebra is back on the old chain", 10*time.Second, func() bool {
			height, hash := n.tip()
			return height == old && hash == oldHash
		})
		requireFollowed(t, n, w, fork)
		requireOrphan(t, w, reversed(newHash))
	}

	for range 3 {
		n.mine(2, keyHash)
		n.proc.kill()
		if id, err := w.latest(t.Context()); err != nil || int(id.Height) < tip {
			t.Errorf("with a killed zebra: tip %v, %v", id, err)
		}
		n.start()
		n.mine(1, keyHash)
		requireFollowed(t, n, w, tip-1)
	}
	if text := c.proc.output.tail(1 << 20); strings.Contains(text, "cut back") {
		t.Errorf("a plain reorg was taken for a deep one:\n%s", text)
	}
	c.stop()
	requireClean(t, c)
}

// TestWipedNode empties a real Zebra's state. While it has less than our chain, and that of ours, it is waited for; the other chain that
// it grows then leaves the index among sealed blocks, and is followed once it is as high as ours was.
func TestWipedNode(t *testing.T) {
	n := newNode(t, t.TempDir(), "")
	n.start()
	old := n.mine(130, keyHash)
	c := newSidecar(t, n.url(), n.cookie(), smallSegments) // blocks deeper than 50 are sealed
	c.start()
	w := c.wallet()
	c.awaitIndex(old, time.Minute)
	requireFollowed(t, n, w, old-1)
	before := query{method: getBlockRange}.encoded(t, expectChain(t, n, 0, old))
	_, oldHash := n.tip()

	n.stop()
	if err := os.RemoveAll(filepath.Join(n.dir, "state")); err != nil {
		t.Fatal(err)
	}
	n.start()
	awaitHealth(t, c, "below the index's 130: it is waited for")
	if err := w.requireRange(t.Context(), query{method: getBlockRange}, 0, old, before); err != nil {
		t.Errorf("beside a node without blocks: %v", err)
	}
	if id, err := w.latest(t.Context()); err != nil || int(id.Height) != old {
		t.Errorf("beside a node without blocks: tip %v, %v", id, err)
	}

	n.mine(100, anyoneCanSpend)
	awaitHealth(t, c, "The node's tip is below that block, so it is not followed")
	_, err := w.latest(t.Context())
	requireCode(t, "the tip beside another chain", err, codes.Unavailable)
	n.mine(40, anyoneCanSpend)
	awaitHealth(t, c, "the index is cut back to there and follows it")
	await(t, "the other chain is followed", 2*time.Minute, func() bool {
		id, err := w.latest(t.Context())
		return err == nil && int(id.Height) == old+10 && c.indexHeight() == old+10
	})
	requireFollowed(t, n, w, 0)
	requireOrphan(t, w, reversed(oldHash))
	c.stop()
	requireClean(t, c)
}

// awaitHealth waits for a text in /healthz.
func awaitHealth(t *testing.T, c *sidecar, text string) {
	t.Helper()
	await(t, "/healthz says: "+text, time.Minute, func() bool {
		_, body, err := c.get("/healthz")
		return err == nil && strings.Contains(body, text)
	})
}

// requireFollowed waits until Zebra's tip is served, and then reads the blocks from below the fork on.
func requireFollowed(t *testing.T, n *node, w *wallet, fork int) {
	t.Helper()
	tip, hash := n.tip()
	await(t, "the new tip is served", 30*time.Second, func() bool {
		id, err := w.latest(t.Context())
		return err == nil && id.Height == uint64(tip) && slices.Equal(id.Hash, reversed(hash))
	})
	from := max(fork-5, 0)
	q := query{method: getBlockRange}
	want := append(make([][]byte, from), q.encoded(t, expectChain(t, n, from, tip))...)
	if err := w.requireRange(t.Context(), q, from, tip, want); err != nil {
		t.Error(err)
	}
	if err := w.requireRange(t.Context(), q, tip, from, want); err != nil {
		t.Error(err)
	}
}
