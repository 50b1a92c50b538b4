package longchain

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestKilledPassLeavesNothing makes a chain where killed processes have left files, and another process is at work.
func TestKilledPassLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{
		"chain-1.tmp": 2 * time.Hour, "chain-runs-2.tmp": 2 * time.Hour, "chain-3.tmp": 0, "notes.tmp": 2 * time.Hour,
	} {
		path, then := filepath.Join(dir, name), time.Now().Add(-age)
		if err := os.WriteFile(path, []byte("unfinished"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Open(t.Context(), Options{Kind: TestnetLike, Blocks: MinBlocks, Seed: 1, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"chain-3.tmp", "notes.tmp", filepath.Base(c.Path())}; !slices.Equal(names, want) {
		t.Errorf("the folder holds %q, want %q", names, want)
	}
}
