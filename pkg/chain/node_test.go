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
