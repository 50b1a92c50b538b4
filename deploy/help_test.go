package deploy

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// binary is the static program that the image holds; TestMain builds it with the image's own script.
var binary string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "zsidecar-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "zsidecar")
	if out, err := exec.Command("image/build.sh", "amd64", binary).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "image/build.sh: %v\n%s", err, out)
		return 1
	}
	if err := os.Symlink("zsidecar", filepath.Join(dir, "zainod")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// skip skips the test for something that this machine does not have, unless CI wants it.
func skip(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("ZSIDECAR_REQUIRE_REAL") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// given is a path from the environment.
func given(t *testing.T, name string) string {
	t.Helper()
	path := os.Getenv(name)
	if path == "" {
		skip(t, name+" is not set")
	}
	return path
}

// tool is a program of this machine.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		skip(t, name+" is not installed")
	}
	return path
}

// output runs a program to its end, which must be good.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	// The variables of these tests are none of the program's settings.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "ZSIDECAR_") })
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// ports counts the ports that freeAddr has tried.
var ports atomic.Uint32

// freeAddr returns an address of loopback that nobody listens on, and that no outgoing connection will take before it is used: its port is
// below those that the kernel gives away.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10_000+(uint32(os.Getpid())*101+ports.Add(1))%20_000)
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// await waits for a condition.
func await(t *testing.T, what string, limit time.Duration, done func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// process is a service that runs as a plain process.
type process struct {
	cmd *exec.Cmd
	out *safeBuffer
}

// run starts a program with nothing in its environment but env; at the end of the test it gets SIGTERM.
func run(t *testing.T, grace time.Duration, env map[string]string, name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), name, args...), out: new(safeBuffer)}
	for _, key := range slices.Sorted(maps.Keys(env)) {
		p.cmd.Env = append(p.cmd.Env, key+"="+env[key])
	}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(grace):
			t.Errorf("%s did not end within %v of SIGTERM", name, grace)
			_ = p.cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("%s %q:\n%s", name, args, p.out)
		}
	})
	return p
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

// release is the version that the program calls itself.
func release(t *testing.T) string {
	t.Helper()
	words := strings.Fields(output(t, binary, "version"))
	return strings.TrimSuffix(words[1], ",")
}
