package lightwallet

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

func TestGetTransaction(t *testing.T) {
	t.Parallel()
	source := &fakeSource{blocks: fakeBlocks(8)}
	s := start(t, source)
	id := func(b byte) []byte { return append([]byte{b}, make([]byte, 31)...) }
	s.node.located = map[chain.TxID]chain.LocatedTransaction{
		chain.TxID(id(1)): {Raw: []byte("mined"), Place: chain.Mined, Height: 7},
		chain.TxID(id(2)): {Raw: []byte("mempool"), Place: chain.InMempool},
		chain.TxID(id(3)): {Raw: []byte("side"), Place: chain.OnSideChain},
		chain.TxID(id(4)): {Raw: []byte("ahead"), Place: chain.Mined, Height: 8},
	}
	client := s.dial(t)
	for _, c := range []struct {
		req    *walletrpc.TxFilter
		data   string
		height uint64
		code   codes.Code
		text   string
	}{
		{&walletrpc.TxFilter{Hash: id(1)}, "mined", 7, codes.OK, ""},
		{&walletrpc.TxFilter{Hash: id(1), Index: 9, Block: byHeight(3)}, "mined", 7, codes.OK, ""},
		{&walletrpc.TxFilter{Hash: id(2)}, "mempool", 0, codes.OK, ""},
		{&walletrpc.TxFilter{Hash: id(3)}, "side", math.MaxUint64, codes.OK, ""},
		// The node has a block more than GetLatestBlock names: in the chain of this answer the transaction is unmined.
		{&walletrpc.TxFilter{Hash: id(4)}, "ahead", 0, codes.OK, ""},
		// Named as wallets and explorers show it.
		{&walletrpc.TxFilter{Hash: id(5)}, "", 0, codes.NotFound,
			"Transaction not found: 0000000000000000000000000000000000000000000000000000000000000005"},
		{&walletrpc.TxFilter{Hash: id(1)[:31]}, "", 0, codes.InvalidArgument,
			"hash: a transaction id has 32 bytes, not 31; block and index cannot be asked for"},
		{&walletrpc.TxFilter{Hash: append(id(1), 0)}, "", 0, codes.InvalidArgument,
			"hash: a transaction id has 32 bytes, not 33; block and index cannot be asked for"},
		{&walletrpc.TxFilter{}, "", 0, codes.InvalidArgument, "hash: a transaction id has 32 bytes, not 0; block and index cannot be asked for"},
		{&walletrpc.TxFilter{Block: byHeight(3), Index: 1}, "", 0, codes.InvalidArgument,
			"hash: a transaction id has 32 bytes, not 0; block and index cannot be asked for"},
	} {
		tx, err := client.GetTransaction(t.Context(), c.req)
		requireStatus(t, err, c.code, c.text)
		if string(tx.GetData()) != c.data || tx.GetHeight() != c.height {
			t.Errorf("%v: got %q at %d, want %q at %d", c.req, tx.GetData(), tx.GetHeight(), c.data, c.height)
		}
	}
	source.noTip = true // then no height can be held against it
	_, err := client.GetTransaction(t.Context(), &walletrpc.TxFilter{Hash: id(1)})
	requireStatus(t, err, codes.Unavailable, textUnavailable)
	if tx, err := client.GetTransaction(t.Context(), &walletrpc.TxFilter{Hash: id(2)}); err != nil || tx.Height != 0 {
		t.Errorf("in the mempool, without a tip: %v, %v", tx, err)
	}
	for _, c := range []struct {
		err  error
		code codes.Code
		text string
	}{
		{fmt.Errorf("http://user:secret@zebra: %w", chain.ErrUnavailable), codes.Unavailable, textUnavailable},
		{fmt.Errorf("http://user:secret@zebra: an HTML page: %w", chain.ErrNode), codes.Unavailable, textUnavailable},
		{fmt.Errorf("no turn: %w", chain.ErrBusy), codes.ResourceExhausted, textBusy},
		{context.DeadlineExceeded, codes.Unavailable, textUnavailable},
	} {
		s.node.lookErr = c.err
		_, err := client.GetTransaction(t.Context(), &walletrpc.TxFilter{Hash: id(1)})
		requireStatus(t, err, c.code, c.text)
	}
}

func TestSendTransaction(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	client := s.dial(t)
	var id chain.TxID
	id[31] = 0xab
	for _, c := range []struct {
		result chain.SendResult
		want   *walletrpc.SendResponse
	}{
		{chain.SendResult{ID: id}, &walletrpc.SendResponse{ErrorMessage: "ab00000000000000000000000000000000000000000000000000000000000000"}},
		{chain.SendResult{Code: -1, Message: "transaction already exists in mempool"},
			&walletrpc.SendResponse{ErrorCode: -1, ErrorMessage: "transaction already exists in mempool"}},
		{chain.SendResult{Code: -25, Message: `failed to validate tx: WtxId("private"), error: é`},
			&walletrpc.SendResponse{ErrorCode: -25, ErrorMessage: `failed to validate tx: WtxId("private"), error: é`}},
	} {
		s.node.sendResult = c.result
		got, err := client.SendTransaction(t.Context(), &walletrpc.RawTransaction{Data: []byte{1, 2}, Height: 5})
		if err != nil {
			t.Fatal(err)
		}
		requireEqual(t, got, c.want)
	}
	if len(s.node.sent) != 3 || !bytes.Equal(s.node.sent[0], []byte{1, 2}) || s.pool.refreshed != 3 {
		t.Errorf("sent %x, %d refreshes", s.node.sent, s.pool.refreshed)
	}

	// The sizes that the node is never asked about, and the largest that it is.
	for _, size := range []int{0, 2_000_001, 3_000_000} {
		_, err := client.SendTransaction(t.Context(), &walletrpc.RawTransaction{Data: make([]byte, size)})
		requireStatus(t, err, codes.InvalidArgument, fmt.Sprintf("data: a transaction has between 1 and 2000000 bytes, not %d", size))
	}
	_, err := client.SendTransaction(t.Context(), &walletrpc.RawTransaction{Height: 5})
	requireStatus(t, err, codes.InvalidArgument, "data: a transaction has between 1 and 2000000 bytes, not 0")
	if len(s.node.sent) != 3 {
		t.Errorf("%d transactions were sent, want 3", len(s.node.sent))
	}
	if _, err := client.SendTransaction(t.Context(), &walletrpc.RawTransaction{Data: make([]byte, 2_000_000)}); err != nil {
		t.Error(err)
	}

	// An answer that did not come is told as such, and may have been a consent.
	for _, failure := range []error{chain.ErrUnavailable, chain.ErrNode, context.DeadlineExceeded} {
		s.node.sendErr = fmt.Errorf("sendrawtransaction from http://user:secret@zebra: %w", failure)
		_, err := client.SendTransaction(t.Context(), &walletrpc.RawTransaction{Data: []byte{1}})
		requireStatus(t, err, codes.Unavailable, textUnavailable)
	}
	if len(s.node.sent) != 7 || s.pool.refreshed != 7 {
		t.Errorf("%d sent, %d refreshes, want each once", len(s.node.sent), s.pool.refreshed)
	}
}
