package report

import (
	"testing"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

func TestTelling(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		round  map[bench.Metric]float64
		metric bench.Metric
		want   bool
	}{
		{map[bench.Metric]float64{bench.CallsRate: 5, bench.BlocksRate: 5}, bench.BlocksRate, false},
		{map[bench.Metric]float64{bench.CallsRate: 5, bench.BlocksRate: 500}, bench.BlocksRate, true},
		{map[bench.Metric]float64{bench.BlocksRate: 5}, bench.BlocksRate, true},
		{map[bench.Metric]float64{bench.CallsRate: 5, bench.Duration: 1}, bench.Duration, false},
		{map[bench.Metric]float64{bench.BlocksRate: 5, bench.Duration: 1}, bench.Duration, false},
		{map[bench.Metric]float64{bench.Complete: 1, bench.Duration: 1}, bench.Duration, false},
		{map[bench.Metric]float64{bench.P50: 5, bench.Duration: 1}, bench.Duration, true},
		{map[bench.Metric]float64{bench.ServerCPU: 5, bench.ServerBlock: 1}, bench.ServerCPU, false},
		{map[bench.Metric]float64{bench.ServerCPU: 5, bench.ServerCall: 1}, bench.ServerCPU, false},
		{map[bench.Metric]float64{bench.ServerCPU: 5}, bench.ServerCPU, true},
		{map[bench.Metric]float64{bench.P50: 5}, bench.P50, true},
	} {
		if got := telling(&bench.Measurement{Rounds: []map[bench.Metric]float64{c.round}}, c.metric); got != c.want {
			t.Errorf("%s of %v: %v", c.metric, c.round, got)
		}
	}
}
