package index

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDamagedFiles flips a bit of every part of every file that Badger writes. Nothing panics; what Check does not find wrong is right to
// the last block, and where it cannot look it says what to do.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	blocks := goldenBlocks(t)
	base := t.TempDir()
	unpack(t, goldenFile(FormatVersion), base)
	for name, step := range map[string]int{"000001.sst": 293, "000001.vlog": 20_011, "MANIFEST": 3, "KEYREGISTRY": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(filepath.Join(base, name))
			if err != nil {
				t.Fatal(err)
			}
			var places []int
			for i := min(97, step/2); i < len(data); i += step { // Badger panics at byte 97 of the table
				places = append(places, i)
			}
			for i := len(data) - 24; name == "000001.sst" && i < len(data); i++ { // what tells where in the table its parts are
				places = append(places, i)
			}
			found := 0
			for _, i := range places {
				data[i] ^= 1 << (i % 8)
				if damagedFile(t, fmt.Sprint("byte ", i), copyWith(t, base, name, data), blocks) {
					found++
				}
				data[i] ^= 1 << (i % 8)
			}
			if found == 0 {
				t.Error("nothing was found")
			}
		})
	}
}

// TestShortTable: a table that was cut short is an error, wherever that is.
func TestShortTable(t *testing.T) {
	t.Parallel()
	base, name := t.TempDir(), "000001.sst"
	unpack(t, goldenFile(FormatVersion), base)
	data, err := os.ReadFile(filepath.Join(base, name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 16; i++ {
		for _, n := range []int{len(data) * (i - 1) / 16, len(data) - i} {
			if !damagedFile(t, fmt.Sprint(n, " bytes"), copyWith(t, base, name, data[:n]), nil) {
				t.Errorf("%d bytes of %d: everything is right", n, len(data))
			}
		}
	}
}

// TestMissingManifest: without the list of its tables an index is an error. Badger would begin a new one in silence, and delete what is there.
func TestMissingManifest(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	unpack(t, goldenFile(FormatVersion), base)
	// Each file alone says that there was an index, whatever the name of its directory would mean in a pattern.
	for with, name := range map[string]string{"000001.sst": "in[dex", "000001.vlog": "in[d]ex*"} {
		data, err := os.ReadFile(filepath.Join(base, with))
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Rename(copyWith(t, base, with, data), dir); err != nil {
			t.Fatal(err)
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.Name() != with && f.Name() != "KEYREGISTRY" {
				if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
					t.Fatal(err)
				}
			}
		}
		damagedFile(t, "without a manifest", dir, nil)
		if _, err := Open(dir, goldenOptions()); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "MANIFEST is missing") {
			t.Errorf("open: %v", err)
		}
		for name, fn := range map[string]func() (Report, error){
			"check":  func() (Report, error) { return Check(t.Context(), dir, CheckOptions{}) },
			"repair": func() (Report, error) { return Repair(t.Context(), dir, nil, goldenOptions(), CheckOptions{}) },
		} {
			if _, err := fn(); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, with)); err != nil {
			t.Errorf("what was left of it is gone: %v", err)
		}
	}
}

func TestFilesIn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "in[dex", "in[d]ex", "*", "a\\b"} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"000002.vlog", "000001.vlog", "000003.sst"} {
			if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{filepath.Join(dir, "000001.vlog"), filepath.Join(dir, "000002.vlog")}
		if got, err := filesIn(dir, "*.vlog"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if got, err := filesIn(dir, "*.mem"); err != nil || len(got) > 0 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := filesIn(filepath.Join(t.TempDir(), "none"), "*"); err != nil || len(got) > 0 {
		t.Errorf("a directory that is not there: %q, %v", got, err)
	}
}

// copyWith returns a copy of a directory, with other bytes in one of its files.
func copyWith(t *testing.T, base, name string, data []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// damagedFile tells whether something was found wrong.
func damagedFile(t *testing.T, where, dir string, blocks []testBlock) bool {
	t.Helper()
	r, err := Check(t.Context(), dir, CheckOptions{})
	if err != nil && !strings.Contains(err.Error(), "delete") {
		t.Errorf("%s: %v, but not what to do", where, err)
	}
	s, openErr := Open(dir, goldenOptions())
	if openErr != nil && !strings.Contains(openErr.Error(), "delete") {
		t.Errorf("%s: open: %v, but not what to do", where, openErr)
	}
	wrong := err != nil || len(r.Problems) > 0
	if !wrong && openErr != nil {
		t.Errorf("%s: everything is right, but open: %v", where, openErr)
	}
	if openErr == nil {
		if !wrong {
			expectChain(t, s, blocks[:24])
		}
		if err := s.Close(); err != nil && !wrong {
			t.Errorf("%s: close: %v", where, err)
		}
	}
	return wrong
}

// A damaged segment in the newest value log: the next start and a repair lose that one alone, where Badger would cut off all behind it.
func TestDamageInTheNewestLog(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 900)
	base := t.TempDir()
	o := Options{SealDepth: 20, SegmentBlocks: 250, MinFree: -1} // three segments above Badger's value threshold
	s, err := Open(base, o)
	if err != nil {
		t.Fatal(err)
	}
	n := newFakeNode(blocks)
	drive(t, NewBuilder(s, n, BuilderOptions{}), n)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(base, "000001.vlog"))
	if err != nil {
		t.Fatal(err)
	}
	frame := blocks[200].frame()
	data[bytes.Index(data, frame)+len(frame)/2] ^= 1

	dir := copyWith(t, base, "000001.vlog", data)
	n.blocksSent = 0
	r := repair(t, dir, n, o)
	if len(r.Problems) > 0 || r.Repair.Segments != 1 || n.blocksSent != 250 {
		t.Errorf("%v left, %+v, %d blocks sent", r.Problems, r.Repair, n.blocksSent)
	}

	dir = copyWith(t, base, "000001.vlog", data)
	for range 3 {
		if s, err = Open(dir, o); err != nil {
			t.Fatal(err)
		}
		if tip, _ := s.Tip(); tip != blocks[899].ID {
			t.Errorf("the tip is %v", tip)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if r := check(t, dir); len(r.Problems) != 1 || r.Problems[0].First != 0 || r.Problems[0].Last != 249 {
			t.Errorf("check: %v", r.Problems)
		}
	}
	if logs, err := filepath.Glob(filepath.Join(dir, "*.vlog")); err != nil || len(logs) > 3 {
		t.Errorf("logs %q, %v", logs, err)
	}
}
