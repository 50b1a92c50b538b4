package report

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// scale says how a metric is shown, and which of its values are the better ones.
type scale struct {
	metric bench.Metric
	name   string  // that people read, unit included
	unit   string  // of what digits shows
	per    float64 // of the metric's own unit in one of unit
	higher bool    // higher is better
}

const (
	milli = 1e-3
	micro = 1e-6
	mega  = 1e6
	mebi  = 1 << 20
)

// scales are those of all metrics, in the order in which tables have them.
func scales() []scale {
	return []scale{
		{bench.CallsRate, "calls/s", "/s", 1, true},
		{bench.BlocksRate, "blocks/s", "/s", 1, true},
		{bench.BytesRate, "MB/s", "MB/s", mega, true},
		{bench.P50, "p50, ms", "ms", milli, false},
		{bench.P95, "p95, ms", "ms", milli, false},
		{bench.P99, "p99, ms", "ms", milli, false},
		{bench.Max, "max, ms", "ms", milli, false},
		{bench.First, "first message, ms", "ms", milli, false},
		{bench.Duration, "duration, s", "s", 1, false},
		{bench.FirstAnswer, "first answer, s", "s", 1, false},
		{bench.Complete, "index complete, s", "s", 1, false},
		{bench.StopTime, "stop, s", "s", 1, false},
		{bench.Share, "min/max of clients", "", 1, true},
		{bench.ServerBlock, "server CPU a block, µs", "µs", micro, false},
		{bench.ServerCall, "server CPU a call, µs", "µs", micro, false},
		{bench.ServerCPU, "server CPU, s", "s", 1, false},
		{bench.ClientCPU, "client CPU, s", "s", 1, false},
		{bench.RSSAnon, "RSS anon, MiB", "MiB", mebi, false},
		{bench.RSSFile, "RSS file, MiB", "MiB", mebi, false},
		{bench.Written, "written, MiB", "MiB", mebi, false},
		{bench.Size, "size, MiB", "MiB", mebi, false},
	}
}

// scaleOf returns the scale of a metric, or false.
func scaleOf(metric bench.Metric) (scale, bool) {
	for _, s := range scales() {
		if s.metric == metric {
			return s, true
		}
	}
	return scale{}, false
}

// show gives a value of the metric in the scale's unit.
func (s scale) show(v float64) string { return digits(v / s.per) }

// digits gives three significant digits, with commas between thousands and without an exponent.
func digits(v float64) string {
	a := math.Abs(v)
	switch {
	case a == 0:
		return "0"
	case math.IsInf(v, 0) || math.IsNaN(v):
		return "-"
	}
	round := math.Pow10(2 - int(math.Floor(math.Log10(a))))
	if rounded := math.Round(v*round) / round; !math.IsNaN(rounded) && rounded != 0 {
		v = rounded
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v)))) // of 9.999 it is one less once it is 10.0
	text := strconv.FormatFloat(v, 'f', min(max(decimals, 0), 9), 64)
	whole, rest, point := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if point {
		return whole + "." + rest
	}
	return whole
}

// Plain makes text of somebody else fit for a terminal and for one line: no control characters, nothing that changes the direction of what
// follows, valid UTF-8.
func Plain(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text))
}
