package integration

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// BenchmarkMemory builds the index from an empty folder and watches what it costs: memory (RssAnon) over the height, bytes written, and
// what lies on the disk in the end. Then it opens streams, most of them read at full speed, and watches the memory on.
func BenchmarkMemory(b *testing.B) {
	const stalled, streams, streaming = 64, 128, 2 * time.Second
	s := syntheticNode(b)
	blocks := s.tip() + 1
	figures := map[string][]float64{}
	note := func(name string, value float64) { figures[name] = append(figures[name], value) }
	for b.Loop() {
		c := s.sidecar(b, "")
		c.start()
		early, late := watchBuild(b, c, s.tip())
		note("build-blocks/s", float64(blocks)/time.Since(c.proc.started).Seconds())
		note("first-tenth-MiB", mebibytes(early))
		note("build-MiB", mebibytes(max(early, late)))
		note("late/early", float64(late)/float64(early))
		note("build-cpu-µs/block", float64(procCPU(b, c.proc).Nanoseconds())/1000/float64(blocks))

		before := anonymousMemory(b, c.proc)
		for range stalled {
			stallReader(b, c.grpcAddr, s.tip())
		}
		beside := anonymousMemory(b, c.proc)
		note("stalled-KiB/stream", float64(max(beside-before, 0))/1024/stalled)
		crowd := startCrowd(b, c, query{method: getBlockRange}, streams, s.tip(), s.tip())
		peak := 0
		for end := time.Now().Add(streaming); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			peak = max(peak, anonymousMemory(b, c.proc))
		}
		crowd.stop()
		note("streams-MiB", mebibytes(peak))
		written := bytesWritten(b, c.proc)
		c.stop()

		disk, ideal := allocatedBytes(b, c.dataDir), s.storedBytes(b)
		note("disk-B/block", float64(disk)/float64(blocks))
		note("over-ideal-B/block", float64(disk)/float64(blocks)-ideal)
		note("written/size", float64(written)/float64(disk))
	}
	for name, values := range figures {
		b.ReportMetric(median(values), name)
	}
	b.ReportMetric(0, "ns/op")
}

// watchBuild returns the largest memory seen while the first tenth was built, and after that.
func watchBuild(b *testing.B, c *sidecar, tip int) (early, late int) {
	b.Helper()
	for height := 0; height < tip; time.Sleep(20 * time.Millisecond) {
		height = c.indexHeight()
		if memory := anonymousMemory(b, c.proc); height <= tip/10 {
			early = max(early, memory)
		} else {
			late = max(late, memory)
		}
		if !c.proc.running() {
			b.Fatal("zsidecar ended during the build")
		}
	}
	return early, late
}

// storedBytes is what the blocks of the chain are worth without any index around them, in bytes per block: the frame of each as it is
// sent by default, and its transparent part.
func (s *synthetic) storedBytes(b *testing.B) float64 {
	b.Helper()
	const wanted = 10_000 // a sample of this size tells the mean to well below a byte
	enc := chain.NewEncoder(chain.EncoderOptions{})
	var block chain.Block
	bytes, blocks, tip := 0, 0, s.tip()
	for h := 0; h <= tip; h += max(1, tip/wanted) {
		raw, err := s.node.Chain().Raw(chain.Height(h))
		if err != nil {
			b.Fatal(err)
		}
		sizes, err := s.node.Chain().Sizes(chain.Height(h))
		if err != nil {
			b.Fatal(err)
		}
		if err := enc.Encode(&block, chain.Height(h), raw); err != nil {
			b.Fatal(err)
		}
		bytes += len(chain.AppendFrame(nil, block.Shielded, sizes)) + len(block.Transparent)
		blocks++
	}
	return float64(bytes) / float64(blocks)
}

// bytesWritten is what a process has sent to the disk; pages of mapped files count when they become dirty.
func bytesWritten(b *testing.B, p *process) (n int64) {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "write_bytes: %d", &n); err == nil {
			return n
		}
	}
	b.Fatalf("/proc tells no write_bytes: %s", text)
	return 0
}

// allocatedBytes is what the files of a folder occupy on the disk.
func allocatedBytes(b *testing.B, dir string) (sum int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			sum += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return sum
}

func mebibytes(n int) float64 { return float64(n) / (1 << 20) }

// BenchmarkNewBlock takes the time from when the node has a new block until GetLatestBlock names it and GetBlock has it, while a wallet
// asks every few milliseconds. An operation is ten blocks.
func BenchmarkNewBlock(b *testing.B) {
	s, c := serveSynthetic(b)
	w := c.wallet()
	var took []time.Duration
	for b.Loop() {
		for i := range 10 {
			time.Sleep(time.Duration(100+37*i%150) * time.Millisecond) // anywhere between two polls
			begin, height := time.Now(), s.extend(b)
			await(b, "the new block is served", 5*time.Second, func() bool {
				id, err := w.latest(b.Context())
				return err == nil && id.Height == uint64(height)
			})
			if _, err := w.readBlock(b.Context(), getBlock, height); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(begin))
		}
	}
	b.ReportMetric(milliseconds(quantile(took, 50)), "p50-ms")
	b.ReportMetric(milliseconds(slices.Max(took)), "max-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRestart takes the time from the start of the program until it answers, and until it serves a range out of the whole index.
func BenchmarkRestart(b *testing.B) {
	s, c := serveSynthetic(b)
	var first, indexed []float64
	for b.Loop() {
		c.stop()
		c.start()
		awaitAnswer(b, c.wallet())
		first = append(first, milliseconds(time.Since(c.proc.started)))
		c.awaitIndex(s.tip(), 30*time.Second)
		if err := newCountingClient(b, c.grpcAddr).fetch(query{method: getBlockRange}, s.tip()-999, s.tip()); err != nil {
			b.Fatal(err)
		}
		indexed = append(indexed, milliseconds(time.Since(c.proc.started)))
		if got := c.served("index"); got != 1000 {
			b.Fatalf("the index served %v blocks of 1000", got)
		}
	}
	b.ReportMetric(median(first), "first-answer-ms")
	b.ReportMetric(median(indexed), "from-index-ms")
	b.ReportMetric(0, "ns/op")
}
