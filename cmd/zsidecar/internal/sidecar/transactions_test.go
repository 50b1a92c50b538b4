package sidecar

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// unavailable is the text of every answer that the node's trouble is the reason for.
const unavailable = "the node that knows the answer cannot be asked at present, try again later"

// txWallet asks for transactions.
type txWallet struct {
	walletrpc.CompactTxStreamerClient
	t *testing.T
}

// positions runs a test beside a node of its own, without an index and with a complete one.
func positions(t *testing.T, test func(t *testing.T, n *zebratest.Node, w txWallet)) {
	for _, noIndex := range []bool{true, false} {
		name := "index"
		if noIndex {
			name = "no index"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, 30, zebratest.NodeOptions{})
			startNode(t, n)
			s, _ := run(t, settings(t, func(c *config.Config) { c.Zebra, c.NoIndex, c.HTTP = n.URL(), noIndex, "" }))
			await(t, "it is known which methods the node has", func() bool { return s.missing.Load() != nil })
			n.ResetCounts()
			await(t, "SERVING", func() bool { return serving(t, s) })
			if !noIndex {
				await(t, "complete", func() bool { return s.Health().Index.State == "complete" })
			}
			conn, err := grpc.NewClient(s.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			test(t, n, txWallet{walletrpc.NewCompactTxStreamerClient(conn), t})
		})
	}
}

func (w txWallet) get(id []byte) (*walletrpc.RawTransaction, error) {
	return w.GetTransaction(w.t.Context(), &walletrpc.TxFilter{Hash: id})
}

func (w txWallet) send(raw []byte) (*walletrpc.SendResponse, error) {
	return w.SendTransaction(w.t.Context(), &walletrpc.RawTransaction{Data: raw})
}

// mempool returns the ids that GetMempoolTx sends.
func (w txWallet) mempool() ([][]byte, error) {
	stream, err := w.GetMempoolTx(w.t.Context(), &walletrpc.GetMempoolTxRequest{})
	if err != nil {
		return nil, err
	}
	var ids [][]byte
	for {
		tx, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return ids, nil
		}
		if err != nil {
			return ids, err
		}
		ids = append(ids, tx.Txid)
	}
}

// follow returns the first transaction of a GetMempoolStream, or what it ends with.
func (w txWallet) follow() ([]byte, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	stream, err := w.GetMempoolStream(ctx, &walletrpc.Empty{})
	if err != nil {
		return nil, err
	}
	tx, err := stream.Recv()
	return tx.GetData(), err
}

func wantCode(t *testing.T, what string, err error, code codes.Code, text string) {
	t.Helper()
	if s := status.Convert(err); s.Code() != code || s.Message() != text {
		t.Errorf("%s: %v, want %v %q", what, err, code, text)
	}
}

func ironwoodTx(seed uint64) []byte {
	return chaintest.Tx{Version: 6, Ironwood: 1, Seed: seed}.Append(nil)
}

// Whatever the node answers in place of what was asked, no method takes it for an answer.
func TestTransactionsOutage(t *testing.T) {
	t.Parallel()
	positions(t, func(t *testing.T, n *zebratest.Node, w txWallet) {
		raw := ironwoodTx(1)
		id := n.AddTransactions(raw)[0]
		for _, c := range []struct {
			name  string
			fault zebratest.Fault
		}{
			{"closed connection", zebratest.Fault{Drop: true}},
			{"429", zebratest.Fault{Status: 429}},
			{"502", zebratest.Fault{Status: 502}},
			{"404", zebratest.Fault{Status: 404}},
			{"an HTML page", zebratest.Fault{Status: 200}},
			{"an empty body", zebratest.Fault{Body: zebratest.Empty}},
			{"cut off", zebratest.Fault{CutOff: true}},
			{"another's answer", zebratest.Fault{WrongID: true}},
			{"a number", zebratest.Fault{Result: `5`}},
			{"null", zebratest.Fault{Result: `null`}},
			{"short txids", zebratest.Fault{Result: `["ab"]`}},
			{"a short txid", zebratest.Fault{Result: `"abc"`}},
			{"wrong members", zebratest.Fault{Result: `{"in_active_chain":"yes","hex":"00","height":-2}`}},
			{"warming up", zebratest.Fault{Error: &zebratest.Error{Code: -28, Message: "Loading"}}},
			{"an unknown method", zebratest.Fault{Error: &zebratest.Error{Code: -32601, Message: "Method not found"}}},
		} {
			fault := func(method string) func() {
				f := c.fault
				f.Method = method
				return n.Fault(f)
			}
			removes := []func(){fault("getrawtransaction"), fault("sendrawtransaction")}
			var asked sync.WaitGroup // of two methods at a time, since each waits for a node that may come back
			asked.Go(func() {
				_, err := w.get(id[:])
				wantCode(t, c.name+": GetTransaction", err, codes.Unavailable, unavailable)
			})
			_, err := w.send(ironwoodTx(99))
			wantCode(t, c.name+": SendTransaction", err, codes.Unavailable, unavailable)
			asked.Wait()

			removes = append(removes, fault("getrawmempool")) // the send has made every snapshot too old
			asked.Go(func() {
				_, err := w.follow()
				wantCode(t, c.name+": GetMempoolStream", err, codes.Unavailable, unavailable)
			})
			_, err = w.mempool()
			wantCode(t, c.name+": GetMempoolTx", err, codes.Unavailable, unavailable)
			asked.Wait()
			for _, remove := range removes {
				remove()
			}
		}
		if got, err := w.get(id[:]); err != nil || !bytes.Equal(got.Data, raw) {
			t.Errorf("afterwards: %v, %v", got, err)
		}
		// The transaction whose answers were lost has arrived, and never twice.
		if ids, err := w.mempool(); err != nil || len(ids) != 2 {
			t.Errorf("afterwards: %x, %v", ids, err)
		}
		if sends := n.Requests("sendrawtransaction"); sends != 15 {
			t.Errorf("15 sends were %d requests", sends)
		}

		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, err := w.get(id[:])
		wantCode(t, "gone: GetTransaction", err, codes.Unavailable, unavailable)
		_, err = w.send(raw)
		wantCode(t, "gone: SendTransaction", err, codes.Unavailable, unavailable)
		_, err = w.mempool()
		wantCode(t, "gone: GetMempoolTx", err, codes.Unavailable, unavailable)
		_, err = w.follow()
		wantCode(t, "gone: GetMempoolStream", err, codes.Unavailable, unavailable)
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("without a node the four answers took %v", took)
		}
	})
}

