package integration

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// TestTransactions follows transparent transactions of the real node from SendTransaction through the mempool into a block, and out of
// the chain again.
func TestTransactions(t *testing.T) { // not parallel: it measures time
	for _, s := range []setup{passthrough, smallSegments} {
		t.Run(s.name, func(t *testing.T) { testTransactions(t, s) })
	}
}

func testTransactions(t *testing.T, s setup) {
	n := fixtureNode(t, "")
	tip, _ := n.tip()
	coins := &spender{node: n, next: 300} // those below were spent when the fixture was made
	early := coins.raw()
	requireSent(t, n, early)

	c := newSidecar(t, n.url(), n.cookie(), s)
	c.start()
	w := c.wallet()
	awaitAnswer(t, w)
	if !s.noIndex {
		c.awaitIndex(tip, time.Minute)
	}

	first := followMempool(t, w) // the very first call, and the mempool is not empty
	first.requireNext(t, early)
	leaving := followMempool(t, w)
	leaving.requireNext(t, early)

	raw := coins.raw()
	id := requireAccepted(t, n, w, raw)
	requireTransaction(t, w, id, raw, 0)
	requireMempool(t, n, w, early, raw)
	first.requireNext(t, raw)
	leaving.cancel()
	requireSameWords(t, n, w, raw)
	first.requireNext(t, requireRefusals(t, n, w, coins))

	late := coins.raw()
	requireAccepted(t, n, w, late)
	first.requireNext(t, late)
	before, err := w.latest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mined := n.mine(1, keyHash)
	first.requireEnd(t)
	after, err := w.latest(t.Context())
	if err != nil || proto.Equal(before, after) {
		t.Errorf("the stream has ended, and the tip is %v after %v (%v)", after, before, err)
	}
	awaitEmptyMempool(t, w)
	awaitMined(t, w, id, mined)
	requireTransaction(t, w, id, raw, uint64(mined))
	requireSameWords(t, n, w, raw)

	requireSideChain(t, n, w, coins)
	second := followMempool(t, w)
	tip, _ = n.tip()
	n.invalidate(tip)
	n.mine(1, saplingOnly)
	second.requireEnd(t)
	requireNothingWithoutZebra(t, n, w, id)
	c.stop()
}

// requireSideChain mines a transaction and replaces the block that has it. While Zebra has forgotten that block the transaction is
// unknown; when it has it again, as part of a side chain, so is the transaction.
//
// Zebra sends again by itself, every now and then, what it was sent a moment ago. When that brings the transaction into the other branch
// it takes another one.
func requireSideChain(t *testing.T, n *node, w *wallet, coins *spender) {
	t.Helper()
	for range 5 {
		raw := coins.raw()
		id := requireAccepted(t, n, w, raw)
		mined := n.mine(1, keyHash)
		awaitMined(t, w, id, mined)
		requireTransaction(t, w, id, raw, uint64(mined))
		hash, display := n.hashAt(mined), hex.EncodeToString(reversedBytes(id))
		n.invalidate(mined)
		n.mine(2, saplingOnly)
		var refusal *rpcError
		if err := n.rpc.call(t.Context(), nil, "getrawtransaction", display, 1); !errors.As(err, &refusal) {
			continue
		}
		err := w.call(t.Context(), "GetTransaction", &walletrpc.TxFilter{Hash: id}, &walletrpc.RawTransaction{})
		requireCode(t, "GetTransaction of a transaction that Zebra has forgotten", err, codes.NotFound)
		n.call(nil, "reconsiderblock", hash)
		await(t, "zebra finds the transaction on the side chain", 5*time.Second, func() bool {
			return n.rpc.call(t.Context(), nil, "getrawtransaction", display, 1) == nil
		})
		requireTransaction(t, w, id, raw, math.MaxUint64)
		return
	}
	t.Error("none of five transactions stayed out of the other branch")
}

