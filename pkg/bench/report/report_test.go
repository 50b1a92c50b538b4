package report

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sortMeasurements puts those of a case beside each other, as a run does.
func sortMeasurements(r *bench.Result) {
	order := []string{"latency", "ranges", "concurrency"}
	slices.SortStableFunc(r.Measurements, func(a, b bench.Measurement) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Scenario), slices.Index(order, b.Scenario)), cmp.Compare(a.Length, b.Length),
			cmp.Compare(a.Clients, b.Clients), cmp.Compare(a.Target, b.Target))
	})
}

// golden compares with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what is drawn now: run go test ./pkg/bench/report -update and review the difference\n%s", path, got)
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(io.Writer, *bench.Result) error{
		"report.json": WriteJSON, "report.csv": WriteCSV, "report.md": WriteMarkdown, "report.html": WriteHTML,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			if err := write(&b, faulty()); err != nil {
				t.Fatal(err)
			}
			golden(t, name, b.Bytes())
		})
	}
}

func TestFaultsAreLoudAndHarmless(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(io.Writer, *bench.Result) error{"csv": WriteCSV, "markdown": WriteMarkdown, "html": WriteHTML} {
		var b, without bytes.Buffer
		if err := errors.Join(write(&b, faulty()), write(&without, sample())); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if first, figures := strings.Index(text, "alert(1)"), strings.Index(text, "GetBlock"); first < 0 || first > figures {
			t.Errorf("%s: the fault stands at %d, the first figures at %d", name, first, figures)
		}
		if strings.ContainsAny(text, "\x1b\u202e") || name != "csv" && strings.Contains(text, "<script>") {
			t.Errorf("%s: what a server said is not made harmless", name)
		}
		if strings.Contains(strings.ToLower(without.String()), "fault") && name != "html" { // whose style has the word
			t.Errorf("%s: a run without faults speaks of them", name)
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := WriteJSON(&b, faulty()); err != nil {
		t.Fatal(err)
	}
	got, err := ReadJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	if want := faulty(); !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v\nwrote %+v", got, want)
	}
	bad := sample()
	bad.Measurements[0].Rounds[0][bench.P50] = math.NaN()
	if err := WriteJSON(io.Discard, bad); err == nil {
		t.Error("NaN was written")
	}
}

func TestReadJSONRefuses(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := WriteJSON(&b, sample()); err != nil {
		t.Fatal(err)
	}
	good := b.String()
	change := func(old, with string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the sample has no %q", old)
		}
		return strings.Replace(good, old, with, 1)
	}
	changed := func(f func(*bench.Result)) string {
		r := sample()
		f(r)
		var b bytes.Buffer
		if err := WriteJSON(&b, r); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", "no result of zsidecar bench"},
		"not JSON":       {"{\n\"version\": 1,\n]", "(line 3)"},
		"cut off":        {good[:len(good)/2], "no result of zsidecar bench"},
		"something else": {`{"name": "x"}`, `"version" is missing`},
		"version 2":      {change(`"version": 1`, `"version": 2`), "a result of version 2, and this program reads version 1"},
		"unknown member": {change(`"seconds": 83.25`, `"secs": 83.25`), `"secs"`},
		"behind it":      {good + "{}", "after top-level value"},
		"wrong type":     {change(`"cores": 2`, `"cores": "two"`), "cores"},
		"unknown metric": {change(`"p50"`, `"p51"`), `(latency, GetBlock, ours): round 1 has the unknown metric "p51"`},
		"unknown client": {change(`"decoding"`, `"dreaming"`), `client "dreaming"`},
		"negative":       {changed(func(r *bench.Result) { r.Measurements[0].Rounds[1][bench.P99] = -1 }), "round 2: p99 is -1"},
		"no clients":     {changed(func(r *bench.Result) { r.Measurements[0].Clients = 0 }), "0 clients"},
		"no case":        {changed(func(r *bench.Result) { r.Measurements[0].Case = "" }), "no case"},
		"other target":   {changed(func(r *bench.Result) { r.Measurements[0].Target = "third" }), "(latency, GetBlock, third): its target is not listed"},
		"same target":    {changed(func(r *bench.Result) { r.Targets[1].Name = "ours" }), `target 2 is called "ours"`},
		"percentiles":    {changed(func(r *bench.Result) { r.Measurements[0].Latencies = []float64{1} }), "1 latencies"},
		"descending":     {changed(func(r *bench.Result) { slices.Reverse(r.Measurements[0].Latencies) }), "ascend"},
		"curve":          {changed(func(r *bench.Result) { r.Curves[0].Values = nil }), "20 times and 0 values"},
		"endless":        {changed(func(r *bench.Result) { r.Measurements[0].Rounds[1][bench.P99] = 1e19 }), "round 2: p99 is 1e+19"},
		"endless call":   {changed(func(r *bench.Result) { r.Measurements[0].Latencies[len(r.Measurements[0].Latencies)-1] = 1e19 }), "a latency below 0 or above 1e+18"},
		"early call":     {changed(func(r *bench.Result) { r.Measurements[0].Latencies[0] = -1 }), "a latency below 0 or above 1e+18"},
		"curve below 0":  {changed(func(r *bench.Result) { r.Curves[0].Values[3] = -1 }), "curve 1 (index, ours) has a value below 0"},
		"curve's target": {changed(func(r *bench.Result) { r.Curves[0].Target = "x" }), `curve 1 is of target "x"`},
		"curve's time":   {changed(func(r *bench.Result) { slices.Reverse(r.Curves[1].Seconds) }), "curve 2 (index, peer) goes back"},
	} {
		if _, err := ReadJSON(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestCSVHoldsTheRounds(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := WriteCSV(&b, sample()); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ranges", "range of 1000", "counting", "1", "1000", "ours", "blocks/s", "800000", "768000", "832000", "5", ""}
	if !slices.ContainsFunc(rows, func(row []string) bool { return slices.Equal(row, want) }) {
		t.Errorf("no row %q in %q", want, rows)
	}
}

// TestScales keeps the list of metrics whole: one without a scale could not be read again.
func TestScales(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../result.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Metric" {
			return true
		}
		found++
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := scaleOf(bench.Metric(name)); !ok {
			t.Errorf("the metric %q has no scale", name)
		}
		return true
	})
	if found != len(scales()) {
		t.Errorf("result.go has %d metrics, and there are %d scales", found, len(scales()))
	}
}

