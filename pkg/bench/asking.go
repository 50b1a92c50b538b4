package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// asker is one client on a connection of its own.
type asker interface {
	// ask asks once and reads the answer, which has to be right as far as this client looks. What came before ctx ended or something
	// else went wrong is in the Answer all the same.
	ask(ctx context.Context, q *question) (Answer, error)
	close()
}

// newAsker connects a client.
func newAsker(client Client, o TargetOptions) (asker, error) {
	if client == Counting {
		return &countingAsker{options: o}, nil
	}
	conn, err := dial(o)
	if err != nil {
		return nil, err
	}
	return decodingAsker{decodingClient{conn}}, nil
}

type decodingAsker struct{ decodingClient }

func (a decodingAsker) ask(ctx context.Context, q *question) (Answer, error) {
	check := q.checker()
	return a.decodingClient.ask(ctx, q, func(m proto.Message) error { return check(m) })
}

func (a decodingAsker) close() { a.conn.Close() }

// countingAsker connects when it is asked for the first time, and after a call that was not read to its end.
type countingAsker struct {
	options TargetOptions
	client  *CountingClient
}

func (a *countingAsker) ask(ctx context.Context, q *question) (Answer, error) {
	if a.client == nil {
		client, err := DialCounting(context.WithoutCancel(ctx), a.options.Address, a.options.TLS)
		if err != nil {
			return Answer{}, err
		}
		a.client = client
	}
	client := a.client
	stop := context.AfterFunc(ctx, func() { client.conn.Close() })
	got, err := client.Ask(q.method.name, q.encoded)
	if !stop() || err != nil {
		a.close()
	}
	return got, err
}

func (a *countingAsker) close() {
	if a.client != nil {
		a.client.Close()
		a.client = nil
	}
}

// load is clients that ask questions one after the other, all at once.
type load struct {
	client    Client
	clients   int
	questions []*question
	calls     int           // after which each client ends; 0: none ends by count
	time      time.Duration // after which no client asks again
	limit     time.Duration // after which unfinished answers are cut, and count as far as they came
}

// askLoad makes the case of a load.
func (r *run) askLoad(name string, length uint64, l load) testCase {
	c := testCase{name: name, client: l.client, clients: l.clients, length: length, questions: l.questions, end: closeAskers}
	if len(l.questions) == 0 {
		c.skip = "nothing of that kind was found in the chain"
	}
	c.measure = func(ctx context.Context, t *target) (round, error) {
		askers, err := t.askers(l.client, l.clients)
		if err != nil {
			return round{}, err
		}
		return r.load(ctx, t, l, askers)
	}
	return c
}

// askers returns the clients of the case at a target, which stay connected from round to round.
func (t *target) askers(client Client, n int) ([]asker, error) {
	askers, _ := t.state.([]asker)
	for len(askers) < n {
		a, err := newAsker(client, t.options)
		if err != nil {
			return nil, err
		}
		askers = append(askers, a)
		t.state = askers
	}
	return askers[:n], nil
}

func closeAskers(t *target) {
	askers, _ := t.state.([]asker)
	for _, a := range askers {
		a.close()
	}
}

// load lets all clients ask, and sums up what came.
func (r *run) load(ctx context.Context, t *target, l load, askers []asker) (round, error) {
	// The server hears of no deadline: it would end the answers itself.
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(l.limit, cancel).Stop()
	rounds, errs := make([]round, len(askers)), make([]error, len(askers))
	begin := time.Now()
	var asking sync.WaitGroup
	for i, a := range askers {
		asking.Go(func() {
			at := i * len(l.questions) / len(askers)
			for n := 0; n == 0 || (l.calls == 0 || n < l.calls) && time.Since(begin) < l.time; n++ {
				more, err := r.ask(limited, t, a, l.questions[(at+n)%len(l.questions)], &rounds[i])
				if errs[i] = err; err != nil || !more {
					cancelOn(err, cancel)
					return
				}
			}
		})
	}
	asking.Wait()
	sum := round{took: time.Since(begin)}
	for _, part := range rounds {
		sum.calls += part.calls
		sum.blocks += part.blocks
		sum.bytes += part.bytes
		sum.times = append(sum.times, part.times...)
		sum.firsts = append(sum.firsts, part.firsts...)
		sum.fresh = append(sum.fresh, part.fresh...)
	}
	if err := firstError(errs); err != nil {
		return sum, err
	}
	if sum.bytes == 0 && sum.calls == 0 {
		return sum, fmt.Errorf("nothing came within %v", l.limit)
	}
	return sum, ctx.Err()
}

// cancelOn ends the other clients when one has failed.
func cancelOn(err error, cancel context.CancelFunc) {
	if err != nil {
		cancel()
	}
}

// firstError is the first that is not merely the consequence of another.
func firstError(errs []error) error {
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if i < 0 {
		return nil
	}
	return errs[i]
}

// ask asks once and adds what came to a round. It returns false when ctx ended in the middle of the answer, which counts as far as it came.
func (r *run) ask(ctx context.Context, t *target, a asker, q *question, sum *round) (more bool, err error) {
	asked := time.Now()
	got, err := a.ask(ctx, q)
	took := time.Since(asked)
	cut := err != nil && ctx.Err() != nil
	if err != nil {
		err = q.failed(err, got.Messages > 0 || t.known[q.key] != nil)
	} else {
		err = r.expect(context.WithoutCancel(ctx), t, q, got) // what is whole is not excused by the end of the time
	}
	if cut && q.count >= 0 && got.Messages > q.count { // who goes on for ever has no sum that could be wrong
		return false, fmt.Errorf("%v: %d messages came and no end, want %d", q, got.Messages, q.count)
	}
	if err != nil && !cut {
		return false, err
	}
	if q.blocks {
		sum.blocks += got.Messages
	}
	sum.bytes += got.Bytes - 5*got.Messages
	switch {
	case got.Messages > 0:
		sum.firsts = append(sum.firsts, got.First)
	case cut: // it would have taken longer still: to leave it out would make who hangs look fast
		sum.firsts = append(sum.firsts, took)
	}
	if cut {
		if !q.method.stream {
			sum.times = append(sum.times, took)
		}
		return false, nil
	}
	if !q.passing && t.known[q.key] == nil {
		sum.fresh = append(sum.fresh, answered{q, got})
	}
	sum.calls++
	sum.times = append(sum.times, took)
	return true, nil
}

// failed names the question in an error of a call, unless that says that there is no such method. Who has answered before, in part or
// another question of the case, has the method, and is wrong to say so.
func (q *question) failed(err error, offered bool) error {
	switch {
	case status.Code(err) == codes.Unimplemented && offered:
		return fmt.Errorf("%v: refused as if there were no such method, which has been answered before: %v", q, err)
	case status.Code(err) == codes.Unimplemented, errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("%v: %w", q, err)
}