// requireRefusals wants sizes that no transaction has to be refused by zsidecar, and everything else by Zebra in its own words. It
// returns the one transaction that is accepted.
func requireRefusals(t *testing.T, n *node, w *wallet, coins *spender) []byte {
	t.Helper()
	for _, size := range []int{0, 2_000_001} {
		err := w.call(t.Context(), "SendTransaction", &walletrpc.RawTransaction{Data: make([]byte, size)}, &walletrpc.SendResponse{})
		requireCode(t, "a transaction of odd size", err, codes.InvalidArgument)
	}
	requireSameWords(t, n, w, []byte{1, 2, 3})
	requireSameWords(t, n, w, make([]byte, 2_000_000))
	requireSameWords(t, n, w, append(binary.LittleEndian.AppendUint32(nil, 7|1<<31), make([]byte, 60)...))

	// A spend of a coin that a transaction in the mempool spends already. Zebra says so with another code when it is asked again.
	in := []prevout{coins.coin(), coins.coin()}
	branch := coins.branch()
	once := transparentTx(true, branch, in, 100)
	requireAccepted(t, n, w, once)
	twice := transparentTx(true, branch, in, 101)
	got := &walletrpc.SendResponse{}
	if err := w.call(t.Context(), "SendTransaction", &walletrpc.RawTransaction{Data: twice}, got); err != nil || got.ErrorCode != -25 {
		t.Errorf("a double spend: %v, %v, want code -25", got, err)
	}
	requireSameWords(t, n, w, twice)
	return once
}

// branch is the consensus branch id of the next block.
func (s *spender) branch() uint32 {
	s.node.tb.Helper()
	var info struct{ Consensus struct{ NextBlock string } }
	s.node.call(&info, "getblockchaininfo")
	branch, err := hex.DecodeString(info.Consensus.NextBlock)
	if err != nil {
		s.node.tb.Fatal(err)
	}
	return binary.BigEndian.Uint32(branch)
}

// raw makes a transaction and sends it to nobody.
func (s *spender) raw() []byte {
	s.node.tb.Helper()
	s.made++
	return transparentTx(s.made%2 == 0, s.branch(), []prevout{s.coin(), s.coin()}, s.made)
}

// requireSent gives the node a transaction behind zsidecar's back.
func requireSent(t *testing.T, n *node, raw []byte) {
	t.Helper()
	n.call(new(string), "sendrawtransaction", hex.EncodeToString(raw))
}

// requireAccepted sends a transaction and returns its id in internal order, as Zebra's mempool has it.
func requireAccepted(t *testing.T, n *node, w *wallet, raw []byte) []byte {
	t.Helper()
	got := &walletrpc.SendResponse{}
	if err := w.call(t.Context(), "SendTransaction", &walletrpc.RawTransaction{Data: raw}, got); err != nil || got.ErrorCode != 0 {
		t.Fatalf("SendTransaction: %v, %v", got, err)
	}
	var ids []string
	n.call(&ids, "getrawmempool")
	if !slices.Contains(ids, got.ErrorMessage) {
		t.Fatalf("SendTransaction answered %q, Zebra's mempool has %q", got.ErrorMessage, ids)
	}
	return reversed(got.ErrorMessage)
}

// requireSameWords sends what Zebra refuses, through zsidecar and directly, and wants the same code and text.
func requireSameWords(t *testing.T, n *node, w *wallet, raw []byte) {
	t.Helper()
	err := n.rpc.call(t.Context(), nil, "sendrawtransaction", hex.EncodeToString(raw))
	var want *rpcError
	if !errors.As(err, &want) {
		t.Fatalf("Zebra should refuse %d bytes, it says %v", len(raw), err)
	}
	got := &walletrpc.SendResponse{}
	if err := w.call(t.Context(), "SendTransaction", &walletrpc.RawTransaction{Data: raw}, got); err != nil {
		t.Errorf("SendTransaction of what Zebra refuses: %v", err)
	}
	if int(got.ErrorCode) != want.Code || got.ErrorMessage != want.Message {
		t.Errorf("SendTransaction answered %d %q, Zebra says %d %q", got.ErrorCode, got.ErrorMessage, want.Code, want.Message)
	}
}

