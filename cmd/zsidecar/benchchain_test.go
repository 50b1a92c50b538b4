package main

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
)

// TestBenchChain serves a chain of each kind, builds an index of it, and checks that: every row, and a sample beside the node's blocks.
func TestBenchChain(t *testing.T) {
	t.Parallel()
	for kind, about := range map[string]string{
		"testnet": `^testnet-like chain: 10,000 blocks, 0 of them .*, 10,\d+ transactions, 17,\d{3},\d{3} bytes\n`,
		"mainnet": `^mainnet-like chain: 10,000 blocks, 162 of them .*, 2\d,\d+ transactions, 28\d,\d{3},\d{3} bytes\n`,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			addr, cache := servertest.FreeAddr(t), t.TempDir()
			args := []string{"bench", "chain", "--kind", kind, "--blocks", "10000", "--cache", cache}
			serve := command(t, append(args, "--listen", addr)...)
			var out, log safeBuffer
			serve.Stdout, serve.Stderr = &out, &log
			if err := serve.Start(); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			r := startProgram(t, "http://"+addr, dir)
			r.await("completes the index", r.complete)
			r.await("served", func() bool { return strings.Contains(out.String(), "Zebra's JSON-RPC is on http://"+addr) })
			if !regexp.MustCompile(about).MatchString(out.String()) || !strings.HasSuffix(strings.Split(out.String(), "\n")[4], ", new") {
				t.Errorf("got %s", out.String())
			}
			r.cmd.Process.Signal(syscall.SIGTERM)
			if code, _ := r.wait(); code != 0 {
				t.Errorf("start: exit code %d\n%s", code, r.stderr)
			}
			if got := finish(t, command(t, "check", dir, "--zebra", "http://"+addr)); got.code != 0 {
				t.Errorf("check: exit code %d\n%s%s", got.code, got.stdout, got.stderr)
			}
			serve.Process.Signal(os.Interrupt)
			if err := serve.Wait(); err != nil {
				t.Errorf("bench chain: %v\n%s", err, log.String())
			}

			again := finish(t, command(t, append(args, "--stats")...))
			figures := strings.Split(out.String(), "\n")
			if lines := strings.Split(again.stdout, "\n"); again.code != 0 || len(lines) != 6 || lines[0] != figures[0] || lines[3] != figures[3] ||
				!strings.HasSuffix(lines[4], ", verified") {
				t.Errorf("with --stats: got %d %s%s\nwant the figures of\n%s", again.code, again.stdout, again.stderr, out.String())
			}
		})
	}
}

func TestBenchChainErrors(t *testing.T) {
	t.Parallel()
	const see = "\nsee zsidecar bench chain --help\n"
	for args, want := range map[string]string{
		"--kind regtest":           "flag --kind: \"regtest\" is no kind of chain: must be one of [testnet mainnet]",
		"--blocks 1999":            "flag --blocks = 1999: must be from 2000 to 5000000",
		"--seed -1":                "invalid argument \"-1\" for \"--seed\" flag: strconv.ParseUint: parsing \"-1\": invalid syntax",
		"--listen 18232":           "flag --listen = \"18232\": must be an IP address and a port, such as 127.0.0.1:18232",
		"--listen 192.0.2.1:18232": "flag --listen = \"192.0.2.1:18232\": the simulated node has no password, and listens on addresses of this machine alone, such as 127.0.0.1:18232",
		"now":                      "unexpected argument \"now\"",
	} {
		if got := finish(t, command(t, append([]string{"bench", "chain"}, strings.Fields(args)...)...)); got != (result{2, "", "zsidecar: " + want + see}) {
			t.Errorf("%s: got %d\n%s%s\nwant 2\n%s", args, got.code, got.stdout, got.stderr, want)
		}
	}
	// A folder that cannot be is found before anything is computed, and a port that somebody has when it is needed.
	if got := finish(t, command(t, "bench", "chain", "--blocks", "2000", "--cache", os.DevNull)); got.code != 1 ||
		!strings.HasPrefix(got.stderr, "zsidecar: flag --cache: mkdir "+os.DevNull) {
		t.Errorf("got %d %s%s", got.code, got.stdout, got.stderr)
	}
	taken := node(t, 0, 1)
	cmd := command(t, "bench", "chain", "--blocks", "2000", "--cache", t.TempDir(), "--listen", strings.TrimPrefix(taken.URL(), "http://"))
	if got := finish(t, cmd); got.code != 1 || !strings.Contains(got.stderr, "start the simulated node: listen tcp") {
		t.Errorf("got %d %s%s", got.code, got.stdout, got.stderr)
	}
}

// TestBenchChainInterrupted: who stops the computation of the hashes is told so, and nothing is left of it.
func TestBenchChainInterrupted(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	cmd := command(t, "bench", "chain", "--blocks", "5000000", "--cache", cache)
	var out, log safeBuffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if entries, _ := os.ReadDir(cache); len(entries) > 0 {
			break
		}
		if time.Now().After(end) {
			cmd.Process.Kill()
			t.Fatalf("the computation does not begin: %s", log.String())
		}
	}
	cmd.Process.Signal(os.Interrupt)
	err := cmd.Wait()
	want := "interrupted while the chain's hashes were computed: nothing is kept of them, and the next start begins anew\n"
	if entries, _ := os.ReadDir(cache); cmd.ProcessState.ExitCode() != 1 || !strings.HasSuffix(log.String(), want) || out.String() != "" || len(entries) > 0 {
		t.Errorf("got %v, %s%s, %d files\nwant %s", err, out.String(), log.String(), len(entries), want)
	}
}
