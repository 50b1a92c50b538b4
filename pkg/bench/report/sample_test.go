package report

import (
	"math"
	"time"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// sample is a result with everything that a report can meet.
func sample() *bench.Result {
	r := &bench.Result{
		Version: bench.ResultVersion, Started: time.Date(2026, 11, 30, 22, 5, 0, 0, time.UTC), Seconds: 83.25,
		Command: "zsidecar bench run --target ours=127.0.0.1:8137 --target peer=127.0.0.1:8138",
		Machine: bench.Machine{CPU: "Example CPU 3000", Cores: 2, Memory: 24 << 30, System: "Linux 6.1", Tool: "zsidecar 0.1.0"},
		Targets: []bench.Target{
			{Name: "ours", Address: "127.0.0.1:8137", Server: "zsidecar 0.1.0", Node: "7.0.0", Chain: "regtest", Height: 20100},
			{Name: "peer", Address: "127.0.0.1:8138", Server: "zainod 0.10.2", Node: "7.0.0", Chain: "regtest", Height: 20100, TLS: true},
		},
	}
	for target, slow := range map[string]float64{"ours": 1, "peer": 40} {
		r.Measurements = append(r.Measurements, calls("GetBlock", target, slow*7.4e-5))
		r.Measurements = append(r.Measurements, ranges(target, slow)...)
	}
	sortMeasurements(r)
	r.Measurements = append(r.Measurements,
		bench.Measurement{Scenario: "latency", Case: "GetLatestTreeState", Client: bench.Decoding, Clients: 1, Target: "peer",
			Unsupported: "Unimplemented: no | such <method>"},
		bench.Measurement{Scenario: "index", Case: "empty to complete", Clients: 1, Target: "ours", Rounds: []map[bench.Metric]float64{
			{bench.Complete: 12.5, bench.FirstAnswer: 0.183, bench.RSSAnon: 101 << 20, bench.Written: 9.5 * (1 << 20), bench.Share: 0.87}}},
	)
	for i, target := range []string{"ours", "peer"} {
		c := bench.Curve{Scenario: "index", Target: target, Unit: "height"}
		for s := range 20 {
			c.Seconds = append(c.Seconds, float64(s))
			c.Values = append(c.Values, float64(s)*1000/float64(i+1))
		}
		r.Curves = append(r.Curves, c)
	}
	r.Notes = []bench.Fault{{Scenario: "latency", Case: "GetMempoolTx", Text: "not measured: the mempool is empty"}}
	return r
}

// faulty is a sample whose peer answers wrongly, in hostile words.
func faulty() *bench.Result {
	r := sample()
	r.Faults = []bench.Fault{{Scenario: "ranges", Case: "range of 1000", Target: "peer",
		Text: "block 7: <script>alert(1)</script> | \x1b[31m*red*\u202e"}}
	return r
}

// calls is a method whose rounds differ by some percent.
func calls(method, target string, p50 float64) bench.Measurement {
	m := bench.Measurement{Scenario: "latency", Case: method, Client: bench.Decoding, Clients: 1, Target: target}
	for i := range 5 {
		v := p50 * (1 + float64(i)/50)
		m.Rounds = append(m.Rounds, map[bench.Metric]float64{
			bench.P50: v, bench.P99: 3 * v, bench.Max: 9 * v, bench.CallsRate: 1 / v, bench.ServerCall: v / 2})
	}
	for i := range bench.Percentiles() {
		m.Latencies = append(m.Latencies, p50*math.Exp(float64(i-50)/40))
	}
	return m
}

// ranges are ranges of three lengths, and one length by several clients.
func ranges(target string, slow float64) (all []bench.Measurement) {
	for i, length := range []uint64{100, 1000, 10000} {
		all = append(all, bench.Measurement{Scenario: "ranges", Case: "range of " + []string{"100", "1000", "10000"}[i], Client: bench.Counting, Clients: 1,
			Length: length, Target: target, Rounds: rounds(bench.BlocksRate, 4e5*float64(i+1)/slow)})
	}
	for _, clients := range []int{1, 8, 32} {
		all = append(all, bench.Measurement{Scenario: "concurrency", Case: "GetBlock", Client: bench.Decoding, Clients: clients, Target: target,
			Rounds: rounds(bench.CallsRate, 1e4*math.Sqrt(float64(clients))/slow)})
	}
	return all
}

func rounds(metric bench.Metric, v float64) (all []map[bench.Metric]float64) {
	for i := range 5 {
		all = append(all, map[bench.Metric]float64{metric: v * (0.96 + float64(i)/50)})
	}
	return all
}