func requireTransaction(t *testing.T, w *wallet, id, raw []byte, height uint64) {
	t.Helper()
	got := &walletrpc.RawTransaction{}
	if err := w.call(t.Context(), "GetTransaction", &walletrpc.TxFilter{Hash: id}, got); err != nil {
		t.Error(err)
	} else if !bytes.Equal(got.Data, raw) || got.Height != height {
		t.Errorf("GetTransaction: %x at %d, want %x at %d", got.Data, got.Height, raw, height)
	}
}

// awaitMined waits until a transaction has a height: wallets are told none above the tip, and Zebra's own mempool follows its tip a moment
// later.
func awaitMined(t *testing.T, w *wallet, id []byte, height int) {
	t.Helper()
	await(t, "the transaction is shown as mined", 10*time.Second, func() bool {
		got := &walletrpc.RawTransaction{}
		return w.call(t.Context(), "GetTransaction", &walletrpc.TxFilter{Hash: id}, got) == nil && got.Height == uint64(height)
	})
}

// mempoolTxs reads GetMempoolTx.
func mempoolTxs(t *testing.T, w *wallet, req *walletrpc.GetMempoolTxRequest) []*walletrpc.CompactTx {
	t.Helper()
	var txs []*walletrpc.CompactTx
	err := w.stream(t.Context(), "GetMempoolTx", req, func(message []byte) error {
		tx := &walletrpc.CompactTx{}
		txs = append(txs, tx)
		return proto.Unmarshal(message, tx)
	})
	if err != nil {
		t.Errorf("GetMempoolTx: %v", err)
	}
	return txs
}

// requireMempool wants GetMempoolTx to show the transactions as Zebra describes them, each to be left out by its id, and none of them
// to a wallet that wants shielded parts.
func requireMempool(t *testing.T, n *node, w *wallet, raw ...[]byte) {
	t.Helper()
	pools := []walletrpc.PoolType{walletrpc.PoolType_TRANSPARENT}
	var ids []string
	n.call(&ids, "getrawmempool") // in the order of their display forms
	if len(ids) != len(raw) {
		t.Fatalf("Zebra's mempool has %d transactions, want %d", len(ids), len(raw))
	}
	var want []*walletrpc.CompactTx
	for _, id := range ids {
		var tx zTx
		n.call(&tx, "getrawtransaction", id, 1)
		want = append(want, compactTxOf(0, tx))
	}
	requireCompactTxs(t, mempoolTxs(t, w, &walletrpc.GetMempoolTxRequest{PoolTypes: pools}), want)
	requireCompactTxs(t, mempoolTxs(t, w, &walletrpc.GetMempoolTxRequest{}), nil)
	id := reversed(ids[0])
	for _, suffix := range [][]byte{id, id[16:]} {
		requireCompactTxs(t, mempoolTxs(t, w, &walletrpc.GetMempoolTxRequest{PoolTypes: pools, ExcludeTxidSuffixes: [][]byte{suffix}}), want[1:])
	}
	all := [][]byte{{}, reversed(ids[0])[:8]} // nothing, and the beginning
	requireCompactTxs(t, mempoolTxs(t, w, &walletrpc.GetMempoolTxRequest{PoolTypes: pools, ExcludeTxidSuffixes: all}), want)
}

func requireCompactTxs(t *testing.T, got, want []*walletrpc.CompactTx) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("GetMempoolTx sent %d transactions, want %d", len(got), len(want))
		return
	}
	for i := range got {
		if !proto.Equal(got[i], want[i]) {
			t.Errorf("GetMempoolTx:\n got %s\nwant %s", prototext.Format(got[i]), prototext.Format(want[i]))
		}
	}
}

// awaitEmptyMempool waits for the snapshot to be of after the block, at most the two seconds that it may be old.
func awaitEmptyMempool(t *testing.T, w *wallet) {
	t.Helper()
	await(t, "GetMempoolTx shows nothing any more", 3*time.Second, func() bool {
		return len(mempoolTxs(t, w, &walletrpc.GetMempoolTxRequest{PoolTypes: []walletrpc.PoolType{walletrpc.PoolType_TRANSPARENT}})) == 0
	})
}

