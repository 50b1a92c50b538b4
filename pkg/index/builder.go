package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// BuilderOptions are the delays of a Builder. The zero value is ready for use: a zero field means its default.
type BuilderOptions struct {
	RetryFatal   time.Duration // between attempts after an error that waiting does not cure; 1 minute, and at every change of the tip
	RetryPassing time.Duration // the longest pause after an error that passes; 5 s, approached by doubling
	RetryDisk    time.Duration // between looks at a full disk; 5 s
	// Store.Complete turns false when the index is known to be more than BehindBlocks (10) behind the node's tip, or for longer than
	// BehindFor (30 s).
	BehindBlocks chain.Height
	BehindFor    time.Duration
	// ConfirmDeep is how long the node has to show a chain that leaves ours among sealed blocks before the index is cut to follow it; 30 s.
	ConfirmDeep time.Duration
	// Logger gets one line for what an operator should know. Nil means the Store's.
	Logger *slog.Logger
}

func (o BuilderOptions) withDefaults(s *Store) BuilderOptions {
	o.RetryFatal = cmp.Or(o.RetryFatal, time.Minute)
	o.RetryPassing = cmp.Or(o.RetryPassing, 5*time.Second)
	o.RetryDisk = cmp.Or(o.RetryDisk, 5*time.Second)
	o.BehindBlocks = cmp.Or(o.BehindBlocks, 10)
	o.BehindFor = cmp.Or(o.BehindFor, 30*time.Second)
	o.ConfirmDeep = cmp.Or(o.ConfirmDeep, 30*time.Second)
	o.Logger = cmp.Or(o.Logger, s.o.Logger)
	return o
}

// Builder keeps a Store at the tip of a Node. It is the Store's only writer.
type Builder struct {
	store *Store
	node  Node
	o     BuilderOptions
	log   *slog.Logger

	// What follows belongs to the goroutine of loop.
	segments segmentBatch         // sealed blocks that are not committed yet, on top of the store's tip
	recent   recentBatch          // or recent ones
	checked  chain.Height         // blocks whose tree sizes were compared with the node's, now or by an earlier attempt: the sealed ones, and all of a complete index
	other    otherChain           // which the node has shown, if it leaves ours among sealed blocks
	suspect  bool                 // our tip may be off the node's best chain
	logged   string               // the last error, so that it is logged once
	told     map[string]time.Time // when errors were logged, within logAgain
	changed  <-chan struct{}      // closed when the tip is no longer the one that is followed now; nil: nobody says so

	mu          sync.Mutex
	progress    Progress
	meter       meter
	behindSince time.Time // when the index was first seen behind the node; zero when it is not
	orphaned    bool      // our tip has left the node's chain, and there is no room to rewind
}

// NewBuilder returns a Builder; Run does the work.
func NewBuilder(s *Store, n Node, o BuilderOptions) *Builder {
	o = o.withDefaults(s)
	b := &Builder{store: s, node: n, o: o, log: o.Logger, recent: recentBatch{short: s.o.shortFrame()}, told: make(map[string]time.Time)}
	b.note(StateWaiting, nil)
	return b
}

// Run builds and follows until ctx ends, and then returns nil. The only error that it returns is ErrUnusable: whatever the node or the
// disk does is waited out, and told by Progress.
func (b *Builder) Run(ctx context.Context) error {
	b.node.SetFollowing(b.store.Complete())
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { b.watch(inner); return nil })
	group.Go(func() error { return b.loop(inner) })
	err := group.Wait()
	b.node.SetFollowing(false)
	return err
}

// loop makes attempts. One ends with an error only.
func (b *Builder) loop(ctx context.Context) error {
	failures := 0
	for {
		before := b.store.state.seq
		err := b.attempt(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, ErrUnusable) {
			b.note(StateStopped, err)
			return err
		}
		if failures++; b.store.state.seq != before {
			failures = 1
		}
		pause, state := b.o.RetryFatal, StateStopped
		if passes(err) {
			pause, state = backoff(failures, b.o.RetryPassing), StateWaiting
		} else if errors.Is(err, ErrDeepReorg) {
			pause = min(pause, b.o.ConfirmDeep/(2*confirmLooks))
		}
		changed := b.node.Changed()
		if pruned := (*PrunedError)(nil); errors.As(err, &pruned) {
			changed = nil // a new block does not bring back the old ones
		}
		b.note(state, err)
		b.logOnce(state, err)
		b.wait(ctx, changed, pause)
	}
}

// maxDetours is how often in a row an attempt looks for the fork without getting a block further.
const maxDetours = 3

// passes tells whether waiting a little is all that is needed.
func passes(err error) bool {
	return errors.Is(err, chain.ErrUnavailable) || chainMoved(err) && !errors.Is(err, ErrContradiction)
}

// chainMoved tells whether the node's answers no longer belong to the chain that was asked about.
func chainMoved(err error) bool {
	return errors.Is(err, chain.ErrReorged) || errors.Is(err, chain.ErrNotFound) || errors.Is(err, chain.ErrAboveTip)
}

// backoff doubles from 100 ms to the limit, and takes a random part off so that many clients do not come back together.
func backoff(failures int, limit time.Duration) time.Duration {
	d := min(limit, 100*time.Millisecond<<min(failures-1, 10))
	return d - time.Duration(rand.Int64N(int64(d)/2+1))
}

// logAgain is how long an error that comes and goes is not logged again.
const logAgain = time.Minute

