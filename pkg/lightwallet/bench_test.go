package lightwallet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// BenchmarkRange streams ranges of 100,000 small blocks into a client that only counts bytes. What counts is cpu-ns/block, the CPU time
// of the server's process.
func BenchmarkRange(b *testing.B) {
	run, blocks := benchRun()
	size := len(run) / blocks
	for _, kind := range []string{benchFramed, benchFallback, benchNetHTTP} {
		b.Run(kind, func(b *testing.B) {
			s := startBenchServer(b, kind)
			client := newCountingClient(b, s.addr)
			b.SetBytes(int64(benchBlocks * size))
			before := s.cpu(b)
			for b.Loop() {
				if n, err := client.fetch(); err != nil || n != benchBlocks*size {
					b.Fatalf("%d bytes, want %d: %v", n, benchBlocks*size, err)
				}
			}
			total := float64(b.N) * benchBlocks
			b.ReportMetric(float64(s.cpu(b)-before)/total, "cpu-ns/block")
			b.ReportMetric(total/b.Elapsed().Seconds(), "blocks/s")
		})
	}
}

// BenchmarkGetBlock compares with a unary call of plain grpc-go that returns a constant of the same size. Calls alternate between the two
// servers, so that whatever else the machine does hits both.
func BenchmarkGetBlock(b *testing.B) {
	kinds := []string{benchFramed, benchUnary}
	servers := make([]*benchServer, len(kinds))
	clients := make([]walletrpc.CompactTxStreamerClient, len(kinds))
	took := make([][]time.Duration, len(kinds))
	cpu := make([]int64, len(kinds))
	for i, kind := range kinds {
		servers[i] = startBenchServer(b, kind)
		conn, err := grpc.NewClient("passthrough:///"+servers[i].addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		clients[i] = walletrpc.NewCompactTxStreamerClient(conn)
		cpu[i] = -servers[i].cpu(b)
	}
	for b.Loop() {
		for i, client := range clients {
			start := time.Now()
			if _, err := client.GetBlock(b.Context(), byHeight(7)); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	quantile := func(i, percent int) float64 { return float64(took[i][len(took[i])*percent/100]) }
	for i, kind := range kinds {
		cpu[i] += servers[i].cpu(b)
		slices.Sort(took[i])
		b.ReportMetric(float64(cpu[i])/float64(b.N), kind+"-cpu-ns")
		b.ReportMetric(quantile(i, 50), kind+"-p50-ns")
	}
	b.ReportMetric(quantile(0, 50)/quantile(1, 50), "p50-ratio")
	b.ReportMetric(quantile(0, 99)/quantile(1, 99), "p99-ratio")
}

// countingClient is an HTTP/2 client that asks for one range at a time and counts what comes.
type countingClient struct {
	conn    net.Conn
	framer  *http2.Framer
	headers *hpack.Encoder
	block   bytes.Buffer
	body    []byte
	next    uint32
}

// countingWindow is all the flow control that HTTP/2 has. The client gives back what it used after each range.
const countingWindow = 1<<31 - 1

func newCountingClient(b *testing.B, addr string) *countingClient {
	b.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	c := &countingClient{conn: conn, framer: http2.NewFramer(conn, conn), next: 1}
	c.framer.SetReuseFrames()
	c.headers = hpack.NewEncoder(&c.block)
	c.body = appendFrame(nil, &walletrpc.BlockRange{Start: byHeight(1), End: byHeight(benchBlocks)})
	_, err = io.WriteString(conn, http2Preface)
	err = errors.Join(err,
		c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: countingWindow}),
		c.framer.WriteWindowUpdate(0, countingWindow-65_535))
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// fetch reads one range and returns the number of its bytes.
func (c *countingClient) fetch() (int, error) {
	id := c.next
	c.next += 2
	c.block.Reset()
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", walletrpc.CompactTxStreamer_GetBlockRange_FullMethodName}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		if err := c.headers.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return 0, err
		}
	}
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: true})
	if err := errors.Join(err, c.framer.WriteData(id, true, c.body)); err != nil {
		return 0, err
	}
	return c.count(id)
}

// count reads until the stream ends. Frames of earlier streams may come late: net/http resets streams whose request it did not read.
func (c *countingClient) count(id uint32) (total int, err error) {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return total, err
		}
		switch f := frame.(type) {
		case *http2.DataFrame:
			total += len(f.Data())
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = c.framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = c.framer.WritePing(true, f.Data)
			}
		case *http2.GoAwayFrame:
			err = fmt.Errorf("the server hung up: %s", f.ErrCode)
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				err = fmt.Errorf("the server gave the stream up: %s", f.ErrCode)
			}
		}
		if err != nil {
			return total, err
		}
		if h := frame.Header(); h.StreamID == id && h.Flags.Has(http2.FlagDataEndStream) && (h.Type == http2.FrameData || h.Type == http2.FrameHeaders) {
			return total, c.giveBack(total)
		}
	}
}

// giveBack renews the connection's window; a stream's own is as large as HTTP/2 allows.
func (c *countingClient) giveBack(n int) error {
	if n == 0 {
		return nil
	}
	return c.framer.WriteWindowUpdate(0, uint32(n))
}
