package index

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// damaged builds an index of 40 blocks (segments of 0..3, 4..7, ... 28..31 and recent blocks from there), changes it while it is closed,
// and opens it again. It is not checked at the end, since there are problems.
func damaged(t *testing.T, blocks []testBlock, change func(dir string)) (*Store, Report) {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	n := newFakeNode(blocks)
	drive(t, NewBuilder(s, n, BuilderOptions{}), n)
	if st := s.Stats(); st.SealedBlocks != 33 || st.Segments != 9 {
		t.Fatalf("%+v, want 33 blocks in 9 segments", st)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	change(dir)
	report := check(t, dir)
	s, err = Open(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, report
}

// TestCorruptSegments: damage in one segment is found by whoever reads it and by Check, names its heights, and costs only them.
func TestCorruptSegments(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	flip := func(key []byte, at int) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			row := readBytes(t, dir, key)
			if at < 0 {
				at += len(row)
			}
			row[at] ^= 0x40
			writeRow(t, dir, key, row)
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		key    string
		atOpen bool // found at open already
		only   bool // only where the transparent column takes part
	}{
		"a frame":             {flip(segmentKey(15).bytes(), -1), "segment/15", false, false},
		"the offset table":    {flip(segmentKey(15).bytes(), segmentHeaderLen+1), "segment/15", true, false},
		"the header":          {flip(segmentKey(15).bytes(), 9), "segment/15", true, false},
		"the row is gone":     {func(t *testing.T, dir string) { writeRow(t, dir, segmentKey(15).bytes(), nil) }, "segment/15", true, false},
		"a row cut short":     {func(t *testing.T, dir string) { writeRow(t, dir, segmentKey(15).bytes(), []byte("short")) }, "segment/15", true, false},
		"a column":            {flip(transparentKey(15).bytes(), -1), "transparent/15", false, true},
		"the columns' header": {flip(transparentKey(15).bytes(), 8), "transparent/15", false, true},
		"the columns are gone": {func(t *testing.T, dir string) { writeRow(t, dir, transparentKey(15).bytes(), nil) },
			"transparent/15", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, report := damaged(t, blocks, func(dir string) { c.change(t, dir) })
			if len(report.Problems) != 1 {
				t.Fatalf("check: %v", report.Problems)
			}
			if p := report.Problems[0]; p.First != 12 || p.Last != 15 || p.Do == "" || !strings.Contains(p.Key+p.What, c.key) {
				t.Errorf("check: %v", p)
			}
			if got := s.Stats().CorruptSegments; got != map[bool]int{true: 1, false: 0}[c.atOpen] {
				t.Errorf("%d corrupt segments after open", got)
			}
			v := openView(t, s)
			p := chain.DefaultProjection
			if c.only {
				if got, err := read(t, v, 0, 39, p); err != nil || string(got) != string(want(t, blocks, 0, 39, p)) {
					t.Errorf("what does not need the transparent row: %v", err)
				}
				p = projections["get block"]
			}
			for _, r := range [][2]chain.Height{{0, 39}, {12, 12}, {14, 39}, {15, 0}} {
				var corrupt *CorruptError
				_, err := read(t, v, r[0], r[1], p)
				if !errors.As(err, &corrupt) || corrupt.First != 12 || corrupt.Last != 15 || corrupt.Key != c.key || !errors.Is(err, chain.ErrUnavailable) {
					t.Errorf("blocks %d to %d: %v", r[0], r[1], err)
				}
			}
			for _, r := range [][2]chain.Height{{0, 11}, {11, 0}, {16, 39}, {39, 16}} {
				if got, err := read(t, v, r[0], r[1], p); err != nil || string(got) != string(want(t, blocks, r[0], r[1], p)) {
					t.Errorf("blocks %d to %d: %v", r[0], r[1], err)
				}
			}
			if got := s.Stats().CorruptSegments; got != 1 {
				t.Errorf("%d corrupt segments", got)
			}
			if h, err := v.HeightOf(t.Context(), blocks[20].ID.Hash); err != nil || h != 20 {
				t.Errorf("height of block 20: %d, %v", h, err)
			}
			if _, err := v.HeightOf(t.Context(), blocks[13].ID.Hash); !errors.Is(err, chain.ErrUnavailable) {
				t.Errorf("height of block 13: %v, but it may be known", err)
			}
			_, err := v.HeightOf(t.Context(), chain.Hash{1, 2, 3})
			if errors.Is(err, chain.ErrNotFound) == c.atOpen {
				t.Errorf("height of a hash that only the unreadable table could have: %v", err)
			}

			// The builder goes on behind it.
			longer := newForge()
			longer.seed = 5000
			more := longer.extend(t, blocks, 10)
			n := newFakeNode(more)
			b := NewBuilder(s, n, BuilderOptions{})
			b.suspect = true
			drive(t, b, n)
			got, err := read(t, openView(t, s), 16, 49, chain.DefaultProjection)
			if err != nil || string(got) != string(want(t, more, 16, 49, chain.DefaultProjection)) {
				t.Errorf("after going on: %v", err)
			}
		})
	}
}

