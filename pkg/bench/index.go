package bench

import (
	"context"
	"time"
)

// curveInterval is how far apart the points of a Curve are at least.
const curveInterval = 50 * time.Millisecond

// indexCases measures a build: from the start of a server with an empty directory to its complete index.
func indexCases(r *run) []testCase {
	c := testCase{name: "empty to complete", cold: true, rounds: 1, measure: r.measureBuild}
	many := len(r.targets) > 0
	for _, t := range r.targets {
		many = many && r.servers[t.options.Name].manyDirs()
	}
	if many {
		c.rounds = r.options.Rounds
	}
	return []testCase{c}
}

// restartCases measures a start with the index that is there; the round that warms up sees to it that there is one.
func restartCases(r *run) []testCase {
	return []testCase{{name: "complete index", measure: r.measureStart}}
}

func (r *run) measureBuild(ctx context.Context, t *target) (round, error) {
	s := r.servers[t.options.Name]
	if err := s.newDir(); err != nil {
		return round{}, err
	}
	curve := &Curve{Scenario: "index", Target: t.options.Name, Unit: "height"}
	got, err := r.startAndStop(ctx, t, curve.add)
	if err == nil && s.builds == 1 {
		r.result.Curves = append(r.result.Curves, *curve)
	}
	if err != nil {
		return got, err
	}
	size, err := allocated(s.dir)
	got.values[Size] = float64(size)
	return got, err
}

func (r *run) measureStart(ctx context.Context, t *target) (round, error) {
	return r.startAndStop(ctx, t, func(time.Duration, uint32) {})
}

// startAndStop starts a server, waits until it is complete, and stops it.
func (r *run) startAndStop(ctx context.Context, t *target, seen func(time.Duration, uint32)) (got round, err error) {
	s := r.servers[t.options.Name]
	defer s.kill()
	if err := s.run(r.logs); err != nil {
		return got, err
	}
	watch, err := watchProcess(s.child.pid())
	if err != nil {
		return got, err
	}
	ready, err := r.awaitComplete(ctx, s, seen)
	use, gone := watch.stop()
	switch {
	case err != nil:
		return got, err
	case gone != nil:
		return got, gone
	}
	cpu, err := readProcess(s.child.pid()) // since its start, of which the watch has missed a moment
	if err != nil {
		return got, err
	}
	if err := t.describe(ctx); err != nil {
		return got, err
	}
	took, written, err := s.stop(ctx)
	got.took = ready.complete
	got.values = map[Metric]float64{
		FirstAnswer: ready.first.Seconds(), Complete: ready.complete.Seconds(), StopTime: took.Seconds(),
		ServerCPU: cpu.cpu.Seconds(), RSSAnon: float64(use.rssAnon), RSSFile: float64(use.rssFile), Written: float64(max(written, cpu.written)),
	}
	return got, err
}

// describe asks the server what it is.
func (t *target) describe(ctx context.Context) error {
	connected, err := newTarget(ctx, t.options)
	if err != nil {
		return err
	}
	t.about = connected.about
	connected.close()
	return nil
}

// add notes a value. Of those that came a moment after another only the last one is kept, so that the curve ends where the build does.
func (c *Curve) add(since time.Duration, height uint32) {
	if n := len(c.Seconds); n > 1 && c.Seconds[n-1]-c.Seconds[n-2] < curveInterval.Seconds() {
		c.Seconds, c.Values = c.Seconds[:n-1], c.Values[:n-1]
	}
	c.Seconds, c.Values = append(c.Seconds, since.Seconds()), append(c.Values, float64(height))
}
