package integration

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// Rule 5 of the protocol notes, with the node killed by SIGKILL. noticed is how soon it has to be seen that Zebra is gone, and
// confirmed is how long a height may be called too high on the strength of the tip that Zebra named last.
const (
	noticed   = 5 * time.Second
	confirmed = 10 * time.Second
)

// TestOutageIndexComplete: the index goes on serving its tip.
func TestOutageIndexComplete(t *testing.T) {
	t.Parallel()
	n := fixtureNode(t, "")
	tip, _ := n.tip()
	full := expectChain(t, n, 0, tip)
	want := query{method: getBlockRange}.encoded(t, full)
	c := newSidecar(t, n.url(), n.cookie(), smallSegments)
	c.start()
	c.awaitIndex(tip, time.Minute)
	w := c.wallet()

	n.proc.kill()
	for killed := time.Now(); time.Since(killed) < confirmed+2*time.Second; time.Sleep(500 * time.Millisecond) {
		if id, err := w.latest(t.Context()); err != nil || id.Height != uint64(tip) {
			t.Fatalf("GetLatestBlock without Zebra: %v, %v; want height %d", id, err, tip)
		}
		if height, err := infoHeight(t.Context(), w); err != nil || height != uint64(tip) {
			t.Fatalf("GetLightdInfo without Zebra: height %d, %v; want %d", height, err, tip)
		}
		if err := w.requireRange(t.Context(), query{method: getBlockRange}, 0, tip, want); err != nil {
			t.Fatal(err)
		}
		_, err := w.readBlock(t.Context(), getBlock, tip+1)
		requireCode(t, "GetBlock above the tip", err, codes.OutOfRange)
		requireCode(t, "range across the tip", w.requireRange(t.Context(), query{method: getBlockRange}, tip-5, tip+1, want), codes.OutOfRange)
		if code := c.status("/readyz"); code != 200 {
			t.Fatalf("/readyz with a complete index: %d", code)
		}
	}
	n.start()
	requireFollows(t, n, w)
}

// TestOutageIndexIncomplete: what is indexed is served, the tip is not known.
func TestOutageIndexIncomplete(t *testing.T) {
	t.Parallel()
	n := fixtureNode(t, "")
	tip, _ := n.tip()
	full := expectChain(t, n, 0, tip)
	want := query{method: getBlockRange}.encoded(t, full)
	p := newProxy(t, n)
	p.delay.Store(int64(100 * time.Millisecond))
	c := newSidecar(t, p.url(), n.cookie(), smallSegments)
	c.start()
	c.awaitIndex(300, time.Minute)
	w := c.wallet()

	p.refuse()
	n.proc.kill()
	killed := time.Now()
	requireTipUnknown(t, w)
	height := c.indexHeight()
	if height < 300 || height > tip-500 {
		t.Fatalf("the index is at height %d of %d: too far for this test", height, tip)
	}
	for time.Since(killed) < confirmed+2*time.Second {
		if err := w.requireRange(t.Context(), query{method: getBlockRange}, 0, height, want); err != nil {
			t.Fatal(err)
		}
		if err := w.requireRange(t.Context(), query{method: getBlockRange}, height, 0, want); err != nil {
			t.Fatal(err)
		}
		_, err := w.readBlock(t.Context(), getBlock, tip-1)
		requireCode(t, "GetBlock above the index", err, codes.Unavailable)
		requireCode(t, "range past the index", w.requireRange(t.Context(), query{method: getBlockRange}, 0, tip, want), codes.Unavailable)

		allowed := []codes.Code{codes.Unavailable, codes.OutOfRange}
		if time.Since(killed) > confirmed {
			allowed = allowed[:1]
		}
		_, err = w.readBlock(t.Context(), getBlock, tip+1000)
		requireCode(t, "GetBlock far above the tip", err, allowed...)
		_, err = w.latest(t.Context())
		requireCode(t, "GetLatestBlock", err, codes.Unavailable)
		time.Sleep(500 * time.Millisecond)
	}
	if t.Failed() {
		return
	}
	p.delay.Store(0)
	n.start()
	p.accept()
	c.awaitIndex(tip, time.Minute)
	if err := w.requireRange(t.Context(), query{method: getBlockRange}, 0, tip, want); err != nil {
		t.Fatal(err)
	}
	requireFollows(t, n, w)
}

// TestOutageNoIndex: nothing can be answered, and everything says so.
func TestOutageNoIndex(t *testing.T) {
	t.Parallel()
	n := fixtureNode(t, "")
	tip, _ := n.tip()
	full := expectChain(t, n, 0, tip)
	want := query{method: getBlockRange}.encoded(t, full)
	c := newSidecar(t, n.url(), n.cookie(), passthrough)
	c.start()
	w := c.wallet()
	awaitAnswer(t, w)
	if err := w.requireRange(t.Context(), query{method: getBlockRange}, 0, tip, want); err != nil {
		t.Fatal(err)
	}

	n.proc.kill()
	requireTipUnknown(t, w)
	_, err := w.readBlock(t.Context(), getBlock, 1)
	requireCode(t, "GetBlock", err, codes.Unavailable)
	_, err = w.readBlock(t.Context(), getBlockNullifiers, 1)
	requireCode(t, "GetBlockNullifiers", err, codes.Unavailable)
	for _, q := range []query{{method: getBlockRange}, {method: getBlockRangeNullifiers}} {
		requireCode(t, q.method, w.requireRange(t.Context(), q, 1, 9, want), codes.Unavailable)
		requireCode(t, q.method+" descending", w.requireRange(t.Context(), q, 9, 1, want), codes.Unavailable)
	}
	n.start()
	requireFollows(t, n, w)
	if err := w.requireRange(t.Context(), query{method: getBlockRange}, 0, tip, want); err != nil {
		t.Fatal(err)
	}
}

// requireTipUnknown waits until both methods that name the tip have become UNAVAILABLE.
func requireTipUnknown(t *testing.T, w *wallet) {
	t.Helper()
	await(t, "GetLatestBlock becomes UNAVAILABLE", noticed, func() bool {
		_, err := w.latest(t.Context())
		if err != nil {
			requireCode(t, "GetLatestBlock", err, codes.Unavailable)
		}
		return err != nil
	})
	await(t, "GetLightdInfo becomes UNAVAILABLE", noticed, func() bool {
		_, err := infoHeight(t.Context(), w)
		if err != nil {
			requireCode(t, "GetLightdInfo", err, codes.Unavailable)
		}
		return err != nil
	})
}

// requireFollows mines one block and wants to see it, with the right content.
func requireFollows(t *testing.T, n *node, w *wallet) {
	t.Helper()
	height := n.mine(1, keyHash)
	await(t, "the block mined after the outage is served", 10*time.Second, func() bool {
		id, err := w.latest(t.Context())
		return err == nil && id.Height == uint64(height)
	})
	got, err := w.readBlock(t.Context(), getBlock, height)
	if err != nil {
		t.Fatalf("GetBlock %d: %v", height, err)
	}
	block := proto.CloneOf(expectChain(t, n, height, height)[0])
	if err := sameBlock(got, encode(t, query{method: getBlock}.cut(block))); err != nil {
		t.Fatalf("GetBlock %d: %v", height, err)
	}
}

// infoHeight is GetLightdInfo's block height.
func infoHeight(ctx context.Context, w *wallet) (uint64, error) {
	info := &walletrpc.LightdInfo{}
	err := w.call(ctx, "GetLightdInfo", &walletrpc.Empty{}, info)
	return info.BlockHeight, err
}
