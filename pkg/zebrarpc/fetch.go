package zebrarpc

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fastjson"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

const (
	// Between two tries of one block the pause doubles from the first to the last.
	firstBlockPause = 50 * time.Millisecond
	lastBlockPause  = time.Second

	// rangePatience is how long an iteration of Range goes on while a block keeps failing and no other arrives.
	rangePatience = 10 * time.Second

	// earlyRelease is the length of a body, in bytes, from which encoding takes so long that Zebra should work on meanwhile. Below,
	// waking another worker would cost more than it brings.
	earlyRelease = 64 << 10

	// warnEvery is the number of tries of one block between two warnings in the log.
	warnEvery = 15
)

// Blocks yields the blocks from..to of the best chain, both included, descending when from > to. They are fetched by height, several
// at a time as permits allow, verified against their own Merkle root, encoded, and yielded in order, each as soon as it has come. That
// they link to each other is for the caller to check.
//
// A yielded block is valid until the next step of the iteration. Passing errors are repeated block by block, while the others flow
// on: by Build until ctx ends, by Range until nothing has come for ten seconds. Any other error is yielded after every block before
// it, and ends the iteration; above the tip that is an answerable error that matches chain.ErrAboveTip. When ctx ends, so does the
// iteration, with ctx's error. A Range of one block is a single question like any other: somebody waits for just that.
func (c *Client) Blocks(ctx context.Context, from, to chain.Height, class Class) iter.Seq2[chain.Fetched, error] {
	if from == to && class == Range {
		return c.oneBlock(ctx, from)
	}
	return func(yield func(chain.Fetched, error) bool) {
		f := newFetch(ctx, c, from, to, class)
		defer f.stop()
		f.spawn()
		for range f.count {
			b, nextReady, err := f.flow.take(ctx)
			if err != nil {
				if ctx.Err() != nil {
					err = fmt.Errorf("getblock heights %d to %d from %s: %w", from, to, c.url, ctx.Err())
				}
				yield(chain.Fetched{}, err)
				return
			}
			more := yield(chain.Fetched{Block: b, NextReady: nextReady}, nil)
			c.blocks.put(b)
			if !more {
				return
			}
		}
	}
}

// fetch is one iteration of Blocks with its workers.
type fetch struct {
	client *Client
	ctx    context.Context // of the workers; ends with the iteration
	cancel context.CancelFunc
	from   chain.Height
	down   bool
	count  int
	class  Class
	flow   *flow

	workers sync.WaitGroup
	spawned atomic.Int32
	most    int32        // workers
	begun   time.Time    // of the iteration
	arrival atomic.Int64 // of the last block that came, nanoseconds after begun: the clock on the wall may jump
}

func newFetch(ctx context.Context, c *Client, from, to chain.Height, class Class) *fetch {
	f := &fetch{client: c, from: from, down: from > to, class: class, begun: time.Now()}
	f.count = int(max(from, to)) - int(min(from, to)) + 1
	// A worker that encodes a large block has given its permit back: there are more workers than permits, to use all of those meanwhile.
	f.most = int32(min(f.count, c.options.InFlight+runtime.GOMAXPROCS(0)))
	f.ctx, f.cancel = context.WithCancel(ctx)
	f.flow = newFlow(c.permits, class, chain.ClientOf(ctx), f.count)
	return f
}

// stop ends the workers and waits for them.
func (f *fetch) stop() {
	f.flow.close()
	f.cancel()
	f.workers.Wait()
	for _, b := range f.flow.remove() {
		f.client.blocks.put(b)
	}
}

// spawn starts a worker, unless there are enough. Each worker spawns the next one when it has got something to do.
func (f *fetch) spawn() {
	if f.spawned.Add(1) <= f.most {
		f.workers.Go(f.work)
	}
}

func (f *fetch) work() {
	encoder := f.client.encoders.get()
	defer f.client.encoders.put(encoder)
	w := newFlowWaiter()
	i, ok := f.flow.begin(w)
	if !ok {
		return
	}
	f.spawn()
	for ok {
		b, err := f.fetch(w, i, encoder)
		i, ok = f.flow.deliver(w, i, b, err)
	}
}

func (f *fetch) height(i int) chain.Height {
	if f.down {
		return f.from - chain.Height(i)
	}
	return f.from + chain.Height(i)
}

