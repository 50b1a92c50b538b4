package bench

import (
	"slices"
	"testing"
	"time"
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

// TestQuantile counts: of so many times, the one of this rank has at least that share of them at or below it, and no shorter one has.
func TestQuantile(t *testing.T) {
	for _, tt := range []struct {
		times   int
		percent float64
		rank    time.Duration
	}{
		{1, 0, 1}, {1, 50, 1}, {1, 99, 1}, {2, 50, 1}, {3, 50, 2}, {4, 50, 2}, {10, 95, 10}, {20, 95, 19}, {99, 99, 99}, {100, 99, 99},
		{101, 99, 100}, {1000, 99, 990}, {1000, 99.9, 999}, {1000, 99.95, 1000}, {10_000, 99.99, 9999}, {10_000, 100, 10_000}, {7, 0, 1},
	} {
		times := make([]time.Duration, tt.times)
		for i := range times {
			times[i] = time.Duration(i + 1)
		}
		if got := quantile(times, tt.percent); got != tt.rank {
			t.Errorf("%v %% of %d times: got the one of rank %d, want %d", tt.percent, tt.times, got, tt.rank)
		}
	}
}
