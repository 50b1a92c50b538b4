package integration

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The benchmarks compare with the least that any client of Zebra has to do, in turns within one run, so that the machine's mood hits
// both. Run them with -benchtime=5x: what is reported are medians over the iterations.
//
//	go test -run '^$' -bench . -benchtime 5x ./integration

// bareInFlight is how many requests the bare client has at Zebra at one time: zsidecar's default.
const bareInFlight = 16

// sample is one measured run.
type sample struct {
	blocksPerSecond float64
	cpu             time.Duration // of the client or the program, per block
}

// measure times one run over a number of blocks; cpu tells the processor time used so far.
func measure(blocks int, cpu func() time.Duration, run func()) sample {
	used, begin := cpu(), time.Now()
	run()
	took := time.Since(begin)
	return sample{float64(blocks) / took.Seconds(), (cpu() - used) / time.Duration(blocks)}
}

// report gives the medians, and the median of the ratios of neighbours.
func report(b *testing.B, ours, bare []sample) {
	b.Helper()
	var ratios []float64
	for i := range ours {
		ratios = append(ratios, ours[i].blocksPerSecond/bare[i].blocksPerSecond)
	}
	b.ReportMetric(median(ratios), "ratio")
	for name, samples := range map[string][]sample{"zsidecar": ours, "bare": bare} {
		var rates, cpu []float64
		for _, s := range samples {
			rates = append(rates, s.blocksPerSecond)
			cpu = append(cpu, float64(s.cpu.Nanoseconds())/1000)
		}
		b.ReportMetric(median(rates), name+"-blocks/s")
		b.ReportMetric(median(cpu), name+"-µs-cpu/block")
	}
	b.ReportMetric(0, "ns/op") // an operation is a whole chain: the rates say more
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// BenchmarkBuild builds the index of 20,000 blocks from an empty folder, against fetching the same blocks and dropping them.
func BenchmarkBuild(b *testing.B) {
	n := recipeNode(b, longChain, "")
	tip, _ := n.tip()
	program(b)
	fetchBare(b, n, 0, tip) // warms Zebra's caches
	var ours, bare []sample
	for b.Loop() {
		bare = append(bare, measure(tip+1, selfCPU, func() { fetchBare(b, n, 0, tip) }))
		c := newSidecar(b, n.url(), n.cookie(), defaultSegments)
		s := measure(tip+1, func() time.Duration { return 0 }, func() {
			c.start()
			// The metrics would cost it a twentieth of its processor time.
			for !strings.Contains(c.proc.output.String(), "the index is complete") {
				if time.Sleep(5 * time.Millisecond); !c.proc.running() {
					b.Fatalf("zsidecar ended during the build:\n%s", c.proc.output.tail(4000))
				}
			}
		})
		c.stop()
		s.cpu = childCPU(c.proc) / time.Duration(tip+1)
		ours = append(ours, s)
	}
	report(b, ours, bare)
}

// BenchmarkPassthroughRange streams 20,000 blocks without an index, against fetching the same blocks and dropping them.
func BenchmarkPassthroughRange(b *testing.B) {
	n := recipeNode(b, longChain, "")
	tip, _ := n.tip()
	c := newSidecar(b, n.url(), n.cookie(), passthrough)
	c.start()
	w := c.wallet()
	awaitAnswer(b, w)
	q := query{method: getBlockRange}
	stream := func() {
		count := 0
		err := w.stream(b.Context(), q.method, q.blockRange(0, tip), func([]byte) error { count++; return nil })
		if err != nil || count != tip+1 {
			b.Fatalf("range of %d blocks: %d came, %v", tip+1, count, err)
		}
	}
	stream()
	fetchBare(b, n, 0, tip)
	var ours, bare []sample
	for b.Loop() {
		bare = append(bare, measure(tip+1, selfCPU, func() { fetchBare(b, n, 0, tip) }))
		ours = append(ours, measure(tip+1, func() time.Duration { return procCPU(b, c.proc) }, stream))
	}
	report(b, ours, bare)
}

// fetchBare reads raw blocks with nothing but net/http: each reply goes into a buffer that is used again, and is dropped.
func fetchBare(tb testing.TB, n *node, from, to int) {
	tb.Helper()
	client := newBareClient(tb, n)
	defer client.http.CloseIdleConnections()
	var next atomic.Int64
	next.Store(int64(from))
	var workers sync.WaitGroup
	for range bareInFlight {
		workers.Go(func() {
			buffer := make([]byte, 64<<10)
			for height := next.Add(1) - 1; height <= int64(to); height = next.Add(1) - 1 {
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"getblock","params":["%d",0]}`, height)
				if err := client.ask(body, buffer); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
}

// bareClient asks Zebra with nothing but net/http.
type bareClient struct {
	http       *http.Client
	url, login string
}

func newBareClient(tb testing.TB, n *node) *bareClient {
	tb.Helper()
	secret, err := os.ReadFile(n.cookie())
	if err != nil {
		tb.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: bareInFlight, DisableCompression: true}
	return &bareClient{&http.Client{Transport: transport}, n.url(), "Basic " + base64.StdEncoding.EncodeToString(secret)}
}

// ask posts a question and drops the answer, which goes through the buffer.
func (c *bareClient) ask(body string, buffer []byte) error {
	req, err := http.NewRequest(http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", c.login)
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for {
		switch _, err := resp.Body.Read(buffer); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// selfCPU is the processor time of the test process.
func selfCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// childCPU is the processor time of a process that has ended.
func childCPU(p *process) time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}
