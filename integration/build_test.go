package integration

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// TestServesWhileBuilding shows that wallets are answered before the index exists, that nothing changes for them while it is built and
// when it takes over, and that they do not hold the build up.
func TestServesWhileBuilding(t *testing.T) {
	t.Parallel()
	for _, s := range []setup{smallSegments, defaultSegments} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			testServesWhileBuilding(t, s)
		})
	}
}

func testServesWhileBuilding(t *testing.T, s setup) {
	const (
		blockDelay = 150 * time.Millisecond // makes 2,600 blocks last 24 s
		inFlight   = 16                     // zsidecar's default
		leastShare = 0.4                    // of the speed without clients
	)
	n := fixtureNode(t, "")
	tip, tipHash := n.tip()
	full := expectChain(t, n, 0, tip)
	p := newProxy(t, n)
	p.delay.Store(int64(blockDelay))
	c := newSidecar(t, p.url(), n.cookie(), s)
	c.start()
	w := c.wallet()

	awaitAnswer(t, w)
	if id, err := w.latest(t.Context()); err != nil || id.Height != uint64(tip) || !slices.Equal(id.Hash, reversed(tipHash)) {
		t.Errorf("GetLatestBlock while building: %v, %v; want %d (%s)", id, err, tip, tipHash)
	}
	got, err := w.readBlock(t.Context(), getBlock, tip)
	if err != nil {
		t.Errorf("GetBlock of the tip while building: %v", err)
	} else if err := sameBlock(got, encode(t, query{method: getBlock}.cut(full[tip]))); err != nil {
		t.Errorf("GetBlock of the tip while building: %v", err)
	}
	if height := c.indexHeight(); height >= tip/2 {
		t.Errorf("the index was at height %d already when the first answers came: nothing was shown", height)
	}

	readers := startReaders(t, c, full)
	ideal := time.Duration(len(full)) * blockDelay / inFlight
	c.awaitIndex(tip, time.Duration(float64(ideal)/leastShare))
	took := time.Since(c.proc.started)
	t.Logf("built in %v beside %d readers, %v alone at best", took.Round(time.Millisecond), len(readers.passes), ideal)
	if took < 20*time.Second {
		t.Errorf("the build took only %v, so that it shows little: want at least 20s", took)
	}
	awaitSwitch(t, c)
	readers.awaitPass(t)
	readers.stop()
	if c.served("zebra") <= 0 || c.served("index") <= 0 {
		t.Errorf("blocks served: %v by zebra, %v by the index; want both", c.served("zebra"), c.served("index"))
	}
	c.stop()
}

// awaitSwitch waits until Zebra serves no block any more, not even to streams that were open when the index became complete.
func awaitSwitch(t *testing.T, c *sidecar) {
	t.Helper()
	last, since := -1.0, time.Now()
	await(t, "all open streams move to the index", 10*time.Second, func() bool {
		if served := c.served("zebra"); served != last {
			last, since = served, time.Now()
		}
		return time.Since(since) > time.Second
	})
}

// readers are clients that stream the whole chain again and again, each in its own way, and compare every byte.
type readers struct {
	stop   func()
	hurry  atomic.Bool    // the slow client waits no more
	passes []atomic.Int64 // whole passes of each client
}

// startReaders starts the clients. One of them takes its time, so that a single stream of it goes on for about as long as a build.
func startReaders(t *testing.T, c *sidecar, full []*walletrpc.CompactBlock) *readers {
	t.Helper()
	tip := len(full) - 1
	ways := []struct {
		query    query
		from, to int
		pause    time.Duration // after each block
	}{
		{query{method: getBlockRange}, 0, tip, 0},
		{query{getBlockRange, []walletrpc.PoolType{walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING}}, tip, 0, 0},
		{query{method: getBlockRangeNullifiers}, 0, tip, 0},
		{query{method: getBlockRange}, 0, tip, 20 * time.Millisecond},
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &readers{passes: make([]atomic.Int64, len(ways))}
	var running sync.WaitGroup
	for i, way := range ways {
		w, want := c.wallet(), way.query.encoded(t, full)
		each := func() {
			if !r.hurry.Load() {
				time.Sleep(way.pause)
			}
		}
		running.Go(func() {
			for ctx.Err() == nil {
				err := w.readRange(ctx, way.query, way.from, way.to, want, each)
				switch {
				case err == nil:
					r.passes[i].Add(1)
				case ctx.Err() == nil:
					t.Errorf("a reader saw: %v", err)
					return
				}
			}
		})
	}
	r.stop = func() { cancel(); running.Wait() }
	t.Cleanup(r.stop)
	return r
}

// awaitPass waits until every client has ended the stream that was open at the call, and one more.
func (r *readers) awaitPass(t *testing.T) {
	t.Helper()
	r.hurry.Store(true)
	for i := range r.passes {
		want := r.passes[i].Load() + 2
		await(t, "every reader reads the chain again", 30*time.Second, func() bool { return t.Failed() || r.passes[i].Load() >= want })
	}
}
