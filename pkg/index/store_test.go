package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

func TestEmptyStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, Options{})
	if tip, ok := s.Tip(); ok {
		t.Errorf("tip %v of an empty index", tip)
	}
	if _, err := s.View(t.Context()); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("view of an empty index: %v", err)
	}
	if s.Complete() {
		t.Error("an empty index is complete")
	}
}

func TestBuildAndRead(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	for name, o := range map[string]Options{
		"small":              small(),
		"defaults":           {MinFree: -1}, // everything is recent
		"one block segments": {SealDepth: 3, SegmentBlocks: 1, MinFree: -1},
		"by bytes":           {SealDepth: 3, SegmentBytes: 5000, MinFree: -1},
		"by age":             {SealDepth: 3, SegmentAge: 1, MinFree: -1},
		"nothing recent":     {SealDepth: 1, SegmentBlocks: 1, MinFree: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir, o)
			build(t, s, newFakeNode(blocks))
			expectChain(t, s, blocks)
			closeAndCheck(t, s)

			s = open(t, dir, o)
			if !s.Complete() {
				t.Error("not complete after a restart")
			}
			expectChain(t, s, blocks)
		})
	}
}

// TestGrowsBlockByBlock follows a node that finds one block after the other, so that everything sealed was recent before.
func TestGrowsBlockByBlock(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	s := open(t, t.TempDir(), small())
	n := newFakeNode(blocks[:1])
	b := start(t, s, n, BuilderOptions{})
	for i := 1; i <= len(blocks); i++ {
		n.set(blocks[:i], nil)
		b.await(t, "new block", func() bool { tip, ok := s.Tip(); return ok && tip == blocks[i-1].ID })
	}
	b.stop(t)
	expectChain(t, s, blocks)
	st := s.Stats()
	// Heights below 39-6 = 33 may be sealed, four at a time.
	if st.SealedBlocks != 32 || st.RecentBlocks != 8 || st.Segments != 8 {
		t.Errorf("%+v, want 32 blocks in 8 segments and 8 recent ones", st)
	}
	// The last segment was sealed at height 38, so the commit of block 39 has deleted what it replaced.
	if st.DueRows != 0 || st.OpenSnapshots != 1 {
		t.Errorf("%+v, want no row due for deletion", st)
	}
}

func TestAboveTip(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 30)
	s := open(t, t.TempDir(), small())
	build(t, s, newFakeNode(blocks))
	v := openView(t, s)
	for _, c := range []struct {
		from, to chain.Height
		asked    uint64
		upTo     int // height of the last block before the error, -1 for none
	}{
		{30, 30, 30, -1},
		{30, 40, 30, -1},
		{chain.MaxHeight, 0, uint64(chain.MaxHeight), -1},
		{31, 3, 31, -1},
		{29, 30, 30, 29},
		{0, 1000, 1000, 29},
		{25, chain.MaxHeight, uint64(chain.MaxHeight), 29},
	} {
		got, err := read(t, v, c.from, c.to, chain.DefaultProjection)
		var above *chain.AboveTipError
		if !errors.As(err, &above) || above.Asked != c.asked || above.Tip != 29 {
			t.Errorf("blocks %d to %d: %v", c.from, c.to, err)
		}
		var expected []byte
		if c.upTo >= 0 {
			expected = want(t, blocks, c.from, chain.Height(c.upTo), chain.DefaultProjection)
		}
		if !bytes.Equal(got, expected) {
			t.Errorf("blocks %d to %d: %d bytes before the error, want %d", c.from, c.to, len(got), len(expected))
		}
	}
}

func TestRangeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 30)
	s := open(t, t.TempDir(), small())
	build(t, s, newFakeNode(blocks))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	runs := 0
	var last error
	for f, err := range openView(t, s).Blocks(ctx, 0, 29, chain.DefaultProjection) {
		if last = err; err == nil {
			runs++
			f.Release()
		}
		cancel()
	}
	if runs != 1 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d runs, then %v", runs, last)
	}
}

func TestUnknownHash(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 30)
	s := open(t, t.TempDir(), small())
	build(t, s, newFakeNode(blocks))
	almost := blocks[3].ID.Hash // the same first four bytes
	almost[31]++
	for _, hash := range []chain.Hash{{}, {1, 2, 3}, almost} {
		if h, err := openView(t, s).HeightOf(t.Context(), hash); !errors.Is(err, chain.ErrNotFound) {
			t.Errorf("height of %v: %d, %v", hash, h, err)
		}
	}
}

func TestSecondProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, small())
	build(t, s, newFakeNode(newForge().extend(t, nil, 10)))
	if _, err := Open(dir, small()); !errors.Is(err, ErrLocked) {
		t.Errorf("second open: %v", err)
	}
	if _, err := Check(t.Context(), dir, CheckOptions{}); !errors.Is(err, ErrLocked) {
		t.Errorf("check while open: %v", err)
	}
}

func TestOtherNetworkAtOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blocks := newForge().extend(t, nil, 10)
	s := open(t, dir, small())
	build(t, s, newFakeNode(blocks))
	closeAndCheck(t, s)
	other := small()
	other.Genesis = chain.Hash{1}
	_, err := Open(dir, other)
	if !errors.Is(err, ErrOtherNetwork) || !strings.Contains(err.Error(), blocks[0].ID.Hash.String()) || !strings.Contains(err.Error(), "(test)") {
		t.Errorf("open with another genesis: %v", err)
	}
	same := small()
	same.Genesis = blocks[0].ID.Hash
	expectChain(t, open(t, dir, same), blocks)
}

func TestForeignFormats(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"newer format": string(keyFormat), "no index": "something else"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeRow(t, dir, []byte(key), encodeFormat(FormatVersion+1))
			if _, err := Open(dir, small()); !errors.Is(err, ErrFormat) {
				t.Errorf("open: %v", err)
			}
			if _, err := Check(t.Context(), dir, CheckOptions{}); !errors.Is(err, ErrFormat) {
				t.Errorf("check: %v", err)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{SegmentBytes: -1}, {SegmentBytes: 1 << 30}, {SegmentBlocks: -1}, {SegmentAge: -1}} {
		if _, err := Open(t.TempDir(), o); err == nil {
			t.Errorf("open with %+v", o)
		}
	}
}

// TestLargeRuns reads runs that are cut at RunSize, and blocks that are larger than a run.
func TestLargeRuns(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 150)
	f.kind = (*chaintest.Builder).DenseV6
	blocks = f.extend(t, blocks, 6)
	f.kind = (*chaintest.Builder).Small
	blocks = f.extend(t, blocks, 144)
	s := open(t, t.TempDir(), Options{SealDepth: 100, SegmentBlocks: 130, MinFree: -1})
	build(t, s, newFakeNode(blocks))
	v := openView(t, s)
	expectView(t, v, blocks)
	for f, err := range v.Blocks(t.Context(), 0, 299, chain.Projection{Pools: chain.AllPools}) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Count > 1 && len(f.Bytes) > chain.RunSize+100<<10 {
			t.Errorf("a run of %d blocks has %d bytes", f.Count, len(f.Bytes))
		}
		f.Release()
	}
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 30)
	s := open(t, t.TempDir(), small())
	build(t, s, newFakeNode(blocks))
	v := openView(t, s)
	closeAndCheck(t, s)
	if _, err := read(t, v, 0, 5, chain.DefaultProjection); !errors.Is(err, ErrClosed) || !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("read from a closed index: %v", err)
	}
}

// TestBrokenLink reads over a segment whose first block says another parent than its header, which no checksum can notice.
func TestBrokenLink(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 12)
	stranger := f.extend(t, blocks[:6], 6)
	s, err := Open(t.TempDir(), small())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, part := range [][]testBlock{blocks[:8], stranger[8:]} {
		var a assembler
		for i, b := range part {
			block := *b.Block
			if i == 0 && b.ID.Height > 0 {
				block.Prev = blocks[7].ID.Hash
			}
			a.add(&block, b.sizes)
		}
		if err := s.connectSegments([]sealedSegment{a.sealed()}); err != nil {
			t.Fatal(err)
		}
	}
	v := openView(t, s)
	for _, r := range [][2]chain.Height{{0, 11}, {11, 0}, {7, 8}} {
		got, err := read(t, v, r[0], r[1], chain.DefaultProjection)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || !strings.Contains(err.Error(), "does not connect") || len(got) == 0 {
			t.Errorf("blocks %d to %d: %d bytes, %v", r[0], r[1], len(got), err)
		}
	}
	if _, err := read(t, v, 8, 11, chain.DefaultProjection); err != nil {
		t.Errorf("blocks above the break: %v", err)
	}
}

func ExampleProblem_String() {
	fmt.Println(Problem{Key: "segment/99", First: 50, Last: 99, What: "frames: checksum mismatch", Do: "delete the directory"})
	// Output: segment/99 (blocks 50 to 99): frames: checksum mismatch: delete the directory
}
