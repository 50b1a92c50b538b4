package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// A start on a full disk answers from Zebra, says why there is no index yet, and has one as soon as there is room. A stop on a disk that
// has become full is in order too, check says why it cannot look, and the next start finds everything.
func TestFullDiskAtStartAndStop(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	filler := filepath.Join(disk, "filler")
	dir := filepath.Join(disk, "index")
	config := filepath.Join(t.TempDir(), "z.toml")
	if err := os.WriteFile(config, []byte("[zsidecar]\nmin_free_bytes = 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := node(t, zebratest.Regtest, 50)
	for range 2 {
		fill(t, filler)
		r := startProgram(t, n.URL(), dir, "--config", config)
		r.await("is ready, and says why there is no index", func() bool {
			code, text := r.get("/healthz")
			return code == 200 && strings.Contains(text, "disk full: ") && strings.Contains(text, `"opening"`)
		})
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		r.await("completes the index", r.complete)
		if _, text := r.get("/healthz"); strings.Contains(text, "disk full") {
			t.Errorf("with an index: %s", text)
		}
		fill(t, filler)
		r.cmd.Process.Signal(syscall.SIGTERM)
		if code, _ := r.wait(); code != 0 {
			t.Fatalf("exit code %d\n%s", code, r.stderr)
		}
		if got := finish(t, command(t, "check", dir)); got.code != 2 || !strings.Contains(got.stderr, "disk full: ") {
			t.Errorf("check on a full disk: got %d %s%s", got.code, got.stdout, got.stderr)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if got := finish(t, command(t, "check", dir)); got.code != 0 || !strings.Contains(got.stdout, "tip      50 (") {
		t.Errorf("check: got %d %s%s", got.code, got.stdout, got.stderr)
	}
}

// smallDisk mounts an empty one.
func smallDisk(t *testing.T) string {
	disk := t.TempDir()
	switch err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=200m"); {
	case errors.Is(err, syscall.EPERM):
		t.Skip("only root can mount a small disk")
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return disk
}

// fill writes a file until the disk is full.
func fill(t *testing.T, name string) {
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for page := make([]byte, 1<<16); ; {
		if _, err := f.Write(page); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
