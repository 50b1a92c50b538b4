package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// chainFacts is what the targets' chain holds, so that they can be asked for it.
type chainFacts struct {
	first, last uint64 // blocks that every target has
	txids       []minedTx
	address     string // empty: none was found
	addressAt   uint64 // the height at which it was found; 0: it was given
}

// minedTx is a transaction and the height at which it was mined.
type minedTx struct {
	txid   []byte
	height uint64
}

// exploredBlocks is how many blocks are looked at for transactions and addresses.
const exploredBlocks = 64

// explore finds out what can be asked for.
func (r *run) explore(ctx context.Context) error {
	c := &r.chain
	c.first, c.last, c.address = 1, r.highest(), r.options.Address
	for _, t := range r.targets {
		if t.about.Chain != r.targets[0].about.Chain {
			r.note(Fault{Target: t.options.Name, Text: fmt.Sprintf("its chain is %q, and that of %s %q",
				t.about.Chain, r.targets[0].options.Name, r.targets[0].about.Chain)})
		}
		if first := r.targets[0]; t.firstHeight != first.firstHeight {
			r.note(Fault{Target: t.options.Name, Text: fmt.Sprintf("it says that Sapling begins at block %d, and %s at %d: what is below is not asked for",
				t.firstHeight, first.options.Name, first.firstHeight)})
		}
		c.first = max(c.first, t.firstHeight)
		c.last = min(c.last, uint64(t.about.Height))
	}
	if c.last < c.first {
		var have []string
		for _, t := range r.targets {
			have = append(have, fmt.Sprintf("%s says that it has %d to %d", t.options.Name, t.firstHeight, t.about.Height))
		}
		return errors.New("the targets share no blocks: " + strings.Join(have, ", "))
	}
	var errs []error
	for _, t := range r.targets {
		err := r.findTransactions(ctx, t)
		if err == nil && len(c.txids) > 0 {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		r.note(Fault{Text: "no transactions were found to ask for: " + err.Error()})
	}
	return nil
}

func (r *run) highest() (h uint64) {
	for _, t := range r.targets {
		h = max(h, uint64(t.about.Height))
	}
	return h
}

// findTransactions looks into some blocks of a target for txids and an address. A server that does not show transparent parts leaves
// the address open.
func (r *run) findTransactions(ctx context.Context, t *target) error {
	c := &r.chain
	wallet := walletrpc.NewCompactTxStreamerClient(t.conn)
	network := chain.TestNetwork // regtest has its addresses too
	if t.about.Chain == "main" {
		network = chain.MainNetwork
	}
	for _, height := range c.heights(exploredBlocks, 0) {
		block, err := wholeBlock(ctx, wallet, height)
		if err != nil {
			return fmt.Errorf("%s, block %d: %w", t.options.Name, height, err)
		}
		for _, tx := range block.Vtx[max(0, len(block.Vtx)-4):] { // the last ones: the first is the coinbase
			c.txids = append(c.txids, minedTx{tx.Txid, height})
			for _, out := range tx.Vout {
				if c.address == "" {
					c.address, c.addressAt = scriptAddress(out.ScriptPubKey, network), height
				}
			}
		}
	}
	return nil
}

// wholeBlock reads a block with its transparent part, if the server shows that in one way or the other.
func wholeBlock(ctx context.Context, wallet walletrpc.CompactTxStreamerClient, height uint64) (*walletrpc.CompactBlock, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	id := &walletrpc.BlockID{Height: height}
	stream, err := wallet.GetBlockRange(ctx, &walletrpc.BlockRange{Start: id, End: id, PoolTypes: []walletrpc.PoolType{
		walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING, walletrpc.PoolType_ORCHARD, walletrpc.PoolType_IRONWOOD,
	}})
	if err == nil {
		if block, err := stream.Recv(); err == nil && len(block.Vtx) > 0 {
			return block, nil
		}
	}
	return wallet.GetBlock(ctx, id)
}

// heights returns n different heights all over the chain, fewer on a shorter chain, in an order without steps that a cache would like.
// Those of another turn are others, as long as the chain has enough.
func (c *chainFacts) heights(n, turn int) []uint64 {
	blocks := c.last - c.first + 1
	n = int(min(uint64(n), blocks))
	// A step that has no factor in common with the number of blocks meets each once.
	step := blocks*618/1000 + 1
	for gcd(step, blocks) != 1 {
		step++
	}
	list := make([]uint64, n)
	at := uint64(turn) * uint64(n) % blocks * step % blocks
	for i := range list {
		list[i] = c.first + at
		at = (at + step) % blocks
	}
	return list
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// stretches returns up to n ranges of so many blocks, all over the chain; none if the chain is shorter.
func (c *chainFacts) stretches(n int, length uint64) (list []*question) {
	blocks := c.last - c.first + 1
	if length > blocks {
		return nil
	}
	var starts []uint64
	for i := range uint64(n) {
		starts = append(starts, c.first+i*(blocks-length)/uint64(max(n-1, 1)))
	}
	for _, from := range slices.Compact(starts) {
		list = append(list, blockRange(from, from+length-1))
	}
	return list
}

// scriptAddress returns the address of the two usual scripts, empty for others. Source: Bitcoin's standard scripts.
func scriptAddress(script []byte, network chain.Network) string {
	switch {
	case len(script) == 25 && bytes.HasPrefix(script, []byte{0x76, 0xa9, 20}) && bytes.HasSuffix(script, []byte{0x88, 0xac}):
		return chain.TransparentAddress{Hash: [20]byte(script[3:23])}.String(network)
	case len(script) == 23 && bytes.HasPrefix(script, []byte{0xa9, 20}) && script[22] == 0x87:
		return chain.TransparentAddress{Script: true, Hash: [20]byte(script[2:22])}.String(network)
	}
	return ""
}
