package integration

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

const (
	getTransaction  = "GetTransaction"
	sendTransaction = "SendTransaction"
)

func transactionRows() (rows []row) {
	for _, c := range []struct {
		name   string
		filter *walletrpc.TxFilter
		code   codes.Code
		text   string
	}{
		{"unknown", &walletrpc.TxFilter{Hash: wrongHash}, codes.NotFound, "Transaction not found"},
		{"hash absent", &walletrpc.TxFilter{}, codes.InvalidArgument, "hash"},
		{"hash of 31 bytes", &walletrpc.TxFilter{Hash: wrongHash[:31]}, codes.InvalidArgument, "hash"},
		{"hash of 33 bytes", &walletrpc.TxFilter{Hash: append(wrongHash[:32:32], 0)}, codes.InvalidArgument, "hash"},
		{"block and index", &walletrpc.TxFilter{Block: id(1, nil), Index: 1}, codes.InvalidArgument, "hash"},
	} {
		rows = append(rows, row{getTransaction, c.name, always(c.code), c.text, anywhere, func(ctx context.Context, e *env) error {
			return e.ask(ctx, getTransaction, c.filter)
		}})
	}
	return append(rows,
		row{getTransaction, "mined: its height", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			txid, err := e.minedTxid(ctx)
			if err != nil {
				return err
			}
			return e.requireAt(ctx, txid, e.middle)
		}},
		row{getTransaction, "txid in display order", always(codes.NotFound), "Transaction not found", anywhere, func(ctx context.Context, e *env) error {
			txid, err := e.minedTxid(ctx)
			if err != nil {
				return err
			}
			return e.requireAt(ctx, reversedBytes(txid), 0)
		}},
		row{getTransaction, "in the mempool: height 0", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			ids, err := e.pooled(ctx)
			if err != nil {
				return err
			}
			return e.requireAt(ctx, ids[0], 0)
		}},
		row{getTransaction, "on a side chain only: height 2^64-1", always(codes.OK), "", simulated, onSideChain},
		row{getTransaction, "in a block that GetLatestBlock does not name yet: height 0", always(codes.OK), "", simulated, aboveTheTip},
	)
}

// requireAt wants the transaction as Zebra has it, at the height.
func (e *env) requireAt(ctx context.Context, txid []byte, height uint64) error {
	got := &walletrpc.RawTransaction{}
	if err := e.call(ctx, getTransaction, &walletrpc.TxFilter{Hash: txid}, got); err != nil {
		return err
	}
	var want struct{ Hex string }
	if err := e.rpc.call(ctx, &want, "getrawtransaction", displayed(txid), 1); err != nil {
		return err
	}
	if got.Height != height || hex.EncodeToString(got.Data) != want.Hex {
		return wrong("%x at height %d, want %s at %d", got.Data, got.Height, want.Hex, height)
	}
	return nil
}

func onSideChain(ctx context.Context, e *env) error {
	c := e.sim.Chain()
	if err := c.Extend(1, zebratest.Small); err != nil {
		return err
	}
	var block struct{ Tx []string }
	if err := e.rpc.call(ctx, &block, "getblock", e.newestDisplayed(ctx), 1); err != nil {
		return err
	}
	if err := c.Reorg(1, 2, zebratest.Small); err != nil {
		return err
	}
	if err := e.settle(ctx); err != nil {
		return err
	}
	return e.requireAt(ctx, reversed(block.Tx[0]), math.MaxUint64)
}

// aboveTheTip has the node mine a block without saying so, and then say so.
func aboveTheTip(ctx context.Context, e *env) error {
	c := e.sim.Chain()
	tip := c.Tip()
	thaw := e.sim.Fault(zebratest.Fault{
		Method: "getbestblockheightandhash", Result: fmt.Sprintf(`{"height":%d,"hash":"%s"}`, tip.Height, tip.Hash),
	})
	defer thaw()
	if err := c.Extend(1, zebratest.Small); err != nil {
		return err
	}
	var block struct{ Tx []string }
	if err := e.rpc.call(ctx, &block, "getblock", strconv.Itoa(int(tip.Height)+1), 1); err != nil {
		return err
	}
	if err := e.requireAt(ctx, reversed(block.Tx[0]), 0); err != nil {
		return err
	}
	thaw()
	if err := e.settle(ctx); err != nil {
		return err
	}
	return e.requireAt(ctx, reversed(block.Tx[0]), uint64(tip.Height)+1)
}

// newestDisplayed is the hash of the node's tip now.
func (e *env) newestDisplayed(ctx context.Context) string {
	var hash string
	_ = e.rpc.call(ctx, &hash, "getbestblockhash") // an empty hash fails where it is used
	return hash
}

