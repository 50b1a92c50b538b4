package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// Comparison is what changed from one result to another.
type Comparison struct {
	OldStarted  string   `json:"oldStarted"` // RFC 3339, UTC
	NewStarted  string   `json:"newStarted"`
	Reference   string   `json:"reference,omitempty"` // the target that Normalised is relative to
	Differences []string `json:"differences"`         // of machines, versions and commands: what else may be the cause
	OldFaults   int      `json:"oldFaults"`
	NewFaults   int      `json:"newFaults"`
	Rows        []Row    `json:"rows"`
	OnlyOld     []string `json:"onlyOld"` // cases that the new result does not have at that target
	OnlyNew     []string `json:"onlyNew"`

	// ByChance is how many of the rows one would have to expect among the better and worse ones if nothing had changed at all.
	ByChance float64 `json:"byChance"`
}

// Row is one metric of one case at one target.
type Row struct {
	Scenario string       `json:"scenario"`
	Case     string       `json:"case"`
	Client   bench.Client `json:"client,omitempty"`
	Clients  int          `json:"clients"`
	Target   string       `json:"target"`
	Metric   bench.Metric `json:"metric"`

	Old Spread `json:"old"` // in the metric's own unit
	New Spread `json:"new"`

	// Ratio is new over old. Nil: a round of the old result is 0.
	Ratio *Ratio `json:"ratio,omitempty"`
	// Normalised is new over old after each round was divided by the reference's same round. Nil: there is no reference for this row.
	Normalised *Ratio `json:"normalised,omitempty"`
	// Verdict is about Normalised where there is one, else about Old and New.
	Verdict Verdict `json:"verdict"`
}

// String names the row.
func (r Row) String() string {
	return fmt.Sprintf("%s: %s at %s: %s", Plain(r.Scenario), setting{r.Scenario, r.Case, r.Client, r.Clients}, Plain(r.Target), r.Metric)
}

// Spread is the median of some rounds, the lowest and the highest.
type Spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Rounds int     `json:"rounds"`
}

// Ratio is the ratio of two medians, with the lowest and the highest that rounds of the two sides have to each other.
type Ratio struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Verdict says what a row is worth.
type Verdict string

// The verdicts.
const (
	Better Verdict = "better"
	Worse  Verdict = "worse"
	Noise  Verdict = "noise"
	TooFew Verdict = "too few rounds" // to tell a change from noise

	// Faulty is what answered wrongly in this scenario, then or now: how fast it did that means nothing.
	Faulty Verdict = "faulty"

	// OfReference is the reference's own row: what changed there is the machine's doing, or spoils it as a reference.
	OfReference Verdict = "reference"
)

// maxChance is the chance at which two sets of rounds that nothing distinguishes may be told apart; with more there is no verdict. Four
// rounds a side have 2.9 %, five 0.8 %, three against five 3.6 %, three a side 10 %.
const maxChance = 0.05

// judge compares two sets of rounds by their intervals. While every round of one lies above every round of the other it is a change; when the
// intervals overlap or touch it is noise.
//
// Nothing is assumed of how times are spread, which is neither normal nor symmetric. If nothing has changed, all orders of the n + m
// rounds are equally likely, and 2 of the (n+m)!/(n!·m!) ways to deal them out keep the two apart: that is the chance of a false alarm,
// and the most extreme outcome of the rank-sum test of Mann and Whitney. The rule gets stricter with more rounds, since one that
// overlaps is enough: it says "noise" too often rather than too rarely. What it cannot see is what lasts a whole run, such as a
// busier machine: that is what a reference is for, which was measured in turns with the others.
func judge(old, now Spread, higher bool) Verdict {
	switch {
	case chance(old.Rounds, now.Rounds) > maxChance:
		return TooFew
	case now.Low > old.High && higher, now.High < old.Low && !higher:
		return Better
	case now.Low > old.High, now.High < old.Low:
		return Worse
	}
	return Noise
}

// chance is 2·n!·m!/(n+m)!; with no rounds on a side it is 1.
func chance(n, m int) float64 {
	if n == 0 || m == 0 {
		return 1
	}
	c := 2.0
	for i := range n {
		c *= float64(i+1) / float64(m+i+1)
	}
	return c
}

// Factor is how many times worse the new median is, normalised where that is known: 2 for half the rate and for twice the time, less than 1
// for what is better.
func (r Row) Factor() float64 {
	old, now := r.Old.Median, r.New.Median
	if r.Normalised != nil {
		old, now = 1, r.Normalised.Median
	}
	if s, _ := scaleOf(r.Metric); s.higher {
		old, now = now, old
	}
	switch {
	case old == now:
		return 1
	case old == 0:
		return math.Inf(1)
	}
	return now / old
}

