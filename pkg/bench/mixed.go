package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The mixed load.
const (
	mixedReaders = 8
	mixedCallers = 24
)

// mixedCases has some clients read ranges while others call every method in turns. Percentiles are those of the calls, blocks those of the
// ranges.
func mixedCases(r *run) []testCase {
	length := rangeLengths()[1]
	if r.chain.last-r.chain.first < length.blocks {
		length = rangeLengths()[0]
	}
	ranges := r.chain.stretches(length.ranges, length.blocks)
	groups := r.unaryQuestions()
	readers, callers := min(mixedReaders, r.options.Most), min(mixedCallers, r.options.Most)
	c := testCase{
		name:   fmt.Sprintf("%d readers of %d blocks, %d callers", readers, length.blocks, callers),
		client: Counting, clients: readers + callers, length: length.blocks, questions: ranges, end: closeAskers,
	}
	if len(ranges) == 0 {
		c.skip = "the chain has too few blocks"
	}
	c.measure = func(ctx context.Context, t *target) (round, error) {
		calls, err := r.offered(ctx, t, c.name, groups)
		if err != nil {
			return round{}, err
		}
		return r.mixed(ctx, t, load{clients: readers, questions: ranges}, load{clients: callers, questions: calls})
	}
	return []testCase{c}
}

// offered returns the calls of those methods that the target has. They are looked at when they are asked for the first time.
func (r *run) offered(ctx context.Context, t *target, name string, groups []questionGroup) (calls []*question, err error) {
	var has []questionGroup
	for _, g := range groups {
		err := r.verify(ctx, "mixed", name, t, g.questions)
		switch {
		case status.Code(err) == codes.Unimplemented:
		case err != nil:
			return nil, err
		case len(g.questions) > 0:
			has = append(has, g)
		}
	}
	for i := range latencyTrees { // in turns, each method as often as any other
		for _, g := range has {
			calls = append(calls, g.questions[i%len(g.questions)])
		}
	}
	return calls, nil
}

// mixed is one round of two loads at once.
func (r *run) mixed(ctx context.Context, t *target, reading, calling load) (round, error) {
	askers, err := t.askers(Counting, reading.clients+calling.clients)
	if err != nil {
		return round{}, err
	}
	asking := 2 * r.options.RoundTime
	for _, l := range []*load{&reading, &calling} {
		l.client, l.time, l.limit = Counting, asking, r.cut(asking)
	}
	var read round
	var readErr error
	var running sync.WaitGroup
	running.Go(func() { read, readErr = r.load(ctx, t, reading, askers[:reading.clients]) })
	got, err := r.load(ctx, t, calling, askers[reading.clients:])
	running.Wait()
	got.blocks, got.firsts, got.mixed = read.blocks, nil, true
	got.bytes += read.bytes
	got.took = max(got.took, read.took)
	return got, errors.Join(err, readErr)
}
