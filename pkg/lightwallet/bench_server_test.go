package lightwallet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// The servers that benchmarks compare run in a process of their own, so that its CPU time is the server's alone.
const (
	benchServerEnv = "ZSIDECAR_BENCH_SERVER"

	benchFramed   = "framed"   // this package
	benchFallback = "fallback" // this package, one SendMsg per block
	benchNetHTTP  = "net-http" // net/http's HTTP/2, a handler that writes the same runs
	benchUnary    = "unary"    // grpc-go, a unary call that returns a constant
)

// benchBlocks is how many blocks a range of the benchmarks has.
const benchBlocks = 100_000

// benchRun is a run of blocks of 100 bytes, prefix and all. No benchmark client looks inside.
func benchRun() (run []byte, blocks int) {
	message := &walletrpc.CompactBlock{
		Height: 2_500_000, Hash: make([]byte, 32), PrevHash: make([]byte, 32), Time: 1_700_000_000,
		ChainMetadata: &walletrpc.ChainMetadata{SaplingCommitmentTreeSize: 70_000_000, OrchardCommitmentTreeSize: 50_000_000},
	}
	for len(run) < chain.RunSize {
		run = appendFrame(run, message)
		blocks++
	}
	return run, blocks
}

// benchSource gives the same run over and over.
type benchSource struct {
	run    []byte
	blocks int
}

func newBenchSource() *benchSource {
	run, blocks := benchRun()
	return &benchSource{run, blocks}
}

func (s *benchSource) View(context.Context) (chain.View, error) { return s, nil }

func (s *benchSource) Tip() (chain.BlockID, error) { return chain.BlockID{Height: benchBlocks}, nil }

func (s *benchSource) HashAt(context.Context, chain.Height) (chain.Hash, error) {
	return chain.Hash{}, chain.ErrNotFound
}

func (s *benchSource) HeightOf(context.Context, chain.Hash) (chain.Height, error) {
	return 0, chain.ErrNotFound
}

func (s *benchSource) Close() {}

func (s *benchSource) Blocks(_ context.Context, from, to chain.Height, _ chain.Projection) iter.Seq2[chain.Frames, error] {
	size := len(s.run) / s.blocks
	return func(yield func(chain.Frames, error) bool) {
		for h := from; h <= to; {
			n := min(s.blocks, int(to-h)+1)
			f := chain.Frames{Bytes: s.run[:n*size], Count: n, First: chain.BlockID{Height: h}, Last: chain.BlockID{Height: h + chain.Height(n) - 1}}
			if !yield(f, nil) {
				return
			}
			h += chain.Height(n)
		}
	}
}

// runBenchServer serves until its standard input ends. It prints its address, and the CPU time used so far after every line it reads.
func runBenchServer(kind string) error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	stop, err := serveBench(kind, lis)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println(lis.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			return err
		}
		fmt.Println(used.Utime.Nano() + used.Stime.Nano())
	}
	return nil
}

func serveBench(kind string, lis net.Listener) (stop func(), err error) {
	switch kind {
	case benchFramed, benchFallback:
		o := Options{Source: newBenchSource(), Node: &fakeNode{}, Mempool: newFakeMempool(), Logger: slog.New(slog.DiscardHandler)}
		s, err := newServer(o, kind == benchFallback)
		if err != nil {
			return nil, err
		}
		go s.Serve(lis) //nolint:errcheck // the process ends with it
		return func() { s.grpc.Stop() }, nil
	case benchNetHTTP:
		s := &http.Server{Handler: benchHandler(), Protocols: new(http.Protocols)}
		s.Protocols.SetUnencryptedHTTP2(true)
		go s.Serve(lis) //nolint:errcheck // the process ends with it
		return func() { s.Close() }, nil
	case benchUnary:
		s := grpc.NewServer()
		walletrpc.RegisterCompactTxStreamerServer(s, newConstantServer())
		go s.Serve(lis) //nolint:errcheck // the process ends with it
		return s.Stop, nil
	}
	return nil, fmt.Errorf("there is no server %q", kind)
}

// benchHandler writes the runs of a whole range, as a server on net/http would.
func benchHandler() http.Handler {
	source := newBenchSource()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		for f := range source.Blocks(r.Context(), 1, benchBlocks, chain.DefaultProjection) {
			if _, err := w.Write(f.Bytes); err != nil {
				return
			}
		}
		w.Header().Set("Grpc-Status", "0")
	})
}

// constantServer answers GetBlock with the message of the benchmarks.
type constantServer struct {
	walletrpc.UnimplementedCompactTxStreamerServer
	block *walletrpc.CompactBlock
}

func newConstantServer() *constantServer {
	run, _ := benchRun()
	n, err := frameAt(run, 0)
	if err != nil {
		panic(err)
	}
	c := &constantServer{block: &walletrpc.CompactBlock{}}
	c.block.ProtoReflect().SetUnknown(run[chain.FramePrefixLen : chain.FramePrefixLen+n])
	return c
}

func (c *constantServer) GetBlock(context.Context, *walletrpc.BlockID) (*walletrpc.CompactBlock, error) {
	return c.block, nil
}

// benchServer is a server process.
type benchServer struct {
	addr string
	in   io.Writer
	out  *bufio.Reader
}

func startBenchServer(b *testing.B, kind string) *benchServer {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), benchServerEnv+"="+kind)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	s := &benchServer{in: in, out: bufio.NewReader(out)}
	s.addr = s.line(b)
	return s
}

func (s *benchServer) line(b *testing.B) string {
	b.Helper()
	line, err := s.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// cpu is the CPU time the server has used so far, in nanoseconds.
func (s *benchServer) cpu(b *testing.B) int64 {
	b.Helper()
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		b.Fatal(err)
	}
	ns, err := strconv.ParseInt(s.line(b), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return ns
}
