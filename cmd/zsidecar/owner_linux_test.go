package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/zsidecar/zsidecar/internal/servertest"
)

// A folder that the program may not write to ends the start with one line that says whose it is. As root the program is run as
// somebody else, since root may write everywhere.
func TestForeignFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sealed := filepath.Join(dir, "sealed")
	if err := os.Mkdir(sealed, 0o555); err != nil {
		t.Fatal(err)
	}
	owner, user := os.Getuid(), os.Getuid()
	if owner == 0 {
		user = 65534
		for _, open := range []string{filepath.Dir(binary), dir, filepath.Dir(dir)} {
			if err := os.Chmod(open, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	remedy := fmt.Sprintf(": %s belongs to user %d with mode 0555, and this process is user %d: give it the folder (chown), or name another data directory\n", sealed, owner, user)
	for folder, problem := range map[string]string{
		filepath.Join(sealed, "index"): "open index: mkdir " + sealed + "/index: permission denied",
		sealed:                         "open the lock of the index: open " + sealed + "/zsidecar.lock: permission denied",
	} {
		cmd := command(t, "start", "--data-dir", folder, "--grpc", "127.0.0.1:0", "--http", "off", "--log-level", "error", "--zebra", "http://"+servertest.FreeAddr(t))
		if owner == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
		}
		if got, want := finish(t, cmd), "zsidecar: "+problem+remedy; got.code != 1 || got.stderr != want {
			t.Errorf("got %d %s\nwant 1 %s", got.code, got.stderr, want)
		}
	}
}
