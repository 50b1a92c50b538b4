package index

import (
	"os"
	"path/filepath"
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
			found := 0
			for i := min(97, step/2); i < len(data); i += step { // Badger panics at byte 97 of the table
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
					t.Fatal(err)
				}
				data[i] ^= 1 << (i % 8)
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
					t.Fatal(err)
				}
				data[i] ^= 1 << (i % 8)
				if damagedFile(t, i, dir, blocks) {
					found++
				}
			}
			if found == 0 {
				t.Error("nothing was found")
			}
		})
	}
}

// damagedFile tells whether something was found wrong.
func damagedFile(t *testing.T, i int, dir string, blocks []testBlock) bool {
	t.Helper()
	r, err := Check(t.Context(), dir, CheckOptions{})
	if err != nil && !strings.Contains(err.Error(), "delete") {
		t.Errorf("byte %d: %v, but not what to do", i, err)
	}
	s, openErr := Open(dir, goldenOptions())
	if openErr != nil && !strings.Contains(openErr.Error(), "delete") {
		t.Errorf("byte %d: open: %v, but not what to do", i, openErr)
	}
	wrong := err != nil || len(r.Problems) > 0
	if !wrong && openErr != nil {
		t.Errorf("byte %d: everything is right, but open: %v", i, openErr)
	}
	if openErr == nil {
		if !wrong {
			expectChain(t, s, blocks[:24])
		}
		if err := s.Close(); err != nil && !wrong {
			t.Errorf("byte %d: close: %v", i, err)
		}
	}
	return wrong
}
