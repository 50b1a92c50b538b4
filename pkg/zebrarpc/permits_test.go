package zebrarpc

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// workbench drives permits without goroutines: every flow has as many waiting workers as it could use, and the test ends requests itself.
type workbench struct {
	*permits
	busy map[*flow][]*flowWaiter // with a permit, longest first
	idle map[*flow][]*flowWaiter
}

func newWorkbench(limit int) *workbench {
	return &workbench{newPermits(limit, DefaultReadAhead), map[*flow][]*flowWaiter{}, map[*flow][]*flowWaiter{}}
}

// flow adds an endless iteration whose workers all wait.
func (b *workbench) flow(class Class) *flow { return b.flowOf(nil, class) }

// flowOf adds one of a client.
func (b *workbench) flowOf(client any, class Class) *flow {
	f := newFlow(b.permits, class, client, 1<<40)
	b.mu.Lock()
	defer b.mu.Unlock()
	for range MaxInFlight + 1 {
		w := newFlowWaiter()
		w.index = -1
		b.idle[f] = append(b.idle[f], w)
		f.idle = append(f.idle, w)
	}
	b.dispatch(nil)
	b.collect()
	return f
}

// collect finds out who got a permit.
func (b *workbench) collect() {
	for f, waiting := range b.idle {
		b.idle[f] = slices.DeleteFunc(waiting, func(w *flowWaiter) bool {
			if w.permit {
				<-w.woken
				b.busy[f] = append(b.busy[f], w)
			}
			return w.permit
		})
	}
}

// end ends the flow's longest request with err; its worker waits again, and the reader takes the block.
func (b *workbench) end(f *flow, err error) {
	w := b.busy[f][0]
	b.busy[f] = b.busy[f][1:]
	b.mu.Lock()
	f.returnPermit(w, err)
	f.head = max(f.head, w.index+1)
	b.hold(f, -f.slot(w.index).held)
	w.index = -1
	f.idle = append(f.idle, w)
	b.dispatch(nil)
	b.mu.Unlock()
	b.idle[f] = append(b.idle[f], w)
	b.collect()
}

// stop ends a flow's wish for more.
func (b *workbench) stop(f *flow) {
	b.mu.Lock()
	f.closed = true
	b.mu.Unlock()
}

func (b *workbench) want(t *testing.T, when string, flows []*flow, counts ...int) {
	t.Helper()
	for i, f := range flows {
		if f.inFlight != counts[i] {
			t.Errorf("%s: flow %d has %d requests in flight, want %d", when, i, f.inFlight, counts[i])
		}
	}
}

func TestClassesShareEvenly(t *testing.T) {
	t.Parallel()
	b := newWorkbench(16)
	build := b.flow(Build)
	b.want(t, "build alone", []*flow{build}, 16)
	rng := b.flow(Range)
	both := []*flow{build, rng}
	b.want(t, "range has come", both, 16, 0)
	for range 8 {
		b.end(build, nil)
	}
	b.want(t, "after eight requests of build", both, 8, 8)
	for range 100 { // however unevenly they end
		b.end(rng, nil)
	}
	b.want(t, "after a hundred requests of range", both, 8, 8)
	for range 100 {
		b.end(build, nil)
		b.end(build, nil)
		b.end(rng, nil)
	}
	b.want(t, "later", both, 8, 8)
	b.stop(build)
	for range 8 {
		b.end(build, nil)
	}
	b.want(t, "build is done", both, 0, 16)
}

func TestOddLimitAlternates(t *testing.T) {
	t.Parallel()
	b := newWorkbench(1)
	build, rng := b.flow(Build), b.flow(Range)
	var order []Class
	for range 6 {
		if build.inFlight == 1 {
			order = append(order, Build)
			b.end(build, nil)
		} else {
			order = append(order, Range)
			b.end(rng, nil)
		}
	}
	if want := []Class{Build, Range, Build, Range, Build, Range}; !slices.Equal(order, want) {
		t.Errorf("served %v, want %v", order, want)
	}
}

