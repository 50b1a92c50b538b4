package zebrarpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// TipState is what Watch knows of the node's tip.
type TipState struct {
	ID        chain.BlockID // of the last successful poll
	Known     bool          // there was one
	Confirmed time.Time     // when it was
	Err       error         // of the last poll, nil when it succeeded or when there was none yet
}

// Up tells whether the last poll succeeded.
func (s TipState) Up() bool { return s.Known && s.Err == nil }

// ErrWatching is returned by a second Watch at the same time.
var ErrWatching = errors.New("the tip is being watched already")

// tipWatcher holds the state that Watch writes and everybody reads.
type tipWatcher struct {
	state     atomic.Pointer[tipSnapshot]
	following atomic.Bool
	running   atomic.Bool
	wake      chan struct{} // holds a token when the next poll must not wait
	hint      atomic.Pointer[chain.BlockID]
}

// tipSnapshot is a state and the channel that is closed when it is no longer true.
type tipSnapshot struct {
	TipState
	changed chan struct{}
}

func (t *tipWatcher) init() {
	t.wake = make(chan struct{}, 1)
	t.state.Store(&tipSnapshot{changed: make(chan struct{})})
}

// Watch polls the tip until ctx ends, and then returns nil. It runs in its caller's goroutine, once at a time: a second one gets
// ErrWatching. Failing polls do not end it.
func (c *Client) Watch(ctx context.Context) error {
	if !c.tip.running.CompareAndSwap(false, true) {
		return ErrWatching
	}
	defer c.tip.running.Store(false)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var hints hintJudge
	var outage outageLog
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.tip.wake:
		case <-timer.C:
		}
		hint := c.tip.hint.Swap(nil)
		id, err := c.BestBlock(ctx)
		if ctx.Err() != nil {
			return nil
		}
		was, is := c.tip.note(id, err)
		if is.Up() && !was.Up() {
			c.log.Info("zebra answers", "url", c.url, "height", is.ID.Height, "hash", is.ID.Hash.String())
		}
		outage.look(c.log, err)
		if hint != nil && err == nil && hints.foreign(*hint, id) {
			c.log.Warn("the tip stream names blocks that this node does not: are rpc.listen_addr and rpc.indexer_listen_addr those of one node?",
				"url", c.url, "tip", id.String(), "stream", hint.String())
		}
		pause := c.options.PollIdle
		if err == nil && c.tip.following.Load() {
			pause = c.options.PollFollowing
		}
		timer.Reset(pause)
	}
}

// note publishes the outcome of a poll, and returns the states before and after it.
func (t *tipWatcher) note(id chain.BlockID, err error) (was, is TipState) {
	old := t.state.Load()
	s := &tipSnapshot{TipState: old.TipState, changed: old.changed}
	s.Err = err
	if err == nil {
		s.ID, s.Known, s.Confirmed = id, true, time.Now()
	}
	same := s.ID == old.ID && s.Up() == old.Up() && (s.Err == nil) == (old.Err == nil)
	if !same {
		s.changed = make(chan struct{})
	}
	t.state.Store(s)
	if !same {
		close(old.changed)
	}
	return old.TipState, s.TipState
}

// reasonPause is the least time between two reasons for one outage in the log: a node that is falling over gives several in turn.
const reasonPause = 10 * time.Second

// outageLog tells why Zebra cannot be asked: when an outage begins, and when its reason has become another, as a refused connection
// becomes a refused cookie when the node is up.
type outageLog struct {
	reason string    // that was told last
	at     time.Time // when; zero: Zebra answers
}

// look takes the outcome of a poll.
func (o *outageLog) look(log *slog.Logger, err error) {
	if err == nil {
		*o = outageLog{}
		return
	}
	reason, text := reasonOf(err), "zebra cannot be asked"
	if !o.at.IsZero() {
		if reason == o.reason || time.Since(o.at) < reasonPause {
			return
		}
		text = "zebra still cannot be asked, now for another reason"
	}
	o.reason, o.at = reason, time.Now()
	log.Warn(text, "err", err)
}

// reasonOf tells failures apart that call for different things to be done. Texts of the operating system do not: they name ports that
// are others each time.
func reasonOf(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return ""
	}
	return fmt.Sprint(e.Class, e.Code, e.HTTPStatus, e.Hint)
}

// SetFollowing makes Watch poll at Options.PollFollowing, from now on, instead of PollIdle.
func (c *Client) SetFollowing(following bool) {
	if c.tip.following.Swap(following) || !following {
		return
	}
	c.tip.wakeUp()
}

// Hint makes Watch poll at once, unless it knows that tip already: somebody heard of it. What the tip is, only the poll says.
func (c *Client) Hint(tip chain.BlockID) {
	if s := c.Tip(); s.Up() && s.ID == tip {
		return
	}
	c.tip.hint.Store(&tip)
	c.tip.wakeUp()
}

func (t *tipWatcher) wakeUp() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// hintJudge finds out whether hints are about another chain. Single ones are wrong in all honesty: the tip has moved on before the poll.
type hintJudge struct {
	since time.Time // of the first hint after the last that was right
	count int
	told  bool
}

// A chain is foreign when foreignHints in a row were wrong, for foreignTime.
const (
	foreignHints = 3
	foreignTime  = time.Minute
)

// foreign takes a hint and what the poll after it found, and tells once when they are about different chains.
func (j *hintJudge) foreign(hint, found chain.BlockID) bool {
	if hint == found {
		*j = hintJudge{}
		return false
	}
	if j.count++; j.count == 1 {
		j.since = time.Now()
	}
	if j.told || j.count < foreignHints || time.Since(j.since) < foreignTime {
		return false
	}
	j.told = true
	return true
}

// Tip returns what Watch found last, without waiting for anything.
func (c *Client) Tip() TipState { return c.tip.state.Load().TipState }

// Changed returns a channel that is closed at the next change of the tip, or when Zebra begins or ceases to answer. Get the channel
// first and the Tip after, so that no change is missed.
func (c *Client) Changed() <-chan struct{} { return c.tip.state.Load().changed }
