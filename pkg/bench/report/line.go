package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// lineMetrics are those that a line shows, the first four that were measured: rates for ranges, times for single calls.
func lineMetrics(m *bench.Measurement) []bench.Metric {
	rates := []bench.Metric{bench.Share, bench.BlocksRate, bench.BytesRate}
	times := []bench.Metric{bench.Complete, bench.FirstAnswer, bench.P50, bench.P99, bench.Max, bench.CallsRate}
	rest := []bench.Metric{bench.First, bench.ServerBlock, bench.ServerCPU, bench.RSSAnon, bench.Duration}
	if has(m, bench.BlocksRate) && telling(m, bench.BlocksRate) {
		return slices.Concat(rates, times, rest)
	}
	return slices.Concat(times, rates[:1], rest)
}

const lineMetricsShown = 4

// Line is one finished measurement as a line for a terminal, without its end: the case, the target, and the medians that matter most for
// it. Columns of several lines stand below each other while names are as long as those of our scenarios and targets.
func Line(m bench.Measurement) string {
	head := fmt.Sprintf("%-12s %-42s %-12s", Plain(m.Scenario), settingOf(&m), Plain(m.Target))
	if m.Unsupported != "" {
		return head + "  not offered: " + Plain(m.Unsupported)
	}
	var parts []string
	for _, metric := range lineMetrics(&m) {
		v, ok := m.Stat(metric)
		if !ok || len(parts) == lineMetricsShown {
			continue
		}
		s, _ := scaleOf(metric)
		name, _, _ := strings.Cut(s.name, ",")
		unit := " " + s.unit
		if s.unit == "" || strings.HasSuffix(name, s.unit) {
			unit = "" // the name says it
		}
		parts = append(parts, fmt.Sprintf("%s %8s%s", name, s.show(v.Median), unit))
	}
	if len(parts) == 0 {
		return head + "  nothing was measured"
	}
	return head + "  " + strings.Join(parts, "   ")
}
