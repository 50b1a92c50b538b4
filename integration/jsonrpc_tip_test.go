package integration

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/jsonrpc/jsonrpctest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// TestJSONRPCTip mines and reorganizes the chain while both ports are asked for the tip: between two equal answers of the one there is
// no other answer of the other. What is relayed follows the node.
func TestJSONRPCTip(t *testing.T) {
	t.Parallel()
	for _, s := range []setup{passthrough, smallSegments} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, t.TempDir(), "")
			n.start()
			n.mine(30, keyHash)
			c := newSidecar(t, n.url(), n.cookie(), s)
			ours := c.withJSONRPC()
			c.start()
			w := c.wallet()
			awaitAnswer(t, w)
			ctx, cancel := context.WithCancel(t.Context())
			asked := make(chan int, 1)
			go func() { asked <- compareTips(ctx, t, ours, w) }()

			for round := range 5 {
				height := n.mine(3, keyHash)
				orphan := n.hashAt(height - 1)
				n.invalidate(height - 2 - round)
				height = n.mine(2+round%3, anyoneCanSpend)
				_, hash := n.tip()
				await(t, "both name the new tip", 30*time.Second, func() bool {
					return askJSON(t, ours, "getbestblockhash", "[]") == fmt.Sprintf(`"result":%q}`, hash)
				})
				if got := askJSON(t, ours, "getblockhash", fmt.Sprintf("[%d]", height-1)); got != fmt.Sprintf(`"result":%q}`, n.hashAt(height-1)) {
					t.Errorf("getblockhash %d: %s", height-1, got)
				}
				for _, q := range []jsonrpctest.Question{
					jsonrpctest.Call("getblock", fmt.Sprintf("[%q,1]", orphan)), jsonrpctest.Call("getblock", fmt.Sprintf("[%q,2]", hash)),
					jsonrpctest.Call("getblockhash", "[-1]"), jsonrpctest.Call("getblockhash", fmt.Sprintf("[%d]", height+1)),
					jsonrpctest.Call("getbestblockheightandhash", ""), jsonrpctest.Call("getblockcount", ""),
				} {
					if err := jsonrpctest.Compare(t.Context(), n.jsonRPC(), ours, q); err != nil {
						t.Error(err)
					}
				}
			}
			cancel()
			if count := <-asked; count < 10 {
				t.Errorf("the tips were compared %d times only", count)
			}
		})
	}
}

// compareTips asks both ports until ctx ends, and returns how often their answers could be compared.
func compareTips(ctx context.Context, t *testing.T, ours jsonrpctest.Server, w *wallet) (count int) {
	best := func() string {
		a, err := ours.Ask(ctx, jsonrpctest.Call("getbestblockhash", "[]"))
		if err != nil {
			return ""
		}
		return string(a.Body)
	}
	for before := best(); ctx.Err() == nil; {
		tip, err := w.client().GetLatestBlock(ctx, &walletrpc.ChainSpec{})
		after := best()
		if err == nil && after == before {
			hash := slices.Clone(tip.Hash)
			slices.Reverse(hash)
			if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":"%s"}`, hex.EncodeToString(hash)); after != want {
				t.Errorf("JSON-RPC's tip is %s, the wallets' %s", after, want)
				return count
			}
			count++
		}
		before = after
	}
	return count
}
