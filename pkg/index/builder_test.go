package index

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

var errDown = fmt.Errorf("connection refused: %w", chain.ErrUnavailable)

func (r *running) awaitTip(t testing.TB, b testBlock) {
	t.Helper()
	r.await(t, "tip "+b.ID.String(), func() bool { tip, ok := r.store.Tip(); return ok && tip == b.ID })
}

func (r *running) awaitState(t testing.TB, s State, text string) {
	t.Helper()
	r.await(t, s.String()+": "+text, func() bool {
		p := r.Progress()
		return p.State == s && (text == "" || p.Err != nil && strings.Contains(p.Err.Error(), text))
	})
}

func TestPlainReorgs(t *testing.T) {
	t.Parallel()
	f := newForge()
	base := f.extend(t, nil, 150)
	for _, c := range []struct{ depth, extend int }{{1, 1}, {1, 2}, {3, 4}, {5, 2}, {100, 101}, {100, 3}, {120, 90}, {149, 150}} {
		t.Run(fmt.Sprintf("%d blocks for %d", c.extend, c.depth), func(t *testing.T) {
			t.Parallel()
			forge := newForge()
			forge.seed = uint64(1000 * (c.depth + c.extend))
			other := forge.extend(t, base[:150-c.depth], c.extend)
			s := open(t, t.TempDir(), Options{MinFree: -1})
			n := newFakeNode(base)
			b := start(t, s, n, BuilderOptions{})
			b.awaitTip(t, base[149])
			n.with(func() { n.hashAsked = 0 })
			n.set(other, nil)
			b.awaitTip(t, other[len(other)-1])
			b.await(t, "completeness", s.Complete)
			b.stop(t)
			expectChain(t, s, other)
			// Doubling and halving: not one question per block.
			if n.hashAsked > 20 {
				t.Errorf("the node was asked for %d hashes", n.hashAsked)
			}
		})
	}
}

// TestViewsOverRewind reads orphaned blocks through a view that is older than the reorg; their rows go when it is closed.
func TestViewsOverRewind(t *testing.T) {
	t.Parallel()
	f := newForge()
	first := f.extend(t, nil, 20)
	second := f.extend(t, first[:17], 5)
	third := f.extend(t, second[:20], 8)
	s := open(t, t.TempDir(), Options{MinFree: -1})
	build(t, s, newFakeNode(first))
	old := openView(t, s)
	build(t, s, newFakeNode(second))
	middle := openView(t, s)
	build(t, s, newFakeNode(third))
	expectView(t, old, first)
	expectView(t, middle, second)
	expectChain(t, s, third)

	rows := func() map[string]bool {
		present := map[string]bool{}
		for name, b := range map[string]testBlock{"first": first[19], "second": second[21]} {
			txn := s.db.NewTransactionAt(latest, false)
			_, err := txn.Get(recentKey(b.ID).bytes())
			txn.Discard()
			present[name] = err == nil
		}
		return present
	}
	middle.Close() // the oldest view may still read what only the middle one names
	if err := s.saveState(); err != nil {
		t.Fatal(err)
	}
	if got := rows(); !got["first"] || !got["second"] {
		t.Errorf("rows with the old view open: %v", got)
	}
	expectView(t, old, first)
	old.Close()
	if due := s.due(); due != 3+2 {
		t.Errorf("%d rows are due for deletion, want the 5 orphaned ones", due)
	}
	if err := s.saveState(); err != nil {
		t.Fatal(err)
	}
	if got := rows(); got["first"] || got["second"] {
		t.Errorf("rows after the last view was closed: %v", got)
	}
	if st := s.Stats(); st.OpenSnapshots != 1 || st.DueRows != 0 {
		t.Errorf("%+v", st)
	}
	expectChain(t, s, third)
}

