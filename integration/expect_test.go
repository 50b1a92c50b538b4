package integration

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// expectChain makes the full compact blocks 0..tip from Zebra's replies: all pools, every transaction, tree sizes.
func expectChain(tb testing.TB, n *node, from, to int) []*walletrpc.CompactBlock {
	tb.Helper()
	blocks := make([]*walletrpc.CompactBlock, to-from+1)
	errs := make([]error, 8)
	var workers sync.WaitGroup
	for w := range errs {
		workers.Go(func() {
			for i := w; i < len(blocks) && errs[w] == nil; i += len(errs) {
				blocks[i], errs[w] = expectBlock(tb.Context(), n.rpc, from+i)
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			tb.Fatal(err)
		}
	}
	return blocks
}

// expectBlock reads one block at verbosity 2, and again at verbosity 1 to see that Zebra's two answers agree.
func expectBlock(ctx context.Context, rpc *rpcClient, height int) (*walletrpc.CompactBlock, error) {
	var full zBlock
	if err := rpc.call(ctx, &full, "getblock", strconv.Itoa(height), 2); err != nil {
		return nil, fmt.Errorf("block %d: %w", height, err)
	}
	var short struct {
		Hash  string
		Tx    []string
		Trees zTrees
	}
	if err := rpc.call(ctx, &short, "getblock", strconv.Itoa(height), 1); err != nil {
		return nil, fmt.Errorf("block %d: %w", height, err)
	}
	same := slices.EqualFunc(full.Tx, short.Tx, func(tx zTx, txid string) bool { return tx.TxID == txid })
	if !same || full.Hash != short.Hash || full.Trees != short.Trees {
		return nil, fmt.Errorf("block %d: zebra's answers of verbosity 1 and 2 differ", height)
	}
	return compactOf(full), nil
}

func compactOf(b zBlock) *walletrpc.CompactBlock {
	prev := make([]byte, 32)
	if b.Height > 0 {
		prev = reversed(b.PreviousBlockHash)
	}
	block := &walletrpc.CompactBlock{
		Height: b.Height, Hash: reversed(b.Hash), PrevHash: prev, Time: b.Time,
		ChainMetadata: &walletrpc.ChainMetadata{
			SaplingCommitmentTreeSize:  b.Trees.Sapling.Size,
			OrchardCommitmentTreeSize:  b.Trees.Orchard.Size,
			IronwoodCommitmentTreeSize: b.Trees.Ironwood.Size,
		},
	}
	for i, tx := range b.Tx {
		block.Vtx = append(block.Vtx, compactTxOf(uint64(i), tx))
	}
	return block
}

// compactTxOf converts one transaction. Zebra reverses the 32-byte fields of Sapling, but not those of Orchard and Ironwood.
func compactTxOf(index uint64, tx zTx) *walletrpc.CompactTx {
	c := &walletrpc.CompactTx{Index: index, Txid: reversed(tx.TxID)}
	for _, in := range tx.Vin {
		if in.Coinbase == nil {
			c.Vin = append(c.Vin, &walletrpc.CompactTxIn{PrevoutTxid: reversed(in.TxID), PrevoutIndex: in.Vout})
		}
	}
	for _, out := range tx.Vout {
		c.Vout = append(c.Vout, &walletrpc.TxOut{Value: out.ValueZat, ScriptPubKey: unhex(out.ScriptPubKey.Hex)})
	}
	for _, spend := range tx.VShieldedSpend {
		c.Spends = append(c.Spends, &walletrpc.CompactSaplingSpend{Nf: reversed(spend.Nullifier)})
	}
	for _, out := range tx.VShieldedOutput {
		c.Outputs = append(c.Outputs, &walletrpc.CompactSaplingOutput{
			Cmu: reversed(out.Cmu), EphemeralKey: reversed(out.EphemeralKey), Ciphertext: unhex(out.EncCiphertext)[:52],
		})
	}
	c.Actions = compactActions(tx.Orchard)
	c.IronwoodActions = compactActions(tx.Ironwood)
	return c
}

func compactActions(bundle zBundle) []*walletrpc.CompactOrchardAction {
	var actions []*walletrpc.CompactOrchardAction
	for _, a := range bundle.Actions {
		actions = append(actions, &walletrpc.CompactOrchardAction{
			Nullifier: unhex(a.Nullifier), Cmx: unhex(a.Cmx), EphemeralKey: unhex(a.EphemeralKey), Ciphertext: unhex(a.EncCiphertext)[:52],
		})
	}
	return actions
}

// encode gives the wire form: protobuf-go writes fields in ascending order, which is what the program promises to do.
func encode(tb testing.TB, block *walletrpc.CompactBlock) []byte {
	tb.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(block)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
