package zebrarpc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

const (
	// patientInFlight bounds the questions about addresses that are at Zebra at one time, with the transactions that such an answer
	// consists of. Each occupies one of Zebra's threads with scans of its database; half of what bulk has by default leaves the build
	// and the ranges of blocks two thirds of a busy node.
	patientInFlight = 8

	// transactionsAtOnce are read for one answer before any of them is passed on, transactionsInFlight of them at the same time. Most
	// have a few kB, and none 2 MB or more: after transactionsBytes no more are begun. A reader who stops reading holds that, or, when
	// many do so, what the shelf has room for.
	transactionsAtOnce    = 16
	transactionsInFlight  = 4
	transactionsBytes     = 1 << 20
	leastTransactionBytes = 32 << 10
)

// minedTransactions reads the first of the transactions that Zebra has just named, at least one and as many as make a part, several at
// the same time. One that it does not have any more was in a block that left the best chain: chain.ErrReorged.
func (c *Client) minedTransactions(ctx context.Context, ids []chain.TxID) ([]chain.LocatedTransaction, error) {
	txs, n := make([]chain.LocatedTransaction, min(len(ids), transactionsAtOnce)), 0
	most := int64(c.shelf.room(1, leastTransactionBytes, transactionsBytes))
	var bytes atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(transactionsInFlight)
	for i, id := range ids[:len(txs)] {
		if bytes.Load() >= most {
			break
		}
		n++
		g.Go(func() (err error) {
			q := transactionQuery(id, 1)
			q.patient = true
			txs[i], err = c.locatedTransaction(ctx, &q, id)
			bytes.Add(int64(len(txs[i].Raw)))
			if err = aboutTransaction(err); errors.Is(err, chain.ErrNotFound) {
				err = fmt.Errorf("%v: %w", err, chain.ErrReorged) // whoever called did not ask for it, so it is not NOT_FOUND
			}
			return unexpected(err)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return txs[:n], nil
}
