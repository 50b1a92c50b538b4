package integration

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/proto/zebraindexer"
)

// tipNode runs a zebrad with its gRPC server for indexers, at the returned address.
func tipNode(tb testing.TB) (n *node, indexer string) {
	tb.Helper()
	indexer = servertest.FreeAddr(tb)
	return fixtureNode(tb, fmt.Sprintf("indexer_listen_addr = %q\n", indexer)), indexer
}

// tipSidecar runs a zsidecar beside the node that listens to the tip stream at an address, "" for none.
func tipSidecar(tb testing.TB, n *node, indexer string) *sidecar {
	tb.Helper()
	c := newSidecar(tb, n.url(), n.cookie(), defaultSegments)
	if indexer != "" {
		c.args = append(c.args, "--zebra-indexer", indexer)
	}
	c.start()
	tip, _ := n.tip()
	c.awaitIndex(tip, time.Minute)
	return c
}

func (c *sidecar) awaitTipStream(running bool, limit time.Duration) {
	c.tb.Helper()
	await(c.tb, fmt.Sprintf("tip stream running: %v", running), limit, func() bool {
		return (c.metric("zsidecar_tip_stream_running") == 1) == running
	})
}

// newBlock mines a block and returns the time from when Zebra names it as its tip until zsidecar does.
func newBlock(tb testing.TB, n *node, w *wallet) time.Duration {
	tb.Helper()
	height, _ := n.tip()
	height++
	ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
	defer cancel()
	since := func(tip func() (int, error)) (t time.Time) {
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if got, err := tip(); err == nil && got >= height {
				return time.Now()
			}
		}
		return t
	}
	zebra := make(chan time.Time, 1)
	go func() {
		zebra <- since(func() (count int, err error) { return count, n.rpc.call(ctx, &count, "getblockcount") })
	}()
	n.call(nil, "generatetoaddress", 1, keyHash)
	begin := <-zebra
	end := since(func() (int, error) {
		id, err := w.latest(ctx)
		if err != nil {
			return 0, err
		}
		return int(id.Height), nil
	})
	if begin.IsZero() || end.IsZero() {
		tb.Fatalf("block %d is not served within 10s", height)
	}
	return end.Sub(begin)
}

// newBlocks is newBlock several times, at moments anywhere between two polls; sorted.
func newBlocks(tb testing.TB, n *node, w *wallet, count int) (took []time.Duration) {
	tb.Helper()
	for i := range count {
		time.Sleep(time.Duration(37*i%150) * time.Millisecond)
		took = append(took, newBlock(tb, n, w))
	}
	slices.Sort(took)
	return took
}

// TestTipStream listens to zebrad's own stream: new blocks are served at once. Then everything that can be wrong with it is, and new blocks
// are found by polling as if there were none.
func TestTipStream(t *testing.T) { // not parallel: it measures time
	n, indexer := tipNode(t)
	r := newRelay(t, indexer)
	c := tipSidecar(t, n, r.addr)
	w := c.wallet()
	c.awaitTipStream(true, 10*time.Second)

	// Polling every 150 ms takes 75 on average. Three rounds, because somebody else may use the machine.
	const blocks, limit = 25, 50 * time.Millisecond
	for round := 1; ; round++ {
		heard := c.metric("zsidecar_tip_stream_messages_total")
		took := newBlocks(t, n, w, blocks)
		if now := c.metric("zsidecar_tip_stream_messages_total"); now < heard+blocks {
			t.Fatalf("%v messages for %d blocks", now-heard, blocks)
		}
		t.Logf("new blocks after %v (median), %v (longest)", took[blocks/2], took[blocks-1])
		if took[blocks/2] <= limit {
			break
		}
		if round == 3 {
			t.Errorf("half of the new blocks are served after %v or later, want %v", took[blocks/2], limit)
			break
		}
	}

	for _, misery := range []struct{ name, target string }{
		{"closes", ""}, {"hangs", silence}, {"is no gRPC server", n.addr}, {"is another node's", strangeTips(t)},
	} {
		r.aim(misery.target)
		c.awaitTipStream(misery.name == "is another node's", 45*time.Second)
		for range 3 {
			if took := newBlock(t, n, w); took > 5*time.Second {
				t.Errorf("the stream %s: a new block is served after %v", misery.name, took)
			}
		}
	}
	const polls = `zsidecar_zebra_requests_total{method="getbestblockheightandhash",outcome="ok"}`
	begin, before := time.Now(), c.metric(polls)
	time.Sleep(time.Second)
	if rate := (c.metric(polls) - before) / time.Since(begin).Seconds(); rate < 20 || rate > 110 {
		t.Errorf("a flood of tips makes %.0f polls a second, want at most 100", rate)
	}
	if said := strings.Count(c.proc.output.String(), "tip stream cannot be used"); said < 1 || said > 8 {
		t.Errorf("told %d times that the tip stream cannot be used", said)
	}
	r.aim(indexer)
	c.awaitTipStream(true, 45*time.Second)
	heard := c.metric("zsidecar_tip_stream_messages_total")
	newBlock(t, n, w)
	await(t, "a tip is heard of again", 5*time.Second, func() bool { return c.metric("zsidecar_tip_stream_messages_total") > heard })
	c.stop()
}

// strangeTips is a server that names tips of another chain without end.
func strangeTips(t *testing.T) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	zebraindexer.RegisterIndexerServer(server, strangeIndexer{})
	ended := make(chan error)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

type strangeIndexer struct {
	zebraindexer.UnimplementedIndexerServer
}

func (strangeIndexer) ChainTipChange(_ *zebraindexer.Empty, stream zebraindexer.Indexer_ChainTipChangeServer) error {
	for h := uint32(3_000_000); ; h++ {
		hash := make([]byte, 32)
		hash[0], hash[1], hash[2] = byte(h), byte(h>>8), byte(h>>16)
		if err := stream.Send(&zebraindexer.BlockHashAndHeight{Hash: hash, Height: h}); err != nil {
			return err
		}
	}
}

// BenchmarkNewBlockZebra takes the time from when zebrad names a new block until GetLatestBlock does, with and without the tip stream, in
// turns beside one node. An operation is ten blocks each.
func BenchmarkNewBlockZebra(b *testing.B) {
	n, indexer := tipNode(b)
	polling, hearing := tipSidecar(b, n, ""), tipSidecar(b, n, indexer)
	hearing.awaitTipStream(true, 10*time.Second)
	took := map[*sidecar][]time.Duration{}
	wallets := map[*sidecar]*wallet{polling: polling.wallet(), hearing: hearing.wallet()}
	for b.Loop() {
		for _, c := range []*sidecar{polling, hearing} {
			took[c] = append(took[c], newBlocks(b, n, wallets[c], 10)...)
		}
	}
	for c, name := range map[*sidecar]string{polling: "poll", hearing: "stream"} {
		b.ReportMetric(milliseconds(quantile(took[c], 50)), name+"-p50-ms")
		b.ReportMetric(milliseconds(quantile(took[c], 99)), name+"-p99-ms")
		b.ReportMetric(milliseconds(slices.Max(took[c])), name+"-max-ms")
	}
	b.ReportMetric(0, "ns/op")
}
