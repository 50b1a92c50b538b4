package index

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// TestNoRoomForBadger: where Badger itself would fill the disk, an index is neither opened nor checked, and closing one leaves its log
// for the next time. Nothing is lost.
func TestNoRoomForBadger(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 30)
	dir := t.TempDir()
	var room atomic.Int64
	room.Store(badgerRoom)
	o := small()
	o.freeHook = room.Load
	s := open(t, dir, o)
	build(t, s, newFakeNode(blocks))

	room.Store(badgerRoom - 1)
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := openView(t, s).HeightOf(t.Context(), blocks[3].ID.Hash); !errors.Is(err, ErrClosed) {
		t.Errorf("a read after Close: %v", err)
	}
	if _, err := Open(dir, o); !errors.Is(err, ErrLocked) {
		t.Errorf("open before the process has ended: %v", err)
	}
	copied := t.TempDir() // the process is gone
	if err := errors.Join(os.CopyFS(copied, os.DirFS(dir)), s.db.Close(), s.lock.Close()); err != nil {
		t.Error(err)
	}

	var full *DiskFullError
	if _, err := Open(copied, o); !errors.As(err, &full) || full.Dir != copied || full.Needed != badgerRoom || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("open: %v", err)
	}
	if _, err := Check(t.Context(), copied, CheckOptions{freeHook: room.Load}); !errors.Is(err, ErrDiskFull) {
		t.Errorf("check: %v", err)
	}
	room.Store(badgerRoom)
	expectChain(t, open(t, copied, o), blocks)
}
