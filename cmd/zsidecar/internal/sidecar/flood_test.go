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

// floodBlocks is enough for a range to have its full number of questions at Zebra most of the time.
const floodBlocks = 1000

// What slowNode takes for an answer.
const (
	slowBlock = 5 * time.Millisecond
	slowList  = 40 * time.Millisecond
)

// inFlight counts the questions of a kind that a node works on.
type inFlight struct{ now, most, asked, sum atomic.Int64 }

func (f *inFlight) begin(takes time.Duration) {
	now := f.now.Add(1)
	f.most.Store(max(f.most.Load(), now))
	f.asked.Add(1)
	f.sum.Add(now)
	time.AfterFunc(takes, func() { f.now.Add(-1) })
}

// mean is how many there were, on average, when one more came; and it starts anew.
func (f *inFlight) mean() float64 {
	return float64(f.sum.Swap(0)) / float64(max(f.asked.Swap(0), 1))
}

// slowNode takes its time for each block and for each list of an address's transactions.
func slowNode(t *testing.T, address chain.TransparentAddress) (n *zebratest.Node, blocks, lists *inFlight) {
	t.Helper()
	blocks, lists = &inFlight{}, &inFlight{}
	n = newNode(t, floodBlocks, zebratest.NodeOptions{Observe: func(c zebratest.Call) {
		switch c.Method {
		case "getblock":
			blocks.begin(slowBlock)
		case "getaddresstxids":
			lists.begin(slowList)
		}
	}})
	if err := n.Chain().Extend(3, zebratest.Paying(address, 5)); err != nil {
		t.Fatal(err)
	}
	n.Fault(zebratest.Fault{Method: "getblock", Delay: slowBlock})
	n.Fault(zebratest.Fault{Method: "getaddresstxids", Delay: slowList})
	startNode(t, n)
	return n, blocks, lists
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

// readRange reads the blocks and returns how long that took.
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

// A flood of questions about addresses, which keep Zebra busy, takes nothing from the ranges of blocks or from the build of the index:
// about as many blocks as ever are asked for at one time. Did it go before blocks, as other questions do, there would be a third. The
// times are told for whoever wants to compare; they depend on what else the machine does.
func TestFloodOfAddresses(t *testing.T) {
	to := chain.TransparentAddress{Hash: [20]byte{7}}
	address := to.String(chain.TestNetwork)
	const least, mostLists = 0.6, 16 // of 64; 4 are right, and a busy machine counts them down late

	t.Run("ranges", func(t *testing.T) {
		n, blocks, lists := slowNode(t, to)
		s, _ := run(t, settings(t, func(c *config.Config) { c.Zebra, c.NoIndex, c.HTTP = n.URL(), true, "" }))
		client := connect(t, s)
		await(t, "the tip is known", func() bool { return s.client.Tip().Up() })
		alone := readRange(t, client)
		meanAlone := blocks.mean()
		end := flood(t, s, address)
		await(t, "the flood is in full swing", func() bool { return lists.asked.Load() > 10 })
		blocks.mean()
		flooded := readRange(t, client)
		mean := blocks.mean()
		answers, busy := end()
		t.Logf("a range of %d blocks: %v alone, %v in the flood (%.1f and %.1f at zebra), which got %d answers and %d refusals (at most %d at zebra)",
			floodBlocks, alone, flooded, meanAlone, mean, answers, busy, lists.most.Load())
		if mean < least*meanAlone || lists.most.Load() > mostLists {
			t.Errorf("%.1f blocks were asked for at one time alone, %.1f in the flood, and %d lists", meanAlone, mean, lists.most.Load())
		}
	})
	t.Run("build", func(t *testing.T) {
		var means [2]float64
		for i := range means {
			n, blocks, lists := slowNode(t, to)
			begin := time.Now()
			s, _ := run(t, settings(t, func(c *config.Config) { c.Zebra, c.HTTP = n.URL(), "" }))
			end := func() (int64, int64) { return 0, 0 }
			if i == 1 {
				end = flood(t, s, address)
			}
			await(t, "the index is complete", func() bool { return s.Health().Index.State == "complete" })
			took := time.Since(begin)
			means[i] = blocks.mean()
			answers, busy := end()
			t.Logf("a build of %d blocks: %v (%.1f at zebra); %d answers and %d refusals (at most %d at zebra)",
				floodBlocks, took, means[i], answers, busy, lists.most.Load())
			if lists.most.Load() > mostLists || i == 1 && lists.most.Load() == 0 {
				t.Errorf("%d lists were asked for at one time", lists.most.Load())
			}
		}
		if means[1] < least*means[0] {
			t.Errorf("%.1f blocks were asked for at one time alone, %.1f in the flood", means[0], means[1])
		}
	})
}