// TestDeepReorg: the node's chain leaves ours below the sealed blocks. Nothing that is served changes, and all is well when the node
// is right again.
func TestDeepReorg(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	s := open(t, t.TempDir(), small())
	n := newFakeNode(blocks)
	b := start(t, s, n, BuilderOptions{})
	b.awaitTip(t, blocks[39])
	b.await(t, "completeness", s.Complete)
	n.set(f.extend(t, blocks[:20], 30), nil)
	b.awaitState(t, StateStopped, blocks[39].ID.Hash.String())
	if err := b.Progress().Err; !errors.Is(err, ErrDeepReorg) || !strings.Contains(err.Error(), s.dir) {
		t.Errorf("progress says %v", err)
	}
	expectChain(t, s, blocks)
	longer := f.extend(t, blocks, 3)
	n.set(longer, nil)
	b.awaitTip(t, longer[42])
	b.awaitState(t, StateFollowing, "")
	b.stop(t)
	expectChain(t, s, longer)
}

// TestNodeBehind: a node whose tip is one of our blocks is no reorg, wherever that block lies.
func TestNodeBehind(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	s := open(t, t.TempDir(), small())
	n := newFakeNode(blocks)
	b := start(t, s, n, BuilderOptions{BehindFor: 20 * time.Millisecond})
	b.awaitTip(t, blocks[39])
	b.await(t, "completeness", s.Complete)
	for _, length := range []int{39, 36, 12, 1} {
		n.with(func() { n.hashAsked = 0 })
		n.set(blocks[:length], nil)
		time.Sleep(50 * time.Millisecond)
		if tip, _ := s.Tip(); tip != blocks[39].ID || !s.Complete() {
			t.Fatalf("with a node at height %d: tip %v, complete %t", length-1, tip, s.Complete())
		}
		n.with(func() {
			if n.hashAsked > 0 {
				t.Errorf("with a node at height %d: %d questions", length-1, n.hashAsked)
			}
		})
	}
	// It comes back on a chain of its own.
	other := f.extend(t, blocks[:38], 1)
	n.set(other, nil)
	b.awaitTip(t, other[38])
	b.stop(t)
	expectChain(t, s, other)
}

func TestTreeSizesAreCompared(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 60)
	for _, wrong := range []int{3, 30, 53, 59} {
		t.Run(fmt.Sprint("wrong at ", wrong), func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir(), small())
			n := newFakeNode(blocks)
			n.treeSizes = func(hash chain.Hash, sizes chain.TreeSizes) (chain.TreeSizes, error) {
				for _, b := range blocks[wrong:] {
					if b.ID.Hash == hash {
						sizes.Orchard++
					}
				}
				return sizes, nil
			}
			b := start(t, s, n, BuilderOptions{})
			b.awaitState(t, StateStopped, "tree sizes at the end of block")
			var sizes *TreeSizeError
			if err := b.Progress().Err; !errors.As(err, &sizes) || sizes.Node.Orchard != sizes.Ours.Orchard+1 || sizes.Block.Height < chain.Height(wrong) {
				t.Errorf("progress says %v", err)
			}
			if tip, ok := s.Tip(); ok && tip.Height >= chain.Height(wrong) {
				t.Errorf("block %v was stored", tip)
			}
			n.with(func() { n.treeSizes = nil })
			b.awaitTip(t, blocks[59])
			b.awaitState(t, StateFollowing, "")
			b.stop(t)
			expectChain(t, s, blocks)
		})
	}
}

func TestTreeSizesAreComparedOftenEnough(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 100)
	o := Options{MinFree: -1, SealDepth: 39, SegmentBlocks: 20, TreeCheckEvery: 25}
	s := open(t, t.TempDir(), o)
	n := newFakeNode(blocks)
	build(t, s, n)
	// 60 blocks are deep: three segments. The 40 others are one commit, at the tip.
	if n.sizesAsked != 3+1 {
		t.Errorf("the node was asked for tree sizes %d times", n.sizesAsked)
	}
}

