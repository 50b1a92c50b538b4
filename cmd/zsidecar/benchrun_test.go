package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/pkg/bench"
)

// startDemo leaves the program up beside a simulated node, its index complete. The caller stops it before the test ends.
func startDemo(t *testing.T, grpcAddr string) (pid int, stop func()) {
	t.Helper()
	cmd := command(t, "demo", "--blocks", "2000", "--stay", "--grpc", grpcAddr, "--http", "off")
	out := &safeBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(90 * time.Second); !strings.Contains(out.String(), "grpcurl -plaintext"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the demo has not come to its end:\n%s", out.String())
		}
	}
	return cmd.Process.Pid, func() {
		cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			t.Errorf("demo: %v\n%s", err, out.String())
		}
	}
}

// The smoke scenario: every scenario in miniature at the real program, twice side by side. What counts is that nothing is wrong.
func TestBenchRunSmoke(t *testing.T) {
	t.Parallel()
	addr := servertest.FreeAddr(t)
	pid, stop := startDemo(t, addr)
	defer stop()
	file := filepath.Join(t.TempDir(), "result.json")
	got := finish(t, command(t, "bench", "run", "--target", "one="+addr, "--target", "two="+addr, "--pid", "one="+strconv.Itoa(pid),
		"--rounds", "1", "--round-time", "20ms", "--calls", "10", "--most-clients", "4", "--json", file))
	if got.code != 0 || got.stderr != "" || strings.Contains(got.stdout, "FAULT") {
		t.Fatalf("got %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	result, err := readResult(file)
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string]int{}
	for _, m := range result.Measurements {
		measured[m.Scenario]++
		if m.Target == "one" && m.Rounds[0][bench.RSSAnon] <= 0 {
			t.Errorf("%s, %s: memory of the server is %v", m.Scenario, m.Case, m.Rounds[0][bench.RSSAnon])
		}
	}
	for _, s := range bench.Scenarios() {
		if s.Default && measured[s.Name] < 2 {
			t.Errorf("%s: %d measurements at two targets", s.Name, measured[s.Name])
		}
	}
}

// An interrupted run ends well, with what was measured until then.
func TestBenchRunInterrupted(t *testing.T) {
	t.Parallel()
	addr := servertest.FreeAddr(t)
	_, stop := startDemo(t, addr)
	defer stop()
	file := filepath.Join(t.TempDir(), "result.json")
	cmd := command(t, "bench", "run", "--target", "one="+addr, "--calls", "10", "--round-time", "1m", "--scenario", "latency,ranges", "--json", file)
	out := &safeBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(60 * time.Second); !strings.Contains(out.String(), "GetTransaction"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing was measured:\n%s", out.String())
		}
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "interrupted: ") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if result, err := readResult(file); err != nil || len(result.Measurements) < 5 || len(result.Faults) > 0 {
		t.Errorf("the file: %v, %+v", err, result)
	}
}

func TestBenchRunErrors(t *testing.T) {
	t.Parallel()
	nobody := servertest.FreeAddr(t)
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "no target is given"},
		{"--target 127.0.0.1:9067", 2, "flag --target = \"127.0.0.1:9067\": must be NAME=HOST:PORT"},
		{"--target a=127.0.0.1:1 --target a=127.0.0.1:2", 2, "two targets are called \"a\""},
		{"--target a=127.0.0.1:1 --pid b=7", 2, "flag --pid names \"b\""},
		{"--target a=127.0.0.1:1 --pid a=x", 2, "flag --pid = \"a=x\": must be NAME=PID"},
		{"--target a=zec.example:443", 2, "--i-own-this-server"},
		{"--target a=tls://zec.example:443", 2, "--i-own-this-server"},
		{"--target a=127.0.0.1:1 --scenario latency,speed", 2, "there is no scenario \"speed\": latency, "},
		{"--target a=127.0.0.1:1 --rounds 0", 2, "must be above 0"},
		{"--target a=127.0.0.1:1 --client fast", 2, "there is no client \"fast\""},
		{"--target a=127.0.0.1:1 --tls-ca /no/such.pem", 2, "flag --tls-ca: open /no/such.pem"},
		{"--target a=127.0.0.1:1 --pid a=1 --pid a=2", 2, "flag --pid names \"a\" twice"},
		{"--target a=127.0.0.1:1 --round-time 3ns", 2, "a round of 3ns: it must be from 1ms to 1h0m0s"},
		{"--target a=127.0.0.1:1 --scenario latency,tip", 2, "the scenario tip asks the node behind the targets: name it with --zebra"},
		{"--target a=127.0.0.1:1 --scenario reorg --zebra http://zec.example:1", 2, "--i-own-this-server"},
		{"--target a=127.0.0.1:1 --scenario index", 2, "say how with --start"},
		{"--target a=127.0.0.1:1 --start a=x --complete a=nonsense", 2, "\"nonsense\" is no URL that says whether the index is complete (--complete)"},
		{"--target a=127.0.0.1:1 --start a=x --complete a=http://192.0.2.1/", 2, "http://192.0.2.1/ is not on this machine: say --i-own-this-server"},
		{"--target a=127.0.0.1:1 now", 2, "unexpected argument \"now\""},
		{"--target a=" + nobody, 1, "target a at " + nobody},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			got := finish(t, command(t, append([]string{"bench", "run"}, strings.Fields(tt.args)...)...))
			if got.code != tt.code || got.stdout != "" || !strings.Contains(got.stderr, tt.want) {
				t.Errorf("got %d\n%s%s\nwant %d, %s", got.code, got.stdout, got.stderr, tt.code, tt.want)
			}
		})
	}
}
