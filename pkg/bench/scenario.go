package bench

import (
	"context"
	"slices"
	"strings"
	"time"
)

// scenario is a group of cases that are measured together.
type scenario struct {
	name, help string // help is one line
	byDefault  bool   // runs when no scenario is named
	// cases are what is measured, in this order; they are asked for when the run has found out what the chain holds.
	cases func(*run) []testCase
}

// scenarios are all there are, in the order in which they run.
func scenarios() []scenario {
	return []scenario{
		{"latency", "every method, asked by one client, one call after the other", true, latencyCases},
		{"ranges", "ranges of 100 to 100,000 blocks, read by one client", true, rangesCases},
		{"concurrency", "ranges of 1,000 and 10,000 blocks and GetBlock, by 1, 8, 32 and 128 clients", true, concurrencyCases},
		{"sync", "the whole chain, in ranges of 10,000 blocks one after the other", true, syncCases},
		{"stalled", "a short range ten times a second beside readers at full speed and others that stand still; 128 equal readers", true, stalledCases},
		{"mixed", "readers of ranges and callers of every other method at once", true, mixedCases},
		{"index", "an empty index to a complete one: first answer, time, CPU, memory, size (--start, --dir)", false, indexCases},
		{"restart", "a server with a complete index, from its start to its first answer and until it is ready (--start)", false, restartCases},
		{"mempool", "a full mempool, read in the three ways that wallets do (--zebra, --mempool)", false, mempoolCases},
		{"tls", "what TLS costs: new connections, GetBlock and ranges, at targets with and without it", false, tlsCases},
		{"tip", "blocks that the node mines, until they are served (--zebra)", false, tipCases},
		{"reorg", "reorgs of the node of 1, 10 and 100 blocks, until they are followed, and streams that are open then (--zebra)", false, reorgCases},
	}
}

// starts tells whether the scenario starts and stops the servers itself, so that it runs before the targets are asked for anything.
func (s scenario) starts() bool { return s.name == "index" || s.name == "restart" }

// needsNode tells whether the scenario has the node do something, or compares with it.
func (s scenario) needsNode() bool {
	return s.name == "mempool" || s.name == "tip" || s.name == "reorg"
}

// ScenarioInfo describes a scenario for people.
type ScenarioInfo struct {
	Name, Help string
	Default    bool // runs when no scenario is named
}

// Scenarios are all that can be named in Options.
func Scenarios() (all []ScenarioInfo) {
	for _, s := range scenarios() {
		all = append(all, ScenarioInfo{s.name, s.help, s.byDefault})
	}
	return all
}

// chosen returns the scenarios with these names, in the order of the names.
func chosen(names []string) (list []scenario, err error) {
	all := scenarios()
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(s scenario) bool { return !s.byDefault }), nil
	}
	for n, name := range names {
		if slices.Contains(names[:n], name) {
			return nil, inputError("the scenario %q is named twice", name)
		}
		i := slices.IndexFunc(all, func(s scenario) bool { return s.name == name })
		if i < 0 {
			var known []string
			for _, s := range all {
				known = append(known, s.name)
			}
			return nil, inputError("there is no scenario %q: %s are those there are", name, strings.Join(known, ", "))
		}
		list = append(list, all[i])
	}
	return list, nil
}

// testCase is one thing that is measured at every target.
type testCase struct {
	name    string
	client  Client // empty: the case has no client of ours
	clients int    // at once; 0 means 1
	length  uint64 // blocks of a range; 0: no range

	// questions are what the case asks. Before the first round every target is asked each of them once, and what it answers is looked at
	// message by message and compared with the answers of the others; in the rounds it has to answer with the same bytes again.
	questions []*question

	rounds int    // 0: as the options say
	cold   bool   // the first round counts: nothing is warmed up
	skip   string // why the case is not measured at all; empty: it is

	// measure is one round at one target. An error that says UNIMPLEMENTED makes the target one that does not support the case; any other
	// is a fault, after which the case is not measured at this target again. What it keeps for the next round belongs to target.state.
	measure func(ctx context.Context, t *target) (round, error)
	// end is called once at each target after the last round, to close what measure opened. Nil: there is nothing.
	end func(t *target)
}

// round is what one round of a case gave. The engine derives rates and percentiles from it, and adds CPU time and memory.
type round struct {
	calls, blocks, bytes int64           // 0: no rate of these
	mixed                bool            // blocks did not come from the calls: what the server used for either is not known
	took                 time.Duration   // what the rates are of; 0: as long as measure ran
	times                []time.Duration // of the single calls; nil: not timed
	firsts               []time.Duration // from each call to its first message; nil: not timed
	values               map[Metric]float64
	fresh                []answered // to questions that were not among those of the case: they are compared when the round is over
}