func TestRangesShareEvenly(t *testing.T) {
	t.Parallel()
	b := newWorkbench(16)
	var flows []*flow
	for range 4 {
		flows = append(flows, b.flow(Range))
	}
	b.want(t, "first come", flows, 16, 0, 0, 0)
	for range 12 {
		b.end(flows[0], nil)
	}
	b.want(t, "settled", flows, 4, 4, 4, 4)
	for range 50 {
		b.end(flows[2], nil)
	}
	b.want(t, "one is faster", flows, 4, 4, 4, 4)

	// More iterations than permits: each is served as often as the others.
	for range 28 {
		flows = append(flows, b.flow(Range))
	}
	served := make([]int, len(flows))
	for range 16 { // what the first four have too much
		i := slices.IndexFunc(flows, func(f *flow) bool { return f.inFlight > 1 })
		if i < 0 {
			break
		}
		b.end(flows[i], nil)
	}
	for range 10 * len(flows) {
		i := slices.IndexFunc(flows, func(f *flow) bool { return f.inFlight > 0 })
		served[i]++
		b.end(flows[i], nil)
		flows = append(flows[i+1:], flows[:i+1]...)
		served = append(served[i+1:], served[:i+1]...)
	}
	if least, most := slices.Min(served), slices.Max(served); most-least > 1 {
		t.Errorf("some were served %d times, some %d", least, most)
	}
}

// A client with many ranges gets as much as one with one, and all there is when nobody else wants anything.
func TestClientsShareEvenly(t *testing.T) {
	t.Parallel()
	b := newWorkbench(16)
	var crowd []*flow
	for range 40 {
		crowd = append(crowd, b.flowOf("one", Range))
	}
	sum := func() (n int) {
		for _, f := range crowd {
			n += f.inFlight
		}
		return n
	}
	endOne := func() {
		i := slices.IndexFunc(crowd, func(f *flow) bool { return f.inFlight > 0 })
		b.end(crowd[i], nil)
		crowd = append(crowd[i+1:], crowd[:i+1]...)
	}
	if sum() != 16 {
		t.Errorf("alone: %d in flight", sum())
	}
	other := b.flowOf("two", Range)
	for range 1000 {
		endOne()
	}
	if sum() != 8 || other.inFlight != 8 {
		t.Errorf("%d are in flight for the crowd, %d for the other client", sum(), other.inFlight)
	}
	third := b.flowOf("three", Range)
	for range 1000 {
		endOne()
		b.end(other, nil)
	}
	if sum() > 6 || other.inFlight < 5 || third.inFlight < 5 {
		t.Errorf("%d, %d and %d are in flight for the three clients", sum(), other.inFlight, third.inFlight)
	}
	// Within the crowd too all get their turn: none has two while another has none.
	if slices.ContainsFunc(crowd, func(f *flow) bool { return f.inFlight > 1 }) {
		t.Error("one range of the crowd has more than another")
	}
	for _, f := range append(crowd, other, third) {
		b.stop(f)
		f.remove()
	}
	if len(b.parties) != 0 {
		t.Errorf("%d clients are left", len(b.parties))
	}
}

func TestInteractiveFirst(t *testing.T) {
	t.Parallel()
	b := newWorkbench(16)
	f := b.flow(Build)
	flows := []*flow{f}
	if err := b.acquire(t.Context(), urgent, time.Second); err != nil {
		t.Fatal(err)
	}
	b.want(t, "an urgent call came", flows, 16)
	for range 14 {
		b.end(f, nil)
	}
	b.want(t, "bulk starts nothing above an eighth", flows, 2)
	for range 5 {
		b.end(f, nil)
	}
	b.want(t, "but it goes on", flows, 2)
	b.release(urgent)
	b.collect()
	b.want(t, "the urgent call has ended", flows, 16)

	if err := b.acquire(t.Context(), poll, time.Second); err != nil {
		t.Fatal(err)
	}
	b.end(f, nil)
	b.want(t, "a poll does not slow bulk", flows, 16)
	b.release(poll)

	small := newWorkbench(1)
	f = small.flow(Range)
	if err := small.acquire(t.Context(), urgent, time.Second); err != nil {
		t.Fatal(err)
	}
	small.end(f, nil)
	small.want(t, "bulk never stops altogether", []*flow{f}, 1)
}

func TestAllTogetherBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newWorkbench(MaxInFlight)
		f := b.flow(Build)
		b.want(t, "bulk alone", []*flow{f}, MaxInFlight)
		done := make(chan int, 2)
		for i := range 2 {
			go func() {
				time.Sleep(time.Duration(i)) // in this order
				if err := b.acquire(t.Context(), urgent, time.Second); err != nil {
					t.Error(err)
				}
				done <- i
			}()
			time.Sleep(time.Duration(i))
			synctest.Wait()
		}
		time.Sleep(10 * time.Nanosecond)
		synctest.Wait()
		for want := range 2 {
			select {
			case i := <-done:
				t.Fatalf("call %d was let in beside %d", i, MaxInFlight)
			default:
			}
			b.end(f, nil)
			synctest.Wait()
			if i := <-done; i != want {
				t.Errorf("call %d came first", i)
			}
		}
		b.want(t, "the calls have bulk's places", []*flow{f}, MaxInFlight-2)
	})
}

func TestPollGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newWorkbench(MaxInFlight)
		f := b.flow(Build)
		var order []urgency
		for _, u := range []urgency{urgent, poll} {
			go func() {
				if err := b.acquire(t.Context(), u, time.Second); err != nil {
					t.Error(err)
				}
				order = append(order, u)
			}()
			synctest.Wait()
		}
		for range 2 {
			b.end(f, nil)
			synctest.Wait()
		}
		if want := []urgency{poll, urgent}; !slices.Equal(order, want) {
			t.Errorf("served %v, want %v", order, want)
		}
	})
}

func TestPermitWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newWorkbench(MaxInFlight)
		f := b.flow(Build)
		begin := time.Now()
		err := b.acquire(t.Context(), urgent, time.Minute)
		if !errors.Is(err, chain.ErrBusy) || time.Since(begin) != permitWait {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err = b.acquire(ctx, urgent, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if b.urgents != 0 || len(b.waiting) != 0 {
			t.Errorf("%d urgent calls are left, %d wait", b.urgents, len(b.waiting))
		}
		b.end(f, nil)
		b.want(t, "nothing lost", []*flow{f}, MaxInFlight)
	})
}

func TestBulkLimitAdapts(t *testing.T) {
	t.Parallel()
	overload := &Error{Class: Passing, overload: true}
	synctest.Test(t, func(t *testing.T) {
		b := newWorkbench(16)
		f := b.flow(Build)
		limit := func(when string, want int) {
			t.Helper()
			if b.permits.limit != want {
				t.Errorf("%s: limit %d, want %d", when, b.permits.limit, want)
			}
		}
		b.end(f, &Error{Class: Passing, Err: syscall.ECONNREFUSED})
		b.end(f, &Error{Class: Answerable, Code: -8})
		limit("other errors", 16)
		for range 16 {
			b.end(f, overload)
		}
		limit("all that ran together", 8)
		b.end(f, overload)
		limit("the next generation", 4)
		for range 40 {
			for len(b.busy[f]) > 0 && b.permits.limit > 1 {
				b.end(f, overload)
			}
		}
		limit("never nothing", 1)
		b.want(t, "never nothing", []*flow{f}, 1)
		for i := range 20 {
			b.end(f, nil)
			b.end(f, nil)
			limit("within a second", min(16, 1+i))
			time.Sleep(restorePause)
		}
		limit("restored", 16)
	})
}

func TestTipPollDoesNotThrottle(t *testing.T) {
	t.Parallel()
	p := newPermits(16, DefaultReadAhead)
	if err := p.acquire(t.Context(), poll, time.Second); err != nil {
		t.Fatal(err)
	}
	if p.bulkLimit() != 16 {
		t.Errorf("bulk limit %d", p.bulkLimit())
	}
	for limit, want := range map[int]int{1: 1, 2: 2, 3: 2, 8: 2, 24: 3, 48: 6} {
		p := newPermits(limit, DefaultReadAhead)
		if err := p.acquire(t.Context(), urgent, time.Second); err != nil {
			t.Fatal(err)
		}
		if p.bulkLimit() != want {
			t.Errorf("bulk limit %d beside an urgent call, want %d of %d", p.bulkLimit(), want, limit)
		}
	}
}
