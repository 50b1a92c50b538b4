package integration

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a child of the test, with its output kept. It never outlives the test.
type process struct {
	tb      testing.TB
	name    string
	cmd     *exec.Cmd
	started time.Time
	output  *logBuffer
	done    chan struct{} // closed once the process is gone
}

func startProcess(tb testing.TB, name, path string, args ...string) *process {
	tb.Helper()
	p := &process{tb: tb, name: name, cmd: exec.Command(path, args...), output: &logBuffer{}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = dieWithParent()
	// Neither program shall take our own variables, or the developer's, for settings.
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "ZSIDECAR_") || strings.HasPrefix(entry, "ZAINO_") || strings.HasPrefix(entry, "ZEBRA_")
	})
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		tb.Fatalf("start %s: %v", name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the exit code is read from ProcessState
	}()
	tb.Cleanup(func() {
		p.kill()
		if tb.Failed() {
			tb.Logf("last output of %s:\n%s", name, p.output.tail(6000))
		}
	})
	return p
}

// running tells whether the process still lives.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends the process with SIGKILL, at once and without a chance to clean up.
func (p *process) kill() {
	if p.running() {
		_ = p.cmd.Process.Kill()
	}
	<-p.done
}

// terminate sends SIGTERM and returns the exit code and the time that the process took to end.
func (p *process) terminate(limit time.Duration) (code int, took time.Duration) {
	p.tb.Helper()
	begin := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.tb.Fatalf("SIGTERM to %s: %v", p.name, err)
	}
	select {
	case <-p.done:
	case <-time.After(limit):
		p.kill()
		p.tb.Fatalf("%s was still running %v after SIGTERM", p.name, limit)
	}
	return p.cmd.ProcessState.ExitCode(), time.Since(begin)
}

// logBuffer collects what a process writes.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logBuffer) tail(n int) string {
	s := l.String()
	return s[max(0, len(s)-n):]
}

// await polls until ok, and fails the test at the limit.
func await(tb testing.TB, what string, limit time.Duration, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// listening tells whether somebody accepts connections at the address.
func listening(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
