package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/pkg/index"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// complete tells whether /healthz says that the index has reached the tip.
func (r *running) complete() bool { return r.metric("zsidecar_index_complete") == "1" }

// What one index directory goes through: built, locked, refused to another network, checked, damaged, checked again.
func TestIndexDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "index")
	n := node(t, zebratest.Regtest, 3000)
	got := finish(t, command(t, "check", dir))
	if got.code != 2 || !strings.Contains(got.stderr, "zsidecar: check index "+dir+": there is none") {
		t.Errorf("check without an index: got %d %s%s", got.code, got.stdout, got.stderr)
	}

	r := startProgram(t, n.URL(), dir)
	r.await("completes the index", r.complete)
	second := finish(t, command(t, "start", "--data-dir", dir, "--grpc", "127.0.0.1:0", "--http", "off", "--log-level", "error"))
	if second.code != 1 || !strings.HasPrefix(second.stderr, "zsidecar: ") || !strings.Contains(second.stderr, index.ErrLocked.Error()) {
		t.Errorf("a second program on the same folder: got %d %s", second.code, second.stderr)
	}
	if got := finish(t, command(t, "check", dir)); got.code != 2 || !strings.Contains(got.stderr, index.ErrLocked.Error()) {
		t.Errorf("check of an index in use: got %d %s%s", got.code, got.stdout, got.stderr)
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	if code, _ := r.wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, r.stderr)
	}

	other := node(t, zebratest.Main, 10)
	wrong := finish(t, command(t, "start", "--data-dir", dir, "--zebra", other.URL(), "--grpc", "127.0.0.1:0", "--http", "off", "--log-level", "error"))
	if wrong.code != 1 || !strings.Contains(wrong.stderr, index.ErrOtherNetwork.Error()) {
		t.Errorf("an index of another network: got %d %s", wrong.code, wrong.stderr)
	}

	got = finish(t, command(t, "check", "--data-dir", dir))
	if got.code != 0 || !strings.HasSuffix(got.stdout, "everything is right\n") || !strings.Contains(got.stdout, "3,000 (") {
		t.Errorf("check: got %d %s%s", got.code, got.stdout, got.stderr)
	}
	damage(t, dir)
	got = finish(t, command(t, "check", dir, "--json"))
	var report index.Report
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || got.code != 1 || len(report.Problems) == 0 {
		t.Errorf("check of a damaged index: got %d, %d problems, %v\n%s%s", got.code, len(report.Problems), err, got.stdout, got.stderr)
	}
	if got = finish(t, command(t, "check", dir)); got.code != 1 || !strings.Contains(got.stdout, "WRONG  ") {
		t.Errorf("check of a damaged index, in words: got %d %s%s", got.code, got.stdout, got.stderr)
	}
}

// damage flips a byte in the middle of the first value log, where the segments are.
func damage(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no value log in %s: %v", dir, err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	end := len(text)
	for end > 0 && text[end-1] == 0 {
		end--
	}
	text[end/2] ^= 0xff
	if err := os.WriteFile(logs[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A reader that takes nothing holds the first signal up; the second one ends the program at once.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	n := node(t, zebratest.Regtest, 5000)
	r := startProgram(t, n.URL(), t.TempDir())
	r.await("completes the index", r.complete)
	conn, err := grpc.NewClient(r.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(65535))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stalled, err := walletrpc.NewCompactTxStreamerClient(conn).GetBlockRange(t.Context(), &walletrpc.BlockRange{
		Start: &walletrpc.BlockID{Height: 0}, End: &walletrpc.BlockID{Height: 5000},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stalled.Recv(); err != nil {
		t.Fatal(err)
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.await("says that it stops", func() bool { return r.status("/readyz") != 200 })
	time.Sleep(200 * time.Millisecond)
	r.cmd.Process.Signal(syscall.SIGTERM)
	_, took := r.wait()
	status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGTERM || took > time.Second {
		t.Errorf("after the second signal: %v after %v, want an end by SIGTERM at once\n%s", r.cmd.ProcessState, took, r.stderr)
	}
}

// The whole demo, on a shorter chain.
func TestDemo(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	cmd := command(t, "demo", "--blocks", "2000", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp, "ZSIDECAR_ZEBRA=http://192.0.2.1:1")
	got := finish(t, cmd)
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("got %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	for _, want := range []string{
		"zsidecar listens on 127.0.0.1:", "First answer ", "all 1,000 through Zebra", "The index is complete: 2,001 blocks",
		"all 1,000 from the index", "Byte for byte the same", "all 2,001 from the index", "A new block: ", "A reorg takes back 3 blocks and brings 4: ",
		"Stopped in order in ",
	} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("lacks %q:\n%s", want, got.stdout)
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("the demo left %v behind, %v", left, err)
	}
}

// --stay leaves the server up and says how to ask it, until a signal ends it well.
func TestDemoStays(t *testing.T) {
	t.Parallel()
	grpcAddr, httpAddr := servertest.FreeAddr(t), servertest.FreeAddr(t)
	cmd := command(t, "demo", "--blocks", "2000", "--stay", "--grpc", grpcAddr, "--http", httpAddr)
	var out safeBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, cmd: cmd, grpc: grpcAddr, http: httpAddr}
	r.await("invites", func() bool {
		return strings.Contains(out.String(), "grpcurl -plaintext "+grpcAddr+" cash.z.wallet.sdk.rpc.CompactTxStreamer/GetLightdInfo\n")
	})
	if code := r.status("/readyz"); code != 200 {
		t.Errorf("/readyz: %d", code)
	}
	cmd.Process.Signal(syscall.SIGINT)
	if code, _ := r.wait(); code != 0 || !strings.Contains(out.String(), "Stopped in order") {
		t.Errorf("exit code %d\n%s", code, out.String())
	}
}

// An interrupted demo says so, and leaves nothing behind. As zainod too only start has its log on standard output.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	cmd := zainod(t, "demo", "--grpc", "127.0.0.1:0", "--http", "off", "--log-level", "info")
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
	var stdout, stderr safeBuffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, cmd: cmd, stderr: &stderr}
	r.await("answers", func() bool { return strings.Contains(stdout.String(), "First answer ") })
	cmd.Process.Signal(syscall.SIGINT)
	if code, _ := r.wait(); code != 1 || !strings.HasSuffix(stderr.String(), "\nError: interrupted before the end\n") {
		t.Errorf("got %d %s", code, stderr.String())
	}
	if !strings.Contains(stderr.String(), "level=INFO") || strings.Contains(stdout.String(), "level=INFO") {
		t.Errorf("stdout:\n%s\nstderr:\n%s", stdout.String(), stderr.String())
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("the demo left %v behind, %v", left, err)
	}
}
