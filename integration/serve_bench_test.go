package integration

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// The benchmarks of serving run the real program beside a simulated Zebra with a chain of small blocks, its index complete. Everything
// shares the machine's cores, so what counts are ratios within a run, and the processor time of the server's process.
//
//	go test -run '^$' -bench 'Serve|Fairness|Unary|Memory|NewBlock|Restart' -benchtime 5x ./integration

const (
	loadWarmUp = 100 * time.Millisecond // from when the clients are there to when counting begins
	loadWindow = 400 * time.Millisecond // what is counted
)

// BenchmarkServeRange has 1, 32 and 128 clients read ranges of the same length in turns.
func BenchmarkServeRange(b *testing.B) {
	s, c := serveSynthetic(b)
	for _, length := range []int{1000, 10_000, s.tip()} {
		name := fmt.Sprintf("blocks=%d", length)
		if length == s.tip() {
			name = "blocks=all"
		}
		b.Run(name, func(b *testing.B) {
			q := query{method: getBlockRange}
			crowds := []int{1, 32, 128}
			samples := make([][]loadSample, len(crowds))
			for b.Loop() {
				for i, clients := range crowds {
					samples[i] = append(samples[i], load(b, c, q, clients, length, s.tip()))
				}
			}
			for i, clients := range crowds {
				reportServed(b, fmt.Sprintf("-%d", clients), samples[i])
				if clients == 1 {
					continue
				}
				var ratios []float64
				for j, crowd := range samples[i] {
					ratios = append(ratios, crowd.blocksPerSecond/samples[0][j].blocksPerSecond)
				}
				b.ReportMetric(median(ratios), fmt.Sprintf("ratio-%d", clients))
			}
		})
	}
}

// BenchmarkServeFilter has one client read ranges of 10,000 blocks through other filters than the default, and backwards.
func BenchmarkServeFilter(b *testing.B) {
	s, c := serveSynthetic(b)
	all := []walletrpc.PoolType{
		walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING, walletrpc.PoolType_ORCHARD, walletrpc.PoolType_IRONWOOD,
	}
	for _, f := range []struct {
		name   string
		query  query
		length int // negative: descending
	}{
		{"default", query{method: getBlockRange}, 10_000},
		{"descending", query{method: getBlockRange}, -10_000},
		{"sapling", query{getBlockRange, all[1:2]}, 10_000},
		{"orchard+ironwood", query{getBlockRange, all[2:]}, 10_000},
		{"nullifiers", query{method: getBlockRangeNullifiers}, 10_000},
		{"transparent", query{getBlockRange, all[:1]}, 10_000},
		{"all", query{getBlockRange, all}, 10_000},
	} {
		b.Run("filter="+f.name, func(b *testing.B) {
			var samples []loadSample
			for b.Loop() {
				samples = append(samples, load(b, c, f.query, 1, f.length, s.tip()))
			}
			reportServed(b, "", samples)
		})
	}
}

// BenchmarkServeCall compares short ranges, which are mostly the cost of a call, with the least that grpc-go can do: another process that
// writes a constant buffer of the same bytes. One client reads from the two in turns. An operation is 1,000 calls to each.
func BenchmarkServeCall(b *testing.B) {
	s, c := serveSynthetic(b)
	for _, r := range []struct {
		name         string
		near, length int
	}{{"100", s.tip() / 2, 100}, {"1000", s.tip() / 2, 1000}, {"10000", s.tip() / 2, 10_000}, {"newest1000", s.tip() - 1000, 1000}} {
		b.Run("blocks="+r.name, func(b *testing.B) {
			from, to := stretch(r.near, r.length, s.tip())
			server, addr := startConstantServer(b, map[string][]byte{getBlockRange: readFrames(b, c.wallet(), from, to)})
			benchServeCall(b, [2]*process{c.proc, server}, [2]string{c.grpcAddr, addr}, from, to)
		})
	}
}

