package chain

// Place says where a node has a transaction.
type Place uint8

// The places, in the order in which a node looks.
const (
	InMempool   Place = 1 + iota
	Mined             // in a block of the best chain
	OnSideChain       // only in blocks that are not on the best chain
)

// LocatedTransaction is a transaction as a node has it (getrawtransaction verbosity 1).
type LocatedTransaction struct {
	Raw    []byte // serialized
	Place  Place
	Height Height // of its block; 0 unless Mined
}

// SendResult is what a node said to a transaction that was sent to it (sendrawtransaction).
type SendResult struct {
	ID TxID // when it was accepted

	// Code is 0 when it was accepted. Otherwise the node refused it, with this JSON-RPC error code and this text of its own.
	Code    int
	Message string
}

// PooledTransaction is one transaction of a node's mempool. It does not change, and may be shared.
type PooledTransaction struct {
	ID  TxID
	Raw []byte // serialized, as the node gave it

	// Parsed is nil when the bytes were not understood, or were not those of ID: such a transaction has no compact form.
	Parsed *Transaction
	// Frame is one gRPC frame with the CompactTx of index 0 under DefaultProjection; nil when that shows nothing of the transaction.
	Frame []byte

	// Slot tells it from all others that were in the mempool since the best chain changed last: a small number, so that a set of
	// transactions is a few bits each.
	Slot int
}

// AppendTxFrame appends one gRPC frame, prefix and message, with the transaction's CompactTx of index 0, as it is in the mempool.
// It appends nothing when the transaction is not Visible under p.
func (tx *Transaction) AppendTxFrame(dst []byte, p Projection) []byte {
	if !tx.Visible(p) {
		return dst
	}
	dst, start := beginFrame(dst)
	return endFrame(tx.AppendCompactTx(dst, 0, p), start)
}

// Transactions returns the serialized transactions of a serialized block, in order, as views into raw, and their ids. Nothing but their
// format is checked; the errors are those of Encode.
func (e *Encoder) Transactions(raw []byte) (txs [][]byte, ids []TxID, err error) {
	r := reader{buf: raw}
	r.limit("block")
	var b Block
	r.blockHeader(&b, 0)
	n := r.count(minTransactionLen, "transactions")
	var tx Transaction
	for i := 0; i < n && r.err == nil; i++ {
		if r.transaction(&tx, e.v6); r.err == nil {
			txs, ids = append(txs, tx.raw), append(ids, e.hasher.txid(&tx))
		}
	}
	if r.end(len(r.buf), "block"); r.err != nil {
		return nil, nil, r.err
	}
	return txs, ids, nil
}