func (b *Builder) logOnce(state State, err error) {
	level, text, now := slog.LevelDebug, sameAs(err), time.Now()
	maps.DeleteFunc(b.told, func(_ string, at time.Time) bool { return now.Sub(at) >= logAgain })
	if _, told := b.told[text]; text != b.logged && !told {
		b.told[text] = now
		level = slog.LevelWarn
		if state == StateStopped {
			level = slog.LevelError
		}
	}
	b.logged = text
	b.log.Log(context.Background(), level, "the index build "+state.String(), "error", err)
}

// sameAs is what is logged once of an error: its text, unless that has numbers or hashes which are others at every look.
func sameAs(err error) string {
	pruned := (*PrunedError)(nil)
	switch {
	case errors.Is(err, ErrDiskFull):
		return ErrDiskFull.Error()
	case errors.Is(err, ErrTooManyFiles):
		return ErrTooManyFiles.Error()
	case errors.As(err, &pruned):
		return fmt.Sprintf("block %d is pruned", pruned.Missing)
	case chainMoved(err) && !errors.Is(err, ErrContradiction): // each time another block of a chain that moves on
		return chain.ErrReorged.Error()
	}
	return err.Error()
}

// wait returns after d, at the change, or when ctx ends.
func (b *Builder) wait(ctx context.Context, changed <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-timer.C:
	}
}

// attempt follows the node until something goes wrong.
func (b *Builder) attempt(ctx context.Context) error {
	b.checked = b.store.state.sealed.blocks
	if b.store.Complete() {
		b.checked = b.store.state.top.blocks
	}
	b.suspect = true
	verified, detours := false, 0
	for {
		changed := b.node.Changed()
		b.changed = changed
		tip, err := b.node.Tip()
		if err != nil {
			b.note(StateWaiting, err)
			b.suspect, verified, b.other = true, false, otherChain{}
			b.wait(ctx, changed, b.o.RetryPassing)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		before := b.store.state.seq
		if !verified {
			err = b.checkGenesis(ctx)
			verified = err == nil
			if err != nil {
				b.store.setApart(err)
			}
		}
		if err == nil {
			err = b.sync(ctx, tip)
		}
		switch {
		case err == nil:
			detours = 0
			if err := b.idle(ctx, tip, changed); err != nil {
				return err
			}
		case errors.Is(err, errTipMoved):
			b.drop()
			b.suspect = true
		case chainMoved(err) && ctx.Err() == nil:
			// Look for the fork at once, but not for ever if the node contradicts itself.
			b.suspect = true
			if detours++; b.store.state.seq != before {
				detours = 1
			}
			if detours > maxDetours && errors.Is(err, chain.ErrReorged) {
				return fmt.Errorf("%w: %w", ErrContradiction, err)
			}
			if detours > maxDetours { // the tip that was polled last is gone, and the next poll will say so
				return err
			}
		default:
			return err
		}
	}
}

// idle waits for the next tip, unless it is there already.
func (b *Builder) idle(ctx context.Context, tip chain.BlockID, changed <-chan struct{}) error {
	b.evaluate()
	if err := b.store.saveComplete(); err != nil && !NoRoom(err) {
		return fmt.Errorf("note whether the index is complete: %w", err)
	}
	b.note(b.working(), nil)
	b.logged = ""
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
			return nil
		case <-b.store.kept.filling:
			if err := b.store.saveState(); err != nil && !NoRoom(err) {
				return fmt.Errorf("write what was kept: %w", err)
			}
		}
	}
}

// checkGenesis makes sure that the node is of the network that the index holds, or should hold.
func (b *Builder) checkGenesis(ctx context.Context) error {
	want := b.store.o.Genesis
	if b.store.state.top.blocks > 0 {
		want = b.store.net.genesis
	}
	genesis, err := b.node.BlockHash(ctx, 0)
	if err != nil {
		return fmt.Errorf("ask the node for its genesis block: %w", err)
	}
	if want != (chain.Hash{}) && genesis != want {
		net := network{genesis: want, name: cmp.Or(b.store.net.name, b.store.o.Network)}
		return fmt.Errorf("%w: %s", ErrOtherNetwork, net.mismatch(b.store.dir, genesis))
	}
	return nil
}

// watch keeps Complete true to what is known of the node, also while loop waits for blocks.
func (b *Builder) watch(ctx context.Context) {
	ticker := time.NewTicker(max(min(b.o.BehindFor/4, time.Second), time.Millisecond))
	defer ticker.Stop()
	for {
		changed := b.node.Changed()
		b.evaluate()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-ticker.C:
		}
	}
}

// setOrphaned notes whether our tip is known to be off the node's chain for as long as there is no room to rewind it.
func (b *Builder) setOrphaned(orphaned bool) {
	b.mu.Lock()
	was := b.orphaned
	b.orphaned = orphaned
	b.mu.Unlock()
	if was != orphaned {
		b.evaluate()
	}
}

// evaluate decides whether the index is complete, and how often the node polls.
func (b *Builder) evaluate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	tip, err := b.node.Tip()
	ours, some := b.store.Tip()
	was := b.store.Complete()
	is := was
	switch {
	case err == nil && some && ours == tip:
		b.behindSince, is = time.Time{}, true
	case b.orphaned:
		is = false
	case err != nil, some && tip.Height < ours.Height:
		b.behindSince = time.Time{} // nothing says that we are behind
	default:
		if b.behindSince.IsZero() {
			b.behindSince = time.Now()
		}
		if !some || tip.Height > ours.Height+b.o.BehindBlocks || time.Since(b.behindSince) > b.o.BehindFor {
			is = false
		}
	}
	if is == was {
		return
	}
	b.store.setComplete(is)
	b.node.SetFollowing(is)
	b.log.Info("the index is "+map[bool]string{true: "complete", false: "behind the node"}[is], "height", ours.Height, "hash", ours.Hash, "node", tip.Height)
}