// Compare gives the rows that two results have in common. The reference is the name of a target that both have, which stands for the speed
// of the machine; with an empty one nothing is normalised.
func Compare(old, now *bench.Result, reference string) (*Comparison, error) {
	for _, r := range []struct {
		name string
		r    *bench.Result
	}{{"old", old}, {"new", now}} {
		if _, ok := targetOf(r.r, reference); reference != "" && !ok {
			return nil, fmt.Errorf("the %s result has no target %q to be the reference: it has %s", r.name, reference, targetNames(r.r))
		}
	}
	const day = "2006-01-02T15:04:05Z07:00"
	c := &Comparison{
		OldStarted: old.Started.UTC().Format(day), NewStarted: now.Started.UTC().Format(day), Reference: reference,
		Differences: differences(old, now), OldFaults: len(old.Faults), NewFaults: len(now.Faults),
		Rows: []Row{}, OnlyOld: []string{}, OnlyNew: []string{},
	}
	before := map[setting]*group{}
	for _, g := range groups(old) {
		before[g.setting] = g
	}
	faulty := map[[2]string]bool{} // by scenario and target
	for _, f := range slices.Concat(old.Faults, now.Faults) {
		faulty[[2]string{f.Scenario, f.Target}] = true
	}
	seen := map[setting]*group{}
	for _, g := range groups(now) {
		seen[g.setting] = g
		for _, t := range now.Targets {
			m := g.of[t.Name]
			switch was := before[g.setting]; {
			case m == nil:
			case was == nil || was.of[t.Name] == nil:
				c.OnlyNew = append(c.OnlyNew, label(g, t.Name))
			default:
				c.rows(was, g, t.Name, func(target string) bool { return faulty[[2]string{g.scenario, target}] })
			}
		}
	}
	for _, g := range groups(old) {
		for _, t := range old.Targets {
			if is := seen[g.setting]; g.of[t.Name] != nil && (is == nil || is.of[t.Name] == nil) {
				c.OnlyOld = append(c.OnlyOld, label(g, t.Name))
			}
		}
	}
	return c, nil
}

func label(g *group, target string) string {
	return fmt.Sprintf("%s: %s at %s", Plain(g.scenario), g, Plain(target))
}

// rows adds the metrics of one case at one target; faulty tells who had faults in the scenario.
func (c *Comparison) rows(old, now *group, target string, faulty func(target string) bool) {
	for _, s := range scales() {
		before, ok := old.of[target].Stat(s.metric)
		after, also := now.of[target].Stat(s.metric)
		if !ok || !also || !telling(now.of[target], s.metric) || s.metric == bench.ClientCPU {
			continue // the client's CPU is about the client, and grows with what it got done
		}
		row := Row{
			Scenario: now.scenario, Case: now.name, Client: now.client, Clients: now.clients, Target: target, Metric: s.metric,
			Old: Spread(before), New: Spread(after),
		}
		row.Ratio = over(row.New, row.Old)
		judged := []Spread{row.Old, row.New}
		if c.Reference != "" && target != c.Reference && !faulty(c.Reference) {
			from, to := relative(old, target, c.Reference, s.metric), relative(now, target, c.Reference, s.metric)
			if row.Normalised = over(to, from); row.Normalised != nil {
				judged = []Spread{from, to}
			}
		}
		switch row.Verdict = judge(judged[0], judged[1], s.higher); {
		case faulty(target):
			row.Verdict = Faulty
		case target == c.Reference:
			row.Verdict = OfReference
		case row.Verdict != TooFew:
			c.ByChance += chance(judged[0].Rounds, judged[1].Rounds)
		}
		c.Rows = append(c.Rows, row)
	}
}

// over divides one spread by another; nil: by 0, or by nothing.
func over(a, b Spread) *Ratio {
	if a.Rounds == 0 || b.Rounds == 0 || b.Low <= 0 {
		return nil
	}
	return &Ratio{Median: a.Median / b.Median, Low: a.Low / b.High, High: a.High / b.Low}
}

// relative divides each round of a target by the same round of the reference, which was measured right before or after it: what disturbed
// both falls out.
func relative(g *group, target, reference string, metric bench.Metric) Spread {
	m, base := g.of[target], g.of[reference]
	if base == nil {
		return Spread{}
	}
	var by bench.Measurement
	for i := range min(len(m.Rounds), len(base.Rounds)) {
		v, ok := m.Rounds[i][metric]
		if b := base.Rounds[i][metric]; ok && b > 0 {
			by.Rounds = append(by.Rounds, map[bench.Metric]float64{metric: v / b})
		}
	}
	v, _ := by.Stat(metric)
	return Spread(v)
}

// targetOf finds a target by its name.
func targetOf(r *bench.Result, name string) (bench.Target, bool) {
	for _, t := range r.Targets {
		if t.Name == name {
			return t, true
		}
	}
	return bench.Target{}, false
}
