package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// TestStalledReaders leaves 64 streams open that nobody reads on: they cost little memory and slow nobody down.
func TestStalledReaders(t *testing.T) { // not parallel: it measures time and memory
	const (
		stalled = 64
		// What they may take together: the read-ahead of all passthrough ranges, twice for the garbage collector's sake, and the
		// buffers of each stream.
		atMost = 2*64<<20 + stalled*512<<10
		slower = 3 // times longer that another reader may take beside them, on a noisy machine
	)
	n := fixtureNode(t, "")
	tip, _ := n.tip()
	want := query{method: getBlockRange}.encoded(t, expectChain(t, n, 0, tip))
	for _, s := range []setup{passthrough, defaultSegments} {
		t.Run(s.name, func(t *testing.T) {
			c := newSidecar(t, n.url(), n.cookie(), s)
			c.start()
			w := c.wallet()
			awaitAnswer(t, w)
			if !s.noIndex {
				c.awaitIndex(tip, time.Minute)
			}
			alone := fastestPass(t, w, want)
			memory := anonymousMemory(t, c.proc)

			for range stalled {
				stallReader(t, c.grpcAddr, tip)
			}
			beside := fastestPass(t, w, want)
			grown := anonymousMemory(t, c.proc) - memory
			time.Sleep(2 * time.Second)
			if later := anonymousMemory(t, c.proc) - memory; later > grown+8<<20 {
				t.Errorf("memory is not flat beside %d stalled readers: %+d KiB, two seconds later %+d KiB", stalled, grown>>10, later>>10)
			}
			t.Logf("the chain takes %v alone, %v beside %d stalled readers; memory %d KiB, then %+d KiB",
				alone.Round(time.Millisecond), beside.Round(time.Millisecond), stalled, memory>>10, grown>>10)
			if beside > slower*alone {
				t.Errorf("beside %d stalled readers the chain takes %v, %v without them", stalled, beside, alone)
			}
			if grown > atMost {
				t.Errorf("%d stalled readers took %d KiB of memory, want at most %d", stalled, grown>>10, atMost>>10)
			}
			c.stop() // which ends them
		})
	}
}

// fastestPass reads the whole chain five times and returns the best time.
func fastestPass(t *testing.T, w *wallet, want [][]byte) time.Duration {
	t.Helper()
	best := time.Hour
	for range 5 {
		begin := time.Now()
		if err := w.requireRange(t.Context(), query{method: getBlockRange}, 0, len(want)-1, want); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(begin))
	}
	return best
}

// stallReader asks for the whole chain, reads one block and then nothing more.
func stallReader(t testing.TB, addr string, tip int) {
	t.Helper()
	q := query{method: getBlockRange}
	stallStream(t, addr, q.method, q.blockRange(0, tip))
}

// stallStream reads one message of a stream and then nothing more.
func stallStream(t testing.TB, addr, method string, request proto.Message) {
	t.Helper()
	const window = 64 << 10 // the smallest that grpc-go takes; the chain is longer
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/"+serviceName+"/"+method, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(request); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var message []byte
	if err := s.RecvMsg(&message); err != nil {
		t.Fatal(err)
	}
}

// anonymousMemory is RssAnon of a process in bytes: what it holds itself, without the pages of mapped files.
func anonymousMemory(t testing.TB, p *process) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kib int
		if _, err := fmt.Sscanf(line, "RssAnon: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	t.Fatal("/proc tells no RssAnon")
	return 0
}

// TestStalledAddressReaders leaves many streams about one busy address open that nobody reads on, 256 in the long form.
func TestStalledAddressReaders(t *testing.T) { // not parallel: it measures memory
	const outputs = 12_000
	stalled := slowly(256, 32)
	// What all of them may hold of answers, a page of at least some size for each, and the buffers of each stream.
	atMost := 32<<20 + stalled*512<<10
	chain := newSimulatedChain(t)
	extend(t, chain, 40, zebratest.Paying(transparentAddress(t, anyoneCanSpend), outputs/40))
	n := newSimulatedNode(t, chain)
	for _, method := range []string{getAddressUtxosStream, getTaddressTransactions} {
		t.Run(method, func(t *testing.T) {
			c := newSidecar(t, n.URL(), n.CookieFile(), passthrough)
			c.start()
			awaitAnswer(t, c.wallet())
			request := addressRequest(method, anyoneCanSpend)
			read := func() int {
				messages, err := (&env{wallet: c.wallet()}).read(t.Context(), method, request)
				if err != nil {
					t.Fatal(err)
				}
				return len(messages)
			}
			want := read()
			memory := anonymousMemory(t, c.proc)
			for range stalled {
				stallStream(t, c.grpcAddr, method, request)
			}
			grown := anonymousMemory(t, c.proc) - memory
			begin := time.Now()
			if got := read(); got != want {
				t.Errorf("%d messages beside them, %d without", got, want)
			}
			t.Logf("%d stalled readers of %d messages: memory %d KiB, then %+d KiB; another took %v", stalled, want, memory>>10, grown>>10, time.Since(begin))
			if grown > atMost {
				t.Errorf("%d stalled readers took %d KiB of memory, want at most %d", stalled, grown>>10, atMost>>10)
			}
			c.proc.kill() // a stop would wait for them
		})
	}
}
