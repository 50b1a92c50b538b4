package zebratest

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// mempool is a node's simulated mempool. Transactions are taken as they are: nothing of them is verified but their format.
// Those that are in the best chain leave it by themselves.
type mempool struct {
	mu    sync.Mutex
	txs   map[chain.TxID]pooled
	mined map[chain.TxID]bool // left because they were in the best chain
	tip   chain.BlockID       // when that was looked at last
}

type pooled struct {
	raw  []byte
	time int64 // when it came, Unix seconds
}

// AddTransactions puts transactions into the mempool as if peers had sent them, and returns their ids. One that does not parse gets in
// under the id that its first 32 bytes spell.
func (n *Node) AddTransactions(raw ...[]byte) []chain.TxID {
	n.pool.mu.Lock()
	defer n.pool.mu.Unlock()
	enc := chain.NewEncoder(chain.EncoderOptions{})
	ids := make([]chain.TxID, len(raw))
	for i, r := range raw {
		if tx, err := enc.Transaction(r); err == nil {
			ids[i] = tx.ID
		} else {
			copy(ids[i][:], r)
		}
		n.pool.add(ids[i], r)
	}
	return ids
}

func (p *mempool) add(id chain.TxID, raw []byte) {
	if p.txs == nil {
		p.txs, p.mined = make(map[chain.TxID]pooled), make(map[chain.TxID]bool)
	}
	p.txs[id] = pooled{raw, time.Now().Unix()}
}

// RemoveTransactions takes transactions out of the mempool, as if they had expired.
func (n *Node) RemoveTransactions(ids ...chain.TxID) {
	n.pool.mu.Lock()
	defer n.pool.mu.Unlock()
	for _, id := range ids {
		delete(n.pool.txs, id)
	}
}

// MineMempool puts the whole mempool into one block on the tip.
func (n *Node) MineMempool() error { return n.mineMempool(n.Chain(), math.MaxInt, 0) }

// mineMempool puts as much of the mempool into a block on the tip of c as there is room for. Blocks of different seeds differ.
func (n *Node) mineMempool(c *Chain, room int, seed uint64) error {
	n.pool.mu.Lock()
	defer n.pool.mu.Unlock()
	if err := n.pool.settle(c); err != nil {
		return fmt.Errorf("mine the mempool: %w", err)
	}
	if len(n.pool.txs) == 0 {
		return c.Extend(1, Small)
	}
	tip := c.Tip()
	h := tip.Height + 1
	seed = seed<<32 + uint64(h)
	txs := [][]byte{chaintest.Tx{Version: 5, BranchID: branchAt(c.upgrades, h), Coinbase: true, Height: h, Outputs: 1, Seed: seed}.Append(nil)}
	for _, id := range n.pool.ids() {
		if raw := n.pool.txs[id].raw; len(raw) <= room {
			room -= len(raw)
			txs = append(txs, raw)
		}
	}
	block, err := chaintest.NewBuilder().Block(nil, tip.Hash, chaintest.BlockTime(h), seed, txs...)
	if err != nil {
		return fmt.Errorf("mine the mempool: %w", err)
	}
	if err := c.Append(block); err != nil {
		return fmt.Errorf("mine the mempool: %w", err)
	}
	return nil
}

// settle takes out what the chain has. The caller holds p.mu.
func (p *mempool) settle(c *Chain) error {
	tip := c.Tip()
	if p.tip == tip || len(p.txs) == 0 {
		return nil
	}
	for id := range p.txs {
		found, err := c.transaction(id)
		if err != nil {
			return err
		}
		if found.active {
			delete(p.txs, id)
			p.mined[id] = true
		}
	}
	p.tip = tip
	return nil
}

// ids are in the order of their display forms, as Zebra lists them.
func (p *mempool) ids() []chain.TxID {
	return slices.SortedFunc(maps.Keys(p.txs), func(a, b chain.TxID) int {
		slices.Reverse(a[:])
		slices.Reverse(b[:])
		return slices.Compare(a[:], b[:])
	})
}