// requireNothingWithoutZebra wants each method to say that it cannot answer when the node is gone, and no stream to end as if a block
// had come.
func requireNothingWithoutZebra(t *testing.T, n *node, w *wallet, id []byte) {
	t.Helper()
	stream := followMempool(t, w)
	await(t, "the stream is open", 5*time.Second, func() bool { return stream.open() })
	n.stop()
	time.Sleep(2100 * time.Millisecond) // a snapshot may be so old
	for method, request := range map[string]proto.Message{
		"GetTransaction":  &walletrpc.TxFilter{Hash: id},
		"SendTransaction": &walletrpc.RawTransaction{Data: []byte{1, 2, 3}},
	} {
		begin := time.Now()
		requireCode(t, method+" without Zebra", w.call(t.Context(), method, request, new([]byte)), codes.Unavailable)
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s without Zebra answered after %v", method, took)
		}
	}
	for method, request := range map[string]proto.Message{"GetMempoolTx": &walletrpc.GetMempoolTxRequest{}, "GetMempoolStream": &walletrpc.Empty{}} {
		err := w.stream(t.Context(), method, request, func([]byte) error { return nil })
		requireCode(t, method+" without Zebra", err, codes.Unavailable)
	}
	select {
	case err := <-stream.ended:
		requireCode(t, "a stream that was open when Zebra left", err, codes.Unavailable)
	case <-time.After(20 * time.Second):
		t.Error("a stream is still open 20 s after Zebra left")
	}
}

// mempoolStream is a running GetMempoolStream.
type mempoolStream struct {
	cancel context.CancelFunc
	txs    chan []byte
	ended  chan error
}

func followMempool(t *testing.T, w *wallet) *mempoolStream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s := &mempoolStream{cancel: cancel, txs: make(chan []byte, 100), ended: make(chan error, 1)}
	go func() {
		s.ended <- w.stream(ctx, "GetMempoolStream", &walletrpc.Empty{}, func(message []byte) error {
			s.txs <- bytes.Clone(message)
			return nil
		})
	}()
	return s
}

// open tells that the stream has not ended.
func (s *mempoolStream) open() bool { return len(s.ended) == 0 }

// requireNext wants the next transaction within a second, with height 0. Others than wanted fail the test: each comes once.
func (s *mempoolStream) requireNext(t *testing.T, raw []byte) {
	t.Helper()
	s.requireNextWithin(t, raw, time.Second)
}

func (s *mempoolStream) requireNextWithin(t *testing.T, raw []byte, limit time.Duration) {
	t.Helper()
	select {
	case message := <-s.txs:
		got := &walletrpc.RawTransaction{}
		if err := proto.Unmarshal(message, got); err != nil || !bytes.Equal(got.Data, raw) || got.Height != 0 {
			t.Errorf("GetMempoolStream: %x at %d (%v), want %x", got.Data, got.Height, err, raw)
		}
	case err := <-s.ended:
		t.Fatalf("GetMempoolStream ended: %v", err)
	case <-time.After(limit):
		t.Errorf("GetMempoolStream: nothing within %v", limit)
	}
}

// requireEnd wants the stream to end OK within a second.
func (s *mempoolStream) requireEnd(t *testing.T) {
	t.Helper()
	s.requireEndWithin(t, time.Second)
}

func (s *mempoolStream) requireEndWithin(t *testing.T, limit time.Duration) {
	t.Helper()
	for {
		select {
		case message := <-s.txs:
			t.Errorf("GetMempoolStream: one more transaction %x", message)
		case err := <-s.ended:
			if err != nil {
				t.Errorf("GetMempoolStream ended: %v, want OK", err)
			}
			return
		case <-time.After(limit):
			t.Errorf("GetMempoolStream goes on %v after the tip has changed", limit)
			return
		}
	}
}
