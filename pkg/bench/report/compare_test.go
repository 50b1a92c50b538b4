package report

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// one is a result with one case of one metric, whose rounds are given by target.
func one(metric bench.Metric, targets map[string][]float64) *bench.Result {
	r := &bench.Result{Version: bench.ResultVersion}
	for _, name := range []string{"ours", "peer", "third"} {
		values, ok := targets[name]
		if !ok {
			continue
		}
		r.Targets = append(r.Targets, bench.Target{Name: name})
		m := bench.Measurement{Scenario: "s", Case: "c", Clients: 1, Target: name}
		for _, v := range values {
			m.Rounds = append(m.Rounds, map[bench.Metric]float64{metric: v})
		}
		r.Measurements = append(r.Measurements, m)
	}
	return r
}

func TestChance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, m int
		want float64
	}{{0, 5, 1}, {5, 0, 1}, {1, 1, 1}, {3, 3, 2. / 20}, {4, 4, 2. / 70}, {3, 5, 2. / 56}, {5, 3, 2. / 56}, {5, 5, 2. / 252}} {
		if got := chance(c.n, c.m); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%d and %d rounds: %v, want %v", c.n, c.m, got, c.want)
		}
	}
}

// TestChanceIsTrue deals five and five rounds out in all orders and counts those that judge takes for a change.
func TestChanceIsTrue(t *testing.T) {
	t.Parallel()
	told, all := 0, 0
	for set := range 1 << 10 {
		var a, b bench.Measurement
		for i := range 10 {
			round := map[bench.Metric]float64{bench.P50: float64(i)}
			if set>>i&1 == 1 {
				a.Rounds = append(a.Rounds, round)
			} else {
				b.Rounds = append(b.Rounds, round)
			}
		}
		if len(a.Rounds) != 5 {
			continue
		}
		all++
		x, _ := a.Stat(bench.P50)
		y, _ := b.Stat(bench.P50)
		if judge(Spread(x), Spread(y), false) != Noise {
			told++
		}
	}
	if got := float64(told) / float64(all); all != 252 || got != chance(5, 5) {
		t.Errorf("%d of %d", told, all)
	}
}

