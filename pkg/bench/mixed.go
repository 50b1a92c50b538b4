package bench

import (
	"context"
	"fmt"
	"time"

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
	ranges := r.chain.stretches(rangeLengths()[1].ranges, rangeLengths()[1].blocks)
	groups := r.unaryQuestions()
	c := testCase{
		name:   fmt.Sprintf("%d readers of %d blocks, %d callers", mixedReaders, rangeLengths()[1].blocks, mixedCallers),
		client: Counting, clients: mixedReaders + mixedCallers, length: rangeLengths()[1].blocks, questions: ranges, end: closeAskers,
	}
	if len(ranges) == 0 {
		c.skip = "the chain has too few blocks"
	}
	c.measure = func(ctx context.Context, t *target) (round, error) {
		calls, err := r.offered(ctx, t, c.name, groups)
		if err != nil {
			return round{}, err
		}
		return r.mixed(ctx, t, ranges, calls)
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

// mixed is one round.
func (r *run) mixed(ctx context.Context, t *target, ranges, calls []*question) (round, error) {
	askers, err := t.askers(Counting, mixedReaders+mixedCallers)
	if err != nil {
		return round{}, err
	}
	asking := 2 * r.options.RoundTime
	l := load{client: Counting, questions: ranges, time: asking, limit: r.cut(asking)}
	read := make(chan error, 1)
	var blocks round
	go func() {
		var err error
		blocks, err = r.load(ctx, t, l, askers[:mixedReaders])
		read <- err
	}()
	l.questions = calls
	got, err := r.load(ctx, t, l, askers[mixedReaders:])
	if readErr := <-read; err == nil {
		err = readErr
	}
	got.blocks, got.firsts = blocks.blocks, nil
	got.bytes += blocks.bytes
	got.took = max(got.took, blocks.took, time.Nanosecond)
	return got, err
}
