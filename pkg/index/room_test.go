package index

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zsidecar/zsidecar/pkg/chain"
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

// TestTooManyFiles: without file descriptors for what Badger may open, the build pauses and nothing is opened or closed; it goes on by
// itself. Badger itself would end the process at the commit after one that found no descriptor for its next memory table.
func TestTooManyFiles(t *testing.T) { // not parallel: the limit is the process's
	blocks := newForge().extend(t, nil, 60)
	s := open(t, t.TempDir(), small())
	build(t, s, newFakeNode(blocks[:30]))
	other := t.TempDir()

	// A new descriptor has the lowest number that is free, so this leaves half of what is wanted.
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	lowest := uint64(null.Fd())
	null.Close()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	limit := func(n uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
	}
	limit(lowest + badgerFiles/2)
	defer limit(was.Cur)

	n := newFakeNode(blocks)
	b := start(t, s, n, BuilderOptions{})
	b.awaitState(t, StatePaused, "too many open files")
	if err := b.Progress().Err; !errors.Is(err, ErrTooManyFiles) || !NoRoom(err) || errors.Is(err, ErrDiskFull) {
		t.Errorf("progress says %v", err)
	}
	expectChain(t, s, blocks[:30]) // serving goes on
	if _, err := Open(other, small()); !errors.Is(err, ErrTooManyFiles) {
		t.Errorf("open: %v", err)
	}
	limit(was.Cur)
	b.awaitTip(t, blocks[59])
	b.stop(t)
	expectChain(t, s, blocks)
}

// TestSameTrouble: what is the same but for its numbers, at every look, is logged once.
func TestSameTrouble(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &Builder{log: slog.New(slog.NewTextHandler(&out, nil)), told: make(map[string]time.Time)}
	for i := range 5 {
		b.logOnce(StatePaused, fmt.Errorf("seal: %w", &DiskFullError{Dir: "d", Free: int64(i) << 20, Needed: 1 << 30}))
	}
	for i := range 5 {
		b.logOnce(StatePaused, fmt.Errorf("%w: %d more are needed", ErrTooManyFiles, i))
	}
	for i := range 5 {
		b.logOnce(StateStopped, fmt.Errorf("fetch block 1: %w", &PrunedError{Missing: 1, First: chain.Height(100 + i)}))
	}
	for i := range chain.Height(5) {
		b.logOnce(StateWaiting, fmt.Errorf("ask the node for the tree sizes of block %s: %w", chain.BlockID{Height: i, Hash: chain.Hash{byte(i)}}, chain.ErrNotFound))
	}
	for i := range 2 {
		b.logOnce(StateStopped, fmt.Errorf("block %d", i))
	}
	if got := strings.Count(out.String(), "\n"); got != 6 {
		t.Errorf("%d lines: %s", got, out.String())
	}
}
