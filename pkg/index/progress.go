package index

import (
	"fmt"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// State is what a Builder is doing.
type State uint8

// The states of a Builder.
const (
	StateWaiting   State = iota // for a node that cannot be asked now
	StateBuilding               // the index is not complete
	StateFollowing              // it is
	StatePaused                 // the disk is full
	StateStopped                // by an error that waiting does not cure; tried again each minute and at every change of the tip
)

// String returns words for a sentence that begins with "the index build".
func (s State) String() string {
	switch s {
	case StateWaiting:
		return "is waiting for the node"
	case StateBuilding:
		return "is going on"
	case StateFollowing:
		return "is following the node"
	case StatePaused:
		return "is paused"
	case StateStopped:
		return "has stopped"
	}
	return fmt.Sprintf("is in state %d", uint8(s))
}

// Progress is what a Builder tells of itself.
type Progress struct {
	State  State
	Blocks chain.Height // committed: the index's height + 1, 0 while it is empty
	Target chain.Height // height of the node's tip as last seen, 0 before
	// BlocksPerSecond is the rate of the last ten seconds.
	BlocksPerSecond float64
	Err             error // why the state is waiting, paused or stopped; nil when it is known to be none of them
}

// Progress tells how far the index is, at any time, also before and after Run.
func (b *Builder) Progress() Progress {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.progress
	if tip, ok := b.store.Tip(); ok {
		p.Blocks = tip.Height + 1
	}
	p.BlocksPerSecond = b.meter.rate(time.Now())
	return p
}

func (b *Builder) note(s State, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.progress.State, b.progress.Err = s, err
}

// resume ends the state of waiting. Whatever else was wrong counts as wrong until a commit shows that it is over.
func (b *Builder) resume() {
	state := b.working()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.progress.State == StateWaiting {
		b.progress.State, b.progress.Err = state, nil
	}
}

func (b *Builder) target(h chain.Height) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.progress.Target = h
}

// working is the state while nothing is wrong.
func (b *Builder) working() State {
	if b.store.Complete() {
		return StateFollowing
	}
	return StateBuilding
}

// advance notes a commit.
func (b *Builder) advance() {
	state := b.working()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.progress.State, b.progress.Err = state, nil
	b.meter.mark(time.Now(), b.store.state.top.blocks)
}

// meter measures a rate over the last ten seconds.
type meter struct{ marks []mark }

type mark struct {
	at     time.Time
	blocks chain.Height
}

const meterWindow = 10 * time.Second

// mark notes how many blocks there are; a few times a second is enough.
func (m *meter) mark(at time.Time, blocks chain.Height) {
	if n := len(m.marks); n > 0 && blocks < m.marks[n-1].blocks {
		m.marks = m.marks[:0] // a rewind
	}
	if n := len(m.marks); n > 1 && at.Sub(m.marks[n-2].at) < 200*time.Millisecond {
		m.marks = m.marks[:n-1]
	}
	m.marks = append(m.marks, mark{at, blocks})
	m.prune(at)
}

// prune drops what lies before the window, but for the last of it.
func (m *meter) prune(now time.Time) {
	for len(m.marks) > 2 && now.Sub(m.marks[1].at) > meterWindow {
		m.marks = m.marks[1:]
	}
}

func (m *meter) rate(now time.Time) float64 {
	m.prune(now)
	if len(m.marks) < 2 {
		return 0
	}
	first, last := m.marks[0], m.marks[len(m.marks)-1]
	span := max(last.at.Sub(first.at), now.Sub(last.at)).Seconds()
	if span <= 0 {
		return 0
	}
	return float64(last.blocks-first.blocks) / span
}
