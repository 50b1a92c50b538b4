package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/pkg/index"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// What an operator does with check: look, compare with Zebra, repair, with every exit code.
func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "index")
	n := node(t, zebratest.Regtest, 3000)
	r := startProgram(t, n.URL(), dir)
	r.await("completes the index", r.complete)
	locked := finish(t, command(t, "check", dir, "--repair"))
	if locked.code != 2 || !strings.Contains(locked.stderr, index.ErrLocked.Error()) || !strings.Contains(locked.stderr, "curl -X POST http://127.0.0.1:9998/check") {
		t.Errorf("repair of an index in use: got %d %s%s", locked.code, locked.stdout, locked.stderr)
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	if code, _ := r.wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, r.stderr)
	}

	other, away := node(t, zebratest.Main, 10), "http://"+servertest.FreeAddr(t)
	expect := func(what string, code int, text string, args ...string) string {
		t.Helper()
		cmd := command(t, append([]string{"check", dir}, args...)...)
		cmd.Env = append(cmd.Env, "ZSIDECAR_ZEBRA="+n.URL())
		got := finish(t, cmd)
		if got.code != code || !strings.Contains(got.stdout, text) {
			t.Errorf("%s: got %d\n%s%s\nwant %d and %q", what, got.code, got.stdout, got.stderr, code, text)
		}
		return got.stdout
	}
	expect("an index that is right", 0, "\neverything is right\n")
	expect("nothing to repair", 0, "\neverything is right\n", "--repair")
	expect("a sample", 0, "blocks compared (seed 7)", "--zebra", n.URL(), "--seed", "7")
	expect("the edges, by the Zebra of the settings", 0, "4 blocks compared", "--sample", "0")
	expect("a seed alone", 0, "blocks compared (seed 9)", "--seed", "9")
	expect("every block", 0, "3,001 blocks compared\n", "--all")
	expect("without Zebra", 2, "could not be compared with the node\n", "--zebra", away)
	expect("another network", 2, index.ErrOtherNetwork.Error(), "--zebra", other.URL())

	damage(t, dir)
	expect("damaged", 1, "WRONG  ")
	expect("repair without Zebra", 1, "NOT REPAIRED  ", "--repair", "--zebra", away)
	expect("repair with another network's", 1, index.ErrOtherNetwork.Error(), "--repair", "--zebra", other.URL())
	out := expect("repair", 0, `"problems": []`, "--repair", "--json")
	var report index.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Repair == nil || report.Repair.Segments != 1 || report.Height != 3000 {
		t.Errorf("the report of a repair: %v\n%s", err, out)
	}
	expect("repaired", 0, "3,001 blocks compared\n", "--all")
	expect("a second repair", 0, "\neverything is right\n", "--repair")
}
