package bench

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// run is one run of the benchmark. It belongs to the goroutine of Run.
type run struct {
	options Options
	targets []*target
	result  *Result
	chain   chainFacts
	seed    maphash.Seed // of the digests of answers
	done    int          // rounds, for Show
	total   int

	servers map[string]*server // that are started here, by target
	node    *node              // nil: it is not known
	logs    string             // folder of the output of the servers
}

// Run measures the targets. When ctx ends it returns what was measured until then together with ctx's error; otherwise an error means that
// nothing could be measured: an InputError, or a target that does not answer. What is wrong at a target is in the result's Faults.
func Run(ctx context.Context, o Options) (*Result, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	list, err := chosen(o.Scenarios)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	r := &run{options: o, seed: maphash.MakeSeed(), result: &Result{
		Version: ResultVersion, Started: begin.UTC(), Command: o.Command, Machine: machine(o.Tool), Targets: []Target{}, Measurements: []Measurement{},
	}}
	defer r.close()
	if err := r.open(list); err != nil {
		return nil, err
	}
	err = r.all(ctx, list)
	r.result.Seconds = time.Since(begin).Seconds()
	switch {
	case err != nil && ctx.Err() != nil: // whatever it kept from being done
		err = ctx.Err()
		r.result.Notes = append(r.result.Notes, Fault{Text: "the run was interrupted: what came before that was measured, and nothing else"})
	case err != nil && len(r.result.Measurements) == 0:
		return nil, err
	}
	return r.result, err
}

