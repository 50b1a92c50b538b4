package chain_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

func TestAppendTxFrame(t *testing.T) {
	t.Parallel()
	raw := chaintest.Tx{Version: 6, Inputs: 1, Outputs: 1, Ironwood: 2, Seed: 7}.Append(nil)
	tx, err := chain.NewEncoder(chain.EncoderOptions{}).Transaction(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, pools := range []chain.Pools{chain.ShieldedPools, chain.AllPools, chain.Pools(0).With(chain.Transparent)} {
		p := chain.Projection{Pools: pools}
		message := tx.AppendCompactTx(nil, 0, p)
		want := binary.BigEndian.AppendUint32([]byte("before\x00"), uint32(len(message)))
		want = append(want, message...)
		if got := tx.AppendTxFrame([]byte("before"), p); !bytes.Equal(got, want) {
			t.Errorf("pools %b: got %x, want %x", pools, got, want)
		}
	}
	if got := tx.AppendTxFrame(nil, chain.Projection{Pools: chain.Pools(0).With(chain.Sapling)}); got != nil {
		t.Errorf("nothing of it is in the Sapling pool, got %x", got)
	}
}

func TestTransactionsOfBlock(t *testing.T) {
	t.Parallel()
	raw := chaintest.Mixed(7, chain.Hash{1}, 3)
	e := chain.NewEncoder(chain.EncoderOptions{})
	txs, ids, err := e.Transactions(raw)
	if err != nil || len(txs) < 2 || len(txs) != len(ids) {
		t.Fatalf("%d transactions, %d ids, %v", len(txs), len(ids), err)
	}
	if end := bytes.Join(txs, nil); !bytes.HasSuffix(raw, end) || raw[len(raw)-len(end)-1] != byte(len(txs)) {
		t.Error("the transactions are not the end of the block")
	}
	for i, tx := range txs {
		if parsed, err := e.Transaction(tx); err != nil || parsed.ID != ids[i] {
			t.Errorf("transaction %d: %v, id %s, want %s", i, err, ids[i], parsed.ID)
		}
	}
	for _, broken := range [][]byte{nil, raw[:200], raw[:len(raw)-1], append(bytes.Clone(raw), 0)} {
		if _, _, err := e.Transactions(broken); err == nil {
			t.Errorf("%d bytes: no error", len(broken))
		}
	}
}
