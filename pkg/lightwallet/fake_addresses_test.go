package lightwallet

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// fakeAddresses is what a fakeNode knows of transparent addresses: the same of each, and that it was asked.
type fakeAddresses struct {
	mu    sync.Mutex
	asked []string // guarded by mu
	txs   []chain.LocatedTransaction
	utxos []chain.Utxo
	part  int                         // how many are yielded at a time; 0 means all
	err   error                       // ends every answer
	wait  func(context.Context) error // before each part
}

func (f *fakeAddresses) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
}

// questions returns what was asked so far.
func (f *fakeAddresses) questions() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

func (f *fakeAddresses) AddressBalance(ctx context.Context, addresses []string) (int64, error) {
	f.note("balance %v", addresses)
	if f.wait != nil {
		if err := f.wait(ctx); err != nil {
			return 0, err
		}
	}
	return int64(1000 + len(addresses)), f.err
}

func (f *fakeAddresses) AddressTransactions(ctx context.Context, address string, from, to chain.Height) iter.Seq2[[]chain.LocatedTransaction, error] {
	f.note("transactions %s %d %d", address, from, to)
	return parts(ctx, f, f.txs)
}

func (f *fakeAddresses) AddressUtxos(ctx context.Context, addresses []string, from chain.Height, most uint32) iter.Seq2[[]chain.Utxo, error] {
	f.note("utxos %v %d %d", addresses, from, most)
	return parts(ctx, f, f.utxos)
}

func parts[T any](ctx context.Context, f *fakeAddresses, all []T) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		size := f.part
		if size == 0 {
			size = max(len(all), 1)
		}
		for part := range slices.Chunk(all, size) {
			if f.wait != nil {
				if err := f.wait(ctx); err != nil {
					yield(nil, err)
					return
				}
			}
			if !yield(part, nil) {
				return
			}
		}
		if f.err != nil {
			yield(nil, f.err)
		}
	}
}
