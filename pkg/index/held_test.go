package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// inValueLog has small segments in the value log too, and goes on to its next file after so many rows.
func inValueLog(rows uint32) Options {
	o := small()
	o.badgerHook = func(b badger.Options) badger.Options {
		return b.WithValueLogFileSize(1 << 20).WithValueLogMaxEntries(rows).WithValueThreshold(128)
	}
	return o
}

// TestValueLogGoesOnBesideReaders: Badger waits for whoever reads a row of a value log file before it goes on to the next one, and makes
// the readers that come meanwhile wait. A reader that has one row of a segment and wants the other would stop everything for good.
func TestValueLogGoesOnBesideReaders(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 200)
	s := open(t, t.TempDir(), inValueLog(100))
	n := newFakeNode(blocks[:40])
	build(t, s, n)
	v := openView(t, s)
	newest := s.current.Load().sealed.blocks - 1
	if got, err := read(t, v, newest, newest, chain.DefaultProjection); err != nil || len(got) == 0 { // its segment row is held now
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if g := s.current.Load().segmentAt(newest); g.frames.item.Load() == nil || g.columns.item.Load() != nil {
		t.Fatal("not just one of the two rows is held")
	}
	s.holding.Lock() // as if somebody else were finding a row: the columns have to wait
	found := sync.OnceFunc(s.holding.Unlock)
	defer found()
	type result struct {
		bytes []byte
		err   error
	}
	done := make(chan result, 1)
	go func() {
		got, err := read(t, v, newest, newest, projections["get block"])
		done <- result{got, err}
	}()
	time.Sleep(50 * time.Millisecond)
	b := start(t, s, n, BuilderOptions{})
	n.set(blocks, nil)
	b.await(t, "tip while a reader waits", func() bool { tip, ok := s.Tip(); return ok && tip == blocks[199].ID })
	b.stop(t)
	found()
	if r := <-done; r.err != nil || !bytes.Equal(r.bytes, want(t, blocks, newest, newest, projections["get block"])) {
		t.Errorf("%d bytes that differ from the source's, %v", len(r.bytes), r.err)
	}
	expectChain(t, s, blocks)
}

