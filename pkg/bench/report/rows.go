package report

import (
	"fmt"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// setting is what the measurements that stand side by side have in common.
type setting struct {
	scenario, name string
	client         bench.Client
	clients        int
}

func settingOf(m *bench.Measurement) setting {
	return setting{m.Scenario, m.Case, m.Client, m.Clients}
}

// String names the case as a row of a table does: what is usual is left out.
func (s setting) String() string {
	text := Plain(s.name)
	if s.clients > 1 {
		text += fmt.Sprintf(", %d clients", s.clients)
	}
	if s.client != "" {
		text += ", " + string(s.client)
	}
	return text
}

// group is one setting with the measurements of the targets.
type group struct {
	setting
	length uint64
	of     map[string]*bench.Measurement // by target
}

// groups gives the settings in the order in which they were measured.
func groups(r *bench.Result) (all []*group) {
	index := map[setting]*group{}
	for i := range r.Measurements {
		m := &r.Measurements[i]
		s := settingOf(m)
		g, ok := index[s]
		if !ok {
			g = &group{setting: s, length: m.Length, of: map[string]*bench.Measurement{}}
			index[s] = g
			all = append(all, g)
		}
		g.of[m.Target] = m
	}
	return all
}

// scenarios gives the names of the scenarios in the order in which they were measured.
func scenarios(all []*group) (names []string) {
	for _, g := range all {
		if !slices.Contains(names, g.scenario) {
			names = append(names, g.scenario)
		}
	}
	return names
}

// telling tells whether a metric says what no other of the measurement says. Tables leave out what does not; JSON and CSV have it.
func telling(m *bench.Measurement, metric bench.Metric) bool {
	switch metric {
	case bench.Duration: // of a round, which lasts as long as it was told to, or as the build
		return !has(m, bench.CallsRate) && !has(m, bench.BlocksRate) && !has(m, bench.Complete)
	case bench.ServerCPU:
		return !has(m, bench.ServerBlock) && !has(m, bench.ServerCall)
	case bench.BlocksRate: // one block a call
		calls, ok := m.Stat(bench.CallsRate)
		blocks, _ := m.Stat(bench.BlocksRate)
		return !ok || calls.Median != blocks.Median
	}
	return true
}

func has(m *bench.Measurement, metric bench.Metric) bool {
	_, ok := m.Stat(metric)
	return ok
}
