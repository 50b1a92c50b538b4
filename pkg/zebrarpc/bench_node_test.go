package zebrarpc

import (
	"net/http"
	"os"
	"slices"
	"testing"
	"time"
)

// BenchmarkNode fetches the first blocks of a real node with Blocks and with the bare client, in turns, so that the machine's mood hits
// both; what is reported are medians. It needs ZSIDECAR_ZEBRA_URL, and ZSIDECAR_ZEBRA_COOKIE when the node wants a cookie:
//
//	ZSIDECAR_ZEBRA_URL=http://127.0.0.1:18232 go test -run '^$' -bench Node -benchtime 5x ./pkg/zebrarpc
func BenchmarkNode(b *testing.B) {
	url := os.Getenv("ZSIDECAR_ZEBRA_URL")
	if url == "" {
		b.Skip("ZSIDECAR_ZEBRA_URL is not set: no real node to measure")
	}
	c, err := New(Options{URL: url, Auth: Auth{CookieFile: os.Getenv("ZSIDECAR_ZEBRA_COOKIE")}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	tip, err := c.BestBlock(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	creds, err := c.auth.get()
	if err != nil {
		b.Fatal(err)
	}
	pooled := &http.Transport{MaxIdleConnsPerHost: MaxInFlight, DisableCompression: true}
	defer pooled.CloseIdleConnections()
	blocks := min(int(tip.Height)+1, 20_000)
	bare := func() { bareFetch(b, withHeader{pooled, creds.header}, url, blocks) }
	bare() // warms the node's caches
	var rates, cpu [2][]float64
	for b.Loop() {
		for i, run := range []func(){func() { mustDrain(b, c, blocks) }, bare} {
			begin, used := time.Now(), processorTime(b)
			run()
			rates[i] = append(rates[i], float64(blocks)/time.Since(begin).Seconds())
			cpu[i] = append(cpu[i], float64((processorTime(b)-used).Nanoseconds())/1000/float64(blocks))
		}
	}
	var ratios []float64
	for i := range rates[0] {
		ratios = append(ratios, rates[0][i]/rates[1][i])
	}
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(rates[0]), "blocks/s")
	b.ReportMetric(median(rates[1]), "bare-blocks/s")
	b.ReportMetric(median(cpu[0]), "µs-cpu/block")
	b.ReportMetric(median(cpu[1]), "bare-µs-cpu/block")
	b.ReportMetric(0, "ns/op")
}

func median(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

// withHeader adds the credentials to the bare client's requests.
type withHeader struct {
	http.RoundTripper
	header http.Header
}

func (t withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header = t.header
	return t.RoundTripper.RoundTrip(r)
}
