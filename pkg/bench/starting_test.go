package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// startRegtest runs a simulated node with blocks on a regtest chain; cookieDir "" means that it asks for no password.
func startRegtest(t *testing.T, blocks int, cookieDir string) *zebratest.Node {
	t.Helper()
	c, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Regtest})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Extend(blocks, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	n := zebratest.NewNode(c, zebratest.NodeOptions{CookieDir: cookieDir})
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

// fakeOptions describe a run with one fake server, which knows the node without its cookie.
func fakeOptions(t *testing.T, how string, complete bool) Options {
	t.Helper()
	n := startRegtest(t, 30, "")
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	addr, healthAddr := servertest.FreeAddr(t), servertest.FreeAddr(t)
	start := &StartOptions{Dir: filepath.Join(t.TempDir(), "index")}
	start.Command = fmt.Sprintf("env %s=%s '%s' -grpc %s -dir '%s' -zebra %s", fakeServerVariable, how, binary, addr, dirMark, n.URL())
	if complete {
		start.Command += " -http " + healthAddr
		start.Complete = "http://" + healthAddr + "/healthz"
	}
	return Options{
		Targets: []TargetOptions{{Name: how, Address: addr, Start: start}}, Node: NodeOptions{URL: n.URL()},
		Scenarios: []string{"index", "restart"}, Rounds: 2, BuildTime: 30 * time.Second, Logs: t.TempDir(),
	}
}

// TestIndexAndRestart measures builds and starts of a server that makes no mistake.
func TestIndexAndRestart(t *testing.T) {
	t.Parallel()
	for _, complete := range []bool{false, true} {
		t.Run(fmt.Sprintf("with a URL that says when: %v", complete), func(t *testing.T) {
			t.Parallel()
			o := fakeOptions(t, "good", complete)
			result, err := Run(t.Context(), o)
			if err != nil || len(result.Faults) > 0 {
				t.Fatalf("%v, faults %+v", err, result.Faults)
			}
			if len(result.Measurements) != 2 {
				t.Fatalf("%d measurements, want those of index and restart: %+v", len(result.Measurements), result.Measurements)
			}
			for i, m := range result.Measurements {
				if len(m.Rounds) != 2 {
					t.Errorf("%s has %d rounds, want 2", m.Scenario, len(m.Rounds))
				}
				for _, metric := range []Metric{FirstAnswer, Complete, ServerCPU, RSSAnon} {
					if s, ok := m.Stat(metric); !ok || s.Low <= 0 {
						t.Errorf("%s: %s is %+v, %v", m.Scenario, metric, s, ok)
					}
				}
				for _, round := range m.Rounds {
					// A build takes five waits of 60 ms, and is not complete with the first answer; a start on an index takes none.
					more := round[Complete] - round[FirstAnswer]
					if i == 0 && (round[Complete] < 0.3 || more <= 0) || i == 1 && more > 0.3 {
						t.Errorf("%s: the index was complete after %.3f s, %.3f s after the first answer", m.Scenario, round[Complete], more)
					}
				}
				if size, ok := m.Stat(Size); ok != (i == 0) || ok && (size.Low < 100_000 || size.High > 200_000) {
					t.Errorf("%s: size %+v, %v, want that of a file of 100,000 bytes of the index alone", m.Scenario, size, ok)
				}
			}
			checkCurve(t, result.Curves)
			if result.Targets[0].Server != "fake good" || result.Targets[0].Height != 30 {
				t.Errorf("the target is %+v", result.Targets[0])
			}
		})
	}
}

func checkCurve(t *testing.T, curves []Curve) {
	t.Helper()
	if len(curves) != 1 || len(curves[0].Seconds) < 4 || len(curves[0].Seconds) != len(curves[0].Values) {
		t.Fatalf("curves %+v, want one with several points", curves)
	}
	c := curves[0]
	for i := 1; i < len(c.Seconds); i++ {
		if c.Seconds[i] <= c.Seconds[i-1] || c.Values[i] < c.Values[i-1] {
			t.Errorf("point %d of the curve lies below or before the one before it: %+v", i, c)
		}
	}
	if c.Values[len(c.Values)-1] != 30 {
		t.Errorf("the curve ends at height %v, want 30", c.Values[len(c.Values)-1])
	}
}

// TestStartFaults has a server for everything that may go wrong.
func TestStartFaults(t *testing.T) {
	t.Parallel()
	for how, tt := range map[string]struct {
		want     string
		patience time.Duration
	}{
		"dies":   {"has ended by itself", time.Minute},
		"silent": {"has not answered within 2s", 2 * time.Second},
		"stuck":  {"is not complete within 8s: it serves height 15 of 30", 8 * time.Second},
		"lies":   {"where the node has", time.Minute},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			o := fakeOptions(t, how, false)
			o.Scenarios, o.BuildTime = []string{"index"}, tt.patience
			faults := 1
			if how == "dies" { // what follows would have to start it again
				o.Scenarios, faults = append(o.Scenarios, "latency"), 2
			}
			result, err := Run(t.Context(), o)
			if err != nil || len(result.Faults) != faults || !strings.Contains(result.Faults[0].Text, tt.want) {
				t.Fatalf("%v, faults %+v, want %d with %q", err, result.Faults, faults, tt.want)
			}
			if how == "dies" && !strings.Contains(result.Faults[0].Text, "disk on fire") {
				t.Errorf("the fault does not show the output: %s", result.Faults[0].Text)
			}
			if len(result.Measurements) != 0 {
				t.Errorf("measured all the same: %+v", result.Measurements)
			}
			if conn, err := net.Dial("tcp", o.Targets[0].Address); err == nil {
				conn.Close()
				t.Error("the server still runs")
			}
		})
	}
}

