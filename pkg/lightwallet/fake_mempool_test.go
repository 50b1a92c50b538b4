package lightwallet

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// fakeTransactions is what a fakeNode knows of transactions.
type fakeTransactions struct {
	located map[chain.TxID]chain.LocatedTransaction
	lookErr error // of Transaction

	sending    sync.Mutex
	sent       [][]byte // guarded by sending
	sendResult chain.SendResult
	sendErr    error
}

func (f *fakeTransactions) Transaction(_ context.Context, id chain.TxID) (chain.LocatedTransaction, error) {
	if f.lookErr != nil {
		return chain.LocatedTransaction{}, f.lookErr
	}
	tx, ok := f.located[id]
	if !ok {
		return tx, fmt.Errorf("getrawtransaction from http://secret:1: %w: %w", chain.ErrNode, chain.ErrNotFound)
	}
	return tx, nil
}

func (f *fakeTransactions) SendTransaction(_ context.Context, raw []byte) (chain.SendResult, error) {
	f.sending.Lock()
	defer f.sending.Unlock()
	f.sent = append(f.sent, raw)
	return f.sendResult, f.sendErr
}

// fakeMempool is a mempool in memory. Followers see what is there, then what batches brings, until that is closed.
type fakeMempool struct {
	mu        sync.Mutex
	txs       []*chain.PooledTransaction
	err       error
	followErr error
	refreshed int
	batches   chan []*chain.PooledTransaction
}

func newFakeMempool(raw ...[]byte) *fakeMempool {
	return &fakeMempool{txs: pooled(raw...), batches: make(chan []*chain.PooledTransaction)}
}

// pooled are transactions in the order of a snapshot. What does not parse gets its first 32 bytes as id.
func pooled(raw ...[]byte) []*chain.PooledTransaction {
	encoder := chain.NewEncoder(chain.EncoderOptions{})
	var txs []*chain.PooledTransaction
	for _, r := range raw {
		tx := &chain.PooledTransaction{Raw: r}
		if parsed, err := encoder.Transaction(r); err == nil {
			tx.ID, tx.Parsed, tx.Frame = parsed.ID, &parsed, parsed.AppendTxFrame(nil, chain.DefaultProjection)
		} else {
			copy(tx.ID[:], r)
		}
		txs = append(txs, tx)
	}
	sortPooled(txs)
	return txs
}

func sortPooled(txs []*chain.PooledTransaction) {
	slices.SortFunc(txs, func(a, b *chain.PooledTransaction) int { return compareSuffix(&a.ID, b.ID[:]) })
}

func (m *fakeMempool) Snapshot(context.Context) ([]*chain.PooledTransaction, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.txs, m.err
}

func (m *fakeMempool) Follow(ctx context.Context) iter.Seq2[[]*chain.PooledTransaction, error] {
	return func(yield func([]*chain.PooledTransaction, error) bool) {
		txs, err := m.Snapshot(ctx)
		if !yield(txs, err) || err != nil {
			return
		}
		for {
			select {
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			case txs, open := <-m.batches:
				if !open && m.followErr == nil || !yield(txs, m.followErr) || m.followErr != nil {
					return
				}
			}
		}
	}
}

func (m *fakeMempool) Refresh() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refreshed++
}

// mixedTxs are transactions with every mix of pools, one of each.
func mixedTxs(t testing.TB) [][]byte {
	t.Helper()
	var raw [][]byte
	for mix := range 16 {
		tx := chaintest.Tx{Version: 6, Seed: uint64(mix) + 1}
		if mix&1 != 0 {
			tx.Inputs, tx.Outputs = 1, 2
		}
		if mix&2 != 0 {
			tx.Spends, tx.SaplingOutputs = 1, 2
		}
		if mix&4 != 0 {
			tx.Orchard = 2
		}
		if mix&8 != 0 {
			tx.Ironwood = 3
		}
		raw = append(raw, tx.Append(nil))
	}
	return raw
}
