package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// BenchmarkTreeState asks for tree states that nobody has asked for before, of heights all over the chain, beside a bare client that asks
// Zebra itself for its neighbours: what a wallet waits longer is zsidecar's part. An operation is 200 calls to each.
func BenchmarkTreeState(b *testing.B) {
	const calls, stride = 200, 7919 // a prime, so that no height comes twice
	n := recipeNode(b, longChain, "")
	tip, _ := n.tip()
	c := newSidecar(b, n.url(), n.cookie(), defaultSegments)
	c.start()
	w := c.wallet()
	awaitAnswer(b, w)
	c.awaitIndex(tip, time.Minute)
	client, buffer := newBareClient(b, n), make([]byte, 64<<10)
	defer client.http.CloseIdleConnections()

	asked := 0
	height := func() int {
		if asked++; asked > tip {
			b.Fatalf("all %d heights were asked for: take a smaller -benchtime", tip)
		}
		return 1 + asked*stride%tip
	}
	ours := func() {
		h := height()
		state := &walletrpc.TreeState{}
		if err := w.call(b.Context(), "GetTreeState", &walletrpc.BlockID{Height: uint64(h)}, state); err != nil || state.Height != uint64(h) {
			b.Fatalf("GetTreeState of %d: height %d, %v", h, state.Height, err)
		}
	}
	bare := func() {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"z_gettreestate","params":["%d"]}`, height())
		if err := client.ask(body, buffer); err != nil {
			b.Fatal(err)
		}
	}
	var p50, p99, zebra50, zebra99 []float64
	for b.Loop() {
		var took [2][]time.Duration
		for range calls {
			for i, ask := range []func(){ours, bare} {
				begin := time.Now()
				ask()
				took[i] = append(took[i], time.Since(begin))
			}
		}
		p50 = append(p50, milliseconds(quantile(took[0], 50)))
		p99 = append(p99, milliseconds(quantile(took[0], 99)))
		zebra50 = append(zebra50, milliseconds(quantile(took[1], 50)))
		zebra99 = append(zebra99, milliseconds(quantile(took[1], 99)))
	}
	b.ReportMetric(median(p50), "p50-ms")
	b.ReportMetric(median(zebra50), "zebra-p50-ms")
	b.ReportMetric(median(p50)-median(zebra50), "more-p50-ms")
	b.ReportMetric(median(p99), "p99-ms")
	b.ReportMetric(median(zebra99), "zebra-p99-ms")
	b.ReportMetric(0, "ns/op")
}
