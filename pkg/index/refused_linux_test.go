package index

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSyncRefused: a log cannot be synced, as on a disk that breaks. The builder ends with an error that says so, and the next process
// goes on.
func TestSyncRefused(t *testing.T) { // not parallel: what others map must not come to lie in the hole
	blocks := newForge().extend(t, nil, 60)
	for _, pattern := range []string{"*.vlog", "*.mem"} {
		t.Run(pattern, func(t *testing.T) {
			dir := t.TempDir()
			s, err := Open(dir, small())
			if err != nil {
				t.Fatal(err)
			}
			n := newFakeNode(blocks[:40])
			drive(t, NewBuilder(s, n, BuilderOptions{}), n)
			heal := breakSync(t, dir, pattern)
			n.set(blocks, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = NewBuilder(s, n, BuilderOptions{}).Run(ctx)
			if !errors.Is(err, ErrUnusable) || !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), dir) {
				t.Errorf("run: %v", err)
			}
			if tip, _ := s.Tip(); tip != blocks[39].ID {
				t.Errorf("tip %v", tip)
			}
			copied := filepath.Join(t.TempDir(), "copy")
			copyIndex(t, copied, dir)
			heal()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			s = open(t, copied, small())
			tip, _ := s.Tip()
			if tip.Height < 39 || blocks[tip.Height].ID != tip {
				t.Fatalf("tip %v after the restart", tip)
			}
			build(t, s, newFakeNode(blocks))
			expectChain(t, s, blocks)
		})
	}
}

// breakSync makes msync fail for the newest file of a pattern, until heal is called: it refuses a range with a hole in it.
func breakSync(t *testing.T, dir, pattern string) (heal func()) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	path := slices.Max(paths)
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), path) {
			continue
		}
		var start, end uintptr
		if _, err := fmt.Sscanf(line, "%x-%x ", &start, &end); err != nil {
			t.Fatal(line, err)
		}
		page := uintptr(os.Getpagesize())
		last := end - page
		if _, _, errno := unix.Syscall(unix.SYS_MUNMAP, last, page, 0); errno != 0 {
			t.Fatal(errno)
		}
		return func() {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, _, errno := unix.Syscall6(unix.SYS_MMAP, last, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED,
				f.Fd(), last-start); errno != 0 {
				t.Fatal(errno)
			}
		}
	}
	t.Fatalf("%s is not mapped", path)
	return nil
}
