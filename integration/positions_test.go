package integration

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// TestPositionsAgree asks the same of two servers beside the same node, one without an index and one with a complete one: every byte of
// every answer is the same, whoever gave it. The chain has complete subtrees on both sides of the edge between sealed and recent blocks.
func TestPositionsAgree(t *testing.T) {
	t.Parallel()
	c := newSimulatedChain(t)
	extend(t, c, 33, wideSapling)
	extend(t, c, 40, zebratest.Paying(transparentAddress(t, keyHash), 3))
	extend(t, c, 33, wideSapling)
	n := newSimulatedNode(t, c)
	for seed := range uint64(20) {
		n.AddTransactions(chaintest.Tx{Version: 5, BranchID: chaintest.NU7, Inputs: 1, Outputs: 2, Seed: seed}.Append(nil))
		n.AddTransactions(chaintest.Tx{Version: 6, Ironwood: 1, Seed: seed}.Append(nil))
	}
	var both [2]*env
	for i, s := range positions() {
		both[i] = &env{tb: t, position: s, place: simulated, rpc: newRPCClient(hostOf(t, n.URL()), n.CookieFile()), sim: n, middle: 100}
		both[i].begin(n.URL(), n.CookieFile())
	}
	count := 0
	for _, x := range positionRequests(both[0]) {
		var answers [2][][]byte
		for i, e := range both {
			var err error
			if answers[i], err = e.messages(t.Context(), x); err != nil {
				t.Fatalf("%s %v %s: %v", x.method, x.request, e.position.name, err)
			}
		}
		count += len(answers[0])
		if !slices.EqualFunc(answers[0], answers[1], bytes.Equal) {
			t.Errorf("%s %v: %d messages without an index, %d with a complete one, and they differ", x.method, x.request, len(answers[0]), len(answers[1]))
		}
	}
	if count < 1000 {
		t.Errorf("only %d messages were compared", count)
	}
	roots, err := both[1].messages(t.Context(), exchange{getSubtreeRoots, &walletrpc.GetSubtreeRootsArg{}})
	if err != nil || len(roots) != 2 {
		t.Errorf("%d Sapling subtree roots, %v; want one below the edge and one above", len(roots), err)
	}
}

// positionRequests are requests that are answered, of every method whose answers end by themselves and do not change the node.
func positionRequests(e *env) (list []exchange) {
	for _, x := range everyMethod(e) {
		if x.method != getTransaction && x.method != getMempoolStream && x.method != "Ping" {
			list = append(list, x)
		}
	}
	add := func(method string, request proto.Message) { list = append(list, exchange{method, request}) }
	all := [][]walletrpc.PoolType{nil, {walletrpc.PoolType_TRANSPARENT}, {walletrpc.PoolType_SAPLING}, {walletrpc.PoolType_ORCHARD}, {walletrpc.PoolType_IRONWOOD},
		{walletrpc.PoolType_IRONWOOD, walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING, walletrpc.PoolType_ORCHARD}}
	for _, pools := range all {
		for _, method := range []string{getBlockRange, getBlockRangeNullifiers} {
			for _, ends := range [][2]uint64{{0, 50}, {50, 0}, {82, 125}, {125, 82}} { // every kind of block, and the edge
				add(method, &walletrpc.BlockRange{Start: id(ends[0], nil), End: id(ends[1], nil), PoolTypes: pools})
			}
		}
		add("GetMempoolTx", &walletrpc.GetMempoolTxRequest{PoolTypes: pools})
	}
	for height := uint64(1); height <= e.tip; height += 3 {
		add(getBlock, id(height, nil))
		add(getBlockNullifiers, id(height, nil))
		add(getTreeState, id(height, nil))
	}
	for _, pool := range []walletrpc.ShieldedProtocol{walletrpc.ShieldedProtocol_sapling, walletrpc.ShieldedProtocol_orchard, walletrpc.ShieldedProtocol_ironwood} {
		for start := range uint32(4) {
			for limit := range uint32(4) {
				add(getSubtreeRoots, &walletrpc.GetSubtreeRootsArg{ShieldedProtocol: pool, StartIndex: start, MaxEntries: limit})
			}
		}
	}
	return list
}

// messages are the bytes of an answer.
func (e *env) messages(ctx context.Context, x exchange) ([][]byte, error) {
	if streamed(x.method) && x.method != getTaddressBalanceStream {
		return e.read(ctx, x.method, x.request)
	}
	if x.method == getTaddressBalanceStream {
		balance, err := e.streamedBalance(ctx, keyHash)
		return [][]byte{fmt.Append(nil, balance)}, err
	}
	var answer []byte
	err := e.call(ctx, x.method, x.request, &answer)
	return [][]byte{answer}, err
}

// streamedBalance asks through the stream.
func (e *env) streamedBalance(ctx context.Context, address string) (int64, error) {
	stream, err := e.client().GetTaddressBalanceStream(ctx)
	if err != nil {
		return 0, err
	}
	if err := stream.Send(&walletrpc.Address{Address: address}); err != nil {
		return 0, err
	}
	balance, err := stream.CloseAndRecv()
	return balance.GetValueZat(), err
}
