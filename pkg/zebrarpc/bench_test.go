package zebrarpc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// canned is a node that costs next to nothing: it finds id and height in the request and answers with blocks made before, as a
// transport of the client's process or over a socket.
type canned struct {
	replies [][]byte // hex, by height modulo their number
	raw     int      // bytes of the blocks, on average
}

func newCanned(n int, build func(h chain.Height, prev chain.Hash, seed uint64) []byte) *canned {
	c := &canned{}
	for h := range n {
		raw := build(chain.Height(h), chain.Hash{}, 1)
		c.raw += len(raw)
		c.replies = append(c.replies, hex.AppendEncode(nil, raw))
	}
	c.raw /= n
	return c
}

// answer returns the three parts of the reply to a request of ours.
func (c *canned) answer(request []byte) (parts [3][]byte, err error) {
	_, rest, _ := bytes.Cut(request, []byte(`"id":`))
	id, rest, _ := bytes.Cut(rest, []byte(`,`))
	_, rest, _ = bytes.Cut(rest, []byte(`["`))
	digits, _, _ := bytes.Cut(rest, []byte(`"`))
	h, err := strconv.Atoi(string(digits))
	if err != nil {
		return parts, fmt.Errorf("no getblock by height: %s", request)
	}
	parts[0] = []byte(`{"jsonrpc":"2.0","result":"`)
	parts[1] = c.replies[h%len(c.replies)]
	parts[2] = append(append([]byte(`","id":`), id...), '}')
	return parts, nil
}

// cannedBody reads the parts one after the other.
type cannedBody struct{ parts [3][]byte }

func (b *cannedBody) Read(p []byte) (n int, err error) {
	for i := range b.parts {
		m := copy(p[n:], b.parts[i])
		b.parts[i] = b.parts[i][m:]
		n += m
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (b *cannedBody) Close() error { return nil }

func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	var space [256]byte
	n, err := io.ReadFull(r.Body, space[:])
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("request of %d bytes: %w", n, err)
	}
	r.Body.Close()
	parts, err := c.answer(space[:n])
	if err != nil {
		return nil, err
	}
	size := len(parts[0]) + len(parts[1]) + len(parts[2])
	return &http.Response{StatusCode: http.StatusOK, ContentLength: int64(size), Body: &cannedBody{parts}, Request: r}, nil
}

func (c *canned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	parts, err := c.answer(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(parts[0])+len(parts[1])+len(parts[2])))
	for _, p := range parts {
		_, _ = w.Write(p)
	}
}

// bareFetch is the least that a client of Zebra can do: it reads each reply into a buffer that is used again, and drops it.
func bareFetch(b *testing.B, transport http.RoundTripper, url string, blocks int) {
	client := &http.Client{Transport: transport}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range DefaultInFlight {
		workers.Go(func() {
			buffer := make([]byte, 8<<20)
			for h := next.Add(1) - 1; h < int64(blocks); h = next.Add(1) - 1 {
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"getblock","params":["%d",0]}`, h)
				resp, err := client.Post(url, "application/json", strings.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				if _, err = io.ReadFull(resp.Body, buffer[:resp.ContentLength]); err != nil {
					b.Error(err)
				}
				resp.Body.Close()
			}
		})
	}
	workers.Wait()
}

// BenchmarkBlocks measures Blocks, and beside it the bare client, without a node's cost: over a transport in the process, and over
// HTTP on a loopback socket whose server runs in the process too. One operation is one block.
func BenchmarkBlocks(b *testing.B) {
	kinds := []struct {
		name   string
		node   *canned
		blocks int
	}{
		{"small", newCanned(64, chaintest.Small), 20_000},
		{"dense-v4", newCanned(2, chaintest.DenseV4), 200},
		{"dense-v6", newCanned(2, chaintest.DenseV6), 200},
	}
	for _, k := range kinds {
		server := httptest.NewServer(k.node)
		defer server.Close()
		pooled := &http.Transport{MaxIdleConnsPerHost: MaxInFlight, DisableCompression: true}
		defer pooled.CloseIdleConnections()
		ways := map[string]func(b *testing.B) (run func(blocks int), end func()){
			"transport/blocks": func(b *testing.B) (func(int), func()) {
				c := fakeClientOver(b, k.node)
				return func(n int) { mustDrain(b, c, n) }, c.Close
			},
			"transport/bare": func(b *testing.B) (func(int), func()) {
				return func(n int) { bareFetch(b, k.node, fakeURL, n) }, func() {}
			},
			"loopback/blocks": func(b *testing.B) (func(int), func()) {
				c, err := New(Options{URL: server.URL})
				if err != nil {
					b.Fatal(err)
				}
				return func(n int) { mustDrain(b, c, n) }, c.Close
			},
			"loopback/bare": func(b *testing.B) (func(int), func()) {
				return func(n int) { bareFetch(b, pooled, server.URL, n) }, func() {}
			},
		}
		for _, way := range []string{"transport/blocks", "transport/bare", "loopback/blocks", "loopback/bare"} {
			b.Run(k.name+"/"+way, func(b *testing.B) {
				run, end := ways[way](b)
				defer end()
				run(min(k.blocks, 1000)) // fills the pools and opens the connections
				b.SetBytes(int64(k.node.raw))
				b.ReportAllocs()
				cpu := processorTime(b)
				b.ResetTimer()
				run(b.N)
				b.ReportMetric(float64((processorTime(b)-cpu).Nanoseconds())/1000/float64(b.N), "µs-cpu/op")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "blocks/s")
			})
		}
	}
}

func fakeClientOver(b *testing.B, t http.RoundTripper) *Client {
	c, err := newClient(Options{URL: fakeURL}, t)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func mustDrain(b *testing.B, c *Client, n int) {
	count := 0
	for _, err := range c.Blocks(b.Context(), 0, chain.Height(n-1), Build) {
		if err != nil {
			b.Fatal(err)
		}
		count++
	}
	if count != n {
		b.Fatalf("%d blocks, want %d", count, n)
	}
}

// processorTime is what this process has used so far, the simulated node's part included.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFirstBlock is the latency of an iteration of one block.
func BenchmarkFirstBlock(b *testing.B) {
	c := fakeClientOver(b, newCanned(1, chaintest.Small))
	b.ReportAllocs()
	for b.Loop() {
		mustDrain(b, c, 1)
	}
}

func BenchmarkUnhex(b *testing.B) {
	digits := newCanned(1, chaintest.DenseV4).replies[0]
	work := make([]byte, len(digits))
	b.SetBytes(int64(len(digits) / 2))
	for b.Loop() {
		copy(work, digits)
		if _, err := unhex(work); err != nil {
			b.Fatal(err)
		}
	}
}