func TestCompareKnownValues(t *testing.T) {
	t.Parallel()
	five := []float64{10, 11, 12, 13, 14}
	for name, c := range map[string]struct {
		metric   bench.Metric
		old, now []float64
		want     Verdict
		ratio    *Ratio
		factor   float64
	}{
		"slower":               {bench.P50, five, []float64{24, 22, 28, 26, 20}, Worse, &Ratio{2, 20. / 14, 2.8}, 2},
		"faster":               {bench.P50, five, []float64{5, 6, 7, 8, 9}, Better, &Ratio{7. / 12, 5. / 14, 0.9}, 7. / 12},
		"more a second":        {bench.CallsRate, five, []float64{24, 22, 28, 26, 20}, Better, &Ratio{2, 20. / 14, 2.8}, 0.5},
		"fewer a second":       {bench.CallsRate, five, []float64{5, 6, 7, 8, 9}, Worse, &Ratio{7. / 12, 5. / 14, 0.9}, 12. / 7},
		"one overlaps":         {bench.P50, five, []float64{13.9, 20, 22, 24, 26}, Noise, &Ratio{22. / 12, 13.9 / 14, 2.6}, 22. / 12},
		"they touch":           {bench.P50, five, []float64{14, 20, 22, 24, 26}, Noise, &Ratio{22. / 12, 1, 2.6}, 22. / 12},
		"equal":                {bench.P50, five, five, Noise, &Ratio{1, 10. / 14, 1.4}, 1},
		"three a side":         {bench.P50, five[:3], []float64{20, 21, 22}, TooFew, &Ratio{21. / 11, 20. / 12, 2.2}, 21. / 11},
		"three and five":       {bench.P50, five[:3], []float64{20, 21, 22, 23, 24}, Worse, &Ratio{2, 20. / 12, 2.4}, 2},
		"from nothing":         {bench.Written, []float64{0, 0, 0, 0}, five, Worse, nil, math.Inf(1)},
		"nothing at all":       {bench.Written, []float64{0, 0, 0, 0}, []float64{0, 0, 0, 0}, Noise, nil, 1},
		"a round of nothing":   {bench.ServerCPU, []float64{0, 1, 1, 1, 1}, []float64{2, 2, 2, 2, 2}, Worse, nil, 2},
		"nothing more happens": {bench.CallsRate, five, []float64{0, 0, 0, 0, 0}, Worse, &Ratio{0, 0, 0}, math.Inf(1)},
	} {
		got, err := Compare(one(c.metric, map[string][]float64{"ours": c.old}), one(c.metric, map[string][]float64{"ours": c.now}), "")
		if err != nil || len(got.Rows) != 1 {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		row := got.Rows[0]
		if row.Verdict != c.want || !near(row.Ratio, c.ratio) || row.Normalised != nil || math.Abs(row.Factor()-c.factor) > 1e-9 {
			t.Errorf("%s: %s, %v, %v, factor %v; want %s, %v, %v", name, row.Verdict, row.Ratio, row.Normalised, row.Factor(), c.want, c.ratio, c.factor)
		}
		if judged := c.want != TooFew; judged != (got.ByChance > 0) {
			t.Errorf("%s: %v by chance", name, got.ByChance)
		}
	}
}

// near allows for rounding.
func near(a, b *Ratio) bool {
	if a == nil || b == nil {
		return a == b
	}
	return math.Abs(a.Median-b.Median)+math.Abs(a.Low-b.Low)+math.Abs(a.High-b.High) < 1e-9
}

// TestCompareNormalised has a machine that became half as fast between two runs, and rounds that were disturbed for both targets.
func TestCompareNormalised(t *testing.T) {
	t.Parallel()
	reference := []float64{10, 11, 30, 12, 13}
	of := func(values []float64, factor float64) (scaled []float64) {
		for i, v := range values {
			scaled = append(scaled, v*factor*(1+float64(i)/1000))
		}
		return scaled
	}
	for name, c := range map[string]struct {
		times float64 // that ours takes in the new run, on the slower machine
		want  Verdict
	}{"the machine alone": {4, Noise}, "it is faster": {3, Better}, "it is slower": {5, Worse}} {
		old := one(bench.P50, map[string][]float64{"ours": of(reference, 2), "peer": reference})
		now := one(bench.P50, map[string][]float64{"ours": of(reference, c.times), "peer": of(reference, 2)})
		for i := range now.Measurements[1].Rounds { // exactly twice, without the slant that of gives
			now.Measurements[1].Rounds[i][bench.P50] = 2 * reference[i]
		}
		got, err := Compare(old, now, "peer")
		if err != nil {
			t.Fatal(err)
		}
		row := got.Rows[0]
		if row.Target != "ours" || row.Verdict != c.want || row.Normalised == nil || math.Abs(row.Normalised.Median-c.times/4) > 1e-9 {
			t.Errorf("%s: %+v, %v", name, row, row.Normalised)
		}
		if math.Abs(row.Factor()-c.times/4) > 1e-9 {
			t.Errorf("%s: factor %v", name, row.Factor())
		}
		if own := got.Rows[1]; own.Target != "peer" || own.Normalised != nil || own.Verdict != OfReference {
			t.Errorf("%s: the reference against itself: %+v", name, own)
		}
	}
}

// TestCompareFaulty: who answered wrongly in a scenario, then or now, is not judged there, and nobody by it.
func TestCompareFaulty(t *testing.T) {
	t.Parallel()
	slow, fast := []float64{10, 11, 12, 13, 14}, []float64{1, 2, 3, 4, 5}
	result := func(values []float64, faults ...bench.Fault) *bench.Result {
		r := one(bench.P50, map[string][]float64{"ours": values, "peer": slow})
		r.Faults = faults
		return r
	}
	at := func(scenario, target string) bench.Fault {
		return bench.Fault{Scenario: scenario, Case: "c", Target: target, Text: "wrong"}
	}
	for name, c := range map[string]struct {
		old, now  *bench.Result
		reference string
		want      [2]Verdict // of ours, of peer
		factor    float64    // of ours
	}{
		"nobody":              {result(slow), result(fast), "", [2]Verdict{Better, Noise}, 3. / 12},
		"ours, now":           {result(slow), result(fast, at("s", "ours")), "", [2]Verdict{Faulty, Noise}, 3. / 12},
		"ours, then":          {result(slow, at("s", "ours")), result(fast), "peer", [2]Verdict{Faulty, OfReference}, 3. / 12},
		"in another scenario": {result(slow), result(fast, at("other", "ours")), "", [2]Verdict{Better, Noise}, 3. / 12},
		"the reference":       {result(slow), result(fast, at("s", "peer")), "peer", [2]Verdict{Better, Faulty}, 3. / 12},
	} {
		got, err := Compare(c.old, c.now, c.reference)
		if err != nil || len(got.Rows) != 2 {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		if v := [2]Verdict{got.Rows[0].Verdict, got.Rows[1].Verdict}; v != c.want || math.Abs(got.Rows[0].Factor()-c.factor) > 0.1 {
			t.Errorf("%s: %v, want %v; factor %v", name, v, c.want, got.Rows[0].Factor())
		}
		if faulty := c.reference == "peer" && c.want[1] == Faulty; faulty && got.Rows[0].Normalised != nil {
			t.Errorf("%s: normalised by a faulty reference", name)
		}
	}
}

func TestCompareReference(t *testing.T) {
	t.Parallel()
	both := one(bench.P50, map[string][]float64{"ours": {1}, "peer": {1}})
	alone := one(bench.P50, map[string][]float64{"ours": {1}})
	for _, c := range []struct {
		old, now *bench.Result
		want     string
	}{
		{alone, both, `the old result has no target "peer" to be the reference: it has ours`},
		{both, alone, `the new result has no target "peer"`},
		{both, &bench.Result{}, `it has none`},
	} {
		if _, err := Compare(c.old, c.now, "peer"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	// A reference that has no rounds in a case normalises nothing there.
	less := one(bench.P50, map[string][]float64{"ours": {1, 2, 3, 4}, "peer": nil})
	got, err := Compare(less, less, "peer")
	if err != nil || len(got.Rows) != 1 || got.Rows[0].Normalised != nil || got.Rows[0].Verdict != Noise {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCompareWhatOneHas(t *testing.T) {
	t.Parallel()
	old := one(bench.P50, map[string][]float64{"ours": {1}, "peer": {1}})
	now := one(bench.P50, map[string][]float64{"ours": {1}, "third": {1}})
	old.Measurements = append(old.Measurements, bench.Measurement{Scenario: "s", Case: "gone", Clients: 8, Client: bench.Counting, Target: "ours"})
	got, err := Compare(old, now, "")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"s: c at third"}; !reflect.DeepEqual(got.OnlyNew, want) {
		t.Errorf("only new: %q, want %q", got.OnlyNew, want)
	}
	if want := []string{"s: c at peer", "s: gone, 8 clients, counting at ours"}; !reflect.DeepEqual(got.OnlyOld, want) {
		t.Errorf("only old: %q, want %q", got.OnlyOld, want)
	}
	if want := []string{"target third is new: nothing", "target peer is gone: nothing"}; !reflect.DeepEqual(got.Differences, want) {
		t.Errorf("differences: %q, want %q", got.Differences, want)
	}
}

func TestCompareGolden(t *testing.T) {
	t.Parallel()
	old, now := sample(), faulty()
	now.Machine.CPU, now.Machine.Cores, now.Command = "Other CPU", 4, now.Command+" --rounds 9"
	now.Targets[0].Server, now.Targets[1].TLS = "zsidecar 0.2.0", false
	for i := range now.Measurements {
		m := &now.Measurements[i]
		for j, round := range m.Rounds {
			for metric := range round {
				if m.Target == "ours" && metric == bench.P50 {
					round[metric] *= 0.5
				}
				if metric == bench.Max {
					round[metric] *= 1 + float64(j%2)
				}
			}
		}
	}
	c, err := Compare(old, now, "peer")
	if err != nil {
		t.Fatal(err)
	}
	var text, again bytes.Buffer
	if err := c.WriteMarkdown(&text); err != nil {
		t.Fatal(err)
	}
	golden(t, "compare.md", text.Bytes())
	// What is written as JSON is all there is.
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	read := new(Comparison)
	if err := json.Unmarshal(data, read); err != nil {
		t.Fatal(err)
	}
	if err := read.WriteMarkdown(&again); err != nil || again.String() != text.String() {
		t.Errorf("from JSON: %v\n%s", err, again.String())
	}
}
