package zebrarpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// everyQuestion asks each kind of question once. What it returns is only looked at for its error.
func everyQuestion(ctx context.Context, c *Client) []func() error {
	drop := func(_ any, err error) error { return err }
	anyHash, anyTx := chain.Hash{1, 2, 3}, chain.TxID{4, 5, 6}
	addresses := []string{"t1Hsc1LR8yKnbbe3twRp88p6vFfC5t7DLbs"}
	return []func() error{
		func() error { return drop(c.BestBlock(ctx)) },
		func() error { return drop(c.BlockHash(ctx, 5)) },
		func() error { return drop(c.HeightOf(ctx, anyHash)) },
		func() error { return drop(c.TreeSizes(ctx, anyHash)) },
		func() error { _, _, err := c.TreeSizesAt(ctx, 5); return err },
		func() error { return drop(c.RawBlock(ctx, anyHash)) },
		func() error { return drop(c.RawBlockAt(ctx, 5)) },
		func() error { return drop(c.NodeInfo(ctx)) },
		func() error { return drop(c.Transaction(ctx, anyTx)) },
		func() error { return drop(c.RawTransaction(ctx, anyTx)) },
		func() error { return drop(c.MempoolIDs(ctx)) },
		func() error { return drop(c.SendTransaction(ctx, []byte{1})) },
		func() error { return drop(c.TreeState(ctx, anyHash)) },
		func() error { return drop(c.Subtrees(ctx, chain.Orchard, 0, 5)) },
		func() error { return drop(c.AddressBalance(ctx, addresses)) },
		func() error {
			for _, err := range c.AddressTransactions(ctx, addresses[0], 1, 5) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		func() error {
			for _, err := range c.AddressUtxos(ctx, addresses, 1, 5) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		func() error {
			for _, err := range c.Blocks(ctx, 0, 1, Range) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// FuzzReplies gives every question of a Client a reply that may be anything, as it is or as the result of an envelope that is right: nothing
// panics or goes on for ever, and each error is one that the rest of the program can tell apart.
func FuzzReplies(f *testing.F) {
	hash := `"` + chain.Hash{1, 2, 3}.String() + `"`
	for i, result := range []string{
		`{"height":5,"hash":` + hash + `}`, hash, `{"height":5,"hash":` + hash + `,"confirmations":1}`,
		`{"hash":` + hash + `,"height":5,"confirmations":1,"trees":{"sapling":{"size":3},"orchard":{"size":4},"ironwood":{"size":5}}}`,
		`{"hash":` + hash + `,"height":5,"confirmations":1,"trees":{}}`, `"0400"`, `"04"`,
		`{"chain":"main","blocks":5,"headers":5,"bestblockhash":` + hash + `,"estimatedheight":6,"upgrades":{"5ba81b19":{"name":"Overwinter","activationheight":1,"status":"active"}},"consensus":{"chaintip":"5ba81b19","nextblock":"5ba81b19"}}`,
		`{"in_active_chain":true,"hex":"0400","height":5,"confirmations":1}`, `"0400"`, `[` + hash + `]`, hash,
		`{"hash":` + hash + `,"height":5,"time":7,"sapling":{"commitments":{"finalState":"000000"}},"orchard":{"commitments":{"finalState":"000000"}}}`,
		`{"pool":"orchard","start_index":0,"subtrees":[{"root":` + hash + `,"end_height":5}]}`, `{"balance":5,"received":6}`, `[` + hash + `]`,
		`{"utxos":[{"address":"t1Hsc1LR8yKnbbe3twRp88p6vFfC5t7DLbs","txid":` + hash + `,"outputIndex":0,"script":"00","satoshis":1,"height":5}],"hash":` + hash + `,"height":5}`,
		`"0400"`,
	} {
		f.Add(byte(i), []byte(result))
		f.Add(byte(i)|128, []byte(`{"jsonrpc":"2.0","id":1,"result":`+result+`}`))
	}
	f.Add(byte(0), []byte(`null,"error":{"code":-8,"message":"Block not found"}`))
	f.Add(byte(0|64), []byte("<html>"))
	f.Fuzz(func(t *testing.T, which byte, reply []byte) {
		if len(reply) > 1<<14 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int32 // some questions go out side by side
			c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
				if calls.Add(1) > 1000 {
					return nil, errors.New("a question asks Zebra without end")
				}
				switch which & 0xc0 {
				case 0:
					return q.result(string(reply))
				case 64:
					return page(http.StatusInternalServerError, string(reply)), nil
				}
				return page(http.StatusOK, string(bytes.ReplaceAll(reply, []byte(`"id":1,`), fmt.Appendf(nil, `"id":%d,`, q.id)))), nil
			})
			defer c.Close()
			questions := everyQuestion(t.Context(), c)
			err := questions[int(which&0x3f)%len(questions)]()
			if calls.Load() > 1000 {
				t.Fatal("a question asks Zebra without end")
			}
			if err != nil && !errors.Is(err, chain.ErrNode) && !errors.Is(err, chain.ErrReorged) && !errors.Is(err, chain.ErrUnavailable) {
				t.Fatalf("%T %v", err, err)
			}
		})
	})
}
