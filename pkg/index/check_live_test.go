package index

import (
	"errors"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// TestCheckInUse: a store is verified while it grows, and a segment that is found damaged is served no more.
func TestCheckInUse(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 200)
	dir := t.TempDir()
	s, err := Open(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.Check(t.Context(), CheckOptions{}); err != nil || r.Height != -1 || len(r.Problems) > 0 {
		t.Errorf("an empty index: %+v, %v", r, err)
	}
	n := newFakeNode(blocks[:40])
	b := start(t, s, n, BuilderOptions{})
	b.await(t, "40 blocks", func() bool { tip, _ := s.Tip(); return tip == blocks[39].ID })
	s.PutTreeState(madeUpState(blocks[14]))

	// The chain grows by a block, and loses and gets another, at every step of the check.
	grown := 40
	r, err := s.Check(t.Context(), CheckOptions{Progress: func(done, total int64) {
		if total != 40 {
			t.Errorf("%d of %d blocks", done, total)
		}
		if grown < 60 {
			grown++
			n.set(blocks[:grown], nil)
			b.await(t, "a block", func() bool { tip, _ := s.Tip(); return tip == blocks[grown-1].ID })
		}
	}})
	if err != nil || len(r.Problems) > 0 || r.Height != 39 || r.SealedBlocks+r.RecentBlocks != 40 || r.UnnamedRows != 0 || r.Dir != dir || r.DiskBytes == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	b.stop(t)

	if err := s.apply(&batch{keys: [][]byte{segmentKey(15).bytes()}, values: [][]byte{[]byte("damaged")}}, s.state); err != nil {
		t.Fatal(err)
	}
	r, err = s.Check(t.Context(), CheckOptions{})
	if err != nil || len(r.Problems) != 1 || r.Problems[0].Key != "segment/15" {
		t.Errorf("damaged: %v, %v", r.Problems, err)
	}
	var corrupt *CorruptError
	if _, err := read(t, openView(t, s), 12, 12, chain.DefaultProjection); !errors.As(err, &corrupt) || s.Stats().CorruptSegments != 1 {
		t.Errorf("a damaged segment is read: %v", err)
	}
	once := false
	if _, err = s.Check(t.Context(), CheckOptions{Progress: func(int64, int64) {
		if !once {
			once = true
			if err := s.cut(20); err != nil {
				t.Error(err)
			}
		}
	}}); !errors.Is(err, chain.ErrReorged) {
		t.Errorf("cut back meanwhile: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(t.Context(), CheckOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestCheckOverCut: a check says that sealed blocks were cut off under it, and finds nothing wrong, wherever it was when that happened and
// whatever has taken their place.
func TestCheckOverCut(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 38)
	other := f.extend(t, blocks[:28], 10) // its segments have the same heights, and stand on the same blocks
	for at := 1; ; at++ {
		s := open(t, t.TempDir(), small())
		build(t, s, newFakeNode(blocks))
		steps := 0
		r, err := s.Check(t.Context(), CheckOptions{Progress: func(int64, int64) {
			if steps++; steps != at {
				return
			}
			if err := s.cut(28); err != nil {
				t.Error(err)
			}
			build(t, s, newFakeNode(other))
		}})
		if steps < at {
			if at < 8 {
				t.Errorf("a check of %d steps", steps)
			}
			return
		}
		if !errors.Is(err, chain.ErrReorged) || len(r.Problems) > 0 {
			t.Errorf("cut at step %d: %v, %v", at, r.Problems, err)
		}
		if got := s.Stats().CorruptSegments; got > 0 {
			t.Errorf("cut at step %d: %d segments count as corrupt", at, got)
		}
		expectChain(t, s, other)
	}
}

// TestCheckInUseRests: half of the time is the wallets'.
func TestCheckInUseRests(t *testing.T) {
	t.Parallel()
	c := newChecker(t.Context(), CheckOptions{}, nil)
	began := time.Now()
	if c.pause(time.Hour); time.Since(began) > time.Minute {
		t.Error("a check of a closed index rests")
	}
	c.live = new(snapshot)
	if c.pause(20 * time.Millisecond); time.Since(began) < 20*time.Millisecond {
		t.Error("a check of an index in use does not rest")
	}
}
