package report

import (
	"math"
	"strconv"
	"strings"

	"github.com/go-analyze/charts/chartdraw"
)

// axis maps values to the plot. The library's logarithmic axes know no values below 1, so that ours are linear ones of logarithms.
type axis struct {
	name  string
	place func(float64) float64
	ticks []chartdraw.Tick // at their places, ascending; the first and the last are the ends of the axis
}

// short gives a round value without the zeros behind its point.
func short(v float64) string {
	text := digits(v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// linear is an axis from 0 to at least highest, with some five ticks at round values.
func linear(name string, highest float64) axis {
	step := roundStep(highest / 5)
	a := axis{name: name, place: func(v float64) float64 { return v }}
	for i := 0; ; i++ {
		v := float64(i) * step
		a.ticks = append(a.ticks, chartdraw.Tick{Value: v, Label: short(v)})
		if v >= highest && i > 0 {
			return a
		}
	}
}

// roundStep is the next of …, 1, 2, 5, 10, … that is not below least; 1 for what is 0 as far as a plot shows it.
func roundStep(least float64) float64 {
	if least < 1e-100 {
		return 1
	}
	power := math.Pow10(int(math.Floor(math.Log10(least))))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= least {
			return factor * power
		}
	}
	return 10 * power
}

// logarithmic is an axis over values from lowest to highest, both above 0, with ticks at 1, 2 and 5 times the powers of ten, or at the powers
// alone when they are many.
func logarithmic(name string, lowest, highest float64) axis {
	factors := []float64{1, 2, 5}
	if highest/lowest > 1e3 {
		factors = factors[:1]
	}
	a := axis{name: name, place: math.Log10}
	var below *chartdraw.Tick
	for exponent := int(math.Floor(math.Log10(lowest))); ; exponent++ {
		for _, factor := range factors {
			v := factor * math.Pow10(exponent)
			tick := chartdraw.Tick{Value: math.Log10(v), Label: short(v)}
			switch {
			case v <= lowest:
				below = &tick
			case below != nil:
				a.ticks = append(a.ticks, *below)
				below = nil
				fallthrough
			default:
				a.ticks = append(a.ticks, tick)
			}
			if v >= highest && len(a.ticks) > 1 {
				return a
			}
		}
	}
}

// at is an axis with ticks at the given values, above 0 and ascending, on a logarithmic scale: numbers of clients or lengths of ranges.
func at(name string, values []float64) axis {
	a := axis{name: name, place: math.Log10}
	for _, v := range values {
		a.ticks = append(a.ticks, chartdraw.Tick{Value: math.Log10(v), Label: short(v)})
	}
	return a
}

// topPercent is where 100 % stands: the longest call, half a decade behind the highest percentile.
const topPercent = 4.5

// percent is the axis of percentiles: each decade shows a tenth of the calls of the one before, so that the slowest calls can be seen.
func percent(name string) axis {
	a := axis{name: name, place: func(p float64) float64 {
		if p >= 100 {
			return topPercent
		}
		return -math.Log10(1 - p/100)
	}}
	for _, p := range []float64{0, 50, 90, 99, 99.9, 99.99, 100} {
		label := strconv.FormatFloat(p, 'f', -1, 64)
		switch p {
		case 0:
			label = "min"
		case 100:
			label = "max"
		}
		a.ticks = append(a.ticks, chartdraw.Tick{Value: a.place(p), Label: label})
	}
	return a
}
