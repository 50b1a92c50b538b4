package index

import (
	"sync/atomic"
	"testing"
)

// fillable returns a complete index of the given blocks on a disk that a test fills by storing 0, and a builder that follows its node.
func fillable(t *testing.T, blocks []testBlock) (*Store, *fakeNode, *running, *atomic.Int64) {
	t.Helper()
	room := new(atomic.Int64)
	room.Store(1 << 40)
	o := small()
	o.MinFree, o.freeHook = 1<<20, room.Load
	s := open(t, t.TempDir(), o)
	t.Cleanup(func() { room.Store(1 << 40) })
	n := newFakeNode(blocks)
	b := start(t, s, n, quickly)
	b.awaitTip(t, blocks[len(blocks)-1])
	b.await(t, "completeness", s.Complete)
	return s, n, b, room
}

// TestCutIsDecidedAnew: a cut that waits for room on the disk is not done when the node has changed its mind meanwhile, and a node that is
// right again is served at once.
func TestCutIsDecidedAnew(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	one, two, longer := f.extend(t, blocks[:14], 30), f.extend(t, blocks[:6], 40), f.extend(t, blocks, 2)
	s, n, b, room := fillable(t, blocks)
	room.Store(0)
	n.set(one, nil)
	b.awaitState(t, StatePaused, "cut the index to 14 blocks: disk full")
	n.set(two, nil)
	b.awaitState(t, StatePaused, "cut the index to 6 blocks: disk full")
	expectChain(t, s, blocks)
	n.with(func() { n.blocksSent = 0 })
	n.set(longer, nil)
	b.await(t, "a node of our chain", func() bool { return s.Apart() == nil })
	b.awaitState(t, StatePaused, "connect blocks 40")
	room.Store(1 << 40)
	b.awaitTip(t, longer[41])
	if n.blocksSent > 4 {
		t.Errorf("the node sent %d blocks, where 2 are new", n.blocksSent)
	}

	room.Store(0)
	n.set(two, nil)
	b.awaitState(t, StatePaused, "cut the index to 6 blocks: disk full")
	room.Store(1 << 40)
	b.awaitTip(t, two[45])
	b.stop(t)
	expectChain(t, s, two)
}

// TestRewindWithoutRoom: a tip that has left the node's chain is not taken for the chain's while there is no room to rewind it, also when
// the node's new tip is lower; one that comes back is again.
func TestRewindWithoutRoom(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	lower, higher := f.extend(t, blocks[:36], 2), f.extend(t, blocks[:37], 5)
	s, n, b, room := fillable(t, blocks)
	for _, other := range [][]testBlock{lower, higher} {
		room.Store(0)
		n.set(other, nil)
		b.awaitState(t, StatePaused, "rewind from 39")
		b.await(t, "doubt", func() bool { return !s.Complete() })
		expectChain(t, s, blocks)
		n.set(blocks, nil)
		b.await(t, "completeness", s.Complete)
		b.awaitState(t, StateFollowing, "")
		expectChain(t, s, blocks)
	}
	n.set(lower, nil)
	b.awaitState(t, StatePaused, "rewind from 39")
	room.Store(1 << 40)
	b.awaitTip(t, lower[37])
	b.await(t, "completeness", s.Complete)
	b.stop(t)
	expectChain(t, s, lower)
}
