package zebrarpc

import (
	"context"
	"errors"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// The most blocks of one iteration that are in flight or wait for their reader. Bytes bound large blocks before. There may be many
// readers of ranges who have stopped reading, and what they hold adds up; a builder is alone.
const (
	rangeWindow = 512
	buildWindow = 2048
)

func (c Class) window() int {
	if c == Build {
		return buildWindow
	}
	return rangeWindow
}

// flow is one iteration of Blocks as permits sees it: which of its blocks are in flight, have arrived, and may start. Blocks are counted
// from 0 in the order of the iteration. Everything is guarded by permits.mu.
type flow struct {
	permits *permits
	class   Class
	party   *party

	head int    // the block that the reader needs next
	next int    // the first block that was never asked for
	end  int    // how many blocks there are; lowered to one past the first that cannot be had
	ring []slot // of head and what follows, by index modulo its length, a power of two

	inFlight int
	held     int64 // bytes, the sum of the slots'
	idle     []*flowWaiter
	retrying []*flowWaiter
	closed   bool

	arrived chan struct{} // holds a token when the head may have arrived
}

// slot is one block that was asked for.
type slot struct {
	done  bool
	block *chain.Block // nil when err is not
	err   error
	held  int64 // bytes reserved for the body, then those of the block
}

// flowWaiter is a worker of a flow: it waits for a permit, or has one.
type flowWaiter struct {
	index    int // of its block; -1 while it waits for any
	permit   bool
	epoch    int   // of permits, when it got the permit
	reserved int64 // bytes, for the body
	size     int64 // of the body, in bytes; 0 until it is known
	woken    chan struct{}
}

func newFlowWaiter() *flowWaiter { return &flowWaiter{woken: make(chan struct{}, 1)} }

// newFlow adds the flow of an iteration that is for a client, nil when that is nobody.
func newFlow(p *permits, class Class, client any, count int) *flow {
	size := 1
	for size < min(count, class.window()) {
		size *= 2
	}
	f := &flow{permits: p, class: class, end: count, ring: make([]slot, size), arrived: make(chan struct{}, 1)}
	p.add(f, client)
	return f
}

func (f *flow) slot(i int) *slot { return &f.ring[i&(len(f.ring)-1)] }

// canStart tells whether a waiting worker could use a permit.
func (f *flow) canStart() bool {
	return !f.closed && (len(f.retrying) > 0 || len(f.idle) > 0 && f.mayAdvance())
}

// mayAdvance tells whether the next block may be asked for. That which the reader needs always may.
func (f *flow) mayAdvance() bool {
	if f.next >= f.end || f.next-f.head >= len(f.ring) {
		return false
	}
	return f.next == f.head || f.permits.allowance(f) >= f.permits.estimate
}

// grant gives a permit to a waiting worker: the one that repeats the lowest block, or one for the next block.
func (f *flow) grant(self *flowWaiter) {
	var w *flowWaiter
	if len(f.retrying) > 0 {
		lowest := 0
		for i, r := range f.retrying {
			if r.index < f.retrying[lowest].index {
				lowest = i
			}
		}
		w = f.retrying[lowest]
		f.retrying = slices.Delete(f.retrying, lowest, lowest+1)
	} else {
		w = f.idle[len(f.idle)-1]
		f.idle = f.idle[:len(f.idle)-1]
		w.index = f.next
		w.reserved, w.size = f.permits.estimate, 0
		*f.slot(f.next) = slot{held: w.reserved}
		f.permits.hold(f, w.reserved)
		f.next++
	}
	f.inFlight++
	f.party.inFlight++
	w.epoch = f.permits.epoch
	w.answer(true, self)
	if f.next >= f.end {
		f.dismiss()
	}
}

// answer tells a waiting worker whether it has got a permit; without one it is not needed any more.
func (w *flowWaiter) answer(permit bool, self *flowWaiter) {
	w.permit = permit
	if w != self {
		w.woken <- struct{}{}
	}
}

// dismiss sends the workers home that wait for a next block: there is none.
func (f *flow) dismiss() {
	for _, w := range f.idle {
		w.answer(false, nil)
	}
	f.idle = nil
}

// begin waits until the next block may be asked for and returns its index. False means that the worker is not needed any more.
func (f *flow) begin(w *flowWaiter) (int, bool) {
	f.permits.mu.Lock()
	return f.waitForNext(w)
}

// waitForNext is begin with permits.mu held; it unlocks.
func (f *flow) waitForNext(w *flowWaiter) (int, bool) {
	p := f.permits
	if f.closed || f.next >= f.end {
		p.dispatch(nil)
		p.mu.Unlock()
		return 0, false
	}
	w.index = -1
	f.idle = append(f.idle, w)
	p.dispatch(w)
	ok := f.wait(w)
	return w.index, ok
}

// again waits until block i may be asked for once more. False means that nobody needs it any more.
func (f *flow) again(w *flowWaiter, i int) bool {
	p := f.permits
	p.mu.Lock()
	if f.closed || i >= f.end {
		p.mu.Unlock()
		return false
	}
	w.index = i
	f.retrying = append(f.retrying, w)
	p.dispatch(w)
	return f.wait(w)
}

// wait unlocks, and returns when w was answered.
func (f *flow) wait(w *flowWaiter) bool {
	granted := w.permit
	f.permits.mu.Unlock()
	if granted {
		return true
	}
	<-w.woken
	return w.permit
}

// release gives back the permit of a worker whose request ended, well or with err, if it still has it.
func (f *flow) release(w *flowWaiter, err error) {
	p := f.permits
	p.mu.Lock()
	defer p.mu.Unlock()
	f.returnPermit(w, err)
	p.dispatch(nil)
}

// returnPermit is release without granting the permit to another.
func (f *flow) returnPermit(w *flowWaiter, err error) {
	if w.permit {
		w.permit = false
		f.inFlight--
		f.party.inFlight--
		f.permits.bulk[f.class]--
		f.permits.settle(w.epoch, err)
	}
}

// expect notes the length of the body that is about to be read, and reserves what it has beyond the estimate.
func (f *flow) expect(w *flowWaiter, size int64) {
	w.size = size
	if size <= w.reserved {
		return
	}
	p := f.permits
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold(f, size-w.reserved)
	f.slot(w.index).held = size
	w.reserved = size
	p.observe(size)
}

// deliver hands in block i, or the error that ends the iteration there, gives back the worker's permit if it still has it, and then is
// begin: the worker is the first to be asked to go on, so that small blocks pass without waking another.
func (f *flow) deliver(w *flowWaiter, i int, b *chain.Block, err error) (int, bool) {
	var held int64
	if b != nil {
		held = int64(cap(b.Shielded) + cap(b.Transparent))
	}
	p := f.permits
	p.mu.Lock()
	f.returnPermit(w, err)
	if w.size > 0 {
		p.observe(w.size)
	}
	s := f.slot(i)
	p.hold(f, held-s.held)
	*s = slot{done: true, block: b, err: err, held: held}
	if err != nil && i < f.end {
		f.endAfter(i)
	}
	if i == f.head {
		select {
		case f.arrived <- struct{}{}:
		default:
		}
	}
	return f.waitForNext(w)
}

// endAfter makes block i the last one.
func (f *flow) endAfter(i int) {
	f.end = i + 1
	f.dismiss()
	f.retrying = slices.DeleteFunc(f.retrying, func(w *flowWaiter) bool {
		if w.index < f.end {
			return false
		}
		w.answer(false, nil)
		return true
	})
}

// take waits for the next block of the iteration, or its error, which are the caller's. nextReady tells whether the one after it has
// arrived already.
func (f *flow) take(ctx context.Context) (b *chain.Block, nextReady bool, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		if s, nextReady := f.tryTake(); s.done {
			return s.block, nextReady, s.err
		}
		select {
		case <-f.arrived:
		case <-ctx.Done():
		}
	}
}

