package zebratest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// discard is the cheapest ResponseWriter: what remains is the node's own work.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkGetBlock measures replies to getblock verbosity 0, without the HTTP server.
func BenchmarkGetBlock(b *testing.B) {
	for name, kind := range map[string]Kind{"small": Small, "dense": DenseV4} {
		b.Run(name, func(b *testing.B) {
			n := NewNode(newChain(b, 50, kind), NodeOptions{})
			w := &discard{make(http.Header)}
			raw := rawBlock(b, n.Chain(), 1)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			h := 0
			for b.Loop() {
				text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"getblock","params":["%d",0]}`, h%50+1)
				n.ServeHTTP(w, &http.Request{Method: http.MethodPost, Body: io.NopCloser(strings.NewReader(text))})
				h++
			}
		})
	}
}

// BenchmarkExtend measures the creation of small blocks.
func BenchmarkExtend(b *testing.B) {
	c := newChain(b, 0, Small)
	for b.Loop() {
		if err := c.Extend(1000, Small); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "blocks/s")
}

// BenchmarkServe measures replies over loopback connections; the client shares the cores.
func BenchmarkServe(b *testing.B) {
	n := NewNode(newChain(b, 50, Small), NodeOptions{})
	start(b, n)
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for h := 0; pb.Next(); h++ {
			text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"getblock","params":["%d",0]}`, h%50+1)
			resp, err := client.Post(n.URL(), "application/json", strings.NewReader(text))
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
}