// get returns a transaction of the mempool, nil when it is not there.
func (p *mempool) get(c *Chain, id chain.TxID) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.settle(c)
	return p.txs[id].raw, err
}

// mempoolObject is an entry of getrawmempool's verbose form. Fees and dependencies are not modelled.
type mempoolObject struct {
	Size            int             `json:"size"`
	Fee             json.RawMessage `json:"fee"`
	ModifiedFee     json.RawMessage `json:"modifiedfee"`
	Time            int64           `json:"time"`
	Height          chain.Height    `json:"height"`
	DescendantCount int             `json:"descendantcount"`
	DescendantSize  int             `json:"descendantsize"`
	DescendantFees  int64           `json:"descendantfees"`
	Depends         []string        `json:"depends"`
}

func (n *Node) getRawMempool(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	verbose := p.flag(argVerbose, false)
	if p.err != nil {
		return dst, p.err
	}
	n.pool.mu.Lock()
	defer n.pool.mu.Unlock()
	if err := n.pool.settle(c.chain); err != nil {
		return appendObject(dst, nil, err)
	}
	if !verbose {
		list := []string{}
		for _, id := range n.pool.ids() {
			list = append(list, id.String())
		}
		return appendObject(dst, list, nil)
	}
	all := make(map[string]mempoolObject)
	for id, tx := range n.pool.txs {
		all[id.String()] = mempoolObject{
			Size: len(tx.raw), Fee: json.RawMessage(zeroAmount), ModifiedFee: json.RawMessage(zeroAmount), Time: tx.time,
			Height: c.chain.Tip().Height, DescendantCount: 1, DescendantSize: len(tx.raw), Depends: []string{},
		}
	}
	return appendObject(dst, all, nil)
}

// What Zebra says to a transaction that it has.
var (
	errInMempool = &rpcError{Code: -1, Message: "transaction already exists in mempool"}
	errInState   = &rpcError{Code: -25, Message: `failed to validate tx: WtxId("private"), error: transaction is already in state`}
	errWasMined  = &rpcError{Code: -1, Message: "any transaction with the same effects will be rejected from the mempool until a chain reset: " +
		"transaction was committed to the best chain"}
)

func (n *Node) sendRawTransaction(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	digits := p.text("raw_transaction_hex")
	if p.err != nil {
		return dst, p.err
	}
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return dst, &rpcError{Code: -22, Message: hexError(digits)}
	}
	tx, err := chain.NewEncoder(chain.EncoderOptions{}).Transaction(raw)
	switch {
	case errors.Is(err, chain.ErrUnknownVersion):
		return dst, &rpcError{Code: -22, Message: "io error: Unknown transaction format"}
	case err != nil:
		return dst, &rpcError{Code: -22, Message: "io error: failed to fill whole buffer"}
	}
	n.pool.mu.Lock()
	defer n.pool.mu.Unlock()
	if err := n.pool.settle(c.chain); err != nil {
		return appendObject(dst, nil, err)
	}
	if _, ok := n.pool.txs[tx.ID]; ok {
		return dst, errInMempool
	}
	found, err := c.chain.transaction(tx.ID)
	switch {
	case err != nil:
		return appendObject(dst, nil, err)
	case found.active && n.pool.mined[tx.ID]:
		return dst, errWasMined
	case found.active:
		return dst, errInState
	}
	n.pool.add(tx.ID, raw)
	return appendQuoted(dst, tx.ID.String()), nil
}

// hexError says what Rust's hex crate does of digits that are none.
func hexError(digits string) string {
	if len(digits)%2 != 0 {
		return "Odd number of digits"
	}
	for i, c := range digits {
		if _, err := hex.DecodeString(string(c) + "0"); err != nil {
			return fmt.Sprintf("Invalid character %s at position %d", "'"+string(c)+"'", i)
		}
	}
	return ""
}