// tryTake is take without waiting: it returns a slot that is not done when the block has not arrived.
func (f *flow) tryTake() (taken slot, nextReady bool) {
	p := f.permits
	p.mu.Lock()
	defer p.mu.Unlock()
	s := f.slot(f.head)
	if !s.done {
		return slot{}, false
	}
	taken, *s = *s, slot{}
	p.hold(f, -taken.held)
	f.head++
	if f.head < f.end {
		following := f.slot(f.head)
		nextReady = following.done && following.err == nil
	}
	p.dispatch(nil)
	return taken, nextReady
}

// close ends all waiting. Workers that have a permit still release it and finish their block.
func (f *flow) close() {
	p := f.permits
	p.mu.Lock()
	defer p.mu.Unlock()
	f.closed = true
	f.dismiss()
	for _, w := range f.retrying {
		w.answer(false, nil)
	}
	f.retrying = nil
}

// remove takes a closed flow without workers out of permits, and returns the blocks that nobody took.
func (f *flow) remove() (left []*chain.Block) {
	p := f.permits
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range f.ring {
		if b := f.ring[i].block; b != nil {
			left = append(left, b)
		}
	}
	p.hold(f, -f.held)
	if f.party.flows--; f.party.flows == 0 {
		delete(p.parties, f.party.partyKey)
	}
	p.flows[f.class] = slices.DeleteFunc(p.flows[f.class], func(other *flow) bool { return other == f })
	p.dispatch(nil)
	return left
}

// overloaded tells whether err is a sign that Zebra has too much to do.
func overloaded(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.overload
}
