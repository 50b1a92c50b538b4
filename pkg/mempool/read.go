package mempool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// fetchers is how many new transactions are asked for at one time. More would not be faster on a node with a few cores, and would take
// a larger part of the requests that all its clients share.
const fetchers = 8

// reader is what Run knows of the mempool's transactions.
type reader struct {
	maxBytes int64
	known    map[chain.TxID]*chain.PooledTransaction // those of the last poll that fetched any
	bytes    int64                                   // of them
	leftOut  int                                     // by the last poll

	// slots are those of the known transactions and of those that have left since forget: one that comes back keeps its slot.
	slots map[chain.TxID]int
	free  []int
	tips  uint64 // state.tips at the last forget

	encoders sync.Pool
}

func newReader(maxBytes int64) reader {
	return reader{
		maxBytes: maxBytes, known: make(map[chain.TxID]*chain.PooledTransaction), slots: make(map[chain.TxID]int),
		encoders: sync.Pool{New: func() any { return chain.NewEncoder(chain.EncoderOptions{}) }},
	}
}

// forget takes the slots back of transactions that have left the mempool. No follower may be left that knows them.
func (r *reader) forget(tips uint64) {
	r.tips = tips
	for id, slot := range r.slots {
		if r.known[id] == nil {
			delete(r.slots, id)
			r.free = append(r.free, slot)
		}
	}
}

// slot gives a transaction its number.
func (r *reader) slot(id chain.TxID) int {
	slot, ok := r.slots[id]
	if !ok {
		slot = len(r.slots)
		if last := len(r.free) - 1; last >= 0 {
			slot, r.free = r.free[last], r.free[:last]
		}
		r.slots[id] = slot
	}
	return slot
}

// read asks the node for the ids in its mempool, and for the transactions that were not there before. What was fetched before an error
// is kept for the next time.
func (p *Pool) read(ctx context.Context) ([]*chain.PooledTransaction, error) {
	ids, err := p.node.MempoolIDs(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the mempool: %w", err)
	}
	slices.SortFunc(ids, compareDisplay)
	ids = slices.Compact(ids)
	if err := p.fetch(ctx, ids); err != nil {
		return nil, fmt.Errorf("read the mempool: %w", err)
	}
	txs := make([]*chain.PooledTransaction, 0, len(ids))
	for _, id := range ids {
		if tx := p.reader.known[id]; tx != nil {
			txs = append(txs, tx)
		}
	}
	return txs, nil
}

// fetch brings p.reader.known in line with ids. Transactions that are gone when they are asked for are left out.
func (p *Pool) fetch(ctx context.Context, ids []chain.TxID) error {
	r := &p.reader
	kept := make(map[chain.TxID]*chain.PooledTransaction, len(ids))
	var missing []chain.TxID
	bytes := int64(0)
	for _, id := range ids {
		if tx := r.known[id]; tx != nil {
			kept[id] = tx
			bytes += size(tx)
		} else {
			missing = append(missing, id)
		}
	}
	var held atomic.Int64
	held.Store(bytes)
	fetched := make([]*chain.PooledTransaction, len(missing))
	var leftOut atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetchers)
	for i, id := range missing {
		g.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err() // another one has failed
			}
			if held.Load() >= r.maxBytes {
				leftOut.Add(1)
				return nil
			}
			tx, err := p.fetchOne(ctx, id)
			if err == nil && tx != nil {
				fetched[i] = tx
				held.Add(size(tx))
			}
			return err
		})
	}
	err := g.Wait()
	for _, tx := range fetched {
		if tx != nil {
			kept[tx.ID] = tx
			tx.Slot = r.slot(tx.ID)
		}
	}
	r.known, r.bytes, r.leftOut = kept, held.Load(), int(leftOut.Load())
	return err
}

// fetchOne returns a transaction, parsed as far as possible; nil when the node does not have it any more.
func (p *Pool) fetchOne(ctx context.Context, id chain.TxID) (*chain.PooledTransaction, error) {
	raw, err := p.node.RawTransaction(ctx, id)
	if errors.Is(err, chain.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tx := &chain.PooledTransaction{ID: id, Raw: raw}
	encoder := p.reader.encoders.Get().(*chain.Encoder)
	defer p.reader.encoders.Put(encoder)
	err = chain.Guard(func() error {
		parsed, err := encoder.Transaction(raw)
		if err != nil {
			return err
		}
		if parsed.ID != id {
			return fmt.Errorf("its id is %s", parsed.ID)
		}
		tx.Frame = parsed.AppendTxFrame(nil, chain.DefaultProjection)
		tx.Parsed = &parsed
		return nil
	})
	if err != nil {
		p.unreadable.Add(1)
		p.log.Warn("a transaction of the mempool cannot be shown", "txid", id.String(), "bytes", len(raw), "err", err)
		if bug := (*chain.Panic)(nil); errors.As(err, &bug) {
			p.log.Error("a transaction of the mempool made us panic", "txid", id.String(), "err", err, "stack", string(bug.Stack))
		}
	}
	return tx, nil
}

func size(tx *chain.PooledTransaction) int64 { return int64(len(tx.Raw) + len(tx.Frame)) }

// compareDisplay orders ids as their display forms.
func compareDisplay(a, b chain.TxID) int {
	for i := len(a) - 1; i >= 0; i-- {
		if a[i] != b[i] {
			return cmp.Compare(a[i], b[i])
		}
	}
	return 0
}
