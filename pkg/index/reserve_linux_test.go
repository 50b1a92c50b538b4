package index

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestQuota: a disk that takes less than it says is free, as where a user has a quota, pauses the build like a full one, and keeps an index
// from being opened. Serving goes on, and so does the build when there is room.
func TestQuota(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	switch err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=300m"); {
	case errors.Is(err, unix.EPERM):
		t.Skip("only root can mount a small disk")
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	fill := func(left int64) {
		t.Helper()
		var fs unix.Statfs_t
		err := unix.Statfs(disk, &fs)
		if err == nil {
			err = os.WriteFile(filepath.Join(disk, "of others"), make([]byte, int64(fs.Bavail)*fs.Bsize-left), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	blocks := newForge().extend(t, nil, 90)
	o := small()
	o.MinFree = 1 << 30
	o.freeHook = func() int64 { return 1 << 40 } // what a file system says that knows nothing of the quota
	dir := filepath.Join(disk, "index")
	s := open(t, dir, o)
	n := newFakeNode(blocks[:30])
	b := start(t, s, n, BuilderOptions{RetryDisk: 10 * time.Millisecond})
	b.awaitTip(t, blocks[29])
	b.stop(t)

	fill(badgerRoom / 2) // what was reserved lately is not believed for ever
	s.reserved.at = s.reserved.at.Add(-reserveAgain)
	n.set(blocks[:60], nil)
	b = start(t, s, n, BuilderOptions{RetryDisk: 10 * time.Millisecond})
	b.awaitState(t, StatePaused, "disk full: ")
	var full *DiskFullError
	if err := b.Progress().Err; !errors.As(err, &full) || full.Dir != dir || !errors.Is(err, unix.ENOSPC) || !NoRoom(err) || !strings.Contains(err.Error(), "raise the quota") {
		t.Errorf("progress says %v", err)
	}
	expectChain(t, s, blocks[:30])
	if err := os.Remove(filepath.Join(disk, "of others")); err != nil {
		t.Fatal(err)
	}
	b.awaitTip(t, blocks[59])
	b.stop(t)
	expectChain(t, s, blocks[:60])
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	fill(badgerRoom / 2)
	if _, err := Open(dir, o); !errors.Is(err, ErrDiskFull) || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("open: %v", err)
	}
	if err := os.Remove(filepath.Join(disk, "of others")); err != nil {
		t.Fatal(err)
	}
	expectChain(t, open(t, dir, o), blocks[:60])
}

// TestReserved: room is reserved again after a while, and before more is written than the last time has proved; what a file system cannot do
// is no lack of room.
func TestReserved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var r reserved
	const needed = 1 << 20
	again := func(size int64) bool {
		t.Helper()
		before := r.at
		if err := r.check(dir, size, needed); err != nil {
			t.Fatal(err)
		}
		return r.at != before
	}
	if !again(1000) || again(1000) || again(needed/4) {
		t.Error("it is not reserved first, or again at once")
	}
	if !again(needed / 4) {
		t.Error("more is written than was proved")
	}
	r.at = r.at.Add(-reserveAgain)
	if !again(1) {
		t.Error("it is believed for ever")
	}
	for err, want := range map[error]bool{unix.EDQUOT: true, unix.ENOSPC: true, unix.EOPNOTSUPP: false, unix.EISDIR: false, unix.EINVAL: false, unix.EPERM: false} {
		if refusesRoom(err) != want {
			t.Errorf("%v is taken for no room: %t", err, !want)
		}
	}
	if err := reserve("/proc", 1<<20); err != nil {
		t.Errorf("a file system that cannot reserve: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("it leaves %v, %v", files, err)
	}
}
