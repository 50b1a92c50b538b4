package bench

import (
	"context"
	"fmt"
	"time"
)

// The probe: a short range, asked for at a steady pace.
const (
	probeLength   = 100
	probeRanges   = 50
	probesOfRound = 20
	probePace     = 5 // in the time of a round: ten a second when that is half one
)

// What it is read beside.
const (
	fullSpeedReaders = 8
	stalledReaders   = 64
	equalReaders     = 128
)

// stalledCases measures whether clients that take all, and clients that take nothing, take it from others.
func stalledCases(r *run) []testCase {
	fast, still := min(fullSpeedReaders, r.options.Most), min(stalledReaders, r.options.Most)
	return []testCase{
		r.probeCase("probe alone", 0, 0),
		r.probeCase(fmt.Sprintf("probe beside %d stalled", still), 0, still),
		r.probeCase(fmt.Sprintf("probe beside %d at full speed and %d stalled", fast, still), fast, still),
		r.equalCase(),
	}
}

// beside is what the probe is read beside, at one target.
type beside struct {
	probe   asker
	readers crowd
	stalled []*CountingClient
	stop    context.CancelFunc
}

// probeCase reads the probe beside others.
func (r *run) probeCase(name string, fullSpeed, stalled int) testCase {
	c := testCase{name: name, client: Counting, clients: 1 + fullSpeed + stalled, length: probeLength}
	c.questions = r.chain.stretches(probeRanges, probeLength)
	if len(c.questions) == 0 {
		c.skip = "the chain has too few blocks"
		return c
	}
	c.measure = func(ctx context.Context, t *target) (got round, err error) {
		// The others are there for one round only: those of one target must not disturb the round of another.
		b := &beside{probe: &countingAsker{options: t.options}}
		ctx, b.stop = context.WithCancel(ctx)
		defer b.close()
		whole := blockRange(r.chain.first, r.chain.last)
		for range stalled {
			client, err := stall(ctx, t.options, whole)
			if err != nil {
				return got, err
			}
			b.stalled = append(b.stalled, client)
		}
		others, err := r.startCrowd(ctx, t, r.chain.first, r.chain.last, fullSpeed)
		if err != nil {
			return got, err
		}
		b.readers = others
		got, err = r.probe(ctx, t, b.probe, c.questions)
		if err == nil {
			err = b.readers.failed()
		}
		return got, err
	}
	return c
}

func (b *beside) close() {
	b.stop()
	b.probe.close()
	for _, client := range b.stalled {
		client.Close()
	}
	if b.readers != nil {
		b.readers.stop()
	}
}

// probe asks at a steady pace.
func (r *run) probe(ctx context.Context, t *target, a asker, questions []*question) (round, error) {
	var got round
	ticker := time.NewTicker(r.options.RoundTime / probePace)
	defer ticker.Stop()
	for i := range probesOfRound {
		select {
		case <-ctx.Done():
			return got, ctx.Err()
		case <-ticker.C:
		}
		if _, err := r.ask(ctx, t, a, questions[i%len(questions)], &got); err != nil {
			return got, err
		}
	}
	got.blocks, got.bytes, got.calls = 0, 0, 0 // at a steady pace there are no rates
	return got, nil
}

// stall asks for the whole chain, reads one block and then nothing more. The server may send what fits into the window and into the
// kernel's buffers.
func stall(ctx context.Context, o TargetOptions, whole *question) (*CountingClient, error) {
	client, err := dialFrames(ctx, o.Address, o.TLS, defaultWindow)
	if err != nil {
		return nil, err
	}
	if err := client.start(whole); err != nil {
		client.Close()
		return nil, fmt.Errorf("a reader that is to stand still: %w", err)
	}
	return client, nil
}

// start asks, and returns when the first message is there.
func (c *CountingClient) start(q *question) error {
	asked := time.Now()
	if err := c.wait(asked); err != nil {
		return err
	}
	stream, err := c.call(q.method.name, q.encoded)
	if err != nil {
		return err
	}
	return c.read(&reply{stream: stream, asked: asked}, true)
}

// equalCase has many clients read the whole chain at once, and compares the one that got the least with the one that got the most.
func (r *run) equalCase() testCase {
	window, readers := 20*r.options.RoundTime, min(equalReaders, r.options.Most)
	c := testCase{name: fmt.Sprintf("%d equal readers", readers), client: Counting, clients: readers, rounds: min(r.options.Rounds, 3), cold: true}
	c.measure = func(ctx context.Context, t *target) (round, error) {
		whole := blockRange(r.chain.first, r.chain.last)
		readers, err := startReaders(ctx, t.options, whole, readers)
		if err != nil {
			return round{}, err
		}
		defer readers.stop()
		before, begin := readers.count(), time.Now()
		select {
		case <-ctx.Done():
			return round{}, ctx.Err()
		case <-time.After(window):
		}
		after, took := readers.count(), time.Since(begin)
		if err := readers.failed(); err != nil {
			return round{}, err
		}
		got := shares(before, after, took)
		got.fresh = readers.answered(whole)
		return got, nil
	}
	return c
}

// shares sums up what readers got between two counts.
func shares(before, after []readerCount, took time.Duration) round {
	got := round{took: took}
	least, most := after[0].bytes-before[0].bytes, int64(1)
	for i := range after {
		n := after[i].bytes - before[i].bytes
		least, most = min(least, n), max(most, n)
		messages := after[i].messages - before[i].messages
		got.blocks += messages
		got.bytes += n - 5*messages
	}
	got.values = map[Metric]float64{Share: float64(least) / float64(most)}
	return got
}
