package integration

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// The helpers are processes made of the test binary itself: what would disturb a measurement has a process of its own. The name of the
// helper is the first argument.
const (
	constantServerHelper = "constant-server"
	readersHelper        = "readers"
	tcpServerHelper      = "tcp-server"
)

func helpers() map[string]func(args []string) error {
	return map[string]func([]string) error{
		constantServerHelper: runConstantServer, readersHelper: runReaders, tcpServerHelper: runTCPServer, costlyNodeHelper: runCostlyNode,
	}
}

func startHelper(tb testing.TB, name string, args ...string) *process {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return startProcess(tb, name, self, append([]string{name}, args...)...)
}

// BenchmarkFairness asks for 100 blocks ten times a second beside clients that read the whole chain without a pause, in a process of
// their own, and others that have stopped reading. An operation is 20 such probes.
func BenchmarkFairness(b *testing.B) {
	const (
		fullSpeed = 8
		stalled   = 64
		probes    = 20
		interval  = 100 * time.Millisecond
	)
	s, c := serveSynthetic(b)
	probe := newCountingClient(b, c.grpcAddr)
	idle := ask(b, probe, 2*probes, interval/10, s.tip())
	for range stalled {
		stallReader(b, c.grpcAddr, s.tip())
	}
	readers := startHelper(b, readersHelper, c.grpcAddr, fmt.Sprint(fullSpeed), fmt.Sprint(s.tip()))
	await(b, "the readers read", 5*time.Second, func() bool { return readers.output.String() != "" })
	var took []time.Duration
	served := c.served("index")
	for b.Loop() {
		took = append(took, ask(b, probe, probes, interval, s.tip())...)
	}
	served = c.served("index") - served
	if !readers.running() {
		b.Fatalf("the readers gave up:\n%s", readers.output.tail(2000))
	}
	b.ReportMetric(milliseconds(quantile(idle, 50)), "idle-p50-ms")
	b.ReportMetric(milliseconds(quantile(took, 50)), "p50-ms")
	b.ReportMetric(milliseconds(quantile(took, 99)), "p99-ms")
	b.ReportMetric(milliseconds(slices.Max(took)), "max-ms")
	b.ReportMetric(served/b.Elapsed().Seconds(), "blocks/s")
	b.ReportMetric(leastToMost(b, readers.output.String()), "least/most")
	b.ReportMetric(0, "ns/op")
}

// ask reads 100 blocks so many times, once per interval, and returns how long each took.
func ask(b *testing.B, client *countingClient, times int, interval time.Duration, tip int) (took []time.Duration) {
	b.Helper()
	for i := range times {
		time.Sleep(interval)
		from, to := stretch(i*7919, 100, tip)
		begin := time.Now()
		if err := client.fetch(query{method: getBlockRange}, from, to); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	return took
}

// runReaders reads the whole chain with several clients without a pause. Every half second it prints how many blocks each has got so
// far. Its arguments are the address, the number of clients, and the tip.
func runReaders(args []string) error {
	var count, tip int
	if len(args) != 3 {
		return errors.New("want an address, a number of clients and a height")
	}
	if _, err := fmt.Sscan(strings.Join(args[1:], " "), &count, &tip); err != nil {
		return err
	}
	clients := make([]*countingClient, count)
	failed := make(chan error, count)
	for i := range clients {
		client, err := dialCounting(args[0])
		if err != nil {
			return err
		}
		clients[i] = client
		go func() {
			for {
				if err := client.fetch(query{method: getBlockRange}, 1, tip); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	for {
		select {
		case err := <-failed:
			return err
		case <-time.After(500 * time.Millisecond):
		}
		for _, client := range clients {
			fmt.Print(client.Messages(), " ")
		}
		fmt.Println()
	}
}

// leastToMost compares the reader that got the least with the one that got the most, by the last line that was printed.
func leastToMost(b *testing.B, output string) float64 {
	b.Helper()
	lines := strings.Split(strings.TrimSuffix(output, "\n"), "\n")
	var blocks []float64
	for _, field := range strings.Fields(lines[len(lines)-1]) {
		var n float64
		if _, err := fmt.Sscan(field, &n); err != nil {
			b.Fatalf("the readers printed %q", lines[len(lines)-1])
		}
		blocks = append(blocks, n)
	}
	return slices.Min(blocks) / slices.Max(blocks)
}

// quantile sorts the times and returns the one that so many percent do not exceed.
func quantile(times []time.Duration, percent int) time.Duration {
	slices.Sort(times)
	return times[min(len(times)*percent/100, len(times)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