// TestWrongBlocks: what the node says is wrong in a way that the builder notices. The process lives, nothing wrong is stored, and it
// goes on when the node is right again.
func TestWrongBlocks(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 60)
	stranger := f.extend(t, blocks[:10], 45)
	for name, c := range map[string]struct {
		block func(testBlock) (*chain.Block, error)
		state State
		text  string
	}{
		"does not link": {func(b testBlock) (*chain.Block, error) {
			if b.ID.Height >= 54 {
				return stranger[54].Block, nil
			}
			return b.Block, nil
		}, StateWaiting, "has parent"},
		"another height": {func(b testBlock) (*chain.Block, error) {
			if b.ID.Height == 30 {
				return blocks[31].Block, nil
			}
			return b.Block, nil
		}, StateWaiting, "has parent"},
		"does not parse": {func(b testBlock) (*chain.Block, error) {
			if b.ID.Height == 57 {
				return nil, fmt.Errorf("block %s: version 7: %w", b.ID, chain.ErrUnknownVersion)
			}
			return b.Block, nil
		}, StateStopped, "fetch block 57"},
		"overflowing trees": {func(b testBlock) (*chain.Block, error) {
			if b.ID.Height == 5 {
				wrong := *b.Block
				wrong.Added.Sapling = ^uint32(0)
				return &wrong, nil
			}
			return b.Block, nil
		}, StateStopped, "overflows"},
		"not genesis": {func(b testBlock) (*chain.Block, error) {
			if b.ID.Height == 0 {
				return blocks[1].Block, nil
			}
			return b.Block, nil
		}, StateStopped, "no genesis block"},
		"ends early": {func(b testBlock) (*chain.Block, error) {
			if b.ID.Height == 40 {
				return nil, errDown
			}
			return b.Block, nil
		}, StateWaiting, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir(), small())
			n := newFakeNode(blocks)
			n.block = c.block
			b := start(t, s, n, BuilderOptions{})
			b.awaitState(t, c.state, c.text)
			if s.Complete() {
				t.Error("complete")
			}
			b.stop(t)
			n.block = nil
			build(t, s, n)
			expectChain(t, s, blocks)
		})
	}
}

// TestParseErrorLeavesTheTipBelow: what came before a block that does not parse is kept.
func TestParseErrorLeavesTheTipBelow(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	s := open(t, t.TempDir(), small())
	n := newFakeNode(blocks)
	n.block = func(b testBlock) (*chain.Block, error) {
		if b.ID.Height == 57 {
			return nil, chain.ErrUnknownVersion
		}
		return b.Block, nil
	}
	b := start(t, s, n, BuilderOptions{})
	b.awaitState(t, StateStopped, "fetch block 57")
	b.stop(t)
	expectChain(t, s, blocks[:57])
}

func TestNodeAway(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	s := open(t, t.TempDir(), small())
	n := newFakeNode(blocks[:50])
	n.err = errDown
	b := start(t, s, n, BuilderOptions{})
	b.awaitState(t, StateWaiting, "connection refused")
	n.set(blocks[:50], nil)
	b.awaitTip(t, blocks[49])
	b.await(t, "completeness", s.Complete)
	n.set(blocks, errDown)
	b.awaitState(t, StateWaiting, "connection refused")
	if !s.Complete() || !n.following {
		t.Error("a node that cannot be asked says nothing of being behind")
	}
	n.set(blocks, nil)
	b.awaitTip(t, blocks[59])
	b.awaitState(t, StateFollowing, "")
	b.stop(t)
	expectChain(t, s, blocks)
}

// TestNodeFails lets every question fail now and then.
func TestNodeFails(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 120)
	s := open(t, t.TempDir(), small())
	n := newFakeNode(blocks)
	var count atomic.Int32
	n.block = func(b testBlock) (*chain.Block, error) {
		if count.Add(1)%17 == 0 {
			return nil, errDown
		}
		return b.Block, nil
	}
	n.treeSizes = func(_ chain.Hash, sizes chain.TreeSizes) (chain.TreeSizes, error) {
		if count.Add(1)%5 == 0 {
			return sizes, errDown
		}
		return sizes, nil
	}
	build(t, s, n)
	expectChain(t, s, blocks)
	if n.blocksSent > 200 {
		t.Errorf("the node sent %d blocks for 120: what was fetched was thrown away", n.blocksSent)
	}
}