// TestRowsAmongKeysAreReadSideBySide: whoever reads a row that Badger copies waits for nobody, once that is known.
func TestRowsAmongKeysAreReadSideBySide(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	s := open(t, t.TempDir(), small())
	build(t, s, newFakeNode(blocks))
	expectChain(t, s, blocks)
	s.holding.Lock() // as if somebody else were finding a row
	defer s.holding.Unlock()
	v := openView(t, s)
	done := make(chan error, 1)
	go func() {
		for _, err := range v.Blocks(t.Context(), 0, 39, projections["get block"]) {
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
}

// TestEveryRange reads every range of a chain whose blocks, and whose columns, are shorter and longer than a run, sealed and recent, in
// memory and not, in the value log and among the keys.
func TestEveryRange(t *testing.T) {
	t.Parallel()
	f := newForge()
	f.kind = func(b *chaintest.Builder, dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
		outputs := map[chain.Height]int{2: 400, 4: 400, 5: 3000, 9: 900, 10: 900, 11: 900, 16: 3000}[h]
		switch {
		case outputs > 0:
			coinbase := chaintest.Tx{Version: 5, BranchID: chaintest.NU7, Coinbase: true, Height: h, Outputs: 2, Seed: seed}.Append(nil)
			tx := chaintest.Tx{Version: 1, Inputs: 1, Outputs: outputs, Seed: seed + 1}.Append(nil)
			dst, err := b.Block(dst, prev, chaintest.BlockTime(h), seed, coinbase, tx)
			if err != nil {
				t.Error(err)
			}
			return dst
		case h%10 == 3:
			return b.DenseV4(dst, h, prev, seed)
		case h%10 == 8:
			return b.DenseV6(dst, h, prev, seed)
		}
		return b.Mixed(dst, h, prev, seed)
	}
	blocks := f.extend(t, nil, 20)
	frames, columns := 0, 0
	for _, b := range blocks {
		frames, columns = max(frames, len(b.Shielded)), max(columns, len(b.Transparent))
	}
	if min(frames, columns) <= chain.RunSize {
		t.Fatalf("frames of %d bytes and columns of %d", frames, columns)
	}
	for name, o := range map[string]Options{"inlined": small(), "value log": inValueLog(1000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.shortFrames = 2000 * 10
			s := open(t, t.TempDir(), o)
			build(t, s, newFakeNode(blocks))
			v := openView(t, s)
			for name, p := range projections {
				for from := range chain.Height(len(blocks)) {
					for to := range chain.Height(len(blocks)) {
						if got, err := read(t, v, from, to, p); err != nil || !bytes.Equal(got, want(t, blocks, from, to, p)) {
							t.Errorf("%s: blocks %d to %d: %d bytes that differ from the source's, %v", name, from, to, len(got), err)
						}
					}
				}
			}
		})
	}
}

// TestWrongLengthInTheFile damages the length of a row in a value log. Badger reads such a row, tells its logger, and keeps the file locked:
// a store that it would not close, and a check that would not end, are left or avoided.
func TestWrongLengthInTheFile(t *testing.T) { // not parallel: between fork and exec the child holds the locks of what other tests have open
	blocks := newForge().extend(t, nil, 60)
	o := inValueLog(1000)
	if dir := os.Getenv("INDEX_WRONG_LENGTH_DIR"); dir != "" {
		s, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range []chain.Height{13, 14, 18} {
			var corrupt *CorruptError
			if got, err := read(t, openView(t, s), h, h, projections["get block"]); (h < 16) != errors.As(err, &corrupt) || h >= 16 && len(got) == 0 {
				t.Errorf("block %d: %d bytes, %v", h, len(got), err)
			}
		}
		n := newFakeNode(blocks)
		drive(t, NewBuilder(s, n, BuilderOptions{}), n)
		if err := s.Close(); err != nil || t.Failed() {
			t.Fatal(err)
		}
		os.Exit(0) // what Badger leaves behind is no leak of a process that ends
	}
	for _, key := range [][]byte{segmentKey(15).bytes(), transparentKey(15).bytes()} {
		dir := t.TempDir()
		s, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		n := newFakeNode(blocks[:40])
		drive(t, NewBuilder(s, n, BuilderOptions{}), n)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "000001.vlog")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		row := data[bytes.Index(data, key)-6:] // two bytes of flags, the lengths of key and value, a time of 0, the key
		klen, n1 := binary.Uvarint(row[2:])
		if vlen, n2 := binary.Uvarint(row[3:]); n1 != 1 || klen != uint64(len(key)+8) || n2 != 2 || row[4] == 0x7f {
			t.Fatalf("lengths %d and %d before the key: %x", klen, vlen, row[:8])
		}
		row[4] = 0x7f // as long as two bytes can say
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := check(t, dir); len(r.Problems) != 1 || r.Problems[0].First != 12 || r.Problems[0].Last != 15 {
			t.Errorf("check: %v", r.Problems)
		}

		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestWrongLengthInTheFile$", "-test.timeout", "30s")
		child.Env = append(slices.Clone(os.Environ()), "INDEX_WRONG_LENGTH_DIR="+dir)
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("the child ended with %v: %s", err, out)
		}
		if r := check(t, dir); !r.Recovered || r.Height != 59 || len(r.Problems) != 1 {
			t.Errorf("check after the child: %+v", r)
		}
		if r := repair(t, dir, newFakeNode(blocks), o); len(r.Problems) > 0 || r.Repair.Segments != 1 {
			t.Errorf("%v left, %+v", r.Problems, r.Repair)
		}
		expectChain(t, open(t, dir, o), blocks)
	}
}
