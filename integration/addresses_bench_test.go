package integration

import (
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// manyOutputs has an output of one address in each block. Mining it takes some seven minutes, once.
var manyOutputs = recipe{{keyHash, 35_000, 0}}

// BenchmarkAddressOfMany asks for the 35,000 outputs of one address, through the unary method and the stream, and for as many
// transactions, and reports the time beside Zebra's own for the same outputs, and what it costs in memory.
func BenchmarkAddressOfMany(b *testing.B) {
	n := recipeNode(b, manyOutputs, "")
	tip, _ := n.tip()
	c := newSidecar(b, n.url(), n.cookie(), passthrough)
	c.start()
	w := c.wallet()
	awaitAnswer(b, w)
	arg := &walletrpc.GetAddressUtxosArg{Addresses: []string{keyHash}}
	before := anonymousMemory(b, c.proc)
	most := before
	timed := func(total *time.Duration, count int, call func() (int, error)) {
		begin := time.Now()
		got, err := call()
		*total += time.Since(begin)
		if err != nil || got != count {
			b.Fatalf("%d of %d, %v", got, count, err)
		}
		most = max(most, anonymousMemory(b, c.proc))
	}
	var zebra, unary, stream, txids time.Duration
	rounds := 0
	for b.Loop() {
		rounds++
		timed(&zebra, tip, func() (int, error) {
			var all []zebraUtxo
			n.call(&all, "getaddressutxos", map[string]any{"addresses": []string{keyHash}})
			return len(all), nil
		})
		timed(&unary, tip, func() (int, error) {
			list, err := w.client().GetAddressUtxos(b.Context(), arg)
			return len(list.GetAddressUtxos()), err
		})
		timed(&stream, tip, func() (int, error) {
			all, err := receiveAll(w.client().GetAddressUtxosStream(b.Context(), arg))
			return len(all), err
		})
		timed(&txids, tip, func() (int, error) {
			all, err := w.addressTransactions(b.Context(), keyHash, heights(1, 0))
			return len(all), err
		})
	}
	per := func(d time.Duration) float64 { return float64(d.Milliseconds()) / float64(rounds) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(per(zebra), "zebra-ms")
	b.ReportMetric(per(unary), "unary-ms")
	b.ReportMetric(per(stream), "stream-ms")
	b.ReportMetric(per(txids), "txids-ms")
	b.ReportMetric(float64(most-before)/(1<<20), "RssAnon-MiB")
}
