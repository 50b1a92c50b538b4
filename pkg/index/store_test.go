package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// small are options with which a few dozen blocks have segments, a recent part and everything in between.
func small() Options {
	return Options{SealDepth: 6, SegmentBlocks: 4, MinFree: -1, TreeCheckEvery: 5, Network: "test"}
}

// logTo sends a store's lines to the test's log, Badger's chatter left out.
func logTo(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// open opens an index, and closes and checks it when the test ends.
func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	if o.Logger == nil {
		o.Logger = logTo(t)
	}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAndCheck(t, s) })
	return s
}

// closeAndCheck closes a store, unless it is closed already, and verifies what is on the disk.
func closeAndCheck(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	r := check(t, s.dir)
	for _, p := range r.Problems {
		t.Errorf("check: %v", p)
	}
}

func check(t testing.TB, dir string) Report {
	t.Helper()
	r, err := Check(context.Background(), dir, CheckOptions{})
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	return r
}

// build runs a builder until the store has the node's tip.
func build(t testing.TB, s *Store, n *fakeNode) {
	t.Helper()
	b := start(t, s, n, BuilderOptions{})
	b.await(t, "the tip", func() bool {
		ours, ok := s.Tip()
		tip, err := n.Tip()
		return err == nil && ok && ours == tip && s.Complete()
	})
	b.stop(t)
}

// running is a builder in its goroutine.
type running struct {
	*Builder
	cancel context.CancelFunc
	done   chan error
}

func start(t testing.TB, s *Store, n *fakeNode, o BuilderOptions) *running {
	t.Helper()
	o.RetryFatal = 20 * time.Millisecond
	o.RetryPassing = 10 * time.Millisecond
	o.RetryDisk = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{Builder: NewBuilder(s, n, o), cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- r.Run(ctx) }()
	t.Cleanup(func() { r.stop(t) })
	return r
}

func (r *running) stop(t testing.TB) {
	t.Helper()
	r.cancel()
	if err := <-r.done; err != nil {
		t.Errorf("run: %v", err)
	}
	r.done <- nil
}

func (r *running) await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s after 20 s: %+v", what, r.Progress())
		}
	}
}

