package zebrarpc

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Class is what a bulk iteration is for. The classes share Zebra evenly when both want it.
type Class uint8

const (
	// Range is a range of blocks that a wallet waits for. It gives up after ten seconds without progress.
	Range Class = iota
	// Build is the index builder. It goes on until its context ends.
	Build
	classCount
)

// urgency ranks what is not bulk.
type urgency uint8

const (
	urgent  urgency = iota // somebody waits for the answer: while one is in flight or waits, little bulk is started
	poll                   // goes first too, but is so frequent and cheap that bulk need not wait for it
	patient                // waits its turn, and bulk does not wait for it: what floods must not stop
)

const (
	// throttleFloor and throttleShare say how much bulk is in flight beside an urgent call before more is started:
	// max(throttleFloor, limit/throttleShare). Never nothing, so that urgent calls without end do not starve bulk.
	throttleFloor = 2
	throttleShare = 8

	// permitWait is how long an interactive call waits for its turn.
	permitWait = 10 * time.Second

	// restorePause is the time between two steps of the bulk limit back to where it was.
	restorePause = time.Second
)

// permits decides who may ask Zebra next, and what may be read ahead. All its state, and that of its flows, is guarded by mu.
//
// Interactive calls are served in the order in which they came, polls of the tip first, before any bulk. Of the two bulk classes the one
// with fewer requests in flight is next; of the clients of a class, one with the fewest; of that client's flows, the one with the fewest;
// and among equals the one that was served longest ago. So a client who opens a hundred ranges gets no more than one who opens one.
type permits struct {
	mu      sync.Mutex
	limit   int // of bulk in flight, 1 to most
	most    int
	epoch   int       // counts halvings: of the requests that ran together only one halves
	changed time.Time // when limit changed last

	calls   int            // interactive calls in flight
	urgents int            // of them and of waiting, those that throttle bulk
	waiting []*permitReply // in order
	bulk    [classCount]int
	last    Class // served last
	flows   [classCount][]*flow
	parties map[partyKey]*party // that have flows

	readAhead int64             // bytes
	held      [classCount]int64 // bytes, by class
	estimate  int64             // bytes of the next body: the recent maximum
}

// party is one client's flows of a class.
type party struct {
	partyKey
	flows    int
	inFlight int
}

type partyKey struct {
	class  Class
	client any // nil: nobody, as the builder is
}

// permitReply is how a waiting interactive call learns that it is its turn.
type permitReply struct {
	granted chan struct{}
}

func newPermits(limit int, readAhead int64) *permits {
	return &permits{limit: limit, most: limit, parties: make(map[partyKey]*party), readAhead: readAhead, estimate: 4 << 10}
}

// acquire waits for the turn of an interactive call, for at most limit or permitWait, whichever is shorter: then it returns an error
// that matches chain.ErrBusy. The permit goes back with release.
func (p *permits) acquire(ctx context.Context, u urgency, limit time.Duration) error {
	p.mu.Lock()
	if u == urgent {
		p.urgents++
	}
	if len(p.waiting) == 0 && p.inFlight() < MaxInFlight {
		p.calls++
		p.mu.Unlock()
		return nil
	}
	w := &permitReply{make(chan struct{})}
	if u == poll {
		p.waiting = slices.Insert(p.waiting, 0, w) // a queue of others does not make Zebra look dead
	} else {
		p.waiting = append(p.waiting, w)
	}
	p.mu.Unlock()

	limit = min(limit, permitWait)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("no turn at Zebra within %v: %w", limit, chain.ErrBusy)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, w); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	} else {
		p.calls-- // it was granted in this moment
	}
	if u == urgent {
		p.urgents--
	}
	p.dispatch(nil)
	return err
}

// release ends an interactive call.
func (p *permits) release(u urgency) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls--
	if u == urgent {
		p.urgents--
	}
	p.dispatch(nil)
}

func (p *permits) inFlight() int { return p.calls + p.bulk[Range] + p.bulk[Build] }