// fetch gets block i, for which w has a permit, and repeats that after passing errors.
func (f *fetch) fetch(w *flowWaiter, i int, encoder *chain.Encoder) (*chain.Block, error) {
	var begun time.Time
	pause := firstBlockPause
	for try := 1; ; try++ {
		b, err := f.once(w, f.height(i), encoder)
		now := time.Now()
		if err == nil {
			f.arrival.Store(int64(now.Sub(f.begun)))
			return b, nil
		}
		if begun.IsZero() {
			begun = now
		}
		if f.ctx.Err() != nil || !errors.Is(err, chain.ErrUnavailable) || f.outOfPatience(begun, now) {
			return nil, err
		}
		if try%warnEvery == 0 {
			f.client.log.Warn("zebra: a block cannot be had yet", "height", f.height(i), "tries", try, "err", err)
		}
		f.flow.release(w, err)
		select {
		case <-time.After(jitter(pause)):
		case <-f.ctx.Done():
			return nil, err
		}
		pause = min(2*pause, lastBlockPause)
		if !f.flow.again(w, i) {
			return nil, err
		}
		f.client.stats.retries.Add(1)
	}
}

// outOfPatience tells whether an iteration of Range should report the error of a block that has been failing since begun.
func (f *fetch) outOfPatience(begun, now time.Time) bool {
	quiet := now.Sub(f.begun) - time.Duration(f.arrival.Load())
	return f.class == Range && now.Sub(begun) >= rangePatience && quiet >= rangePatience
}

// once asks for the block of a height and encodes it. The permit for a large block goes back as soon as its body is here.
func (f *fetch) once(w *flowWaiter, h chain.Height, encoder *chain.Encoder) (*chain.Block, error) {
	c, q := f.client, rawQuery(h)
	if err := c.checkHeight(&q, h); err != nil {
		return nil, err
	}
	a, err := c.send(f.ctx, &q, func(size int) { f.flow.expect(w, int64(size)) })
	if err != nil {
		q.subject = atHeight(h)
		c.stats.failed(q.method, err)
		return nil, c.locate(&q, err)
	}
	if len(*a.body) >= earlyRelease {
		f.flow.release(w, nil)
	}
	return c.encoded(&q, a, h, encoder)
}

// oneBlock is Blocks for a Range of one block: an interactive call.
func (c *Client) oneBlock(ctx context.Context, h chain.Height) iter.Seq2[chain.Fetched, error] {
	return func(yield func(chain.Fetched, error) bool) {
		b, err := c.block(ctx, h)
		if err != nil {
			yield(chain.Fetched{}, err)
			return
		}
		defer c.blocks.put(b)
		yield(chain.Fetched{Block: b}, nil)
	}
}

// block asks for the best chain's block of a height and encodes it.
func (c *Client) block(ctx context.Context, h chain.Height) (*chain.Block, error) {
	q := rawQuery(h)
	q.subject, q.tries = atHeight(h), callTries
	if err := c.checkHeight(&q, h); err != nil {
		return nil, err
	}
	a, err := c.interactive(ctx, &q)
	if err != nil {
		return nil, c.locate(&q, err)
	}
	encoder := c.encoders.get()
	defer c.encoders.put(encoder)
	return c.encoded(&q, a, h, encoder)
}

// encoded makes the block of a reply. An error names the height, and the hash if it got as far as that.
func (c *Client) encoded(q *query, a *call, h chain.Height, encoder *chain.Encoder) (*chain.Block, error) {
	var b *chain.Block
	err := c.read(q, a, func(p *fastjson.Parser) error {
		made := false
		defer func() {
			if made {
				return
			}
			if q.subject = atHeight(h); b != nil && b.ID.Hash != (chain.Hash{}) {
				q.subject += ", " + withHash(b.ID.Hash)
			}
		}()
		raw, err := rawResult(p, *a.body, a.id)
		if err != nil {
			return err
		}
		b = c.blocks.get(len(raw))
		b.ID = chain.BlockID{}
		if err = encoder.Encode(b, h, raw); err == nil {
			made = true
			return nil
		}
		e := &Error{Class: Fatal, Err: err, Hint: hintBlock}
		if errors.Is(err, chain.ErrUnknownVersion) {
			e.Hint = hintVersion
		}
		return e
	})
	if err != nil {
		return nil, about(err, chain.ErrAboveTip)
	}
	return b, nil
}

// encoderPool lends encoders, which are for one goroutine each.
type encoderPool struct {
	options chain.EncoderOptions
	pool    sync.Pool
}

func (p *encoderPool) get() *chain.Encoder {
	if e, ok := p.pool.Get().(*chain.Encoder); ok {
		return e
	}
	return chain.NewEncoder(p.options)
}

func (p *encoderPool) put(e *chain.Encoder) { p.pool.Put(e) }
