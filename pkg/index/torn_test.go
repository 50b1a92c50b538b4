package index

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// TestTornEnd damages the newest segments (29 to 32 and below): they are cut off, with the recent blocks above, and fetched again.
func TestTornEnd(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	gone := func(keys ...[]byte) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			for _, key := range keys {
				writeRow(t, dir, key, nil)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		left   int
	}{
		"a frame": {func(t *testing.T, dir string) {
			row := readBytes(t, dir, segmentKey(32).bytes())
			row[len(row)-1] ^= 1
			writeRow(t, dir, segmentKey(32).bytes(), row)
		}, 32},
		"the last segment is gone":  {gone(segmentKey(32).bytes()), 32},
		"its columns are gone":      {gone(transparentKey(32).bytes()), 32},
		"three segments are gone":   {gone(segmentKey(32).bytes(), segmentKey(31).bytes(), transparentKey(27).bytes()), 24},
		"one below is gone too":     {gone(segmentKey(32).bytes(), segmentKey(23).bytes()), 32},
		"no segment can be read":    {gone(segmentKey(3).bytes(), segmentKey(7).bytes(), segmentKey(11).bytes(), segmentKey(15).bytes(), segmentKey(19).bytes(), segmentKey(23).bytes(), segmentKey(27).bytes(), segmentKey(31).bytes(), segmentKey(32).bytes()), 0},
		"the recent ones are whole": {gone(segmentKey(31).bytes(), segmentKey(32).bytes()), 28},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, report := damaged(t, blocks, func(dir string) { c.change(t, dir) })
			if len(report.Problems) == 0 {
				t.Fatal("check found nothing")
			}
			tip, ok := s.Tip()
			if ok != (c.left > 0) || ok && tip != blocks[c.left-1].ID || s.Complete() {
				t.Fatalf("tip %v, complete %t; want %d blocks", tip, s.Complete(), c.left)
			}
			below := map[bool]int{true: 1}[name == "one below is gone too"] // which is no end
			if n := s.Stats().CorruptSegments; n != below {
				t.Errorf("%d corrupt segments", n)
			}
			build(t, s, newFakeNode(blocks))
			if below > 0 {
				return
			}
			expectChain(t, s, blocks)
			closeAndCheck(t, s)
		})
	}
}

// TestTornEndStays: while the cut cannot be committed, the damaged blocks count as not indexed.
func TestTornEndStays(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	s, _ := damaged(t, blocks, func(string) {})
	dir := s.dir
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	writeRow(t, dir, segmentKey(32).bytes(), nil)
	o := small()
	o.commitHook = func(func() error) error { return errInjected }
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if tip, _ := s.Tip(); tip != blocks[39].ID || s.Stats().CorruptSegments != 1 {
		t.Errorf("tip %v, %+v", tip, s.Stats())
	}
	var corrupt *CorruptError
	if _, err := read(t, openView(t, s), 32, 32, chain.DefaultProjection); !errors.As(err, &corrupt) {
		t.Errorf("block 32: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, small())
	expectChain(t, s, blocks[:32])
}

// TestEmptyLogs: a process that is killed right after it has created a log leaves it empty.
func TestEmptyLogs(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	for _, name := range []string{"00009.mem", "000009.vlog"} {
		for what, look := range map[string]func(t *testing.T, dir string){
			"open":  func(t *testing.T, dir string) { expectChain(t, open(t, dir, small()), blocks) },
			"check": func(t *testing.T, dir string) { check(t, dir) },
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				s := open(t, dir, small())
				build(t, s, newFakeNode(blocks))
				closeAndCheck(t, s)
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, nil, 0o644); err != nil {
					t.Fatal(err)
				}
				look(t, dir)
				if info, err := os.Stat(path); err == nil && info.Size() == 0 {
					t.Error("it is still there")
				}
			})
		}
	}
}
