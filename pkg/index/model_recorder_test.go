package index

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// memoryDir returns a new folder in memory where there is room, for tests that commit thousands of times: that what is written survives a
// loss of power is for other tests.
func memoryDir(t testing.TB) string {
	const memory = "/dev/shm"
	t.Helper()
	var fs unix.Statfs_t
	if unix.Statfs(memory, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < 2<<30 {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "zsidecar-index-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// recorder is a testing.TB that keeps the first failure and lets the test go on, or ends the script.
type recorder struct {
	testing.TB
	mu  sync.Mutex
	err error
}

// scriptEnd is what a recorder panics with when a script cannot go on.
type scriptEnd struct{}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(scriptEnd{})
}
func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }
func (r *recorder) Helper()           {}

func (r *recorder) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

// catch ends a script, or a goroutine of it, that panicked. It is to be deferred.
func (r *recorder) catch() {
	if p := recover(); p != nil && p != any(scriptEnd{}) {
		r.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}
