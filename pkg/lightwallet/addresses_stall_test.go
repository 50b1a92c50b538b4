package lightwallet

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// Readers who stop reading stop the reading at the node, and hold no turn: others from the same address are answered.
func TestStalledAddressStreams(t *testing.T) {
	t.Parallel()
	s := startOn(t, chain.TestNetwork)
	s.node.part = 1
	for range 200 {
		s.node.txs = append(s.node.txs, chain.LocatedTransaction{Raw: make([]byte, 32<<10), Place: chain.Mined, Height: 1})
	}
	var read atomic.Int64
	s.node.fakeAddresses.wait = func(context.Context) error { read.Add(1); return nil }
	const stalled = 3 * costlyPerClient
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range stalled {
		stream, err := s.dial(t).GetTaddressTxids(ctx, &walletrpc.TransparentAddressBlockFilter{
			Address: testAddress, Range: &walletrpc.BlockRange{Start: &walletrpc.BlockID{}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	last := int64(-1)
	eventually(t, "nothing more is read", func() bool {
		before := last
		last = read.Load()
		time.Sleep(50 * time.Millisecond)
		return before == last
	})
	// A connection of grpc-go holds some 64 KiB on either side.
	if most := int64(stalled * 12); last > most {
		t.Errorf("%d parts of 32 KiB were read for %d readers who took one each", last, stalled)
	}
	begin := time.Now()
	if _, err := s.dial(t).GetTaddressBalance(t.Context(), &walletrpc.AddressList{Addresses: []string{testAddress}}); err != nil || time.Since(begin) > 5*time.Second {
		t.Errorf("beside stalled readers: %v after %v", err, time.Since(begin))
	}
	cancel()
	eventually(t, "their calls have ended", func() bool { return s.Stats().Calls == 0 })
}
