package integration

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// BenchmarkUnary compares small calls with the least that grpc-go can do: another process that answers the same methods, set up alike,
// with constants of the same bytes. Calls go to the two in turns. An operation is 2,000 calls to each.
func BenchmarkUnary(b *testing.B) {
	const calls = 2000
	s, c := serveSynthetic(b)
	ours := c.wallet()
	height := &walletrpc.BlockID{Height: uint64(s.tip() / 2)}
	methods := []struct {
		name    string
		request proto.Message
	}{
		{getBlock, height},
		{"GetLatestBlock", &walletrpc.ChainSpec{}},
		{"GetLightdInfo", &walletrpc.Empty{}},
	}
	constants := map[string][]byte{}
	for _, m := range methods {
		var answer []byte
		if err := ours.call(b.Context(), m.name, m.request, &answer); err != nil {
			b.Fatal(err)
		}
		constants[m.name] = answer
	}
	server, addr := startConstantServer(b, constants)
	constant := dial(b, addr)
	for _, m := range methods {
		b.Run(m.name, func(b *testing.B) {
			var p50, p99, ratio50, ratio99 []float64
			cpu, constantCPU := procCPU(b, c.proc), procCPU(b, server)
			for b.Loop() {
				var took [2][]time.Duration
				for range calls {
					for i, w := range []*wallet{ours, constant} {
						took[i] = append(took[i], timeCall(b, w, m.name, m.request, constants[m.name]))
					}
				}
				p50 = append(p50, milliseconds(quantile(took[0], 50)))
				p99 = append(p99, milliseconds(quantile(took[0], 99)))
				ratio50 = append(ratio50, float64(quantile(took[0], 50))/float64(quantile(took[1], 50)))
				ratio99 = append(ratio99, float64(quantile(took[0], 99))/float64(quantile(took[1], 99)))
			}
			perCall := float64(calls * b.N * int(time.Microsecond))
			b.ReportMetric(float64(procCPU(b, c.proc)-cpu)/perCall, "cpu-µs")
			b.ReportMetric(float64(procCPU(b, server)-constantCPU)/perCall, "constant-cpu-µs")
			b.ReportMetric(median(p50), "p50-ms")
			b.ReportMetric(median(p99), "p99-ms")
			b.ReportMetric(median(ratio50), "p50-ratio")
			b.ReportMetric(median(ratio99), "p99-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func timeCall(b *testing.B, w *wallet, method string, request proto.Message, want []byte) time.Duration {
	b.Helper()
	var answer []byte
	begin := time.Now()
	err := w.call(b.Context(), method, request, &answer)
	took := time.Since(begin)
	if err != nil || len(answer) != len(want) {
		b.Fatalf("%s: %d bytes, %v; want %d", method, len(answer), err, len(want))
	}
	return took
}
