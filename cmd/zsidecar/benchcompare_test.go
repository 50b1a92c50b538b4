package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/pkg/bench"
	"github.com/zsidecar/zsidecar/pkg/bench/report"
)

// benchFile writes the result of a run in which two targets took these times.
func benchFile(t *testing.T, dir, name string, ours, peer float64, faults ...bench.Fault) string {
	t.Helper()
	r := &bench.Result{Version: bench.ResultVersion, Targets: []bench.Target{{Name: "ours"}, {Name: "peer"}}, Faults: faults}
	for i, p50 := range []float64{ours, peer} {
		m := bench.Measurement{Scenario: "latency", Case: "GetBlock", Clients: 1, Target: r.Targets[i].Name}
		for round := range 5 {
			m.Rounds = append(m.Rounds, map[bench.Metric]float64{bench.P50: p50 * (1 + float64(round)/100)})
		}
		r.Measurements = append(r.Measurements, m)
	}
	path := filepath.Join(dir, name)
	if err := (report.Files{JSON: path}).Write(r); err != nil {
		t.Fatal(err)
	}
	return path
}

// What compare prints, and every exit code.
func TestBenchCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before := benchFile(t, dir, "before.json", 0.001, 0.040)
	after := benchFile(t, dir, "after.json", 0.002, 0.080)
	wrong := benchFile(t, dir, "wrong.json", 0.001, 0.040, bench.Fault{Scenario: "latency", Case: "GetBlock", Target: "ours", Text: "other bytes"})
	nothing := filepath.Join(dir, "nothing.json")
	if err := (report.Files{JSON: nothing}).Write(&bench.Result{Version: bench.ResultVersion}); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage.json")
	if err := os.WriteFile(garbage, []byte(`{"version": 1, "seconds": "soon"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string // are in it
	}{
		{[]string{before, after}, 0, "| GetBlock | ours   | p50, ms | 1.02 (1.00–1.04) | 2.04 (2.00–2.08) | 2.00× (1.92–2.08) | worse   |", ""},
		{[]string{before, before}, 0, "2 rows: 0 better, 0 worse, 2 noise.", ""},
		{[]string{before, after, "--reference", "peer"}, 0, "| 2.00× (1.92–2.08) | 1.00× (1.00–1.00) | noise     |", ""},
		{[]string{before, after, "--fail-over", "1.9"}, 1, "| worse ", "latency: GetBlock at ours: p50 is 2 times worse\n"},
		{[]string{before, after, "--fail-over", "2.1"}, 0, "| worse ", ""},
		{[]string{after, before, "--fail-over", "1"}, 0, "2 better", ""},
		{[]string{before, nothing}, 0, "0 rows: 0 better, 0 worse, 0 noise.", ""},
		{[]string{before, nothing, "--fail-over", "1.1"}, 1, "Only in the old result:", "flag --fail-over: no row can be judged"},
		{[]string{before, wrong, "--fail-over", "1.1"}, 1, "| noise ", "wrong.json has 1 faults\n"},
		{[]string{before, wrong}, 1, "**FAULTS: 0 in the old result, 1 in the new one.**", "wrong.json has 1 faults"},
		{[]string{wrong, before}, 0, "**FAULTS: 1 in the old result, 0 in the new one.**", ""},
		{[]string{before, after, "--reference", "third"}, 2, "", `flag --reference: the old result has no target "third" to be the reference: it has ours, peer`},
		{[]string{before, garbage}, 2, "", "zsidecar: read " + garbage + ": json: cannot unmarshal string"},
		{[]string{before, filepath.Join(dir, "no.json")}, 2, "", "no such file or directory"},
		{[]string{before}, 2, "", "1 files given: name OLD and NEW\nsee zsidecar bench compare --help\n"},
		{[]string{before, after, "--fail-over", "0.5"}, 2, "", "flag --fail-over = 0.5: must be 1 or more"},
		{[]string{before, after, "--fail-over", "NaN"}, 2, "", "flag --fail-over = NaN: must be 1 or more"},
	} {
		got := finish(t, command(t, append([]string{"bench", "compare"}, c.args...)...))
		if got.code != c.code || !strings.Contains(got.stdout, c.stdout) || !strings.Contains(got.stderr, c.stderr) || (c.stderr == "") != (got.stderr == "") {
			t.Errorf("%q: got %d\n%s%s\nwant %+v", c.args, got.code, got.stdout, got.stderr, c)
		}
	}
	got := finish(t, command(t, "bench", "compare", before, after, "--json"))
	var c report.Comparison
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil || got.code != 0 || len(c.Rows) != 2 || c.Rows[1].Verdict != report.Worse {
		t.Errorf("as JSON: %d, %v\n%s%s", got.code, err, got.stdout, got.stderr)
	}
}

// The command line of a result repeats the run when it is given to a shell.
func TestShellLine(t *testing.T) {
	t.Parallel()
	args := []string{"printf", "%s\\n", "a=127.0.0.1:9067", "", "start --dir {dir}", "it's", "$HOME `ls` \"x\"", "a\tb;c", "é*"}
	line := shellLine(args)
	out, err := exec.Command("sh", "-c", line).Output()
	if want := strings.Join(args[2:], "\n") + "\n"; err != nil || string(out) != want {
		t.Errorf("%s gives %q, %v, want %q", line, out, err, want)
	}
	if want := "printf '%s\\n' a=127.0.0.1:9067 '' 'start --dir {dir}'"; !strings.HasPrefix(line, want) {
		t.Errorf("%s, want %s", line, want)
	}
}

// An old result is drawn again.
func TestBenchReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	file := benchFile(t, dir, "r.json", 0.001, 0.040)
	got := finish(t, command(t, "bench", "report", file))
	if got.code != 0 || got.stderr != "" || !strings.Contains(got.stdout, "| GetBlock | p50, ms | 1.02 (1.00–1.04) | 40.8 (40.0–41.6), 40.0× |") {
		t.Errorf("got %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	again := finish(t, command(t, "bench", "report", file, "--csv", in("r.csv"), "--markdown", in("r.md"), "--html", in("r.html"), "--svg", in("svg")))
	if again != (result{}) {
		t.Errorf("got %+v", again)
	}
	if text, err := os.ReadFile(in("r.md")); err != nil || string(text) != got.stdout {
		t.Errorf("the file is not what is printed: %v\n%s", err, text)
	}
	for _, name := range []string{"r.csv", "r.html", "svg"} {
		if _, err := os.Stat(in(name)); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{nil, 2, "0 files given: name one RESULT"},
		{[]string{in("none")}, 2, "no such file"},
		{[]string{in("r.csv")}, 2, "read " + in("r.csv") + ": no result of zsidecar bench"},
		{[]string{file, "--html", dir}, 2, "--html: " + dir + " is a folder: name a file\nsee zsidecar bench report --help\n"},
	} {
		if got := finish(t, command(t, append([]string{"bench", "report"}, c.args...)...)); got.code != c.code || !strings.Contains(got.stderr, c.stderr) {
			t.Errorf("%q: %+v, want %+v", c.args, got, c)
		}
	}
}

// A file that cannot be written is told of before any server is asked: there is none at that address.
func TestBenchRunFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	missing := filepath.Join(dir, "no", "r.json")
	target := "x=" + servertest.FreeAddr(t)
	got := finish(t, command(t, "bench", "run", "--target", target, "--json", missing, "--html", dir))
	want := "zsidecar: --json: create " + missing + ": no such file or directory\n--html: " + dir + " is a folder: name a file\nsee zsidecar bench run --help\n"
	if got != (result{2, "", want}) {
		t.Errorf("got %d\n%s%s\nwant 2\n%s", got.code, got.stdout, got.stderr, want)
	}
}
