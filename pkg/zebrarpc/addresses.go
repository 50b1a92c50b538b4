package zebrarpc

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/valyala/fastjson"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// What one question about addresses may take. Zebra refuses results above maxAddressResults.
const (
	addressLimit = 60 * time.Second

	maxAddressResults = 100_000 // zebra-rpc MAX_ADDRESS_QUERY_RESULTS

	// Txids and outputs are read in parts of about this size, so that a reader who stops reading holds one or two MiB and not the whole
	// history of an exchange; the second is for when many do so (shelf.go). A block cannot hold more than maxAddressResults of either.
	txidPage, leastTxids = 20_000, 2_000
	utxoPage, leastUtxos = 10_000, 500
)

// AddressBalance returns the sum in zatoshis of the unspent outputs of the addresses, each of which counts once (getaddressbalance).
// Outputs in the mempool do not count. The addresses, at most 10,000, are in Base58Check.
func (c *Client) AddressBalance(ctx context.Context, addresses []string) (int64, error) {
	q := query{method: getAddressBalance, params: addressObject(addresses, ""), limit: addressLimit, tries: callTries, patient: true}
	balance, err := ask(ctx, c, &q, func(v *fastjson.Value) (int64, error) {
		n, err := unsigned(v, "balance", math.MaxInt64)
		return int64(n), err
	})
	return balance, unexpected(err)
}

// AddressTransactions yields the transactions of the blocks from..to that pay to the address or spend from it, in chain order, some at a
// time (getaddresstxids, then getrawtransaction for each, several at once). What is yielded is valid until the next step.
//
// It ends with chain.ErrReorged when the chain changes so that what was read does not belong together, and with chain.ErrUnavailable
// when Zebra does not have block to. Genesis is left out, as in Zebra's index.
func (c *Client) AddressTransactions(ctx context.Context, address string, from, to chain.Height) iter.Seq2[[]chain.LocatedTransaction, error] {
	return func(yield func([]chain.LocatedTransaction, error) bool) {
		from = max(from, 1)
		if from > to {
			return
		}
		// Zebra cuts a range that ends above its tip, and answers for its tip a range that lies above it: only a range that it has
		// is worth asking for.
		end, err := c.blockHash(ctx, to, true)
		if err != nil {
			yield(nil, asBehind(err, to))
			return
		}
		yielded := false
		for part, err := range c.addressTransactions(ctx, address, from, to) {
			if !yield(part, err) || err != nil {
				return
			}
			yielded = true
		}
		if !yielded {
			return
		}
		if err := c.stillHas(ctx, chain.BlockID{Height: to, Hash: end}); err != nil {
			yield(nil, err)
		}
	}
}

// addressTransactions reads the transactions behind the txids of each part of the range.
func (c *Client) addressTransactions(ctx context.Context, address string, from, to chain.Height) iter.Seq2[[]chain.LocatedTransaction, error] {
	return func(yield func([]chain.LocatedTransaction, error) bool) {
		for part, err := range c.addressTxids(ctx, address, from, to) {
			if err != nil {
				yield(nil, err)
				return
			}
			least := part.from
			for ids := part.ids; len(ids) > 0; {
				txs, err := c.minedTransactions(ctx, ids)
				if err == nil {
					least, err = checkHeights(txs, ids, least, part.to)
				}
				taken := c.shelf.put(bytesOf(txs))
				more := yield(txs, err)
				if taken(); !more || err != nil {
					return
				}
				ids = ids[len(txs):]
			}
		}
	}
}

func bytesOf(txs []chain.LocatedTransaction) (n int) {
	for _, tx := range txs {
		n += len(tx.Raw)
	}
	return n
}

// checkHeights wants the transactions to lie in the part of the chain that their ids were asked from, in its order. It returns the
// height of the last.
func checkHeights(txs []chain.LocatedTransaction, ids []chain.TxID, least, most chain.Height) (chain.Height, error) {
	for i, tx := range txs {
		if tx.Place != chain.Mined || tx.Height < least || tx.Height > most {
			return 0, fmt.Errorf("transaction %s was listed between the heights %d and %d and is elsewhere now: %w", ids[i], least, most, chain.ErrReorged)
		}
		least = tx.Height
	}
	return least, nil
}