func sendRows() (rows []row) {
	for _, c := range []struct {
		name string
		data []byte
		want outcome
		text string
	}{
		{"no bytes", nil, always(codes.InvalidArgument), "2000000"},
		{"2,000,001 bytes", make([]byte, 2_000_001), always(codes.InvalidArgument), "2000000"},
		{"more than 4 MiB", make([]byte, 4<<20), always(codes.ResourceExhausted), ""},
	} {
		rows = append(rows, row{sendTransaction, c.name, c.want, c.text, anywhere, func(ctx context.Context, e *env) error {
			return e.ask(ctx, sendTransaction, &walletrpc.RawTransaction{Data: c.data})
		}})
	}
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"2,000,000 bytes that are no transaction: Zebra's code and text", make([]byte, 2_000_000)},
		{"three bytes: Zebra's code and text", []byte{1, 2, 3}},
		{"unknown version: Zebra's code and text", append(binary.LittleEndian.AppendUint32(nil, 7|1<<31), make([]byte, 60)...)},
	} {
		rows = append(rows, row{sendTransaction, c.name, always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			return e.requireZebrasWords(ctx, c.data)
		}})
	}
	return append(rows,
		row{sendTransaction, "accepted: errorCode 0 and the txid, found by GetTransaction and GetMempoolTx at once", always(codes.OK), "", anywhere, acceptedAtOnce},
		row{sendTransaction, "sent twice: Zebra's code and text", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			raw := e.pay()
			if _, err := e.send(ctx, raw); err != nil {
				return err
			}
			got, err := e.send(ctx, raw)
			if err == nil && (got.ErrorCode >= 0 || !strings.Contains(got.ErrorMessage, "already exists in mempool")) {
				return wrong("%v", got)
			}
			return err
		}},
		row{sendTransaction, "connection lost after sending: asked once", always(codes.Unavailable), "", simulated, func(ctx context.Context, e *env) error {
			before := e.sim.Requests("sendrawtransaction")
			defer e.sim.Fault(zebratest.Fault{Method: "sendrawtransaction", Drop: true})()
			_, err := e.send(ctx, e.pay())
			if n := e.sim.Requests("sendrawtransaction") - before; n != 1 {
				return wrong("Zebra was asked %d times (%v)", n, err)
			}
			return err
		}},
	)
}

func (e *env) send(ctx context.Context, raw []byte) (*walletrpc.SendResponse, error) {
	got := &walletrpc.SendResponse{}
	return got, e.call(ctx, sendTransaction, &walletrpc.RawTransaction{Data: raw}, got)
}

// requireZebrasWords sends what Zebra refuses, through the server and directly.
func (e *env) requireZebrasWords(ctx context.Context, raw []byte) error {
	var want *rpcError
	if err := e.rpc.call(ctx, nil, "sendrawtransaction", hex.EncodeToString(raw)); !errors.As(err, &want) {
		return wrong("zebra should refuse %d bytes: %v", len(raw), err)
	}
	got, err := e.send(ctx, raw)
	if err == nil && (int(got.ErrorCode) != want.Code || got.ErrorMessage != want.Message) {
		return wrong("%d %q, Zebra says %d %q", got.ErrorCode, got.ErrorMessage, want.Code, want.Message)
	}
	return err
}

func acceptedAtOnce(ctx context.Context, e *env) error {
	if _, err := e.read(ctx, "GetMempoolTx", &walletrpc.GetMempoolTxRequest{}); err != nil { // so that there is a snapshot without it
		return err
	}
	raw := e.pay()
	got, err := e.send(ctx, raw)
	if err != nil {
		return err
	}
	txid := reversed(got.ErrorMessage)
	if got.ErrorCode != 0 || len(txid) != 32 {
		return wrong("%v", got)
	}
	if err := e.requireAt(ctx, txid, 0); err != nil {
		return err
	}
	ids, err := e.mempoolIDs(ctx)
	if err == nil && !containsBytes(ids, txid) {
		return wrong("GetMempoolTx does not show %x", txid)
	}
	return err
}

// mempoolIDs are the ids that GetMempoolTx sends, whatever their pools.
func (e *env) mempoolIDs(ctx context.Context, suffixes ...[]byte) (ids [][]byte, err error) {
	request := &walletrpc.GetMempoolTxRequest{
		ExcludeTxidSuffixes: suffixes,
		PoolTypes:           []walletrpc.PoolType{walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING, walletrpc.PoolType_ORCHARD, walletrpc.PoolType_IRONWOOD},
	}
	err = e.stream(ctx, "GetMempoolTx", request, func(m []byte) error {
		tx := &walletrpc.CompactTx{}
		if err := proto.Unmarshal(m, tx); err != nil {
			return wrong("%v", err)
		}
		if tx.Index != 0 || len(tx.Vin) == 0 {
			return wrong("%v", tx)
		}
		ids = append(ids, tx.Txid)
		return nil
	})
	return ids, err
}

func containsBytes(list [][]byte, b []byte) bool {
	for _, l := range list {
		if bytes.Equal(l, b) {
			return true
		}
	}
	return false
}