// TestCorruptRecentRows: the recent blocks are fetched again.
func TestCorruptRecentRows(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	key := recentKey(blocks[36].ID).bytes()
	for name, change := range map[string]func(t *testing.T, dir string){
		"gone": func(t *testing.T, dir string) { writeRow(t, dir, key, nil) },
		"damaged": func(t *testing.T, dir string) {
			writeRow(t, dir, key, []byte("no row of a recent block, but long enough to be one"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, report := damaged(t, blocks, func(dir string) { change(t, dir) })
			if len(report.Problems) != 1 || report.Problems[0].Key != recentKey(blocks[36].ID).String() || report.Problems[0].Do != fixRecent.do() {
				t.Errorf("check: %v", report.Problems)
			}
			if tip, _ := s.Tip(); tip != blocks[32].ID || s.Complete() {
				t.Errorf("tip %v, complete %t; want the last sealed block", tip, s.Complete())
			}
			expectChain(t, s, blocks[:33])
			build(t, s, newFakeNode(blocks))
			expectChain(t, s, blocks)
			closeAndCheck(t, s)
		})
	}
}

// TestRecentRowLostAtRunTime: a row that can no longer be read is an error for who reads it, and is fetched again before it is sealed.
func TestRecentRowLostAtRunTime(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	o := small()
	o.shortFrames = 1
	s := open(t, t.TempDir(), o)
	build(t, s, newFakeNode(blocks[:40]))
	if err := s.apply(&batch{deletes: [][]byte{recentKey(blocks[36].ID).bytes()}}, s.state); err != nil {
		t.Fatal(err)
	}
	for _, p := range []chain.Projection{chain.DefaultProjection, projections["get block"]} {
		for _, c := range []struct{ from, to, last chain.Height }{{36, 39, 36}, {0, 39, 35}, {34, 39, 35}, {39, 34, 37}, {39, 0, 37}, {36, 0, 36}} {
			var corrupt *CorruptError
			got, err := read(t, openView(t, s), c.from, c.to, p)
			if !errors.As(err, &corrupt) || corrupt.First != 36 || corrupt.Last != 36 {
				t.Errorf("blocks %d to %d: %v", c.from, c.to, err)
			}
			var before []byte
			if c.from != 36 {
				before = want(t, blocks, c.from, c.last, p)
			}
			if !bytes.Equal(got, before) { // whoever has another source asks it for block 36 alone
				t.Errorf("blocks %d to %d: not those before block 36", c.from, c.to)
			}
		}
	}
	build(t, s, newFakeNode(blocks))
	expectChain(t, s, blocks)
}

// TestShortFramesStayInMemory: whoever needs no more of a recent block than its frame does not have its row read, while the frame is
// short: those that were connected and those that were there at the start.
func TestShortFramesStayInMemory(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 60)
	dir, lost := t.TempDir(), blocks[36]
	o := small()
	o.shortFrames = (int(o.SealDepth) + o.SegmentBlocks) * (len(lost.Shielded) + 40) // some of the recent blocks have longer ones
	s := open(t, dir, o)
	build(t, s, newFakeNode(blocks[:38]))
	closeAndCheck(t, s)
	s = open(t, dir, o)
	build(t, s, newFakeNode(blocks[:40]))
	longer := 0
	for i, b := range s.current.Load().recent {
		if b.short == nil != (int(b.frame) > s.o.shortFrame()) {
			t.Errorf("recent block %d: a frame of %d bytes, %d of them in memory", i, b.frame, len(b.short))
		}
		if b.short == nil {
			longer++
		}
	}
	if longer == 0 {
		t.Error("no frame is longer")
	}
	if err := s.apply(&batch{deletes: [][]byte{recentKey(lost.ID).bytes()}}, s.state); err != nil {
		t.Fatal(err)
	}
	for name, p := range projections {
		for _, c := range [][2]chain.Height{{36, 36}, {34, 39}, {39, 34}, {0, 39}, {39, 0}} {
			got, err := read(t, openView(t, s), c[0], c[1], p)
			if p.NeedsTransparent() != (err != nil) || err == nil && !bytes.Equal(got, want(t, blocks, c[0], c[1], p)) {
				t.Errorf("%s, blocks %d to %d: %v, or other bytes", name, c[0], c[1], err)
			}
		}
	}
	build(t, s, newFakeNode(blocks)) // which has the lost row fetched again
}

