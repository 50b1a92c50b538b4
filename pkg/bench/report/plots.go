package report

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// plot is one drawing of a result.
type plot struct {
	scenario string
	file     string // its name, without a folder
	svg      []byte
}

// sketch is a plot that is not drawn yet.
type sketch struct {
	scenario string
	title    string // what the file is called after
	x, y     axis
	lines    []series // one per target of the result, in its order
}

// WriteSVG draws the plots of a result into dir, which is made when it is missing, and returns their paths: how the times of the calls of
// each method are spread, throughput by the length of the ranges and by the number of clients, and values over time. What has not
// at least two points to join is not drawn. A plot of that name is replaced; others in dir are left alone.
func WriteSVG(dir string, r *bench.Result) ([]string, error) {
	if err := tryDir(dir); err != nil {
		return nil, err
	}
	all, err := plots(r)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, p := range all {
		path := filepath.Join(dir, p.file)
		if err := replace(path, p.svg); err != nil {
			return paths, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// plots draws everything that a result has points for.
func plots(r *bench.Result) (drawn []plot, err error) {
	all := groups(r)
	sketches := slices.Concat(byLength(r, all), byClients(r, all), overTime(r), latencies(r, all))
	taken := map[string]bool{}
	for _, s := range sketches {
		file := fileName(s.title)
		for i := 2; taken[file]; i++ {
			file = fmt.Sprintf("%s-%d", fileName(s.title), i)
		}
		taken[file] = true
		svg, err := draw(Plain(s.title), s.x, s.y, s.lines)
		if err != nil {
			return nil, fmt.Errorf("plot %q: %w", s.title, err)
		}
		drawn = append(drawn, plot{s.scenario, file + ".svg", svg})
	}
	return drawn, nil
}

// fileName makes a file's name of a title: lower case, digits, dashes.
func fileName(title string) string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	name := strings.Join(words, "-")
	return name[:min(len(name), 100)]
}

// noTime is what no call gets by with, in seconds.
const noTime = 1e-12

// latencies has a plot per setting whose single calls were timed.
func latencies(r *bench.Result, all []*group) (sketches []sketch) {
	percentiles := bench.Percentiles()
	for _, g := range all {
		var lines []series
		var times []float64
		for _, t := range r.Targets {
			s := series{name: t.Name}
			if m := g.of[t.Name]; m != nil {
				for i, v := range m.Latencies {
					if v > noTime { // a logarithm has no place for 0, which no call takes
						s.x, s.y = append(s.x, percentiles[i]), append(s.y, v/milli)
					}
				}
			}
			lines, times = append(lines, s), append(times, s.y...)
		}
		if len(times) < 2 {
			continue
		}
		sketches = append(sketches, sketch{
			scenario: g.scenario, title: fmt.Sprintf("%s: %s", g.scenario, g), lines: lines,
			x: percent("percentile of the calls"), y: logarithmic("ms", slices.Min(times), slices.Max(times)),
		})
	}
	return sketches
}

// byLength has a plot per scenario, client and number of clients in which ranges of several lengths were read.
func byLength(r *bench.Result, all []*group) []sketch {
	type family struct {
		scenario string
		client   bench.Client
		clients  int
	}
	return throughput(r, all, "blocks of a range", func(g *group) (any, string, float64, bool) {
		title := g.scenario + " by length"
		if g.client != "" {
			title += fmt.Sprintf(", %s client", g.client)
		}
		if g.clients > 1 {
			title += fmt.Sprintf(", %d at a time", g.clients)
		}
		return family{g.scenario, g.client, g.clients}, title, float64(g.length), g.length > 0
	})
}

// byClients has a plot per case and client that was measured with several numbers of clients.
func byClients(r *bench.Result, all []*group) []sketch {
	return throughput(r, all, "clients at a time", func(g *group) (any, string, float64, bool) {
		family := g.setting
		family.clients = 0
		return family, fmt.Sprintf("%s by clients: %s", g.scenario, family), float64(g.clients), true
	})
}

// throughput has a plot per family of groups whose members differ in x. Blocks are counted where all members read ranges, else calls.
func throughput(
	r *bench.Result, all []*group, axisName string, of func(*group) (family any, title string, x float64, ok bool),
) (sketches []sketch) {
	var order []any
	titles, scenarios := map[any]string{}, map[any]string{}
	members := map[any]map[float64]*group{}
	for _, g := range all {
		family, title, x, ok := of(g)
		if !ok {
			continue
		}
		if members[family] == nil {
			order, titles[family], members[family] = append(order, family), title, map[float64]*group{}
			scenarios[family] = g.scenario
		}
		members[family][x] = g
	}
	for _, family := range order {
		metric, unit := bench.BlocksRate, "blocks/s"
		for _, g := range members[family] {
			if g.length == 0 {
				metric, unit = bench.CallsRate, "calls/s"
			}
		}
		lines, xs, highest := rates(r, members[family], metric)
		if len(xs) < 2 {
			continue
		}
		sketches = append(sketches, sketch{
			scenario: scenarios[family], title: titles[family], lines: lines, x: at(axisName, xs), y: linear(unit, highest),
		})
	}
	return sketches
}

// rates gives a series per target with the medians of the metric and their spread, all x that any has, and the highest value.
func rates(r *bench.Result, members map[float64]*group, metric bench.Metric) (lines []series, xs []float64, highest float64) {
	seen := map[float64]bool{}
	for _, t := range r.Targets {
		s := series{name: t.Name, dots: true}
		for _, x := range slices.Sorted(maps.Keys(members)) {
			m := members[x].of[t.Name]
			if m == nil {
				continue
			}
			if v, ok := m.Stat(metric); ok {
				seen[x] = true
				s.x, s.y, s.low, s.high = append(s.x, x), append(s.y, v.Median), append(s.low, v.Low), append(s.high, v.High)
				highest = max(highest, v.High)
			}
		}
		lines = append(lines, s)
	}
	return lines, slices.Sorted(maps.Keys(seen)), highest
}

// overTime has a plot per scenario and unit of the curves, with the first curve of each target.
func overTime(r *bench.Result) (sketches []sketch) {
	type kind struct{ scenario, unit string }
	var order []kind
	for _, c := range r.Curves {
		if k := (kind{c.Scenario, c.Unit}); len(c.Seconds) > 1 && !slices.Contains(order, k) {
			order = append(order, k)
		}
	}
	for _, k := range order {
		var lines []series
		var last, highest float64
		for _, t := range r.Targets {
			s := series{name: t.Name}
			for _, c := range r.Curves {
				if c.Target == t.Name && c.Scenario == k.scenario && c.Unit == k.unit && len(c.Seconds) > 0 {
					s.x, s.y = c.Seconds, c.Values
					last, highest = max(last, slices.Max(c.Seconds)), max(highest, slices.Max(c.Values))
					break
				}
			}
			lines = append(lines, s)
		}
		sketches = append(sketches, sketch{
			scenario: k.scenario, title: fmt.Sprintf("%s: %s over time", k.scenario, k.unit), lines: lines,
			x: linear("seconds since the start of the process", last), y: linear(k.unit, highest),
		})
	}
	return sketches
}