func openView(t testing.TB, s *Store) chain.View {
	t.Helper()
	v, err := s.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// read collects the frames of a range and checks what the runs say of themselves.
func read(t testing.TB, v chain.View, from, to chain.Height, p chain.Projection) ([]byte, error) {
	t.Helper()
	var got []byte
	next := from
	for f, err := range v.Blocks(t.Context(), from, to, p) {
		if err != nil {
			return got, err
		}
		if f.Count < 1 || f.First.Height != next || f.Origin != chain.FromIndex {
			t.Errorf("run of %d blocks from %v, want from height %d", f.Count, f.First, next)
		}
		if from <= to {
			next = f.First.Height + chain.Height(f.Count)
		} else {
			next = f.First.Height - chain.Height(f.Count)
		}
		checkRun(t, f, from <= to)
		got = append(got, f.Bytes...)
		f.Release()
	}
	return got, nil
}

// checkRun checks Count, First, Last and Prev against the bytes themselves.
func checkRun(t testing.TB, f chain.Frames, ascending bool) {
	t.Helper()
	var all []chain.Summary
	for b := f.Bytes; len(b) > 0; {
		n := chain.FramePrefixLen + int(uint32(b[1])<<24|uint32(b[2])<<16|uint32(b[3])<<8|uint32(b[4]))
		s, err := chain.Summarize(b[chain.FramePrefixLen:n])
		if err != nil {
			// Nullifier ranges have no tree sizes, which Summarize allows; transparent parts it does not look into.
			t.Fatalf("summarize: %v", err)
		}
		all, b = append(all, s), b[n:]
	}
	lowest := all[0]
	if !ascending {
		lowest = all[len(all)-1]
	}
	if len(all) != f.Count || all[0].ID != f.First || all[len(all)-1].ID != f.Last || lowest.Prev != f.Prev {
		t.Errorf("a run says %d blocks %v to %v on %v; it has %d blocks %v to %v on %v",
			f.Count, f.First, f.Last, f.Prev, len(all), all[0].ID, all[len(all)-1].ID, lowest.Prev)
	}
}

// want is what a range must be: the source blocks, cut by chain.Project.
func want(t testing.TB, blocks []testBlock, from, to chain.Height, p chain.Projection) []byte {
	t.Helper()
	var out []byte
	for h := from; ; {
		var err error
		if out, err = chain.Project(out, blocks[h].frame()[chain.FramePrefixLen:], blocks[h].Transparent, p); err != nil {
			t.Fatal(err)
		}
		switch {
		case h == to:
			return out
		case from < to:
			h++
		default:
			h--
		}
	}
}

var projections = map[string]chain.Projection{
	"default":     chain.DefaultProjection,
	"all":         {Pools: chain.AllPools},
	"get block":   {Pools: chain.AllPools, KeepEmpty: true},
	"transparent": {Pools: chain.Pools(0).With(chain.Transparent)},
	"orchard":     {Pools: chain.Pools(0).With(chain.Orchard)},
	"nullifiers":  {Pools: chain.ShieldedPools, NullifiersOnly: true},
	"keep empty":  {Pools: chain.Pools(0).With(chain.Sapling), KeepEmpty: true},
}

// expectChain checks that the store has exactly these blocks, by every way in.
func expectChain(t testing.TB, s *Store, blocks []testBlock) {
	t.Helper()
	v := openView(t, s)
	defer v.Close()
	expectView(t, v, blocks)
}

func expectView(t testing.TB, v chain.View, blocks []testBlock) {
	t.Helper()
	top := chain.Height(len(blocks) - 1)
	if tip, err := v.Tip(); err != nil || tip != blocks[top].ID {
		t.Fatalf("tip %v, %v, want %v", tip, err, blocks[top].ID)
	}
	low := top - min(top, 300) // of a long chain the rest is read once
	if got, err := read(t, v, 0, top, chain.DefaultProjection); err != nil || !bytes.Equal(got, want(t, blocks, 0, top, chain.DefaultProjection)) {
		t.Errorf("all blocks: %d bytes that differ from the source's, %v", len(got), err)
	}
	middle, third := low+(top-low)/2, low+(top-low)/3
	for name, p := range projections {
		for _, r := range [][2]chain.Height{{low, top}, {top, low}, {middle, middle}, {third, top}, {top, third}} {
			got, err := read(t, v, r[0], r[1], p)
			if err != nil || !bytes.Equal(got, want(t, blocks, r[0], r[1], p)) {
				t.Errorf("%s: blocks %d to %d: %d bytes that differ from the source's, %v", name, r[0], r[1], len(got), err)
			}
		}
	}
	for _, b := range blocks {
		if h, err := v.HeightOf(t.Context(), b.ID.Hash); err != nil || h != b.ID.Height {
			t.Errorf("height of %v: %d, %v", b.ID, h, err)
		}
	}
}

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

// writeRow puts a row into a closed index; a nil value deletes it.
func writeRow(t *testing.T, dir string, key, value []byte) {
	t.Helper()
	db, err := badger.OpenManaged(badgerOptions(dir, Options{Logger: logTo(t)}))
	if err != nil {
		t.Fatal(err)
	}
	txn := db.NewTransactionAt(latest, true)
	if value == nil {
		err = txn.Delete(key)
	} else {
		err = txn.Set(key, value)
	}
	if err := errors.Join(err, txn.CommitAt(db.MaxVersion()+1, nil), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// readBytes reads a row of a closed index.
func readBytes(t *testing.T, dir string, key []byte) (value []byte) {
	t.Helper()
	db, err := badger.OpenManaged(badgerOptions(dir, Options{Logger: logTo(t)}))
	if err != nil {
		t.Fatal(err)
	}
	txn := db.NewTransactionAt(latest, false)
	defer txn.Discard()
	if err := readRow(txn, key, func(v []byte) error { value = slices.Clone(v); return nil }); err != nil {
		t.Fatal(err)
	}
	txn.Discard()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return value
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
		if err := s.connectSegment(&a); err != nil {
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
