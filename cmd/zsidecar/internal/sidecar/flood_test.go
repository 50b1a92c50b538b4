package sidecar

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// floodBlocks is enough for the time of a range to be that of its many questions, 16 of which are at Zebra at one time.
const floodBlocks = 1600

// slowNode takes 5 ms for each block and 40 ms for each list of transactions of an address, and counts how many of the latter it has at
// one time.
func slowNode(t *testing.T, address chain.TransparentAddress) (n *zebratest.Node, most *atomic.Int64) {
	t.Helper()
	most = &atomic.Int64{}
	var now atomic.Int64
	n = newNode(t, floodBlocks, zebratest.NodeOptions{Observe: func(c zebratest.Call) {
		if c.Method == "getaddresstxids" {
			most.Store(max(most.Load(), now.Add(1)))
			time.AfterFunc(40*time.Millisecond, func() { now.Add(-1) })
		}
	}})
	if err := n.Chain().Extend(3, zebratest.Paying(address, 5)); err != nil {
		t.Fatal(err)
	}
	n.Fault(zebratest.Fault{Method: "getblock", Delay: 5 * time.Millisecond})
	n.Fault(zebratest.Fault{Method: "getaddresstxids", Delay: 40 * time.Millisecond})
	startNode(t, n)
	return n, most
}

func connect(t *testing.T, s *Sidecar) walletrpc.CompactTxStreamerClient {
	t.Helper()
	conn, err := grpc.NewClient(s.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return walletrpc.NewCompactTxStreamerClient(conn)
}

// flood asks for the transactions of an address from 64 goroutines until the returned function is called, which tells how many answers
// came and how many calls were told to come back.
func flood(t *testing.T, s *Sidecar, address string) (end func() (answers, busy int64)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var answered, refused atomic.Int64
	var wait sync.WaitGroup
	client := connect(t, s)
	for range 64 {
		wait.Go(func() {
			for ctx.Err() == nil {
				stream, err := client.GetTaddressTxids(ctx, &walletrpc.TransparentAddressBlockFilter{
					Address: address, Range: &walletrpc.BlockRange{Start: &walletrpc.BlockID{Height: 1}},
				})
				for err == nil {
					_, err = stream.Recv()
				}
				switch code := status.Code(err); {
				case errors.Is(err, io.EOF):
					answered.Add(1)
				case code == codes.ResourceExhausted:
					refused.Add(1)
				case code == codes.Unavailable: // before the first tip is known
					time.Sleep(time.Millisecond)
				case code != codes.Canceled:
					t.Error(err)
					return
				}
			}
		})
	}
	return func() (int64, int64) {
		cancel()
		wait.Wait()
		return answered.Load(), refused.Load()
	}
}

// readRange reads all blocks and returns how long that took.
func readRange(t *testing.T, client walletrpc.CompactTxStreamerClient) time.Duration {
	t.Helper()
	begin := time.Now()
	stream, err := client.GetBlockRange(t.Context(), &walletrpc.BlockRange{Start: &walletrpc.BlockID{Height: 1}, End: &walletrpc.BlockID{Height: floodBlocks}})
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) && n == floodBlocks {
			return time.Since(begin)
		} else if err != nil {
			t.Fatalf("after %d blocks: %v", n, err)
		}
	}
}

// A flood of questions about addresses, which keep Zebra busy, slows neither the ranges of blocks nor the build of the index. Did they
// go before blocks, as other questions do, both would take four times as long.
func TestFloodOfAddresses(t *testing.T) {
	to := chain.TransparentAddress{Hash: [20]byte{7}}
	address := to.String(chain.TestNetwork)
	const slower = 2 // what a busy machine may add to either

	t.Run("ranges", func(t *testing.T) {
		n, most := slowNode(t, to)
		s, _ := run(t, settings(t, func(c *config.Config) { c.Zebra, c.NoIndex, c.HTTP = n.URL(), true, "" }))
		client := connect(t, s)
		await(t, "the tip is known", func() bool { return s.client.Tip().Up() })
		idle := min(readRange(t, client), readRange(t, client))
		end := flood(t, s, address)
		await(t, "the flood is there", func() bool { return most.Load() > 1 })
		flooded := min(readRange(t, client), readRange(t, client))
		answers, busy := end()
		t.Logf("a range of %d blocks: %v alone, %v in the flood (%d answers, %d refused, at most %d at zebra)", floodBlocks, idle, flooded, answers, busy, most.Load())
		if flooded > slower*idle {
			t.Errorf("the range took %v alone and %v in the flood", idle, flooded)
		}
		if most.Load() > 8 || answers == 0 {
			t.Errorf("%d questions were at zebra at one time, %d were answered", most.Load(), answers)
		}
	})
	t.Run("build", func(t *testing.T) {
		var times [2]time.Duration
		for i := range times {
			n, most := slowNode(t, to)
			begin := time.Now()
			s, _ := run(t, settings(t, func(c *config.Config) { c.Zebra, c.HTTP = n.URL(), "" }))
			end := func() (int64, int64) { return 0, 0 }
			if i == 1 {
				end = flood(t, s, address)
			}
			await(t, "the index is complete", func() bool {
				store := s.store.Load()
				return store != nil && store.Complete()
			})
			times[i] = time.Since(begin)
			answers, busy := end()
			if i == 1 && (answers == 0 || most.Load() > 8) {
				t.Errorf("%d questions were at zebra at one time, %d were answered", most.Load(), answers)
			}
			t.Logf("a build of %d blocks: %v (%d answers, %d refused)", floodBlocks, times[i], answers, busy)
		}
		if times[1] > slower*times[0] {
			t.Errorf("the build took %v alone and %v in the flood", times[0], times[1])
		}
	})
}
