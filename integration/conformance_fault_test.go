package integration

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// question is what one wallet method asks the node. Only that call fails, and the node is otherwise well; i makes the request differ
// from all others, so that no answer is known from before.
type question struct {
	method string
	asks   string // of Zebra
	want   outcome
	ask    func(i int) (proto.Message, func(zebratest.Call) bool)
}

// smallBlocks is the height above which the faulty node has a hundred blocks that nothing else asks for.
const smallBlocks = 50

func questions() []question {
	unavailable, indexed := always(codes.Unavailable), outcome{codes.Unavailable, codes.OK}
	blockID := func(i int) (proto.Message, func(zebratest.Call) bool) {
		return id(uint64(smallBlocks+i), nil), zebratest.AtHeight(chain.Height(smallBlocks + i))
	}
	blockRange := func(i int) (proto.Message, func(zebratest.Call) bool) {
		return heightRange(uint64(smallBlocks+i), uint64(smallBlocks+i)), zebratest.AtHeight(chain.Height(smallBlocks + i))
	}
	list := []question{
		{getBlock, "getblock", indexed, blockID},
		{getBlockNullifiers, "getblock", indexed, blockID},
		{getBlockRange, "getblock", indexed, blockRange},
		{getBlockRangeNullifiers, "getblock", indexed, blockRange},
		{getTreeState, "z_gettreestate", unavailable, blockID},
		{getTransaction, "getrawtransaction", unavailable, func(i int) (proto.Message, func(zebratest.Call) bool) {
			txid := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 16)
			return &walletrpc.TxFilter{Hash: txid}, names(displayed(txid))
		}},
		{sendTransaction, "sendrawtransaction", unavailable, func(i int) (proto.Message, func(zebratest.Call) bool) {
			raw := chaintest.Tx{Version: 5, BranchID: chaintest.NU7, Inputs: 1, Outputs: 2, Seed: uint64(i)}.Append(nil)
			return &walletrpc.RawTransaction{Data: raw}, names(hex.EncodeToString(raw))
		}},
		{"GetMempoolTx", "getrawmempool", unavailable, func(int) (proto.Message, func(zebratest.Call) bool) { return &walletrpc.GetMempoolTxRequest{}, nil }},
		{getMempoolStream, "getrawmempool", unavailable, func(int) (proto.Message, func(zebratest.Call) bool) { return &walletrpc.Empty{}, nil }},
		{getSubtreeRoots, "z_getsubtreesbyindex", indexed, func(int) (proto.Message, func(zebratest.Call) bool) { return &walletrpc.GetSubtreeRootsArg{}, nil }},
	}
	for method, asks := range map[string]string{
		getTaddressTransactions: "getaddresstxids", getTaddressTxids: "getaddresstxids",
		getTaddressBalance: "getaddressbalance", getTaddressBalanceStream: "getaddressbalance",
		getAddressUtxos: "getaddressutxos", getAddressUtxosStream: "getaddressutxos",
	} {
		list = append(list, question{method, asks, unavailable, func(i int) (proto.Message, func(zebratest.Call) bool) {
			address := distinctAddresses(i + 1)[i]
			return addressRequest(method, address), names(address)
		}})
	}
	return list
}

// names meets the calls that have the text in their parameters.
func names(text string) func(zebratest.Call) bool {
	return func(c zebratest.Call) bool { return bytes.Contains(c.Params, []byte(text)) }
}

func addressRequest(method, address string) proto.Message {
	switch method {
	case getTaddressTransactions, getTaddressTxids:
		return &walletrpc.TransparentAddressBlockFilter{Address: address, Range: heightRange(1, 0)}
	case getTaddressBalance:
		return &walletrpc.AddressList{Addresses: []string{address}}
	case getTaddressBalanceStream:
		return &walletrpc.Address{Address: address}
	}
	return &walletrpc.GetAddressUtxosArg{Addresses: []string{address}}
}