func TestOtherNetworkOfTheNode(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 30)
	other := f.extend(t, nil, 50)
	dir := t.TempDir()
	s := open(t, dir, small())
	n := newFakeNode(blocks)
	b := start(t, s, n, BuilderOptions{})
	b.awaitTip(t, blocks[29])
	b.await(t, "completeness", s.Complete)
	n.set(other, nil) // while running
	b.await(t, "refusal", func() bool { err := b.Progress().Err; return errors.Is(err, ErrOtherNetwork) })
	b.stop(t)
	b = start(t, s, n, BuilderOptions{}) // at a start
	b.awaitState(t, StateStopped, dir)
	for _, word := range []string{blocks[0].ID.Hash.String(), other[0].ID.Hash.String(), "(test)", "use another data directory"} {
		if err := b.Progress().Err; !errors.Is(err, ErrOtherNetwork) || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %s", err, word)
		}
	}
	expectChain(t, s, blocks)
	n.set(blocks, nil)
	b.awaitState(t, StateFollowing, "")
	b.stop(t)
}

// TestWantedGenesis: an empty index that is to hold a certain network takes no other.
func TestWantedGenesis(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 5)
	o := small()
	o.Genesis = blocks[0].ID.Hash
	s := open(t, t.TempDir(), o)
	n := newFakeNode(f.extend(t, nil, 5))
	b := start(t, s, n, BuilderOptions{})
	b.awaitState(t, StateStopped, ErrOtherNetwork.Error())
	n.set(blocks, nil)
	b.awaitTip(t, blocks[4])
	b.stop(t)
}

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

// TestRestartWhileBuilding goes on where the last commit was.
func TestRestartWhileBuilding(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	dir := t.TempDir()
	n := newFakeNode(blocks)
	n.block = func(b testBlock) (*chain.Block, error) {
		if b.ID.Height == 30 {
			return nil, errDown
		}
		return b.Block, nil
	}
	s := open(t, dir, small())
	b := start(t, s, n, BuilderOptions{})
	b.awaitState(t, StateWaiting, "connection refused")
	b.stop(t)
	closeAndCheck(t, s)
	s = open(t, dir, small())
	if tip, _ := s.Tip(); tip != blocks[27].ID || s.Complete() {
		t.Errorf("tip %v after the restart, complete %t; want the end of the last full segment", tip, s.Complete())
	}
	expectChain(t, s, blocks[:28])
	n.block, n.blocksSent = nil, 0
	build(t, s, n)
	expectChain(t, s, blocks)
	if n.blocksSent != 60-28 {
		t.Errorf("the node sent %d blocks after the restart", n.blocksSent)
	}
}

// TestLongAbsence: while we were away the node went on so far that the recent blocks are deep now.
func TestLongAbsence(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 70)
	s := open(t, t.TempDir(), small())
	build(t, s, newFakeNode(blocks[:20]))
	build(t, s, newFakeNode(blocks))
	expectChain(t, s, blocks)
	if st := s.Stats(); st.SealedBlocks < 60 {
		t.Errorf("%+v", st)
	}
}

// TestReorgWhileBuilding: the chain changes under the builder, in the part that is not committed yet.
func TestReorgWhileBuilding(t *testing.T) {
	t.Parallel()
	f := newForge()
	first := f.extend(t, nil, 60)
	second := f.extend(t, first[:57], 5)
	s := open(t, t.TempDir(), small())
	n := newFakeNode(first)
	var once atomic.Bool
	n.block = func(b testBlock) (*chain.Block, error) {
		if b.ID.Height == 58 && once.CompareAndSwap(false, true) {
			n.set(second, nil)
			return second[58].Block, nil
		}
		return b.Block, nil
	}
	b := start(t, s, n, BuilderOptions{})
	b.awaitTip(t, second[61])
	b.await(t, "completeness", s.Complete)
	b.stop(t)
	expectChain(t, s, second)
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
