package zebratest

import (
	"encoding/hex"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// transactionIndex tells where the transactions of one chain are, but for those that a Base finds. Once made it is not changed.
type transactionIndex struct {
	tip    chain.BlockID
	height map[chain.TxID]chain.Height
}

// maxOrphans is how many replaced blocks a chain remembers for the sake of their transactions.
const maxOrphans = 100

// orphan is a block that was replaced by another branch. Zebra goes on finding its transactions.
type orphan struct {
	hash chain.Hash
	raw  []byte
}

// keepOrphans remembers the blocks from height keep on, which are about to be replaced. The caller holds c.script.
func (c *Chain) keepOrphans(keep int) error {
	work := newWorkshop()
	for h := max(keep, c.length()-maxOrphans); h < c.length(); h++ {
		f, err := c.find(chain.Height(h))
		if err != nil {
			return err
		}
		c.orphans = append(c.orphans, orphan{f.Hash, append([]byte(nil), f.raw(work)...)})
	}
	c.orphans = c.orphans[max(0, len(c.orphans)-maxOrphans):]
	return nil
}

// foundTransaction is where a chain has a transaction.
type foundTransaction struct {
	raw    []byte // nil: nowhere
	active bool   // in the best chain, at this height
	height chain.Height
	hash   chain.Hash // of the block
}

// transaction looks for a transaction in the best chain, then among the replaced blocks.
func (c *Chain) transaction(id chain.TxID) (foundTransaction, error) {
	c.indexing.Lock()
	defer c.indexing.Unlock()
	c.script.Lock() // the chain shall not change meanwhile
	defer c.script.Unlock()
	enc, work := chain.NewEncoder(chain.EncoderOptions{}), newWorkshop()
	if err := c.indexTransactions(enc, work); err != nil {
		return foundTransaction{}, err
	}
	h, ok := c.located.height[id]
	if !ok {
		var err error
		if h, ok, err = c.baseTransaction(id); err != nil {
			return foundTransaction{}, err
		}
	}
	if ok {
		f, err := c.find(h)
		if err != nil {
			return foundTransaction{}, err
		}
		raw, err := pick(enc, f.raw(work), id)
		return foundTransaction{raw, true, h, f.Hash}, err
	}
	for _, o := range c.orphans {
		if raw, err := pick(enc, o.raw, id); raw != nil || err != nil {
			return foundTransaction{raw: raw, hash: o.hash}, err
		}
	}
	return foundTransaction{}, nil
}

// indexTransactions makes c.located when it is asked for; it is kept until the chain changes.
func (c *Chain) indexTransactions(enc *chain.Encoder, work *workshop) error {
	tip := c.Tip()
	if c.located != nil && c.located.tip == tip {
		return nil
	}
	index := &transactionIndex{tip, make(map[chain.TxID]chain.Height)}
	for h := chain.Height(c.first); h <= tip.Height; h++ {
		f, err := c.find(h)
		if err != nil {
			return err
		}
		_, ids, err := enc.Transactions(f.raw(work))
		if err != nil {
			return err
		}
		for _, id := range ids {
			index.height[id] = h
		}
	}
	c.located = index
	return nil
}

// pick returns a copy of one transaction of a block, nil when it is not there.
func pick(enc *chain.Encoder, block []byte, id chain.TxID) ([]byte, error) {
	txs, ids, err := enc.Transactions(block)
	if err != nil {
		return nil, err
	}
	for i := range ids {
		if ids[i] == id {
			return append([]byte(nil), txs[i]...), nil
		}
	}
	return nil, nil
}

var (
	errNoTransaction = &rpcError{Code: -5, Message: "Transaction not found in mempool or best chain"}
	errBadLength     = &rpcError{Code: -5, Message: "Invalid string length"}
)

// transactionObject is getrawtransaction's result without the members that repeat what is in Hex.
type transactionObject struct {
	InActiveChain bool          `json:"in_active_chain"`
	Hex           string        `json:"hex"`
	Height        *int64        `json:"height,omitempty"`
	Confirmations *chain.Height `json:"confirmations,omitempty"`
	Size          int           `json:"size"`
	TxID          string        `json:"txid"`
	BlockHash     string        `json:"blockhash,omitempty"`
}

func (n *Node) getRawTransaction(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	digits := p.text("txid")
	verbosity := p.verbosity(argVerbose, 0)
	if p.err != nil {
		return dst, p.err
	}
	if len(digits)%2 == 0 && len(digits) != 2*len(chain.TxID{}) {
		return dst, errBadLength
	}
	id, err := chain.ParseTxID(digits)
	if err != nil { // an odd number of digits, too
		return dst, &rpcError{Code: -5, Message: hexError(digits)}
	}
	o := transactionObject{TxID: id.String()}
	raw, err := n.pool.get(c.chain, id)
	if err != nil {
		return appendObject(dst, nil, err)
	}
	if raw == nil {
		found, err := c.chain.transaction(id)
		if err != nil {
			return appendObject(dst, nil, err)
		}
		if found.raw == nil {
			return dst, errNoTransaction
		}
		raw = found.raw
		o.locate(found, c.chain.Tip().Height)
	}
	if verbosity == 0 {
		return appendQuoted(dst, hex.EncodeToString(raw)), nil
	}
	o.Hex, o.Size = hex.EncodeToString(raw), len(raw)
	return appendObject(dst, o, nil)
}

// locate says where a transaction is that is in a block: the height is -1 and there are no confirmations when that is on a side chain.
func (o *transactionObject) locate(f foundTransaction, tip chain.Height) {
	height, confirmations := int64(-1), chain.Height(0)
	if f.active {
		height, confirmations = int64(f.height), tip-f.height+1
	}
	o.InActiveChain, o.Height, o.Confirmations, o.BlockHash = f.active, &height, &confirmations, f.hash.String()
}
