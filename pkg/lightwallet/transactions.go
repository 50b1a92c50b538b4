package lightwallet

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// Transactions is what only the node knows of single transactions. *zebrarpc.Client implements it.
type Transactions interface {
	// Transaction returns a transaction and where the node has it now. ErrNotFound when it has it nowhere.
	Transaction(ctx context.Context, id chain.TxID) (chain.LocatedTransaction, error)
	// SendTransaction gives the node a transaction, once. What the node says to it, a refusal too, is the result; an error means that it
	// is not known whether the transaction arrived.
	SendTransaction(ctx context.Context, raw []byte) (chain.SendResult, error)
}

// sideChainHeight is the wire's word for a transaction that was mined, but not in the best chain.
const sideChainHeight = math.MaxUint64

// GetTransaction asks the node anew each time: a transaction may have been sent, mined or orphaned a moment ago. The node may be a block
// ahead of the tip that wallets are told. To them a transaction of such a block is still unmined: no height is named above the tip.
func (s *service) GetTransaction(ctx context.Context, req *walletrpc.TxFilter) (*walletrpc.RawTransaction, error) {
	var id chain.TxID
	if len(req.Hash) != len(id) {
		return nil, invalidArgument("hash: a transaction id has %d bytes, not %d; block and index cannot be asked for", len(id), len(req.Hash))
	}
	id = chain.TxID(req.Hash)
	tx, err := costly(ctx, s.lookups, func() (chain.LocatedTransaction, error) { return s.transactions.Transaction(ctx, id) })
	if errors.Is(err, chain.ErrNotFound) {
		return nil, notFound("Transaction not found: %s", id) // wallets match the first three words
	}
	if err != nil {
		return nil, fmt.Errorf("get transaction %s: %w", id, err)
	}
	message := &walletrpc.RawTransaction{Data: tx.Raw}
	switch tx.Place {
	case chain.Mined:
		tip, err := tipOf(ctx, s.source) // after the node's answer: whoever asks for the latest block next gets this one or a later one
		if err != nil {
			return nil, err
		}
		if tx.Height <= tip.Height {
			message.Height = uint64(tx.Height)
		}
	case chain.OnSideChain:
		message.Height = sideChainHeight
	}
	return message, nil
}

// SendTransaction passes a transaction on. The node's refusal is an answer like its consent, in the node's own words, which wallets
// match.
func (s *service) SendTransaction(ctx context.Context, req *walletrpc.RawTransaction) (*walletrpc.SendResponse, error) {
	if n := len(req.Data); n == 0 || n > maxTransaction {
		return nil, invalidArgument("data: a transaction has between 1 and %d bytes, not %d", maxTransaction, n)
	}
	result, err := costly(ctx, s.sends, func() (chain.SendResult, error) { return s.transactions.SendTransaction(ctx, req.Data) })
	s.mempool.Refresh() // it may be there even when the answer was lost
	if err != nil {
		return nil, fmt.Errorf("send a transaction: %w", err)
	}
	if result.Code != 0 {
		return &walletrpc.SendResponse{ErrorCode: int32(result.Code), ErrorMessage: result.Message}, nil
	}
	return &walletrpc.SendResponse{ErrorMessage: result.ID.String()}, nil
}