// txidPart are the txids of the blocks from..to.
type txidPart struct {
	ids      []chain.TxID
	from, to chain.Height
}

// addressTxids reads the txids of from..to in parts: a range with too many is halved, and grows again where there are few.
func (c *Client) addressTxids(ctx context.Context, address string, from, to chain.Height) iter.Seq2[txidPart, error] {
	return func(yield func(txidPart, error) bool) {
		span := uint64(to-from) + 1
		for start := uint64(from); start <= uint64(to); {
			end := min(start+span-1, uint64(to))
			ids, err := c.addressTxidsOf(ctx, address, chain.Height(start), chain.Height(end))
			page := c.shelf.room(txidBytes, leastTxids, txidPage)
			tooMany := errors.Is(err, chain.ErrTooMany) || len(ids) > page
			if tooMany && start < end {
				span = (end - start + 1) / 2
				continue
			}
			if err != nil {
				yield(txidPart{}, err)
				return
			}
			taken := c.shelf.put(len(ids) * txidBytes)
			more := len(ids) == 0 || yield(txidPart{ids, chain.Height(start), chain.Height(end)}, nil)
			if taken(); !more {
				return
			}
			start = end + 1
			if len(ids) < page/2 {
				span *= 2
			}
		}
	}
}

// addressTxidsOf asks for the txids of from..to, which Zebra must have; from is above 0. More than Zebra gives is chain.ErrTooMany.
func (c *Client) addressTxidsOf(ctx context.Context, address string, from, to chain.Height) ([]chain.TxID, error) {
	q := query{
		method: getAddressTxids, subject: "height " + decimal(from) + " to " + decimal(to),
		params: addressObject([]string{address}, `,"start":`+decimal(from)+`,"end":`+decimal(to)),
		limit:  addressLimit, tries: callTries, patient: true,
	}
	var ids []chain.TxID
	err := askList(ctx, c, &q, `"result":[`, func(i int, item []byte) error {
		id, err := quotedTxID(item)
		if err != nil {
			return fmt.Errorf("txid %d: %w", i, err)
		}
		ids = append(ids, id)
		return nil
	}, nil)
	return ids, tooMany(err)
}

// quotedTxID reads a txid in display order and its quotes.
func quotedTxID(item []byte) (chain.TxID, error) {
	if n := len(item); n >= 2 && item[0] == '"' && item[n-1] == '"' {
		return chain.ParseTxID(string(item[1 : n-1]))
	}
	return chain.TxID{}, fmt.Errorf("it is %.80s, not a string", item)
}

// asBehind makes a height above Zebra's tip what it is to somebody who knows that the block exists: a node that is behind.
func asBehind(err error, h chain.Height) error {
	if !errors.Is(err, chain.ErrAboveTip) {
		return err
	}
	return fmt.Errorf("zebra has no block %d at present: %v: %w", h, err, chain.ErrUnavailable)
}

// stillHas returns chain.ErrReorged when the block is no longer in Zebra's best chain.
func (c *Client) stillHas(ctx context.Context, id chain.BlockID) error {
	hash, err := c.blockHash(ctx, id.Height, true)
	switch {
	case errors.Is(err, chain.ErrAboveTip):
		return fmt.Errorf("block %s is gone: %w", id, chain.ErrReorged)
	case err == nil && hash != id.Hash:
		return fmt.Errorf("block %s was replaced by %s: %w", id, hash, chain.ErrReorged)
	}
	return err
}

// addressObject is the JSON object that the address methods take. Addresses are checked ones: letters and digits, nothing to escape.
func addressObject(addresses []string, more string) string {
	size := len(`{"addresses":[]}`) + len(more)
	for _, a := range addresses {
		size += len(a) + len(`"",`)
	}
	b := append(make([]byte, 0, size), `{"addresses":[`...)
	for i, a := range addresses {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), a...), '"')
	}
	b = append(append(b, ']'), more...)
	return string(append(b, '}'))
}

// tooMany gives Zebra's refusal of a large result its meaning.
func tooMany(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Class == Answerable && e.Code == -8 {
		e.Err = chain.ErrTooMany
		return err
	}
	return unexpected(err)
}

// unexpected makes Zebra's refusal of a question that was checked before it was asked the node's fault.
func unexpected(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Class == Answerable {
		e.Class, e.Hint = Fatal, hintReply
	}
	return err
}