// TestNeverComplete: who waits in vain for a URL to say that the index is complete is told what it says.
func TestNeverComplete(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for url, want := range map[string]string{
		other.URL + "/health":  "30, and " + other.URL + "/health says 404 Not Found; the last of its output",
		"http://127.0.0.1:9/x": "30, and http://127.0.0.1:9/x says nothing: Get ",
	} {
		o := fakeOptions(t, "good", false)
		o.Targets[0].Start.Complete, o.Node = url, NodeOptions{}
		o.Scenarios, o.BuildTime = []string{"index"}, 3*time.Second
		result, err := Run(t.Context(), o)
		if err != nil || len(result.Faults) != 1 || !strings.Contains(result.Faults[0].Text, "is not complete within 3s: it serves height "+want) {
			t.Errorf("%v, faults %+v, want %s", err, result.Faults, want)
		}
	}
}

// TestStartRefused refuses before anything is started.
func TestStartRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		"is not empty": func(o *Options) {
			if err := os.MkdirAll(filepath.Join(o.Targets[0].Start.Dir, "old"), 0o700); err != nil {
				t.Error(err)
			}
		},
		"is empty":                         func(o *Options) { o.Targets[0].Start.Command = " " },
		"how is its index known":           func(o *Options) { o.Node.URL = "" },
		"no directory is named":            func(o *Options) { o.Targets[0].Start.Dir = "" },
		"its process id is not known":      func(o *Options) { o.Targets[0].PID = os.Getpid() },
		"a shell does not take":            func(o *Options) { o.Targets[0].Start.Dir = "a b"; o.Targets[0].Start.Command += " {dir}" },
		"must have no / in it":             func(o *Options) { o.Targets[0].Name = "../one" },
		"say how with --start":             func(o *Options) { o.Targets[0].Start = nil },
		"the node http://192.0.2.1:1 is":   func(o *Options) { o.Node.URL = "http://192.0.2.1:1" },
		"the node \"http://node\": an add": func(o *Options) { o.Node.URL = "node" },
	} {
		o := fakeOptions(t, "good", false)
		change(&o)
		_, err := Run(t.Context(), o)
		var input *InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	o := fakeOptions(t, "good", false)
	o.Targets[0].Start = &StartOptions{Command: "x --dir='{dir}'", Dir: "a b"}
	if _, err := newServers(o); err != nil {
		t.Errorf("a directory with a space, in quotes: %v", err)
	}
	o = fakeOptions(t, "good", false)
	l, err := net.Listen("tcp", o.Targets[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	result, err := Run(t.Context(), o)
	if err != nil || len(result.Faults) != 2 || !strings.Contains(result.Faults[0].Text, "somebody listens at") {
		t.Errorf("with a server at the address: %v, %+v", err, result)
	}
}

// TestStopped ends the process whatever happens.
func TestStopped(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	c := startTrap(t, log, "sh -c 'trap \"\" TERM; echo set; sleep 1000 & wait; sleep 1000'")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, _, err := c.stop(ctx); !errors.Is(err, context.DeadlineExceeded) || c.running() {
		t.Errorf("stop of a process that ignores SIGTERM: %v, running %v", err, c.running())
	}
	c = startTrap(t, log, "sh -c 'trap \"echo so sorry; exit 3\" TERM; echo set; sleep 1000 & wait'")
	if _, _, err := c.stop(t.Context()); err == nil || !strings.Contains(err.Error(), "exit code 3") || !strings.Contains(err.Error(), "so sorry") {
		t.Errorf("stop of a process that fails then: %v", err)
	}
	var err error
	c, err = startChild("gone", "echo 1 2; exit 4", log)
	if err != nil {
		t.Fatal(err)
	}
	<-c.done
	if _, _, err := c.stop(t.Context()); err == nil || !strings.Contains(err.Error(), "by itself") {
		t.Errorf("stop of a process that is gone: %v", err)
	}
}

// startTrap starts a shell and waits until it says that its trap is set.
func startTrap(t *testing.T, log, command string) *child {
	t.Helper()
	if err := os.RemoveAll(log); err != nil {
		t.Fatal(err)
	}
	c, err := startChild("shell", command, log)
	if err != nil {
		t.Fatal(err)
	}
	err = poll(t.Context(), time.Minute, func() (bool, error) { return strings.HasSuffix(c.lastLines(), "set"), nil })
	if err != nil {
		t.Fatal(err)
	}
	return c
}
