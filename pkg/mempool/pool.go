package mempool

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

const (
	// MaxAge is how old a snapshot may be, counted from the moment in which the node was asked for it.
	MaxAge = 2 * time.Second

	// DefaultMaxBytes is three times what Zebra's own limit (mempool.tx_cost_limit) lets into its mempool by default.
	DefaultMaxBytes = 256 << 20

	// How long after a poll the next one is: while somebody follows, so that new transactions show within a second, and for some time
	// after somebody has asked, so that who asks every few seconds need not wait.
	followPause = 400 * time.Millisecond
	recentPause = time.Second
	recently    = 10 * time.Second

	// leastPause keeps waiting callers from making Zebra answer more often than ten times a second.
	leastPause = 100 * time.Millisecond

	// tipPause is the time between two looks at the tip while somebody follows.
	tipPause = 100 * time.Millisecond

	// outagePatience is how long polls may fail before followers are told.
	outagePatience = 10 * time.Second
)

// Node answers what is in the mempool.
type Node interface {
	// MempoolIDs returns the ids of the transactions in the mempool, in any order.
	MempoolIDs(ctx context.Context) ([]chain.TxID, error)
	// RawTransaction returns a transaction; chain.ErrNotFound when it has left the mempool and is nowhere else.
	RawTransaction(ctx context.Context, id chain.TxID) ([]byte, error)
}

// Options of a Pool. Tip is required.
type Options struct {
	// Tip is the tip that wallets are told: when a follower ends, it is what they ask for next. It must answer at once.
	Tip func(ctx context.Context) (chain.BlockID, error)

	MaxBytes int64        // of raw transactions and compact forms; 0 means DefaultMaxBytes
	Logger   *slog.Logger // nil means slog.Default()
}

// Stats are a Pool's counters.
type Stats struct {
	Transactions int   // in the last snapshot
	Bytes        int64 // of them, compact forms included
	LeftOut      int   // of the node's mempool, because of MaxBytes
	Followers    int

	Polls      uint64 // since New
	Unreadable uint64 // transactions since New that could not be parsed
}

// Pool is a copy of a node's mempool. Its methods are safe for concurrent use.
type Pool struct {
	node Node
	tip  func(context.Context) (chain.BlockID, error)
	log  *slog.Logger

	wake       chan struct{} // holds a token when somebody waits for a poll
	ended      chan struct{} // closed when Run has returned
	unreadable atomic.Uint64

	reading sync.Mutex // held while the tip is read and published, so that readings are published in order

	mu        sync.Mutex // guards what follows
	state     state
	polled    chan struct{} // closed when a poll ends
	changed   chan struct{} // closed when the transactions, the tip or the error are no longer those of state
	begun     uint64        // polls; the last one runs while it is above state.done
	begunAt   time.Time     // when the last one did
	least     uint64        // a snapshot of an earlier poll lacks a transaction that was sent
	asked     time.Time     // when somebody asked for a snapshot last
	followers int

	reader reader // owned by Run
}

// state is what the pool knows.
type state struct {
	txs  []*chain.PooledTransaction // ascending by id in display order
	poll uint64                     // the poll that they are of; 0: there was none
	at   time.Time                  // when that began

	done    uint64    // the last poll that ended
	err     error     // of it
	failing time.Time // when the first of the failing polls ended; zero when the last one did not fail

	tip     chain.BlockID
	tips    uint64 // how often tip has changed
	leftOut int
	bytes   int64
}

// New returns a Pool, which answers once Run runs.
func New(node Node, o Options) *Pool {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Pool{
		node: node, tip: o.Tip, log: o.Logger,
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
		polled: make(chan struct{}), changed: make(chan struct{}),
		reader: newReader(o.MaxBytes),
	}
}

// Run polls the node when there is somebody to poll it for, until ctx ends, and then returns nil. It is called once.
func (p *Pool) Run(ctx context.Context) error {
	defer close(p.ended)
	var loops errgroup.Group
	loops.Go(func() error { p.watchTip(ctx); return nil })
	p.pollLoop(ctx)
	return loops.Wait()
}

func (p *Pool) pollLoop(ctx context.Context) {
	for {
		var tick <-chan time.Time
		if pause := p.pause(); pause > 0 {
			tick = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-tick:
		}
		p.mu.Lock()
		early := leastPause - time.Since(p.begunAt)
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(early):
		}
		p.poll(ctx)
	}
}

// pause is the time to the next poll, 0 when nobody needs one.
func (p *Pool) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.followers > 0:
		return followPause
	case time.Since(p.asked) < recently:
		return recentPause
	}
	return 0
}

// poll asks the node and publishes what came of it.
func (p *Pool) poll(ctx context.Context) {
	p.mu.Lock()
	p.begun++
	number, at := p.begun, time.Now()
	p.begunAt = at
	if p.followers == 0 || p.state.tips != p.reader.tips {
		p.reader.forget(p.state.tips) // followers of the tip before have ended, or do so when they look at the state next
	}
	p.mu.Unlock()

	txs, err := p.read(ctx)

	p.mu.Lock()
	s := p.state
	s.done, s.err = number, err
	switch {
	case err == nil:
		s.txs, s.poll, s.at, s.failing = txs, number, at, time.Time{}
		s.leftOut, s.bytes = p.reader.leftOut, p.reader.bytes
	case s.failing.IsZero():
		s.failing = time.Now()
	}
	first := err != nil && p.state.failing.IsZero()
	same := err == nil && p.state.err == nil && slices.Equal(txs, p.state.txs)
	p.state = s
	broadcast(&p.polled)
	if !same { // most polls bring nothing: thousands of followers sleep on
		broadcast(&p.changed)
	}
	p.mu.Unlock()
	if first && ctx.Err() == nil {
		p.log.Warn("the mempool cannot be read", "err", err)
	}
}

// broadcast wakes everybody who waits for the channel, and makes the next one.
func broadcast(c *chan struct{}) {
	close(*c)
	*c = make(chan struct{})
}

// watchTip publishes changes of the tip while somebody follows.
func (p *Pool) watchTip(ctx context.Context) {
	ticker := time.NewTicker(tipPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		p.mu.Lock()
		followed := p.followers > 0
		p.mu.Unlock()
		if followed {
			_, _ = p.readTip(ctx) // while it is not known it has not changed either
		}
	}
}

// readTip reads the tip and publishes it when it is another one. It returns how often the tip has changed.
func (p *Pool) readTip(ctx context.Context) (uint64, error) {
	p.reading.Lock()
	defer p.reading.Unlock()
	tip, err := p.tip(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the tip: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.tip != tip {
		p.state.tip = tip
		p.state.tips++
		broadcast(&p.changed)
	}
	return p.state.tips, nil
}

// nudge has a poll begin soon.
func (p *Pool) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Stats returns the counters.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{
		Transactions: len(p.state.txs), Bytes: p.state.bytes, LeftOut: p.state.leftOut, Followers: p.followers,
		Polls: p.state.done, Unreadable: p.unreadable.Load(),
	}
}