// readFrames reads a range and returns it as the frames that came.
func readFrames(b *testing.B, w *wallet, from, to int) (frames []byte) {
	b.Helper()
	q := query{method: getBlockRange}
	err := w.stream(b.Context(), q.method, q.blockRange(from, to), func(block []byte) error {
		frames = append(binary.BigEndian.AppendUint32(append(frames, 0), uint32(len(block))), block...)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return frames
}

// benchServeCall compares the first of two servers with the second.
func benchServeCall(b *testing.B, servers [2]*process, addrs [2]string, from, to int) {
	const calls = 1000
	var clients [2]*countingClient
	var took [2][]float64
	var cpu [2]time.Duration
	for i, addr := range addrs {
		clients[i] = newCountingClient(b, addr)
		cpu[i] = -procCPU(b, servers[i])
	}
	for b.Loop() {
		var sum [2]time.Duration
		for range calls {
			for i, client := range clients {
				begin := time.Now()
				if err := client.fetch(query{method: getBlockRange}, from, to); err != nil {
					b.Fatal(err)
				}
				sum[i] += time.Since(begin)
			}
		}
		for i := range sum {
			took[i] = append(took[i], float64(sum[i])/calls)
		}
	}
	for i, server := range servers {
		cpu[i] += procCPU(b, server)
	}
	blocks := float64(b.N * calls * (to - from + 1))
	b.ReportMetric(float64(cpu[0])/blocks, "cpu-ns/block")
	b.ReportMetric(float64(cpu[1])/blocks, "constant-cpu-ns/block")
	b.ReportMetric(float64(cpu[0])/float64(cpu[1]), "cpu-ratio")
	b.ReportMetric(median(took[0])/median(took[1]), "time-ratio")
	b.ReportMetric(0, "ns/op")
}

func reportServed(b *testing.B, suffix string, samples []loadSample) {
	b.Helper()
	var rates, cpu, clients []float64
	for _, s := range samples {
		rates = append(rates, s.blocksPerSecond)
		cpu = append(cpu, float64(s.cpu.Nanoseconds()))
		clients = append(clients, float64(s.clients.Nanoseconds()))
	}
	b.ReportMetric(median(rates), "blocks/s"+suffix)
	b.ReportMetric(median(cpu), "cpu-ns/block"+suffix)
	b.ReportMetric(median(clients), "client-ns/block"+suffix)
	b.ReportMetric(0, "ns/op") // an operation is a stretch of time
}

// loadSample is what clients got within one window, the processor time of the server among it.
type loadSample struct {
	sample
	clients time.Duration // processor time of the clients, per block
}

// load has clients read ranges of so many blocks, one after the other.
func load(b *testing.B, c *sidecar, q query, clients, length, tip int) loadSample {
	b.Helper()
	crowd := startCrowd(b, c, q, clients, length, tip)
	time.Sleep(loadWarmUp)
	blocks, cpu, own, begin := crowd.blocks(), procCPU(b, c.proc), selfCPU(), time.Now()
	time.Sleep(loadWindow)
	blocks, cpu, own, took := crowd.blocks()-blocks, procCPU(b, c.proc)-cpu, selfCPU()-own, time.Since(begin)
	crowd.stop()
	if blocks == 0 {
		b.Fatalf("%d clients got nothing in %v", clients, loadWindow)
	}
	each := func(d time.Duration) time.Duration { return d / time.Duration(blocks) }
	return loadSample{sample{float64(blocks) / took.Seconds(), each(cpu)}, each(own)}
}

// crowd are clients that read as fast as they can.
type crowd struct {
	clients []*countingClient
	stop    func()
}

// startCrowd returns when all clients are connected. A negative length reads backwards.
func startCrowd(b *testing.B, c *sidecar, q query, clients, length, tip int) *crowd {
	b.Helper()
	crowd := &crowd{}
	var stopping atomic.Bool
	var running sync.WaitGroup
	for i := range clients {
		client := newCountingClient(b, c.grpcAddr)
		crowd.clients = append(crowd.clients, client)
		running.Go(func() {
			for from := i * tip / clients; ; from += 7919 {
				from, to := stretch(from, length, tip)
				err := client.fetch(q, from, to)
				if stopping.Load() {
					return
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	crowd.stop = func() {
		stopping.Store(true)
		for _, client := range crowd.clients {
			client.Close()
		}
		running.Wait()
	}
	return crowd
}

// stretch is a range of so many blocks that begins near a height; it holds neither genesis nor anything above the tip.
func stretch(near, length, tip int) (from, to int) {
	if length < 0 {
		to, from = stretch(near, -length, tip)
		return from, to
	}
	from = 1 + near%(tip-length+1)
	return from, from + length - 1
}

// blocks is how many came so far.
func (c *crowd) blocks() (sum int64) {
	for _, client := range c.clients {
		sum += client.Messages()
	}
	return sum
}
