package report

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

func TestWriteSVG(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "plots")
	paths, err := WriteSVG(dir, sample())
	if err != nil {
		t.Fatal(err)
	}
	percentiles := len(bench.Percentiles())
	for name, want := range map[string]struct{ dots, corners int }{
		"latency-getblock-decoding.svg":                {0, 2 * percentiles},
		"ranges-by-length-counting-client.svg":         {2 * 3, 2 * 3},
		"concurrency-by-clients-getblock-decoding.svg": {2 * 3, 2 * 3},
		"index-height-over-time.svg":                   {0, 2 * 20},
	} {
		i := slices.Index(paths, filepath.Join(dir, name))
		if i < 0 {
			t.Errorf("%s is not among %q", name, paths)
			continue
		}
		svg, err := os.ReadFile(paths[i])
		if err != nil {
			t.Fatal(err)
		}
		if dots, corners := points(t, svg); dots != want.dots || corners != want.corners {
			t.Errorf("%s: %d dots and %d corners, want %+v", name, dots, corners, want)
		}
		for _, target := range []string{">ours<", ">peer<"} {
			if !bytes.Contains(svg, []byte(target)) {
				t.Errorf("%s: no legend has %s", name, target)
			}
		}
		golden(t, name, svg)
	}
	if len(paths) != 4 {
		t.Errorf("%q", paths)
	}
}

// TestPlotsOfLittle draws what has hardly any points, and names that are no names of files.
func TestPlotsOfLittle(t *testing.T) {
	t.Parallel()
	same := func(m *bench.Measurement) {
		for i := range m.Latencies {
			m.Latencies[i] = 0.001
		}
	}
	r := &bench.Result{
		Targets: []bench.Target{{Name: "<a&b>"}},
		Curves: []bench.Curve{
			{Target: "<a&b>", Unit: "height", Seconds: []float64{0, 0}, Values: []float64{0, 0}},
			{Target: "<a&b>", Unit: "height", Seconds: []float64{0, 1, 2}, Values: []float64{0, 1, 2}},
		},
	}
	for _, name := range []string{"../x", "..\\x", "X"} {
		m := calls(name, "<a&b>", 0.001)
		same(&m)
		r.Measurements = append(r.Measurements, m)
	}
	r.Measurements = append(r.Measurements, calls("zero", "<a&b>", 0))
	for _, clients := range []int{1, 2} {
		r.Measurements = append(r.Measurements, bench.Measurement{
			Scenario: "c", Case: "none", Clients: clients, Target: "<a&b>", Rounds: rounds(bench.CallsRate, 0)})
	}
	drawn, err := plots(r)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range drawn {
		names = append(names, p.file)
		if _, corners := points(t, p.svg); p.file == "height-over-time.svg" && corners != 0 { // a line of two ends looks like the legend's
			t.Errorf("%s has the second build as well", p.file)
		}
	}
	want := []string{"c-by-clients-none.svg", "height-over-time.svg", "latency-x-decoding.svg", "latency-x-decoding-2.svg", "latency-x-decoding-3.svg"}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	for _, empty := range []*bench.Result{{}, {Targets: r.Targets}} {
		if drawn, err := plots(empty); err != nil || len(drawn) != 0 {
			t.Errorf("%d plots of nothing, %v", len(drawn), err)
		}
	}
}

func TestAxes(t *testing.T) {
	t.Parallel()
	labels := func(a axis) string {
		var all []string
		for i, tick := range a.ticks {
			if i > 0 && tick.Value <= a.ticks[i-1].Value {
				t.Errorf("%s: ticks do not ascend: %v", a.name, a.ticks)
			}
			all = append(all, tick.Label)
		}
		return strings.Join(all, " ")
	}
	for _, c := range []struct {
		a    axis
		want string
	}{
		{linear("a", 0), "0 1"},
		{linear("b", 183427), "0 50,000 100,000 150,000 200,000"},
		{linear("c", 10), "0 2 4 6 8 10"},
		{logarithmic("d", 0.07, 0.6), "0.05 0.1 0.2 0.5 1"},
		{logarithmic("e", 0.07, 440), "0.01 0.1 1 10 100 1,000"},
		{logarithmic("f", 1, 1), "1 2"},
		{percent("g"), "min 50 90 99 99.9 99.99 max"},
	} {
		if got := labels(c.a); got != c.want {
			t.Errorf("%s: %q, want %q", c.a.name, got, c.want)
		}
	}
	for _, p := range bench.Percentiles() {
		if at := percent("").place(p); math.IsNaN(at) || at < 0 || at > topPercent {
			t.Errorf("%v %% stands at %v", p, at)
		}
	}
}
