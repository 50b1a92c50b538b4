package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// denseBlocks are enough that a range of all of them is mostly bytes.
const denseBlocks = 250

// BenchmarkServeTCP compares clients that read ranges with as many that read the same bytes from a process which does nothing but write
// them to a socket: the most that this machine can carry. Small blocks come in ranges of 10,000, dense ones all at once.
func BenchmarkServeTCP(b *testing.B) {
	b.Run("small", func(b *testing.B) {
		s, c := serveSynthetic(b)
		benchServeTCP(b, c, 10_000, s.tip())
	})
	for _, kind := range denseKinds() {
		b.Run(kind.name, func(b *testing.B) {
			c := serveDense(b, kind.spec)
			benchServeTCP(b, c, denseBlocks, denseBlocks)
		})
	}
}

// BenchmarkServeDense is BenchmarkServeCall for dense blocks, all of a chain at once. An operation is 1,000 calls to each server.
func BenchmarkServeDense(b *testing.B) {
	for _, kind := range denseKinds() {
		b.Run(kind.name, func(b *testing.B) {
			c := serveDense(b, kind.spec)
			frames := readFrames(b, c.wallet(), 1, denseBlocks)
			server, addr := startConstantServer(b, map[string][]byte{getBlockRange: frames})
			benchServeCall(b, [2]*process{c.proc, server}, [2]string{c.grpcAddr, addr}, 1, denseBlocks)
			b.ReportMetric(float64(len(frames))/denseBlocks, "bytes/block")
		})
	}
}

// denseKind is a kind of dense blocks.
type denseKind struct {
	name string
	spec zebratest.Kind
}

func denseKinds() []denseKind {
	return []denseKind{{"dense-v4", zebratest.DenseV4}, {"dense-v6", zebratest.DenseV6}}
}

// serveDense runs a zsidecar that has a chain of dense blocks in its index, most of them sealed.
func serveDense(b *testing.B, spec zebratest.Kind) *sidecar {
	b.Helper()
	chain, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Test})
	if err != nil {
		b.Fatal(err)
	}
	if err := chain.Extend(denseBlocks, spec); err != nil {
		b.Fatal(err)
	}
	n := zebratest.NewNode(chain, zebratest.NodeOptions{CookieDir: b.TempDir()})
	if err := n.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := n.Stop(); err != nil {
			b.Error(err)
		}
	})
	c := newSidecar(b, n.URL(), n.CookieFile(), smallSegments)
	c.start()
	awaitAnswer(b, c.wallet())
	c.awaitIndex(denseBlocks, time.Minute)
	b.Cleanup(func() { c.stop() })
	return c
}

// benchServeTCP measures both with 1, 32 and 128 clients, in turns. An operation is a stretch of time at each.
func benchServeTCP(b *testing.B, c *sidecar, length, tip int) {
	frames := readFrames(b, c.wallet(), 1, length)
	file := filepath.Join(b.TempDir(), "frames")
	if err := os.WriteFile(file, frames, 0o600); err != nil {
		b.Fatal(err)
	}
	addr := servertest.FreeAddr(b)
	p := startHelper(b, tcpServerHelper, addr, file)
	await(b, "the TCP server listens", 5*time.Second, func() bool {
		if !p.running() {
			b.Fatalf("the TCP server ended at once:\n%s", p.output.tail(4000))
		}
		return listening(addr)
	})
	perBlock := float64(len(frames)) / float64(length)
	crowds := []int{1, 32, 128}
	ours, bare := make([][]float64, len(crowds)), make([][]float64, len(crowds))
	for b.Loop() {
		for i, clients := range crowds {
			bare[i] = append(bare[i], loadTCP(b, addr, clients))
			ours[i] = append(ours[i], perBlock*load(b, c, query{method: getBlockRange}, clients, length, tip).blocksPerSecond)
		}
	}
	for i, clients := range crowds {
		var ratios []float64
		for j := range ours[i] {
			ratios = append(ratios, ours[i][j]/bare[i][j])
		}
		b.ReportMetric(median(ours[i])/1e6, fmt.Sprintf("MB/s-%d", clients))
		b.ReportMetric(median(ratios), fmt.Sprintf("ratio-%d", clients))
	}
	b.ReportMetric(0, "ns/op")
}

// loadTCP has clients read what the TCP server writes, and returns the bytes per second.
func loadTCP(b *testing.B, addr string, clients int) float64 {
	b.Helper()
	var received atomic.Int64
	var reading sync.WaitGroup
	var conns []net.Conn
	for range clients {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, conn)
		reading.Go(func() {
			buffer := make([]byte, 128<<10)
			for {
				n, err := conn.Read(buffer)
				received.Add(int64(n))
				if err != nil {
					return // the connection was closed at the end
				}
			}
		})
	}
	time.Sleep(loadWarmUp)
	bytes, begin := received.Load(), time.Now()
	time.Sleep(loadWindow)
	bytes, took := received.Load()-bytes, time.Since(begin)
	for _, conn := range conns {
		conn.Close()
	}
	reading.Wait()
	if bytes == 0 {
		b.Fatalf("%d clients got nothing in %v", clients, loadWindow)
	}
	return float64(bytes) / took.Seconds()
}

// runTCPServer writes a file to every connection again and again, 64 KiB at a time, until the process is killed. Its arguments are the
// address and the file.
func runTCPServer(args []string) error {
	content, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	lis, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	for {
		conn, err := lis.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			for {
				for rest := content; len(rest) > 0; rest = rest[min(len(rest), 64<<10):] {
					if _, err := conn.Write(rest[:min(len(rest), 64<<10)]); err != nil {
						return
					}
				}
			}
		}()
	}
}
