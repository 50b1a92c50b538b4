package zebratest

import (
	"math"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// What Zebra says to whom it does not mine for.
var (
	errGenerateWithWork  = &rpcError{Code: 0, Message: "generate is only supported on networks where PoW is disabled"}
	errGenerateToAddress = &rpcError{Code: 0, Message: "generatetoaddress is only supported on networks where PoW is disabled"}
	errNoSuchAddress     = &rpcError{Code: -1, Message: "Not a Zcash address"}
	errMainAddress       = &rpcError{Code: -1, Message: "Invalid miner address: Address is for Main but we expected Regtest"}
)

// maxMinedBytes is how much of the mempool goes into one block, so that it stays below the 2 MB that a block may have.
const maxMinedBytes = 1_900_000

// generate answers "generate", as a node that has an address to mine to.
func (n *Node) generate(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	count := p.integer("num_blocks", "u32", 0, math.MaxUint32)
	switch {
	case p.err != nil:
		return dst, p.err
	case c.chain.network != Regtest:
		return dst, errGenerateWithWork
	}
	return n.mine(dst, c.chain, count)
}

// generateToAddress answers "generatetoaddress". Who is paid is not modelled.
func (n *Node) generateToAddress(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	count := p.integer("num_blocks", "u32", 0, math.MaxUint32)
	address := p.text("address")
	if p.err != nil {
		return dst, p.err
	}
	if c.chain.network != Regtest {
		return dst, errGenerateToAddress
	}
	if _, err := chain.ParseTransparent(chain.RegtestNetwork, address); err != nil && !isShielded(address) {
		if _, err := chain.ParseTransparent(chain.MainNetwork, address); err == nil {
			return dst, errMainAddress
		}
		return dst, errNoSuchAddress
	}
	return n.mine(dst, c.chain, count)
}

// mine puts blocks on the tip one by one, as readers of a real node see them.
func (n *Node) mine(dst []byte, c *Chain, count int64) ([]byte, *rpcError) {
	hashes := []string{}
	for range count {
		tip, err := n.mineOne(c)
		if err != nil {
			return appendObject(dst, nil, err)
		}
		hashes = append(hashes, tip.String())
	}
	return appendObject(dst, hashes, nil)
}

func (n *Node) mineOne(c *Chain) (chain.Hash, error) {
	n.mining.mu.Lock()
	defer n.mining.mu.Unlock()
	if err := n.mineMempool(c, maxMinedBytes, uint64(len(n.mining.came))+1); err != nil {
		return chain.Hash{}, err
	}
	tip := c.Tip()
	n.mining.receive(tip.Hash)
	n.mining.finalize(tip.Height)
	return tip.Hash, nil
}

// invalidateBlock answers "invalidateblock". Unlike the real one it answers when the tip has changed, not just before.
func (n *Node) invalidateBlock(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	hash, rerr := p.blockHash()
	if rerr != nil {
		return dst, rerr
	}
	if rerr, err := n.mining.invalidate(c.chain, hash); rerr != nil || err != nil {
		if rerr != nil {
			return dst, rerr
		}
		return appendObject(dst, nil, err)
	}
	return append(dst, "null"...), nil
}

// reconsiderBlock answers "reconsiderblock" with hashes as arrays of numbers in internal order, as Zebra does.
func (n *Node) reconsiderBlock(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	hash, rerr := p.blockHash()
	if rerr != nil {
		return dst, rerr
	}
	hashes, rerr, err := n.mining.reconsider(c.chain, hash)
	if rerr != nil {
		return dst, rerr
	}
	list := make([][]int, len(hashes))
	for i, h := range hashes {
		for _, b := range h {
			list[i] = append(list[i], int(b))
		}
	}
	return appendObject(dst, list, err)
}

// blockHash reads a block's hash in display order.
func (p *params) blockHash() (chain.Hash, *rpcError) {
	text := p.text("block_hash")
	if p.err != nil {
		return chain.Hash{}, p.err
	}
	if hash, err := chain.ParseHash(text); err == nil {
		return hash, nil
	}
	return chain.Hash{}, &rpcError{Code: -8, Message: "string was not hex: " + hashError(text)}
}

// hashError says what Rust's hex crate does of digits that are no hash.
func hashError(digits string) string {
	switch {
	case len(digits)%2 != 0:
		return "Odd number of digits"
	case len(digits) != 2*len(chain.Hash{}):
		return "Invalid string length"
	}
	return hexError(digits)
}

// isShielded tells whether a text looks like a Sapling or a unified address of regtest, which is all that is known of them here.
func isShielded(address string) bool {
	return slices.ContainsFunc([]string{"zregtestsapling1", "uregtest1"}, func(prefix string) bool {
		return len(address) > len(prefix)+40 && address[:len(prefix)] == prefix
	})
}
