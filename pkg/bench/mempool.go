package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

const (
	// mempoolExcluded is how many transactions a wallet says that it has, unless that is more than half: more is refused by some servers.
	mempoolExcluded = 1000
	// mempoolSamples is how many transactions of the stream are compared with the node's.
	mempoolSamples = 20
)

// mempoolCases reads the mempool that the node has, in the three ways that wallets do.
func mempoolCases(r *run) []testCase {
	cases := []testCase{
		{name: "GetMempoolTx", measure: r.measureMempoolTx},
		{name: "GetMempoolTx without known ones", measure: r.measureMempoolRest},
		{name: "GetMempoolStream", measure: r.measureMempoolStream},
	}
	for i := range cases {
		cases[i].client = Decoding
	}
	return cases
}

// fillMempool hands made-up transactions to the node until its mempool has as many as the options say. Only a simulated node takes them.
func (r *run) fillMempool(ctx context.Context) error {
	ids, err := r.node.mempool(ctx)
	if err != nil {
		return err
	}
	for i := len(ids); i < r.options.Mempool; i++ {
		if err := r.node.send(ctx, madeUpTransaction(uint64(i))); err != nil {
			return fmt.Errorf("fill the mempool with made-up transactions, which a simulated node takes: %w", err)
		}
	}
	return nil
}

// madeUpTransaction is a transaction of version 5 with one transparent input, which spends what does not exist, and one output
// (ZIP 225). Each number gives another one.
func madeUpTransaction(number uint64) []byte {
	le := binary.LittleEndian
	var tx []byte
	for _, word := range []uint32{5 | 1<<31, 0x26A7270A, 0xc2d6d0b4, 0, 0} { // version group of version 5, branch of NU5; lock time 0, no expiry
		tx = le.AppendUint32(tx, word)
	}
	tx = append(tx, 1) // input
	tx = le.AppendUint64(append(tx, make([]byte, 24)...), number)
	tx = le.AppendUint32(tx, 0)
	tx = le.AppendUint32(append(tx, 1, 0x51), 0xffff_ffff)
	tx = le.AppendUint64(append(tx, 1), 1000) // output
	return append(tx, 1, 0x51, 0, 0, 0)       // nothing shielded
}

// nodeMempool fills the node's mempool, and waits until the target serves all of it. It returns the ids in internal order, sorted.
func (r *run) nodeMempool(ctx context.Context, t *target) (ids [][]byte, err error) {
	if err := r.fillMempool(ctx); err != nil {
		return nil, err
	}
	texts, err := r.node.mempool(ctx)
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		id, err := hex.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("a txid of the node: %w", err)
		}
		slices.Reverse(id)
		ids = append(ids, id)
	}
	slices.SortFunc(ids, bytes.Compare)
	var count int
	err = poll(ctx, r.options.Patience, func() (bool, error) {
		got, err := t.mempoolTx(ctx, nil)
		count = len(got)
		return count >= len(ids), err
	})
	if errors.Is(err, errPatience) {
		return nil, fmt.Errorf("GetMempoolTx gives %d transactions within %v, and the node has %d", count, r.options.Patience, len(ids))
	}
	return ids, err
}

// mempoolTx asks for the mempool without some transactions and returns the ids, sorted.
func (t *target) mempoolTx(ctx context.Context, without [][]byte) (ids [][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	stream, err := walletrpc.NewCompactTxStreamerClient(t.conn).GetMempoolTx(ctx, &walletrpc.GetMempoolTxRequest{
		ExcludeTxidSuffixes: without,
		PoolTypes: []walletrpc.PoolType{
			walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING, walletrpc.PoolType_ORCHARD, walletrpc.PoolType_IRONWOOD,
		},
	})
	if err != nil {
		return nil, err
	}
	for {
		tx, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			slices.SortFunc(ids, bytes.Compare)
			return ids, nil
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, tx.Txid)
	}
}

func (r *run) measureMempoolTx(ctx context.Context, t *target) (round, error) {
	return r.readMempool(ctx, t, 0)
}

func (r *run) measureMempoolRest(ctx context.Context, t *target) (round, error) {
	return r.readMempool(ctx, t, mempoolExcluded)
}

// readMempool asks again and again for the mempool without the first transactions of it.
func (r *run) readMempool(ctx context.Context, t *target, without int) (got round, err error) {
	ids, err := r.nodeMempool(ctx, t)
	if err != nil {
		return got, err
	}
	without = min(without, len(ids)/2)
	for begin := time.Now(); got.calls == 0 || time.Since(begin) < r.options.RoundTime; got.calls++ {
		asked := time.Now()
		came, err := t.mempoolTx(ctx, ids[:without])
		got.times = append(got.times, time.Since(asked))
		if err != nil {
			return got, err
		}
		if !slices.EqualFunc(came, ids[without:], bytes.Equal) {
			return got, fmt.Errorf("GetMempoolTx gives %d transactions, which are not the %d that the node has besides those %d that are left out",
				len(came), len(ids)-without, without)
		}
	}
	return got, nil
}

// measureMempoolStream follows the mempool until all that the node has came.
func (r *run) measureMempoolStream(ctx context.Context, t *target) (got round, err error) {
	ids, err := r.nodeMempool(ctx, t)
	if err != nil {
		return got, err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	asked := time.Now()
	stream, err := walletrpc.NewCompactTxStreamerClient(t.conn).GetMempoolStream(ctx, &walletrpc.Empty{})
	if err != nil {
		return got, err
	}
	came := make(map[string]bool, len(ids))
	for len(came) < len(ids) {
		tx, err := stream.Recv()
		if err != nil {
			return got, fmt.Errorf("GetMempoolStream ended after %d transactions of %d: %w", len(came), len(ids), err)
		}
		if len(came) == 0 {
			got.firsts = []time.Duration{time.Since(asked)}
		}
		if came[string(tx.Data)] {
			return got, fmt.Errorf("GetMempoolStream gives a transaction of %d bytes twice", len(tx.Data))
		}
		came[string(tx.Data)] = true
		got.bytes += int64(len(tx.Data))
	}
	got.took = time.Since(asked)
	got.times = []time.Duration{got.took}
	cancel()
	return got, r.checkSamples(context.WithoutCancel(ctx), ids, came)
}

// checkSamples looks for some of the node's transactions among those that came.
func (r *run) checkSamples(ctx context.Context, ids [][]byte, came map[string]bool) error {
	for i := 0; i < len(ids); i += max(1, len(ids)/mempoolSamples) {
		var text string
		if err := r.node.call(ctx, &text, "getrawtransaction", displayHex(ids[i])); err != nil {
			return err
		}
		raw, err := hex.DecodeString(text)
		if err != nil {
			return fmt.Errorf("a transaction of the node: %w", err)
		}
		if !came[string(raw)] {
			return fmt.Errorf("GetMempoolStream does not give the transaction %s of the node's mempool", displayHex(ids[i]))
		}
	}
	return nil
}
