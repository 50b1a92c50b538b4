package index

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

func TestFullDisk(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	s := open(t, t.TempDir(), small())
	build(t, s, newFakeNode(blocks[:30]))
	n := newFakeNode(blocks)
	s.o.MinFree = 1 << 60
	b := start(t, s, n, BuilderOptions{})
	b.awaitState(t, StatePaused, s.dir)
	var full *DiskFullError
	if err := b.Progress().Err; !errors.Is(err, ErrDiskFull) || !errors.As(err, &full) || full.Needed < 1<<60 || full.Free <= 0 {
		t.Errorf("progress says %v", err)
	}
	expectChain(t, s, blocks[:30]) // serving goes on
	var before, after int
	n.with(func() { before = n.blocksSent })
	time.Sleep(50 * time.Millisecond)
	if n.with(func() { after = n.blocksSent }); after != before {
		t.Error("a paused builder goes on fetching")
	}
	b.stop(t) // the field belongs to the builder's goroutine
	s.o.MinFree = 0
	b = start(t, s, n, BuilderOptions{})
	b.awaitTip(t, blocks[59])
	b.stop(t)
	expectChain(t, s, blocks)
}

// TestDiskGetsFree: the builder goes on by itself.
func TestDiskGetsFree(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	o := small()
	var full atomic.Bool
	o.commitHook = func(write func() error) error {
		if full.Load() {
			return &DiskFullError{Dir: "here", Free: 1, Needed: 2}
		}
		return write()
	}
	s := open(t, t.TempDir(), o)
	full.Store(true)
	n := newFakeNode(blocks)
	b := start(t, s, n, BuilderOptions{})
	b.awaitState(t, StatePaused, "free some space")
	full.Store(false)
	b.awaitTip(t, blocks[59])
	b.awaitState(t, StateFollowing, "")
	b.stop(t)
	expectChain(t, s, blocks)
	if n.blocksSent != 60 {
		t.Errorf("the node sent %d blocks for 60", n.blocksSent)
	}
}

// TestComplete: an index that is a little behind stays complete, one that is far behind, or for long, does not.
func TestComplete(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	for name, c := range map[string]struct {
		ahead    int // blocks that the node is ahead and does not give
		behind   time.Duration
		complete bool
	}{
		"one block":           {1, time.Hour, true},
		"ten blocks":          {10, time.Hour, true},
		"eleven blocks":       {11, time.Hour, false},
		"one block, for long": {1, 30 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir, small())
			n := newFakeNode(blocks[:40])
			b := start(t, s, n, BuilderOptions{BehindFor: c.behind})
			b.awaitTip(t, blocks[39])
			b.await(t, "completeness", func() bool { return s.Complete() && isFollowing(n) })
			n.with(func() {
				n.block = func(testBlock) (*chain.Block, error) { return nil, errDown }
			})
			n.set(blocks[:40+c.ahead], nil)
			b.awaitState(t, StateWaiting, "connection refused")
			if c.complete {
				time.Sleep(30 * time.Millisecond)
			} else {
				b.await(t, "incompleteness", func() bool { return !s.Complete() })
			}
			if s.Complete() != c.complete || isFollowing(n) != c.complete {
				t.Errorf("complete %t, following %t, want %t", s.Complete(), isFollowing(n), c.complete)
			}
			b.stop(t)
			closeAndCheck(t, s)
			if s = open(t, dir, small()); s.Complete() != c.complete {
				t.Errorf("after a restart: complete %t, want %t", s.Complete(), c.complete)
			}
			n.block = nil
			build(t, s, n)
		})
	}
}

func isFollowing(n *fakeNode) (is bool) {
	n.with(func() { is = n.following })
	return is
}

func TestProgress(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	s := open(t, t.TempDir(), small())
	n := newFakeNode(blocks)
	b := NewBuilder(s, n, BuilderOptions{})
	if p := b.Progress(); p.State != StateWaiting || p.Blocks != 0 || p.Err != nil {
		t.Errorf("before: %+v", p)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- b.Run(ctx) }()
	r := &running{Builder: b}
	r.awaitState(t, StateFollowing, "")
	if p := b.Progress(); p.Blocks != 60 || p.Target != 59 || p.Err != nil || p.BlocksPerSecond <= 0 {
		t.Errorf("after: %+v", p)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if isFollowing(n) {
		t.Error("the node goes on polling fast after the builder has stopped")
	}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	var m meter
	at := time.Unix(1000, 0)
	if r := m.rate(at); r != 0 {
		t.Errorf("rate of nothing: %v", r)
	}
	for i := range 600 { // 100 blocks every 50 ms
		m.mark(at.Add(time.Duration(i)*50*time.Millisecond), chain.Height(100*i))
	}
	end := at.Add(599 * 50 * time.Millisecond)
	if r := m.rate(end); r < 1950 || r > 2050 {
		t.Errorf("rate %v, want 2000", r)
	}
	if len(m.marks) > 80 {
		t.Errorf("%d marks", len(m.marks))
	}
	if r := m.rate(end.Add(time.Minute)); r > 400 {
		t.Errorf("rate a minute later: %v", r)
	}
	m.mark(end.Add(time.Second), 5) // a rewind is no negative rate
	if r := m.rate(end.Add(time.Second)); r != 0 {
		t.Errorf("rate after a rewind: %v", r)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for failures, most := range map[int]time.Duration{1: 100, 2: 200, 5: 1600, 7: 5000, 1000: 5000} {
		for range 50 {
			if d := backoff(failures, 5*time.Second); d > most*time.Millisecond || d < most*time.Millisecond/2 {
				t.Errorf("after %d failures: %v", failures, d)
			}
		}
	}
}