// bulkLimit is how many bulk requests may be in flight now.
func (p *permits) bulkLimit() int {
	if p.urgents > 0 {
		return min(p.limit, max(throttleFloor, p.limit/throttleShare))
	}
	return p.limit
}

// dispatch grants what can be granted. self is the waiter that calls, which looks at its own state instead of being woken.
func (p *permits) dispatch(self *flowWaiter) {
	for len(p.waiting) > 0 && p.inFlight() < MaxInFlight {
		close(p.waiting[0].granted)
		p.waiting = slices.Delete(p.waiting, 0, 1)
		p.calls++
	}
	for p.bulk[Range]+p.bulk[Build] < p.bulkLimit() && p.inFlight() < MaxInFlight {
		f := p.next()
		if f == nil {
			return
		}
		p.last = f.class
		p.bulk[f.class]++
		f.grant(self)
	}
}

// next picks the flow that is served next and moves it behind the others of its class, or returns nil.
func (p *permits) next() *flow {
	first, second := Range, Build
	if p.bulk[Build] < p.bulk[Range] || p.bulk[Build] == p.bulk[Range] && p.last == Range {
		first, second = Build, Range
	}
	if f := p.nextOf(first); f != nil {
		return f
	}
	return p.nextOf(second)
}

// before tells whether f goes before another flow of its class that was served longer ago.
func (f *flow) before(other *flow) bool {
	if f.party.inFlight != other.party.inFlight {
		return f.party.inFlight < other.party.inFlight
	}
	return f.inFlight < other.inFlight
}

func (p *permits) nextOf(class Class) *flow {
	flows := p.flows[class]
	best := -1
	for i, f := range flows {
		if f.canStart() && (best < 0 || f.before(flows[best])) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	f := flows[best]
	copy(flows[best:], flows[best+1:])
	flows[len(flows)-1] = f
	return f
}

// settle adapts the bulk limit to how a bulk request of the given epoch went: halved when Zebra had too much to do, one step
// restored per restorePause otherwise.
func (p *permits) settle(epoch int, err error) {
	switch {
	case overloaded(err):
		if epoch == p.epoch {
			p.epoch++
			p.limit, p.changed = max(1, p.limit/2), time.Now()
		}
	case err == nil && p.limit < p.most:
		if now := time.Now(); now.Sub(p.changed) >= restorePause {
			p.limit, p.changed = p.limit+1, now
		}
	}
}

// allowance is how many bytes the flow may hold beyond what it holds already, for blocks that are not needed next.
//
// Ranges together stay under half of the read-ahead, and each takes at most half of what the others leave of that: a range whose reader
// stalls keeps what it holds, and must not lock out the next one. A minimum is left to each. Builders have what ranges leave.
func (p *permits) allowance(f *flow) int64 {
	half := p.readAhead / 2
	if f.class == Build {
		return p.readAhead - min(p.held[Range], half) - p.held[Build]
	}
	return max(minRangeShare, half-p.held[Range]) - f.held
}

// minRangeShare is what an iteration of Range may always hold, in bytes: some thousand small blocks, some dense ones.
const minRangeShare = 512 << 10

// hold changes the bytes that a flow holds.
func (p *permits) hold(f *flow, delta int64) {
	f.held += delta
	p.held[f.class] += delta
}

// observe notes the length of a body for the next estimate, which follows a larger one at once and a smaller one slowly.
func (p *permits) observe(size int64) {
	p.estimate = max(size, p.estimate-(p.estimate-size)/32)
}

// add adds a flow of a client's.
func (p *permits) add(f *flow, client any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := partyKey{f.class, client}
	f.party = p.parties[key]
	if f.party == nil {
		f.party = &party{partyKey: key}
		p.parties[key] = f.party
	}
	f.party.flows++
	p.flows[f.class] = append(p.flows[f.class], f)
}

func (p *permits) fill(s *Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.InFlight, s.BulkLimit = p.inFlight(), p.limit
	s.ReadAhead = p.held[Range] + p.held[Build]
	s.Waiting = len(p.waiting)
	for _, flows := range p.flows {
		for _, f := range flows {
			if f.canStart() {
				s.Waiting++
			}
		}
	}
}