// nonsense are answers that look right and are not. Each is for some of Zebra's methods.
func nonsense(asks string) []misery {
	result := func(name, json string) misery { return misery{name: name, fault: zebratest.Fault{Result: json}} }
	switch asks {
	case "getaddresstxids", "getrawmempool":
		return []misery{result("a short txid", `["00ff"]`), result("a txid that is no hex", fmt.Sprintf(`["%064s"]`, "zz"))}
	case "sendrawtransaction":
		return []misery{result("a short txid", `"00ff"`), result("the id of another transaction", fmt.Sprintf(`"%064d"`, 1))}
	case "getaddressbalance":
		return []misery{result("a fraction", `{"balance":1.5,"received":2}`), result("less than nothing", `{"balance":-1,"received":2}`)}
	case "getaddressutxos":
		return []misery{result("a short txid", `{"utxos":[{"address":"tm","txid":"00ff","outputIndex":0,"script":"","satoshis":1,"height":1}],"hash":"","height":1}`)}
	case "z_gettreestate":
		return []misery{result("another block", `{"hash":"`+fmt.Sprintf("%064d", 1)+`","height":7,"time":1,"sapling":{"commitments":{}},"orchard":{"commitments":{}}}`)}
	case "getblock":
		return []misery{{name: "a block with a broken transaction", fault: zebratest.Fault{Raw: zebratest.FlipLastByte}}}
	}
	return nil
}

// faultsOf are all miseries of one call. One poll of the mempool is for all clients and outlives them, so that one which hangs would
// hold up the rows after it: that case is among outageRows.
func faultsOf(asks string) []misery {
	list := slices.DeleteFunc(miseries(), func(m misery) bool { return m.stop || m.name == hung && asks == "getrawmempool" })
	return append(list, nonsense(asks)...)
}

// TestConformanceFaults lets single calls of a node fail that is otherwise well.
func TestConformanceFaults(t *testing.T) {
	t.Parallel()
	for _, s := range positions() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := newSimulatedChain(t)
			extend(t, c, 100, zebratest.Small)
			n := newSimulatedNode(t, c)
			e := &env{tb: t, position: s, place: simulated, rpc: newRPCClient(hostOf(t, n.URL()), n.CookieFile()), sim: n, middle: 40}
			e.begin(n.URL(), n.CookieFile())
			e.prepare(t)
			testFaults(t, e)
		})
	}
}

// testFaults runs the questions side by side, except for those that cannot be told from each other: they are asked one after the other.
func testFaults(t *testing.T, e *env) {
	var all sync.WaitGroup
	alone := make(map[string]*sync.Mutex) // by what Zebra is asked
	next := 0
	for _, q := range questions() {
		if alone[q.asks] == nil {
			alone[q.asks] = &sync.Mutex{}
		}
		turn := alone[q.asks]
		for _, m := range faultsOf(q.asks) {
			next++
			request, where := q.ask(next)
			all.Go(func() {
				if where == nil {
					turn.Lock()
					defer turn.Unlock()
				}
				f := m.fault
				f.Method, f.Where = q.asks, where
				defer e.sim.Fault(f)()
				if err := e.holdFault(t.Context(), q, m, request); err != nil {
					t.Errorf("%s when %s gives %s: %v", q.method, q.asks, m.name, err)
				}
			})
		}
	}
	all.Wait()
}

func (e *env) holdFault(ctx context.Context, q question, m misery, request proto.Message) error {
	limit, want := outageLimit, q.want
	if m.name == hung {
		limit = time.Second
		for _, code := range []*codes.Code{&want.noIndex, &want.indexed} {
			if *code == codes.Unavailable {
				*code = codes.DeadlineExceeded
			}
		}
	}
	return e.holdWithin(ctx, limit, row{method: q.method, want: want, run: func(ctx context.Context, e *env) error {
		return e.put(ctx, q.method, request)
	}})
}
