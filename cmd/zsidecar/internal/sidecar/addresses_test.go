package sidecar

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// addressAnswers are what the six methods say of an address: transactions, zatoshis or outputs.
func addressAnswers(ctx context.Context, client walletrpc.CompactTxStreamerClient, address string) map[string]func() (int64, error) {
	filter := &walletrpc.TransparentAddressBlockFilter{Address: address, Range: &walletrpc.BlockRange{Start: &walletrpc.BlockID{Height: 1}}}
	utxos := &walletrpc.GetAddressUtxosArg{Addresses: []string{address}}
	return map[string]func() (int64, error){
		"GetTaddressTxids":        func() (int64, error) { return count(client.GetTaddressTxids(ctx, filter)) },
		"GetTaddressTransactions": func() (int64, error) { return count(client.GetTaddressTransactions(ctx, filter)) },
		"GetTaddressBalance": func() (int64, error) {
			b, err := client.GetTaddressBalance(ctx, &walletrpc.AddressList{Addresses: []string{address}})
			return b.GetValueZat(), err
		},
		"GetTaddressBalanceStream": func() (int64, error) {
			stream, err := client.GetTaddressBalanceStream(ctx)
			if err != nil {
				return 0, err
			}
			_ = stream.Send(&walletrpc.Address{Address: address}) // the answer says what went wrong
			b, err := stream.CloseAndRecv()
			return b.GetValueZat(), err
		},
		"GetAddressUtxos": func() (int64, error) {
			list, err := client.GetAddressUtxos(ctx, utxos)
			return int64(len(list.GetAddressUtxos())), err
		},
		"GetAddressUtxosStream": func() (int64, error) { return count(client.GetAddressUtxosStream(ctx, utxos)) },
	}
}

// addressAnswer is what came of one of the six methods.
type addressAnswer struct {
	n   int64
	err error
}

// askAddress asks all six methods at once: they wait, each by itself, for a node that does not answer.
func askAddress(ctx context.Context, client walletrpc.CompactTxStreamerClient, address string) map[string]addressAnswer {
	answers := make(map[string]addressAnswer)
	var mu sync.Mutex
	var wait sync.WaitGroup
	for method, ask := range addressAnswers(ctx, client, address) {
		wait.Go(func() {
			n, err := ask()
			mu.Lock()
			defer mu.Unlock()
			answers[method] = addressAnswer{n, err}
		})
	}
	wait.Wait()
	return answers
}

func count[T any](stream grpc.ServerStreamingClient[T], err error) (n int64, _ error) {
	for err == nil {
		if _, err = stream.Recv(); err == nil {
			n++
		}
	}
	if errors.Is(err, io.EOF) {
		return n, nil
	}
	return n, err
}

// TestAddressesBesideBrokenNode has Zebra answer everything about addresses with nonsense, or not at all: nobody is told that there is
// nothing.
func TestAddressesBesideBrokenNode(t *testing.T) {
	t.Parallel()
	to := chain.TransparentAddress{Hash: [20]byte{7}}
	address := to.String(chain.TestNetwork)
	for name, noIndex := range map[string]bool{"no index": true, "index": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, 5, zebratest.NodeOptions{})
			if err := n.Chain().Extend(4, zebratest.Paying(to, 3)); err != nil {
				t.Fatal(err)
			}
			startNode(t, n)
			s, _ := run(t, settings(t, func(c *config.Config) { c.Zebra, c.NoIndex, c.HTTP = n.URL(), noIndex, "" }))
			client := connect(t, s)
			await(t, "the node's last block is the tip", func() bool {
				tip, err := client.GetLatestBlock(t.Context(), &walletrpc.ChainSpec{})
				return err == nil && tip.Height == 9 && (noIndex || s.Health().Index.State == "complete")
			})
			wants := map[string]int64{
				"GetTaddressTxids": 8, "GetTaddressTransactions": 8, "GetAddressUtxos": 13, "GetAddressUtxosStream": 13,
				"GetTaddressBalance": 9*zebratest.PaidByCoinbase + 4*zebratest.PaidBySpend,
			}
			wants["GetTaddressBalanceStream"] = wants["GetTaddressBalance"]
			for method, got := range askAddress(t.Context(), client, address) {
				if got.err != nil || got.n != wants[method] {
					t.Errorf("%s: %d, %v; want %d", method, got.n, got.err, wants[method])
				}
			}
			for what, f := range map[string]zebratest.Fault{
				"HTML page": {Status: http.StatusOK}, "429": {Status: http.StatusTooManyRequests}, "502": {Status: http.StatusBadGateway},
				"empty body": {Body: zebratest.Empty}, "cut off": {CutOff: true}, "a string": {Result: `"x"`}, "null": {Result: "null"},
				"a number": {Result: "5"}, "an object": {Result: `{"utxos":5}`}, "short txid": {Result: `["00"]`}, "wrong id": {WrongID: true},
				"closed": {Drop: true}, "warming up": {Error: &zebratest.Error{Code: -28, Message: "Loading"}},
				"refused":    {Error: &zebratest.Error{Code: -5, Message: "parse error: invalid Bech32 encoding"}},
				"committing": {Error: &zebratest.Error{Code: -1, Message: "unable to get UTXOs: state was committing a block, and non-finalized chain is empty"}},
			} {
				var removes []func()
				for _, method := range []string{"getaddressbalance", "getaddresstxids", "getaddressutxos"} {
					f.Method = method
					removes = append(removes, n.Fault(f))
				}
				for method, got := range askAddress(t.Context(), client, address) {
					if st := status.Convert(got.err); st.Code() != codes.Unavailable || st.Message() != unavailable {
						t.Errorf("%s, %s: %v", what, method, got.err)
					}
				}
				for _, remove := range removes {
					remove()
				}
			}
			n.Fault(zebratest.Fault{Method: "getrawtransaction", Error: &zebratest.Error{Code: -5, Message: "Transaction not found in mempool or best chain"}})
			_, err := addressAnswers(t.Context(), client, address)["GetTaddressTxids"]()
			if status.Code(err) != codes.Aborted {
				t.Errorf("a transaction that is gone when it is read: %v", err)
			}
			n.ClearFaults()

			for _, method := range []string{"getaddressbalance", "getaddresstxids", "getaddressutxos"} {
				n.Fault(zebratest.Fault{Method: method, Hang: true})
			}
			short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			for method, ask := range addressAnswers(short, client, address) {
				if _, err := ask(); status.Code(err) != codes.DeadlineExceeded {
					t.Errorf("hung, %s: %v", method, err)
				}
			}
			n.ClearFaults()
			if err := n.Stop(); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			for method, ask := range addressAnswers(t.Context(), client, address) {
				if _, err := ask(); status.Code(err) != codes.Unavailable {
					t.Errorf("away, %s: %v", method, err)
				}
			}
			for method, ask := range addressAnswers(t.Context(), client, address[:34]+"1") {
				if _, err := ask(); status.Code(err) != codes.InvalidArgument {
					t.Errorf("away, %s of no address: %v", method, err)
				}
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("an outage was noticed after %v", took)
			}
		})
	}
}
