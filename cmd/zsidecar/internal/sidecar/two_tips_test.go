package sidecar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// freezeTip has the node go on naming its present tip, whatever becomes of its chain: for an instant Zebra does, since it publishes its
// state before its tip.
func freezeTip(n *zebratest.Node) (thaw func()) {
	tip := n.Chain().Tip()
	return n.Fault(zebratest.Fault{
		Method: "getbestblockheightandhash", Result: fmt.Sprintf(`{"height":%d,"hash":"%s"}`, tip.Height, tip.Hash),
	})
}

// While the node names a tip that is no longer of its chain, every method goes by that tip or says ABORTED.
func TestTwoTips(t *testing.T) {
	const blocks, depth = 30, 3
	for name, more := range map[string]int{"longer": depth + 2, "equal": depth, "shorter": depth - 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			threePositions(t, blocks, 16, func(t *testing.T, p position, n *zebratest.Node, s *Sidecar) {
				client, old := treeClient(t, s), branchNow(t, n)
				thaw := freezeTip(n)
				if err := n.Chain().Reorg(depth, more, zebratest.Mixed); err != nil {
					t.Fatal(err)
				}
				now := branchNow(t, n)
				requireOldTip(t, client, old)
				for _, r := range stallAll(t, s, blocks-depth) { // below the fork there is but one chain
					if code := r.finish(t, old); code != codes.OK {
						t.Errorf("%s: %v", r.name, code)
					}
				}
				for _, r := range [][2]uint64{{0, blocks}, {blocks - 1, blocks}, {1, blocks - 1}, {blocks, 0}, {blocks - 1, 0}, {blocks, blocks}} {
					requireOneBranch(t, client, r, old, now)
				}
				thaw()
				awaitTip(t, client, n)
				requireOrphans(t, client, old, blocks-depth+1)
			})
		})
	}
}

// requireOldTip asks everything that speaks of the tip.
func requireOldTip(t *testing.T, client walletrpc.CompactTxStreamerClient, old branchOf) {
	t.Helper()
	tip := uint64(len(old.hashes) - 1)
	hash := old.hashes[tip]
	if id, err := client.GetLatestBlock(t.Context(), &walletrpc.ChainSpec{}); err != nil || id.Height != tip || !bytes.Equal(id.Hash, hash[:]) {
		t.Errorf("GetLatestBlock: %v, %v", id, err)
	}
	if info, err := client.GetLightdInfo(t.Context(), &walletrpc.Empty{}); err != nil || info.BlockHeight != tip {
		t.Errorf("GetLightdInfo: %v, %v", info, err)
	}
	trees, err := client.GetLatestTreeState(t.Context(), &walletrpc.Empty{})
	if status.Code(err) != codes.Aborted && (err != nil || trees.Height != tip || trees.Hash != hash.String()) {
		t.Errorf("GetLatestTreeState: %v, %v", trees, err)
	}
	block, err := client.GetBlock(t.Context(), &walletrpc.BlockID{Height: tip})
	if status.Code(err) != codes.Aborted && (err != nil || !old.has(block)) {
		t.Errorf("GetBlock of the tip: %v, %v", block, err)
	}
	_, err = client.GetBlock(t.Context(), &walletrpc.BlockID{Height: tip + 1})
	if status.Code(err) != codes.OutOfRange {
		t.Errorf("GetBlock above the tip: %v", err)
	}
}

// requireOneBranch reads a range, which has to be of one branch as far as it comes.
func requireOneBranch(t *testing.T, client walletrpc.CompactTxStreamerClient, r [2]uint64, branches ...branchOf) {
	t.Helper()
	name := fmt.Sprintf("range %d..%d", r[0], r[1])
	stream, err := client.GetBlockRange(t.Context(), &walletrpc.BlockRange{Start: &walletrpc.BlockID{Height: r[0]}, End: &walletrpc.BlockID{Height: r[1]}})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if status.Code(err) == codes.Aborted {
		return
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	(&stalledRange{name: name, from: r[0], to: r[1], first: first, stream: stream}).finish(t, branches...)
}

// A transaction is not shown in a block that wallets are not told of yet, nor in one that has left the chain.
func TestTransactionHeights(t *testing.T) {
	t.Parallel()
	threePositions(t, 60, 16, func(t *testing.T, _ position, n *zebratest.Node, s *Sidecar) {
		client := treeClient(t, s)
		requireHeight := func(when string, id []byte, want uint64) {
			t.Helper()
			tx, err := client.GetTransaction(t.Context(), &walletrpc.TxFilter{Hash: id})
			if err != nil || tx.Height != want {
				t.Errorf("%s: the transaction's height is %v, %v; want %d", when, tx.GetHeight(), err, want)
			}
		}
		raw := ironwoodTx(1)
		id := n.AddTransactions(raw)[0]
		thaw := freezeTip(n)
		if err := n.MineMempool(); err != nil {
			t.Fatal(err)
		}
		requireHeight("mined above the tip that wallets know", id[:], 0)
		thaw()
		awaitTip(t, client, n)
		requireHeight("mined", id[:], 61)

		stream, err := client.GetMempoolStream(t.Context(), &walletrpc.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Header(); err != nil {
			t.Fatal(err)
		}
		if err := n.Chain().Reorg(2, 2, zebratest.Mixed); err != nil { // of the same height
			t.Fatal(err)
		}
		if tx, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the mempool stream over a reorg: %v, %v; want its end", tx, err)
		}
		awaitTip(t, client, n)
		requireHeight("on a side chain", id[:], math.MaxUint64)
	})
}