func TestDigits(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 1: "1.00", 0.07449: "0.0745", 1e18: "1,000,000,000,000,000,000",
		43.94: "43.9", 0.99996: "1.00", 9.999: "10.0", -0.099999: "-0.100", 5e-324: "0.000000000", 999.4: "999", 999.6: "1,000", 183427: "183,000", 1234567: "1,230,000", 0.5: "0.500",
		-12345: "-12,300", -123: "-123", 1e-12: "0.000000000", math.Inf(1): "-",
	} {
		if got := digits(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	r := sample()
	for _, c := range []struct {
		m    bench.Measurement
		want string
	}{
		{r.Measurements[0], `^latency +GetBlock, decoding +ours +p50 +0\.0770 ms   p99 +0\.231 ms   max +0\.693 ms   calls/s +13,000$`},
		{ranges("peer", 1)[1], `^ranges +range of 1000, counting +peer +blocks/s +800,000$`},
		{ranges("peer", 1)[5], `^concurrency +GetBlock, 32 clients, decoding +peer +calls/s +56,600$`},
		{bench.Measurement{Scenario: "latency", Case: "GetBlock", Clients: 1, Target: "x", Unsupported: "no\x1b[2J\nsuch"},
			`^latency +GetBlock +x +not offered: no \[2J such$`},
		{bench.Measurement{Scenario: "latency", Case: "GetBlock", Clients: 1, Target: "x"}, `^latency +GetBlock +x +nothing was measured$`},
	} {
		if got := Line(c.m); !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%q, want %s", got, c.want)
		}
	}
}

// points counts what a plot holds: circles, and the corners of the coloured lines.
func points(t *testing.T, svg []byte) (dots, corners int) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return dots, corners
		}
		if err != nil {
			t.Fatalf("no XML: %v\n%s", err, svg)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		attr := map[string]string{}
		for _, a := range start.Attr {
			attr[a.Name.Local] = a.Value
		}
		switch {
		case start.Name.Local == "circle":
			dots++
		case start.Name.Local == "path" && strings.Contains(attr["style"], "stroke-width:2"):
			if n := strings.Count(attr["d"], "L"); n > 1 || !strings.Contains(attr["d"], "M") { // a legend's sample is a line with two ends
				corners += n + 1
			}
		}
	}
}

// TestCSVHasNoFormula opens in a spreadsheet what somebody else has named.
func TestCSVHasNoFormula(t *testing.T) {
	r := sample()
	for name, want := range map[string]string{"@SUM(1)": "'@SUM(1)", "+1": "'+1", "-1": "'-1", "a-1": "a-1"} {
		r.Targets[0].Name, r.Measurements[0].Target = name, name
		var b bytes.Buffer
		if err := WriteCSV(&b, r); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&b).ReadAll()
		if err != nil || !slices.ContainsFunc(rows, func(row []string) bool { return row[5] == want }) {
			t.Errorf("%q: %v, no row of %q", name, err, want)
		}
	}
}
