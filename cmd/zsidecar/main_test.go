package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// binary is the built program; TestMain makes it.
var binary string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "zsidecar-cmd-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "zsidecar")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	if code := m.Run(); code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// command prepares a run of the program in an environment without settings.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // for a program that does not end when it should
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// result is what a finished run left.
type result struct {
	code           int
	stdout, stderr string
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args   string
		stderr string
	}{
		{"", "zsidecar: no command given: start, demo, check, bench, config, generate-config or version\nsee zsidecar --help\n"},
		{"begin", "zsidecar: unknown command \"begin\"\nsee zsidecar --help\n"},
		{"--zebra x", "zsidecar: unknown flag: --zebra\nsee zsidecar --help\n"},
		{"start --zebro x", "zsidecar: unknown flag: --zebro\nsee zsidecar start --help\n"},
		{"start now", "zsidecar: unexpected argument \"now\"\nsee zsidecar start --help\n"},
		{"start --grpc", "zsidecar: flag needs an argument: --grpc\nsee zsidecar start --help\n"},
		{"start --grpc 8137", "zsidecar: flag --grpc = \"8137\": must be host:port such as 127.0.0.1:8137\nsee zsidecar start --help\n"},
		{"start --no-index=maybe", "zsidecar: flag --no-index = \"maybe\": must be true or false\nsee zsidecar start --help\n"},
		{"start --zebra localhost:8232 --http x", "zsidecar: flag --zebra = \"localhost:8232\": must be a URL such as http://127.0.0.1:8232\n" +
			"flag --http = \"x\": must be host:port such as 127.0.0.1:8137, or off\nsee zsidecar start --help\n"},
		{"demo --data-dir x", "zsidecar: unknown flag: --data-dir\nsee zsidecar demo --help\n"},
		{"demo --blocks many", "zsidecar: invalid argument \"many\" for \"--blocks\" flag: strconv.ParseInt: parsing \"many\": invalid syntax\nsee zsidecar demo --help\n"},
		{"demo --blocks 1999", "zsidecar: flag --blocks = 1999: must be from 2000 to 200000\nsee zsidecar demo --help\n"},
		{"demo --blocks 99999999999", "zsidecar: flag --blocks = 99999999999: must be from 2000 to 200000\nsee zsidecar demo --help\n"},
		{"check a b", "zsidecar: unexpected argument \"b\"\nsee zsidecar check --help\n"},
		{"check a --sample -1", "zsidecar: flag --sample = -1: must not be negative\nsee zsidecar check --help\n"},
		{"check a --data-dir b", "zsidecar: give either DIR or --data-dir, not both\nsee zsidecar check --help\n"},
		{"version now", "zsidecar: unexpected argument \"now\"\nsee zsidecar version --help\n"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			got := finish(t, command(t, strings.Fields(tt.args)...))
			if got != (result{2, "", tt.stderr}) {
				t.Errorf("got %d\n%s%s\nwant 2\n%s", got.code, got.stdout, got.stderr, tt.stderr)
			}
		})
	}
}

