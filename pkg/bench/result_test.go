package bench

import (
	"slices"
	"testing"
)

func TestStat(t *testing.T) {
	m := Measurement{Rounds: []map[Metric]float64{{P50: 3}, {P50: 1, P99: 7}, {P50: 2}, {P50: 10}}}
	if got, ok := m.Stat(P50); !ok || got != (Stat{Median: 2.5, Low: 1, High: 10, Rounds: 4}) {
		t.Errorf("P50: %+v, %v", got, ok)
	}
	if got, ok := m.Stat(P99); !ok || got != (Stat{Median: 7, Low: 7, High: 7, Rounds: 1}) {
		t.Errorf("P99: %+v, %v", got, ok)
	}
	if got, ok := m.Stat(Max); ok {
		t.Errorf("Max: %+v of no round", got)
	}
}

func TestPercentiles(t *testing.T) {
	p := Percentiles()
	if !slices.IsSorted(p) || p[0] != 0 || p[len(p)-1] != 100 {
		t.Errorf("%v", p)
	}
	if slices.Contains(slices.Compact(slices.Clone(p)), 0) && len(slices.Compact(slices.Clone(p))) != len(p) {
		t.Errorf("repeated: %v", p)
	}
	for _, want := range []float64{50, 95, 99, 99.9} {
		if !slices.Contains(p, want) {
			t.Errorf("%v is missing", want)
		}
	}
}
