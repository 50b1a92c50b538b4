package integration

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// BenchmarkTransactionBesideBuild asks for a transaction a hundred times a second while the index is built, and as often when it is
// complete and Zebra idle: small blocks from zebrad, and large ones from a simulated Zebra that pays for each with the processor time that
// zebrad needs. An operation is one build.
func BenchmarkTransactionBesideBuild(b *testing.B) {
	b.Run("small", func(b *testing.B) {
		n := recipeNode(b, longChain, "")
		tip, _ := n.tip()
		besideBuild(b, n.url(), n.cookie(), tip)
	})
	b.Run("dense", func(b *testing.B) {
		const blocks = 150
		addr, dir := servertest.FreeAddr(b), b.TempDir()
		p := startHelper(b, costlyNodeHelper, addr, dir, strconv.Itoa(blocks))
		await(b, "the costly node listens", 20*time.Second, func() bool {
			if !p.running() {
				b.Fatalf("the costly node ended at once:\n%s", p.output.tail(4000))
			}
			return listening(addr)
		})
		besideBuild(b, "http://"+addr, filepath.Join(dir, ".cookie"), blocks)
	})
}

func besideBuild(b *testing.B, url, cookie string, tip int) {
	const interval = 10 * time.Millisecond
	rpc := newRPCClient(hostOf(b, url), cookie)
	var block struct{ Tx []string }
	if err := rpc.call(b.Context(), &block, "getblock", "1", 1); err != nil {
		b.Fatal(err)
	}
	txid, err := hex.DecodeString(block.Tx[0])
	if err != nil {
		b.Fatal(err)
	}
	slices.Reverse(txid)
	program(b)
	var idle, busy []time.Duration
	for b.Loop() {
		c := newSidecar(b, url, cookie, defaultSegments)
		c.start()
		w := c.wallet()
		awaitAnswer(b, w)
		ask := func() time.Duration {
			begin := time.Now()
			raw := &walletrpc.RawTransaction{}
			if err := w.call(b.Context(), "GetTransaction", &walletrpc.TxFilter{Hash: txid}, raw); err != nil || raw.Height != 1 {
				b.Fatalf("GetTransaction: height %d, %v", raw.Height, err)
			}
			return time.Since(begin)
		}
		count, last := 0, time.Time{}
		for ; ; count++ {
			busy = append(busy, ask())
			if time.Since(last) > 100*time.Millisecond { // the metrics cost more than the transaction
				if c.indexHeight() >= tip {
					break
				}
				last = time.Now()
			}
			time.Sleep(interval)
		}
		for range count {
			idle = append(idle, ask())
			time.Sleep(interval)
		}
		c.stop()
	}
	b.ReportMetric(float64(len(busy)), "samples")
	for name, took := range map[string][]time.Duration{"idle": idle, "build": busy} {
		b.ReportMetric(milliseconds(quantile(took, 50)), name+"-p50-ms")
		b.ReportMetric(milliseconds(quantile(took, 99)), name+"-p99-ms")
	}
	b.ReportMetric(float64(quantile(busy, 99))/float64(quantile(idle, 99)), "p99-ratio")
	b.ReportMetric(0, "ns/op")
}

const costlyNodeHelper = "costly-node"

// What a question costs Zebra, in processor time: a block of 550 kB, every curve point of which is decompressed, and a transaction.
const (
	costOfBlock       = 45 * time.Millisecond
	costOfTransaction = 300 * time.Microsecond
)

// runCostlyNode serves a chain of large blocks until the process is killed. Each call has a thread of its own, as those of zebrad have that
// read its database: it is the kernel that shares the processors among them. Its arguments are the address, the folder of the cookie, and
// the number of blocks.
func runCostlyNode(args []string) error {
	blocks, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(128)
	chain, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Test})
	if err != nil {
		return err
	}
	if err := chain.Extend(blocks, zebratest.DenseV4); err != nil {
		return err
	}
	n := zebratest.NewNode(chain, zebratest.NodeOptions{CookieDir: args[1], Observe: func(call zebratest.Call) {
		switch call.Method {
		case "getblock":
			burn(costOfBlock)
		case "getrawtransaction":
			burn(costOfTransaction)
		}
	}})
	if err := n.Start(); err != nil {
		return err
	}
	return http.ListenAndServe(args[0], n) // Start has made the cookie; its own port stays unused
}

// burn uses processor time.
func burn(cost time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
			panic(fmt.Sprintf("processor time of a thread: %v", err))
		}
		return time.Duration(t.Nano())
	}
	for begin := used(); used()-begin < cost; {
	}
}
