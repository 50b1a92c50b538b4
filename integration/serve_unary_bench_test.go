package integration

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
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
	server, constant := startConstantServer(b, constants)
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

// startConstantServer runs a process that answers each method with the given bytes.
func startConstantServer(b *testing.B, answers map[string][]byte) (*process, *wallet) {
	b.Helper()
	addr := freeAddr(b)
	args := []string{addr}
	for method, answer := range answers {
		args = append(args, method+"="+hex.EncodeToString(answer))
	}
	p := startHelper(b, constantServerHelper, args...)
	await(b, "the constant server listens", 5*time.Second, func() bool {
		if !p.running() {
			b.Fatalf("the constant server ended at once:\n%s", p.output.tail(4000))
		}
		return listening(addr)
	})
	return p, dial(b, addr)
}

// constantServer answers with messages that it does not have to make.
type constantServer struct {
	walletrpc.UnimplementedCompactTxStreamerServer
	block  *walletrpc.CompactBlock
	latest *walletrpc.BlockID
	info   *walletrpc.LightdInfo
}

func (s *constantServer) GetBlock(context.Context, *walletrpc.BlockID) (*walletrpc.CompactBlock, error) {
	return s.block, nil
}

func (s *constantServer) GetLatestBlock(context.Context, *walletrpc.ChainSpec) (*walletrpc.BlockID, error) {
	return s.latest, nil
}

func (s *constantServer) GetLightdInfo(context.Context, *walletrpc.Empty) (*walletrpc.LightdInfo, error) {
	return s.info, nil
}

// runConstantServer serves until the process is killed: plain grpc-go with the buffers and windows of zsidecar's own server. Its arguments
// are the address, and METHOD=HEX for each answer.
func runConstantServer(args []string) error {
	s := &constantServer{block: &walletrpc.CompactBlock{}, latest: &walletrpc.BlockID{}, info: &walletrpc.LightdInfo{}}
	messages := map[string]proto.Message{getBlock: s.block, "GetLatestBlock": s.latest, "GetLightdInfo": s.info}
	for _, arg := range args[1:] {
		method, text, _ := strings.Cut(arg, "=")
		answer, err := hex.DecodeString(text)
		if err != nil || messages[method] == nil {
			return fmt.Errorf("answer %q: %w", method, err)
		}
		// As an unknown field the bytes are only copied when the message is sent.
		messages[method].ProtoReflect().SetUnknown(answer)
	}
	lis, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	server := grpc.NewServer(
		grpc.MaxConcurrentStreams(256),
		grpc.StaticStreamWindowSize(256<<10),
		grpc.StaticConnWindowSize(1<<20),
		grpc.WriteBufferSize(64<<10),
		grpc.ReadBufferSize(8<<10),
	)
	walletrpc.RegisterCompactTxStreamerServer(server, s)
	return server.Serve(lis)
}
