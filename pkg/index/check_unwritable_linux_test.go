package index

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCheckReadOnlyMount: an index on a mount that cannot be written is verified like any other, and a damaged one too.
func TestCheckReadOnlyMount(t *testing.T) {
	links := t.TempDir()
	t.Setenv("TMPDIR", links)
	blocks := newForge().extend(t, nil, 40)
	dir, mount := t.TempDir(), t.TempDir()
	s := open(t, dir, small())
	build(t, s, newFakeNode(blocks))
	closeAndCheck(t, s)
	good := check(t, dir)
	for _, step := range []struct {
		source string
		flags  uintptr
	}{{dir, unix.MS_BIND}, {"", unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY}} {
		switch err := unix.Mount(step.source, mount, "", step.flags, ""); {
		case errors.Is(err, unix.EPERM):
			t.Skip("only root can mount")
		case err != nil:
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	r := check(t, mount)
	if r.Dir != mount {
		t.Errorf("the directory is %s", r.Dir)
	}
	if r.Dir, r.DiskBytes = good.Dir, good.DiskBytes; !reflect.DeepEqual(r, good) {
		t.Errorf("read-only: %+v, but %+v", r, good)
	}
	if _, err := Repair(t.Context(), mount, nil, small(), CheckOptions{}); !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "mount the file system for writing") {
		t.Errorf("repair: %v", err)
	}

	row := readBytes(t, dir, segmentKey(15).bytes())
	writeRow(t, dir, segmentKey(15).bytes(), []byte("damaged"))
	if r := check(t, mount); len(r.Problems) != 1 {
		t.Errorf("damaged: %v", r.Problems)
	}
	writeRow(t, dir, segmentKey(15).bytes(), row)
	s, err := Open(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), mount, CheckOptions{}); !errors.Is(err, ErrLocked) {
		t.Errorf("in use: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "00001.mem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), mount, CheckOptions{}); err == nil || !strings.Contains(err.Error(), "check a copy") {
		t.Errorf("not closed: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "00001.mem")); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(links); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