// Wrong settings that are not on the command line, and everything else that makes a start impossible.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "z.toml")
	if err := os.WriteFile(config, []byte("[zsidecar]\nin_flight = 100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	busy := taken.Addr().String()
	tests := []struct {
		name   string
		env    string
		args   []string
		stderr string
	}{
		{"file", "", []string{"--config", config}, "zsidecar: " + config + ":2: zsidecar.in_flight = \"100\": must be a whole number from 1 to 48\n"},
		{"file named by the environment", "ZSIDECAR_CONFIG=" + config, nil,
			"zsidecar: " + config + ":2: zsidecar.in_flight = \"100\": must be a whole number from 1 to 48\n"},
		{"no file", "", []string{"-c", "/no/such.toml"},
			"zsidecar: read the configuration: open /no/such.toml: no such file or directory: give the path of a TOML file, or leave --config away\n"},
		{"environment", "ZSIDECAR_GRPC=x", nil, "zsidecar: environment variable ZSIDECAR_GRPC = \"x\": must be host:port such as 127.0.0.1:8137\n"},
		{"gRPC port taken", "", []string{"--grpc", busy, "--http", "off"},
			"zsidecar: listen tcp " + busy + ": bind: address already in use: stop the program that has the port, or choose another with --grpc\n"},
		{"HTTP port taken", "", []string{"--grpc", "127.0.0.1:0", "--http", busy},
			"zsidecar: listen tcp " + busy + ": bind: address already in use: stop the program that has the port, or choose another with --http\n"},
		{"address of another machine", "", []string{"--grpc", "192.0.2.1:8137"},
			"zsidecar: listen tcp 192.0.2.1:8137: bind: cannot assign requested address: choose an address of this machine with --grpc\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, append([]string{"start"}, tt.args...)...)
			cmd.Env = append(cmd.Env, tt.env)
			if got := finish(t, cmd); got != (result{1, "", tt.stderr}) {
				t.Errorf("got %d\n%s%s\nwant 1\n%s", got.code, got.stdout, got.stderr, tt.stderr)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	cmd := command(t, "start", "--help")
	cmd.Env = append(cmd.Env, "XDG_CACHE_HOME=/cache")
	got := finish(t, cmd)
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("got %d %s", got.code, got.stderr)
	}
	for _, want := range []string{
		`--zebra URL +JSON-RPC URL of the Zebra node \(default http://127\.0\.0\.1:8232\)`,
		`--zebra-cookie FILE`, `--zebra-user USER`, `--zebra-password-file FILE`,
		`--grpc ADDR .*\(default 127\.0\.0\.1:8137\)`,
		`--http ADDR .*\(default 127\.0\.0\.1:9998\)`,
		`--data-dir DIR .*\(default /cache/zsidecar\)`,
		`-c, --config FILE`, `--no-index +build`, `--chain-name NAME`, `--donation-address ADDRESS`,
		`--log-format FORMAT .*\(default text\)`, `--log-level LEVEL .*\(default info\)`,
		`Examples:\n  # beside a Zebra on this machine`,
	} {
		if !regexp.MustCompile(want).MatchString(got.stdout) {
			t.Errorf("the help lacks %s:\n%s", want, got.stdout)
		}
	}
	for _, args := range [][]string{{"--help"}, {"help"}, {"help", "demo"}, {"check", "-h"}} {
		if got := finish(t, command(t, args...)); got.code != 0 || !strings.Contains(got.stdout, "Usage:") {
			t.Errorf("%q: got %d %s%s", args, got.code, got.stdout, got.stderr)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	want := regexp.MustCompile(`^zsidecar \d+\.\d+\.\d+, commit \S+, go1\.\S+ \w+/\w+\n$`)
	for _, args := range []string{"version", "--version", "-V"} {
		if got := finish(t, command(t, args)); got.code != 0 || got.stderr != "" || !want.MatchString(got.stdout) {
			t.Errorf("%s: got %d %q %q", args, got.code, got.stdout, got.stderr)
		}
	}
}

// running is a started program.
type running struct {
	t          *testing.T
	cmd        *exec.Cmd
	grpc, http string
	stderr     *safeBuffer
}

// startProgram starts the program beside a node and waits until it listens.
func startProgram(t *testing.T, zebra, dataDir string, args ...string) *running {
	t.Helper()
	r := &running{t: t, grpc: servertest.FreeAddr(t), http: servertest.FreeAddr(t), stderr: new(safeBuffer)}
	r.cmd = command(t, append([]string{"start", "--zebra", zebra, "--data-dir", dataDir, "--grpc", r.grpc, "--http", r.http}, args...)...)
	r.cmd.Stderr = r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.await("listens", func() bool {
		conn, err := net.Dial("tcp", r.grpc)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return r
}

func (r *running) await(what string, done func() bool) {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			r.cmd.Process.Kill()
			r.cmd.Wait()
			r.t.Fatalf("the program never %s:\n%s", what, r.stderr)
		}
	}
}

// safeBuffer may be read while it is written.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// status is the HTTP status of a path, 0 when nobody answers.
func (r *running) status(path string) int {
	code, _ := r.get(path)
	return code
}

// metric is the value of a series, empty when it is not there.
func (r *running) metric(name string) string {
	_, text := r.get("/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (r *running) get(path string) (int, string) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.http+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(text)
}

// wait returns the exit code and how long the end took.
func (r *running) wait() (int, time.Duration) {
	start := time.Now()
	r.cmd.Wait()
	return r.cmd.ProcessState.ExitCode(), time.Since(start)
}

// A start without a node: it listens, lives, is not ready, and stops in order.
func TestStartWithoutZebra(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		r := startProgram(t, "http://"+servertest.FreeAddr(t), t.TempDir(), "--log-format", "json")
		r.await("lives", func() bool { return r.status("/livez") == 200 })
		if code := r.status("/readyz"); code != 503 {
			t.Errorf("/readyz: %d, want 503", code)
		}
		if err := r.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if code, took := r.wait(); code != 0 || took > 10*time.Second {
			t.Errorf("%v: exit code %d after %v, want 0 within 10s\n%s", sig, code, took, r.stderr)
		}
		if !strings.Contains(r.stderr.String(), `"msg":"stopping"`) {
			t.Errorf("no JSON log line of the stop:\n%s", r.stderr)
		}
	}
}

// node starts a simulated Zebra with a chain of small blocks.
func node(t *testing.T, network zebratest.Network, blocks int) *zebratest.Node {
	t.Helper()
	c, err := zebratest.NewChain(zebratest.ChainOptions{Network: network})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Extend(blocks, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	n := zebratest.NewNode(c, zebratest.NodeOptions{})
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	return n
}
