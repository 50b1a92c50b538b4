package index

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

var errInjected = errors.New("injected")

// fault fails one commit: before it is done, or after, as if only the answer were lost.
type fault struct {
	mu    sync.Mutex
	at    int // which commit fails, counted from 1; 0 for none
	lost  bool
	count int
}

func (f *fault) hook(write func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if f.count != f.at {
		return write()
	}
	if f.lost {
		if err := write(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w at commit %d", errInjected, f.count)
}

// drive makes the builder do what its loop does, in this goroutine, until it has the node's tip. It returns how many errors it took.
func drive(t *testing.T, b *Builder, n *fakeNode) (failures int) {
	t.Helper()
	for {
		tip, err := n.Tip()
		if err == nil {
			err = b.sync(t.Context(), tip)
		}
		if ours, ok := b.store.Tip(); err == nil && ok && ours == tip {
			return failures
		}
		b.suspect = true
		if err == nil || errors.Is(err, chain.ErrReorged) || errors.Is(err, ErrDeepReorg) && b.other.looks > 0 {
			continue
		}
		if !errors.Is(err, errInjected) {
			t.Fatal(err)
		}
		if failures++; failures > 3 {
			t.Fatalf("again and again: %v", err)
		}
	}
}

// story takes a store through connects of recent blocks and segments, a rewind, and seals. After every chapter, and after a fault when
// reopen is set, the index is closed and opened again.
func story(t *testing.T, chapters [][]testBlock, f *fault, reopen bool) {
	o := small()
	o.commitHook = f.hook
	dir := t.TempDir()
	s := open(t, dir, o)
	for _, blocks := range chapters {
		n := newFakeNode(blocks)
		b := NewBuilder(s, n, BuilderOptions{ConfirmDeep: 1})
		if !reopen {
			drive(t, b, n)
			expectChain(t, s, blocks)
			continue
		}
		for {
			// What Close still has to write is a commit too, so it is part of every chapter.
			tip, _ := n.Tip()
			err := b.sync(t.Context(), tip)
			if ours, _ := s.Tip(); err == nil && ours == tip {
				break
			}
			if errors.Is(err, ErrDeepReorg) {
				b.suspect = true
				continue
			}
			if err := s.Close(); err != nil && !errors.Is(err, errInjected) {
				t.Fatal(err)
			}
			closeAndCheck(t, s)
			s = open(t, dir, o)
			b = NewBuilder(s, n, BuilderOptions{ConfirmDeep: 1})
			b.suspect = true
		}
		expectChain(t, s, blocks)
	}
}

func TestEveryCommitMayFail(t *testing.T) {
	t.Parallel()
	f := newForge()
	first := f.extend(t, nil, 19)
	chapters := [][]testBlock{
		first,
		f.extend(t, first[:15], 6),  // a rewind of four blocks
		first,                       // and back: the rows of orphaned blocks are named again
		f.extend(t, first, 3),       // seals
		f.extend(t, first[:17], 14), // a rewind, seals of what is recent, and a segment on top
		f.extend(t, first[:6], 30),  // leaves it among sealed blocks: a cut
	}
	for i := 3; i < len(chapters)-1; i++ { // every chapter goes on from the one before it
		if chapters[i][15].ID != first[15].ID {
			t.Fatal("the chapters do not fit each other")
		}
	}
	clean := &fault{}
	story(t, chapters, clean, false)
	t.Logf("%d commits", clean.count)
	for at := 1; at <= clean.count; at++ {
		for _, lost := range []bool{false, true} {
			for _, reopen := range []bool{false, true} {
				t.Run(fmt.Sprintf("commit=%d/lost=%t/reopen=%t", at, lost, reopen), func(t *testing.T) {
					t.Parallel()
					f := &fault{at: at, lost: lost}
					story(t, chapters, f, reopen)
					if f.count < at {
						t.Errorf("only %d commits, so that nothing failed", f.count)
					}
				})
			}
		}
	}
}

// TestFailuresChangeNothing looks at each writing method by itself: after an error the store is what it was, and a commit that took place
// though its answer was lost counts as done.
func TestFailuresChangeNothing(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	writes := map[string]struct {
		base  int // blocks in the store before
		write func(s *Store) error
		after int // blocks in the store after
	}{
		"connect": {12, func(s *Store) error {
			var r recentBatch
			r.reset(s.state.top)
			for _, b := range blocks[12:15] {
				r.add(b.Block, b.sizes)
			}
			return s.connect(&r)
		}, 15},
		"rewind": {12, func(s *Store) error { return s.rewind(10) }, 10},
		"cut":    {40, func(s *Store) error { return s.cut(19) }, 16},
		"seal":   {12, func(s *Store) error { _, err := s.seal(8, true); return err }, 12},
		"segments": {0, func(s *Store) error {
			var batch segmentBatch
			for _, b := range blocks[:9] {
				batch.add(b.Block, b.sizes, &Options{SegmentBlocks: 4, SegmentBytes: 1 << 20})
			}
			batch.closeOpen()
			return s.connectSegments(batch.full)
		}, 9},
	}
	for name, w := range writes {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/lost=%t", name, lost), func(t *testing.T) {
				t.Parallel()
				f := &fault{lost: lost}
				o := small()
				o.SealDepth, o.commitHook = 1000, f.hook
				s := open(t, t.TempDir(), o)
				if w.base > 0 {
					if name == "cut" {
						s.o.SealDepth = 6
					}
					n := newFakeNode(blocks[:w.base])
					drive(t, NewBuilder(s, n, BuilderOptions{}), n)
				}
				before, sealed := s.state, s.current.Load().sealed
				f.at = f.count + 1
				err := w.write(s)
				switch {
				case lost && err != nil:
					t.Errorf("a commit that took place: %v", err)
				case !lost && (!errors.Is(err, errInjected) || s.state != before || s.current.Load().sealed != sealed):
					t.Errorf("a commit that failed: %v, state %+v, was %+v", err, s.state, before)
				case !lost && w.base > 0:
					expectChain(t, s, blocks[:w.base])
				}
				if !lost {
					if err := w.write(s); err != nil {
						t.Fatalf("again: %v", err)
					}
				}
				expectChain(t, s, blocks[:w.after])
			})
		}
	}
}

// TestUnknownOutcome: the commit fails, and so does reading back whether it took place.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 12)
	dir := t.TempDir()
	o := small()
	var s *Store
	count := 0
	o.commitHook = func(write func() error) error {
		if count++; count < 2 {
			return write()
		}
		// The state row is damaged, and the disk does not take the commit.
		txn := s.db.NewTransactionAt(latest, true)
		defer txn.Discard()
		if err := txn.Set(keyState.bytes(), []byte("damaged")); err != nil {
			return err
		}
		s.version++
		return errors.Join(txn.CommitAt(s.version, nil), errInjected)
	}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := NewBuilder(s, newFakeNode(blocks), BuilderOptions{})
	if err := b.Run(t.Context()); !errors.Is(err, ErrUnusable) || !errors.Is(err, errInjected) {
		t.Errorf("run: %v", err)
	}
	if p := b.Progress(); p.State != StateStopped || !errors.Is(p.Err, ErrUnusable) {
		t.Errorf("progress: %+v", p)
	}
}
