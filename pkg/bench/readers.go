package bench

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// readers read the same range again and again without a pause, each on a connection of its own, until they are stopped.
type readers struct {
	clients []*CountingClient
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex // guards what follows
	err   error      // the first that was not the stop
	whole *Answer    // the first that came to its end; nil: none has
}

// readerCount is what a reader got so far.
type readerCount struct{ messages, bytes int64 }

// startReaders returns when every reader has got its first block.
func startReaders(ctx context.Context, o TargetOptions, q *question, n int) (*readers, error) {
	rs := &readers{}
	ctx, rs.cancel = context.WithCancel(ctx)
	for range n {
		client, err := DialCounting(ctx, o.Address, o.TLS)
		if err != nil {
			rs.stop()
			return nil, err
		}
		rs.clients = append(rs.clients, client)
		rs.running.Go(func() { rs.read(ctx, client, q) })
	}
	if err := rs.await(ctx); err != nil {
		rs.stop()
		return nil, err
	}
	return rs, nil
}

// read reads until the context ends or something is wrong.
func (rs *readers) read(ctx context.Context, client *CountingClient, q *question) {
	for {
		got, err := client.Ask(q.method.name, q.encoded)
		if err == nil {
			err = rs.expect(q, got)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			rs.mu.Lock()
			if rs.err == nil {
				rs.err = fmt.Errorf("a reader at full speed: %w", err)
			}
			rs.mu.Unlock()
			return
		}
	}
}

// expect holds a whole answer against the first one of all readers.
func (rs *readers) expect(q *question, got Answer) error {
	if err := q.checkCount(got); err != nil {
		return err
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.whole == nil {
		rs.whole = &got
	}
	return q.sameBytes(got, *rs.whole)
}

// answered is the question with the answer that every reader had whose answer came to its end; nothing when none did.
func (rs *readers) answered(q *question) []answered {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.whole == nil {
		return nil
	}
	return []answered{{q, *rs.whole}}
}

// await waits for the first block of every reader.
func (rs *readers) await(ctx context.Context) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	late := time.After(callLimit)
	for _, client := range rs.clients {
		for client.Messages() == 0 {
			err := rs.failed()
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-late:
				err = fmt.Errorf("a reader has got nothing within %v", callLimit)
			case <-ticker.C:
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (rs *readers) failed() error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.err
}

// count is what each reader got so far.
func (rs *readers) count() (counts []readerCount) {
	for _, client := range rs.clients {
		counts = append(counts, readerCount{client.Messages(), client.Bytes()})
	}
	return counts
}

// stop ends all readers.
func (rs *readers) stop() {
	rs.cancel() // which closes the connections
	rs.running.Wait()
	for _, client := range rs.clients {
		client.Close()
	}
}
