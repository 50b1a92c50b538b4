package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestKilled kills the benchmark itself: the servers that it has started end with it.
func TestKilled(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(binary, filepath.Join(t.TempDir(), "log"))
	parent.Env = append(os.Environ(), fakeServerVariable+"=parent")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, notANumber := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || notANumber != nil || !alive(pid) {
		t.Errorf("the child says %q, %v: want the id of a process that lives", line, err)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait() // says that it was killed
	if err := poll(t.Context(), 20*time.Second, func() (bool, error) { return !alive(pid), nil }); err != nil {
		t.Errorf("process %d goes on: %v", pid, err)
	}
}

// alive tells whether a process is there and is not one that only waits to be buried.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

// TestAllocated counts what files occupy, not how long they are.
func TestAllocated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	empty, err := allocated(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "b", "full"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	sparse := filepath.Join(dir, "a", "sparse")
	if err := os.WriteFile(sparse, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(sparse, 1<<30); err != nil {
		t.Fatal(err)
	}
	got, err := allocated(dir)
	if err != nil || got-empty < 1<<20 || got-empty > 1<<20+64<<10 {
		t.Errorf("%d bytes and %v, want 1 MiB more than the %d of the folders", got, err, empty)
	}
	if _, err := allocated(filepath.Join(dir, "gone")); err == nil {
		t.Error("a directory that is not there has a size")
	}
}
