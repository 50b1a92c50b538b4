package index

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
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
	r := check(t, s.dir, CheckOptions{madeUpSizes: s.state.top.sizes.Orchard >= leavesABlock})
	for _, p := range r.Problems {
		t.Errorf("check: %v", p)
	}
}

func check(t testing.TB, dir string, o ...CheckOptions) Report {
	t.Helper()
	r, err := Check(context.Background(), dir, append(o, CheckOptions{})[0])
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
	o.RetryFatal = cmp.Or(o.RetryFatal, 20*time.Millisecond)
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
		if hash, err := v.HashAt(t.Context(), b.ID.Height); err != nil || hash != b.ID.Hash {
			t.Errorf("HashAt %d: %s, %v", b.ID.Height, hash, err)
		}
		if h, err := v.HeightOf(t.Context(), b.ID.Hash); err != nil || h != b.ID.Height {
			t.Errorf("height of %v: %d, %v", b.ID, h, err)
		}
	}
	if _, err := v.HashAt(t.Context(), chain.Height(len(blocks))); !errors.Is(err, chain.ErrAboveTip) {
		t.Errorf("HashAt a height above the tip: %v", err)
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