// A node that takes a request and never answers costs the wallet no more than the ten seconds that it is given.
func TestTransactionsHung(t *testing.T) {
	t.Parallel()
	positions(t, func(t *testing.T, n *zebratest.Node, w txWallet) {
		defer n.Fault(zebratest.Fault{Method: "getrawtransaction", Hang: true})()
		defer n.Fault(zebratest.Fault{Method: "getrawmempool", Hang: true})()
		id := n.AddTransactions(ironwoodTx(1))[0]
		begin := time.Now()
		answers := make(chan error, 2)
		go func() { _, err := w.get(id[:]); answers <- err }()
		go func() { _, err := w.mempool(); answers <- err }()
		for range 2 {
			wantCode(t, "hung", <-answers, codes.Unavailable, unavailable)
		}
		if took := time.Since(begin); took > 11*time.Second {
			t.Errorf("the answers took %v", took)
		}
	})
}

// A transaction from SendTransaction to a block, and to a side chain; each method sees each step at once.
func TestTransactionLife(t *testing.T) {
	t.Parallel()
	positions(t, func(t *testing.T, n *zebratest.Node, w txWallet) {
		for seed := range uint64(5) { // again and again within the two seconds that a snapshot may be old
			raw := ironwoodTx(seed + 1)
			answer, err := w.send(raw)
			if err != nil || answer.ErrorCode != 0 {
				t.Fatal(answer, err)
			}
			ids, err := w.mempool()
			if err != nil || len(ids) != int(seed)+1 {
				t.Errorf("after %d sends the mempool has %d transactions, %v", seed+1, len(ids), err)
			}
			shown := slices.ContainsFunc(ids, func(id []byte) bool {
				tx, err := w.get(id)
				return err == nil && bytes.Equal(tx.Data, raw) && tx.Height == 0
			})
			if !shown {
				t.Errorf("transaction %s is not shown", answer.ErrorMessage)
			}
			answer, err = w.send(raw)
			if err != nil || answer.ErrorCode != -1 || answer.ErrorMessage != "transaction already exists in mempool" {
				t.Errorf("sent twice: %v, %v", answer, err)
			}
		}
		id := n.AddTransactions(ironwoodTx(100))[0]
		stream, err := w.GetMempoolStream(t.Context(), &walletrpc.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.MineMempool(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("after a block: %v, want the end", err)
		}
		if tip, err := w.GetLatestBlock(t.Context(), &walletrpc.ChainSpec{}); err != nil || tip.Height != 31 {
			t.Errorf("the stream has ended, and the tip is %v, %v", tip, err)
		}
		if tx, err := w.get(id[:]); err != nil || tx.Height != 31 {
			t.Errorf("mined: %v, %v", tx.GetHeight(), err)
		}
		if err := n.Chain().Reorg(1, 2, zebratest.Small); err != nil {
			t.Fatal(err)
		}
		if tx, err := w.get(id[:]); err != nil || tx.Height != math.MaxUint64 {
			t.Errorf("on a side chain: %v, %v", tx.GetHeight(), err)
		}
		id[0] ^= 1
		_, err = w.get(id[:])
		wantCode(t, "unknown", err, codes.NotFound, "Transaction not found: "+id.String())
	})
}

// The first stream after the start gets a full mempool, and GetMempoolTx the same.
func TestFullMempool(t *testing.T) {
	t.Parallel()
	positions(t, func(t *testing.T, n *zebratest.Node, w txWallet) {
		const count = 3000
		want := make(map[string]bool)
		var raw [][]byte
		for seed := range uint64(count) {
			raw = append(raw, ironwoodTx(seed+1))
			want[string(raw[seed])] = true
		}
		n.AddTransactions(raw...)
		stream, err := w.GetMempoolStream(t.Context(), &walletrpc.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		for range count {
			tx, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if !want[string(tx.Data)] {
				t.Fatalf("%x is not in the mempool, or came twice", tx.Data)
			}
			delete(want, string(tx.Data))
		}
		ids, err := w.mempool()
		if err != nil || len(ids) != count {
			t.Errorf("%d transactions, %v", len(ids), err)
		}
		if fetched := n.Requests("getrawtransaction"); fetched != count {
			t.Errorf("%d transactions were fetched, want each once", fetched)
		}
	})
}
