package integration

import (
	"testing"
	"time"
)

// TestRestart stops and kills zsidecar, in the middle of a build and after it: it goes on where it was and serves again within a second.
func TestRestart(t *testing.T) { // not parallel: it measures time
	n := fixtureNode(t, "")
	tip, _ := n.tip()
	want := query{method: getBlockRange}.encoded(t, expectChain(t, n, 0, tip))
	p := newProxy(t, n)
	c := newSidecar(t, p.url(), n.cookie(), smallSegments)

	stops := []struct {
		name string
		stop func()
	}{
		{"SIGTERM", c.stop},
		{"SIGKILL", func() { c.proc.kill() }},
	}
	p.delay.Store(int64(40 * time.Millisecond)) // 400 blocks/s: the build lasts some 6 s
	c.start()
	for i, s := range stops {
		reached := 600 * (i + 1)
		c.awaitIndex(reached, time.Minute)
		height := c.indexHeight()
		if height >= tip {
			t.Fatalf("the build ended before %s could interrupt it", s.name)
		}
		s.stop()
		p.resetCalls()
		c.start()
		requireServesFrom(t, c, height, want)
		c.awaitIndex(height+16, time.Minute)
		if _, lowest := p.rawCalls(); lowest < height {
			t.Errorf("after %s at height %d of the build, block %d was fetched again", s.name, height, lowest)
		}
	}
	p.delay.Store(0)
	c.awaitIndex(tip, time.Minute)

	for _, s := range stops {
		s.stop()
		p.resetCalls()
		c.start()
		requireServesFrom(t, c, tip, want)
		if calls, lowest := p.rawCalls(); calls > 2 {
			t.Errorf("after %s with a complete index, %d blocks were fetched again, from height %d on", s.name, calls, lowest)
		}
	}
	c.stop()
	requireClean(t, c)
}

// requireServesFrom wants the tip to be named within a second from the start, and everything up to the given height to come out of the
// index. Zebra may be asked until the index is open, so that comes first.
func requireServesFrom(t *testing.T, c *sidecar, height int, want [][]byte) {
	t.Helper()
	const limit = time.Second
	w := c.wallet()
	awaitAnswer(t, w)
	c.awaitIndex(height, 5*time.Second)
	if err := w.requireRange(t.Context(), query{method: getBlockRange}, height, 0, want); err != nil {
		t.Fatalf("after the restart: %v", err)
	}
	if took := time.Since(c.proc.started); took > limit {
		t.Errorf("serving out of the index again took %v, want at most %v", took, limit)
	}
}