// all runs the scenarios, first those that start servers themselves.
func (r *run) all(ctx context.Context, list []scenario) error {
	list, err := r.startScenarios(ctx, list)
	if len(list) == 0 || err != nil || len(r.options.Targets) == 0 {
		return err
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	if err := r.explore(ctx); err != nil {
		return err
	}
	return r.scenarios(ctx, list)
}

func (r *run) close() {
	for _, t := range r.targets {
		t.close()
	}
	r.closeServers()
}

// scenarios runs them one after the other.
func (r *run) scenarios(ctx context.Context, list []scenario) error {
	cases := make([][]testCase, len(list))
	for i, s := range list {
		cases[i] = s.cases(r)
		for _, c := range cases[i] {
			r.total += r.planned(c)
		}
	}
	for i, s := range list {
		for _, c := range cases[i] {
			if c.skip != "" {
				r.note(Fault{Scenario: s.name, Case: c.name, Text: "not measured: " + c.skip})
				continue
			}
			if err := r.measure(ctx, s.name, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// planned counts the rounds of a case at all targets.
func (r *run) planned(c testCase) int {
	if c.skip != "" {
		return 0
	}
	first, rounds := r.rounds(c)
	return (rounds - first) * len(r.targets)
}

// rounds gives the number of the first round, -1 if there is one that warms up, and how many count.
func (r *run) rounds(c testCase) (first, rounds int) {
	if rounds = c.rounds; rounds == 0 {
		rounds = r.options.Rounds
	}
	if !c.cold {
		first = -1
	}
	return first, rounds
}

// measure runs one case: round i at every target before round i+1 at any. Every round begins with another target, so that none always
// comes after the same one.
func (r *run) measure(ctx context.Context, scenario string, c testCase) error {
	records := make([]record, len(r.targets))
	for i, t := range r.targets {
		records[i] = record{target: t, Measurement: Measurement{
			Scenario: scenario, Case: c.name, Client: c.client, Clients: max(c.clients, 1), Length: c.length, Target: t.options.Name,
		}}
		t.state = nil
	}
	defer func() {
		for _, t := range r.targets {
			if c.end != nil {
				c.end(t)
			}
			t.state = nil
		}
	}()
	if err := r.prepare(ctx, c, records); err != nil {
		return err
	}
	first, rounds := r.rounds(c)
	for i := first; i < rounds; i++ {
		for j := range records {
			record := &records[(j+i-first)%len(records)]
			r.options.Show(Event{Doing: scenario + ", " + c.name + ": " + record.Target, Done: r.done, Total: r.total})
			r.done++
			if record.failed {
				continue
			}
			if err := r.round(ctx, c, record, i < 0); err != nil {
				r.finish(records)
				return err
			}
		}
	}
	r.finish(records)
	return nil
}

// prepare asks what the case asks for the first time, and looks at the answers.
func (r *run) prepare(ctx context.Context, c testCase, records []record) error {
	for i := range records {
		record := &records[i]
		r.options.Show(Event{Doing: record.Scenario + ", " + c.name + ": " + record.Target, Done: r.done, Total: r.total})
		err := r.verify(ctx, record.Scenario, c.name, record.target, c.questions)
		if err := r.judge(ctx, record, err); err != nil {
			return err
		}
	}
	return nil
}

// record is a measurement while it is made.
type record struct {
	Measurement
	target *target
	failed bool // is not measured any more
	times  []time.Duration
}

// round measures one round at one target. It fails only when ctx has ended.
func (r *run) round(ctx context.Context, c testCase, record *record, warmUp bool) error {
	got, meter, err := r.metered(ctx, c, record.target)
	if err == nil {
		err = r.learn(ctx, record.Scenario, record.Case, record.target, got.fresh)
	}
	if err := r.judge(ctx, record, err); err != nil || record.failed {
		return err
	}
	if !warmUp {
		record.times = append(record.times, got.times...)
		record.Rounds = append(record.Rounds, got.metrics(meter))
	}
	return nil
}

// judge decides what an error of a target means. It fails only when ctx has ended.
func (r *run) judge(ctx context.Context, record *record, err error) error {
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case status.Code(err) == codes.Unimplemented:
		record.failed, record.Rounds, record.times = true, nil, nil
		record.Unsupported = status.Convert(err).Message()
	default:
		record.failed = true
		r.fault(Fault{Scenario: record.Scenario, Case: record.Case, Target: record.Target, Text: err.Error()})
	}
	return nil
}

// finish keeps the measurements of a case and tells of them.
func (r *run) finish(records []record) {
	var finished []Measurement
	for _, record := range records {
		record.Latencies = percentiles(record.times)
		if len(record.Rounds) > 0 || record.Unsupported != "" {
			finished = append(finished, record.Measurement)
		}
	}
	r.result.Measurements = append(r.result.Measurements, finished...)
	if len(finished) > 0 {
		r.options.Show(Event{Doing: finished[0].Scenario + ", " + finished[0].Case, Done: r.done, Total: r.total, Finished: finished})
	}
}

// fault keeps what is wrong.
func (r *run) fault(f Fault) {
	r.result.Faults = append(r.result.Faults, f)
	r.options.Show(Event{Doing: f.Scenario + ", " + f.Case, Done: r.done, Total: r.total, Fault: &f})
}

// note keeps what is worth saying and not wrong.
func (r *run) note(f Fault) {
	if slices.Contains(r.result.Notes, f) {
		return
	}
	r.result.Notes = append(r.result.Notes, f)
	r.options.Show(Event{Doing: f.Scenario + ", " + f.Case, Done: r.done, Total: r.total, Note: &f})
}

// metrics turns what a round gave into values.
func (r round) metrics(m metered) map[Metric]float64 {
	values := map[Metric]float64{}
	took := r.took
	if took == 0 {
		took = m.took
	}
	values[Duration] = took.Seconds()
	values[ClientCPU] = m.clientCPU.Seconds()
	for metric, n := range map[Metric]int64{CallsRate: r.calls, BlocksRate: r.blocks, BytesRate: r.bytes} {
		if n > 0 {
			values[metric] = float64(n) / took.Seconds()
		}
	}
	if len(r.times) > 0 {
		times := slices.Sorted(slices.Values(r.times))
		values[P50], values[P95] = quantile(times, 50).Seconds(), quantile(times, 95).Seconds()
		values[P99], values[Max] = quantile(times, 99).Seconds(), times[len(times)-1].Seconds()
	}
	if len(r.firsts) > 0 {
		values[First] = quantile(slices.Sorted(slices.Values(r.firsts)), 50).Seconds()
	}
	if m.server != nil {
		m.server.metrics(values, r)
	}
	maps.Copy(values, r.values)
	return values
}

// metrics adds what is known of the server's process.
func (u serverUse) metrics(values map[Metric]float64, r round) {
	values[ServerCPU] = u.cpu.Seconds()
	values[RSSAnon], values[RSSFile] = float64(u.rssAnon), float64(u.rssFile)
	if r.mixed {
		return
	}
	if r.blocks > 0 {
		values[ServerBlock] = u.cpu.Seconds() / float64(r.blocks)
	}
	if r.calls > 0 {
		values[ServerCall] = u.cpu.Seconds() / float64(r.calls)
	}
}

// quantile returns the shortest of the sorted times that at least so many percent of them do not exceed: the nearest rank.
func quantile(sorted []time.Duration, percent float64) time.Duration {
	const rounding = 1e-9 // 99.9 % of 1,000 are 999, not a little more
	rank := int(math.Ceil(float64(len(sorted))*percent/100 - rounding))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// percentiles returns the times at Percentiles, in seconds; nil when there are none.
func percentiles(times []time.Duration) (at []float64) {
	if len(times) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(times))
	for _, p := range Percentiles() {
		at = append(at, quantile(sorted, p).Seconds())
	}
	return at
}

// connect connects to every target and asks it who it is.
func (r *run) connect(ctx context.Context) error {
	r.result.Targets = []Target{}
	var errs []error
	for _, o := range r.options.Targets {
		t, err := newTarget(ctx, o)
		if err != nil {
			errs = append(errs, fmt.Errorf("target %s at %s: %w", o.Name, o.Address, err))
			continue
		}
		r.targets = append(r.targets, t)
		r.result.Targets = append(r.result.Targets, t.about)
	}
	return errors.Join(errs...)
}