// TestDamagedMeta: an index without its state is of no use, and says so.
func TestDamagedMeta(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 10)
	for _, key := range []metaKey{keyState, keyNetwork} {
		t.Run(string(key), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir, small())
			build(t, s, newFakeNode(blocks))
			good := s.state.encode()
			if key == keyNetwork {
				good = s.net.encode()
			}
			closeAndCheck(t, s)
			writeRow(t, dir, key.bytes(), []byte("damaged"))
			if _, err := Open(dir, small()); err == nil || !strings.Contains(err.Error(), string(key)) || !strings.Contains(err.Error(), "--repair, or delete the directory") {
				t.Errorf("open: %v", err)
			}
			r := check(t, dir)
			if len(r.Problems) == 0 || r.Problems[0].Key != string(key) || !strings.Contains(r.Problems[0].Do, "--repair") {
				t.Errorf("check: %v", r.Problems)
			}
			writeRow(t, dir, key.bytes(), good)
		})
	}
}

// TestBytesFlippedInTheFile damages the value log itself, as a disk would.
func TestBytesFlippedInTheFile(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 400)
	dir := t.TempDir()
	o := Options{SealDepth: 20, SegmentBlocks: 300, MinFree: -1} // one segment above Badger's value threshold
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	n := newFakeNode(blocks)
	drive(t, NewBuilder(s, n, BuilderOptions{}), n)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	frame := blocks[200].frame()
	found := false
	for _, path := range logs {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if i := strings.Index(string(data), string(frame)); i >= 0 {
			found = true
			data[i+len(frame)/2] ^= 1
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !found {
		t.Fatal("the segment is not in the value log")
	}
	r := check(t, dir)
	if len(r.Problems) != 1 || r.Problems[0].First != 0 || r.Problems[0].Last != 299 {
		t.Errorf("check: %v", r.Problems)
	}
}

// TestUncleanEnd kills a process that has the index open. All that was committed is there, and Check copes with the open log.
func TestUncleanEnd(t *testing.T) { // not parallel: between fork and exec the child holds the locks of what other tests have open
	blocks := newForge().extend(t, nil, 40)
	if dir := os.Getenv("INDEX_UNCLEAN_DIR"); dir != "" {
		s, err := Open(dir, small())
		if err != nil {
			t.Fatal(err)
		}
		n := newFakeNode(blocks)
		drive(t, NewBuilder(s, n, BuilderOptions{}), n)
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		_ = self.Kill()
		select {}
	}
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestUncleanEnd$")
	child.Env = append(slices.Clone(os.Environ()), "INDEX_UNCLEAN_DIR="+dir)
	out, err := child.CombinedOutput()
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended with %v: %s", err, out)
	}
	r := check(t, dir)
	if !r.Recovered || r.Height != 39 || len(r.Problems) != 0 {
		t.Errorf("check: %+v", r)
	}
	if r := check(t, dir); r.Recovered || r.Height != 39 || len(r.Problems) != 0 {
		t.Errorf("second check: %+v", r)
	}
	expectChain(t, open(t, dir, small()), blocks)
}

func TestReport(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	dir := t.TempDir()
	s := open(t, dir, small())
	build(t, s, newFakeNode(blocks))
	closeAndCheck(t, s)
	frames, columns := int64(0), int64(0)
	for _, b := range blocks {
		frames, columns = frames+int64(len(b.frame())), columns+int64(len(b.Transparent))
	}
	var calls int
	r, err := Check(t.Context(), dir, CheckOptions{Progress: func(done, total int64) {
		if calls++; done > total || total != 40 {
			t.Errorf("progress %d of %d", done, total)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	disk := r.DiskBytes
	r.DiskBytes, r.spans, r.rows = 0, nil, state{}
	want := Report{
		Dir: dir, Format: 1, Network: "test", Genesis: blocks[0].ID.Hash.String(),
		Height: 39, Tip: blocks[39].ID.Hash.String(), Complete: true,
		SealedBlocks: 33, RecentBlocks: 7, Segments: 9, FrameBytes: frames, ColumnBytes: columns, Problems: []Problem{},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("report %+v, want %+v", r, want)
	}
	if disk < frames+columns || calls == 0 {
		t.Errorf("%d bytes on the disk for %d, %d calls", disk, frames+columns, calls)
	}
}

func TestCheckNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Check(t.Context(), filepath.Join(dir, "absent"), CheckOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("check of an absent directory: %v", err)
	}
	if _, err := Check(t.Context(), dir, CheckOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("check of an empty directory: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("check left %v behind", entries)
	}
	closeAndCheck(t, open(t, dir, small()))
	if r := check(t, dir); r.Height != -1 || len(r.Problems) != 0 {
		t.Errorf("check of an empty index: %+v", r)
	}
}

func TestCheckFindsForeignRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, small())
	build(t, s, newFakeNode(newForge().extend(t, nil, 10)))
	closeAndCheck(t, s)
	writeRow(t, dir, []byte("zzz/unknown"), []byte("row"))
	if r := check(t, dir); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Key, "zzz/unknown") {
		t.Errorf("check: %v", r.Problems)
	}
	writeRow(t, dir, []byte("zzz/unknown"), nil)
}
