package integration

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// wallClock is the time of day of one running process, which can be set: as by an operator, or by a time service that finds the clock wrong.
// A Go program asks the kernel's code that is mapped into every process (vdso(7)), so that neither a preloaded library nor a namespace
// changes what it is told. Here that code is replaced, in the one process, by a system call and an addition.
type wallClock struct {
	tb     testing.TB
	memory *os.File // of the process
	offset int64    // where the nanoseconds stand that are added
}

// clockCode is what clock_gettime becomes: the system call of that name, and for CLOCK_REALTIME the number of seconds behind the code is
// added. The clock that measures durations stays what it was.
var clockCode = []byte{
	0xb8, 228, 0, 0, 0, // mov eax, 228
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi: which clock
	0x75, 0x0a, // jnz to the end
	0x48, 0x8b, 0x0d, 6, 0, 0, 0, // mov rcx, [rip+6]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3,       // ret
	0x90, 0x90, // up to a multiple of 8
	0, 0, 0, 0, 0, 0, 0, 0, // the seconds
}

// takeClock takes hold of a process's time of day.
func takeClock(tb testing.TB, p *process) *wallClock {
	tb.Helper()
	begin, end := vdso(tb, p)
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.cmd.Process.Pid), os.O_RDWR, 0)
	if errors.Is(err, os.ErrPermission) {
		tb.Skipf("this machine does not let a process write into its child: %v", err)
	} else if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { memory.Close() })
	image := make([]byte, end-begin)
	if _, err := memory.ReadAt(image, begin); err != nil {
		tb.Fatalf("read the kernel's code in %s: %v", p.name, err)
	}
	entry := begin + symbol(tb, image, "__vdso_clock_gettime")
	paused(tb, p, begin, end, func() {
		_, err = memory.WriteAt(clockCode, entry)
	})
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EIO) {
		tb.Skipf("this kernel does not let its code in a process be replaced: %v", err)
	} else if err != nil {
		tb.Fatal(err)
	}
	return &wallClock{tb, memory, entry + int64(len(clockCode)) - 8}
}

// set makes the process's time of day differ from ours by so much, in whole seconds.
func (c *wallClock) set(by time.Duration) {
	c.tb.Helper()
	if _, err := c.memory.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(by/time.Second)), c.offset); err != nil {
		c.tb.Fatalf("set the clock: %v", err)
	}
}

// vdso tells where the kernel's code is in a process.
func vdso(tb testing.TB, p *process) (begin, end int64) {
	tb.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.cmd.Process.Pid))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, "[vdso]\n") {
			if _, err := fmt.Sscanf(line, "%x-%x", &begin, &end); err != nil {
				tb.Fatalf("%q: %v", line, err)
			}
			return begin, end
		}
	}
	tb.Fatalf("%s has none of the kernel's code:\n%s", p.name, maps)
	return 0, 0
}

// symbol is where a function begins in an image.
func symbol(tb testing.TB, image []byte, name string) int64 {
	tb.Helper()
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		tb.Fatal(err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		tb.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == name && s.Size >= uint64(len(clockCode)) {
			return int64(s.Value)
		}
	}
	tb.Fatalf("the kernel's code has no %s that is long enough", name)
	return 0
}

// paused does something while the process is stopped, at a moment when no thread of it is within the given addresses.
func paused(tb testing.TB, p *process, begin, end int64, do func()) {
	tb.Helper()
	signal := func(s syscall.Signal) {
		if err := p.cmd.Process.Signal(s); err != nil {
			tb.Fatal(err)
		}
	}
	defer signal(syscall.SIGCONT)
	await(tb, "no thread is in the kernel's code", 10*time.Second, func() bool {
		signal(syscall.SIGSTOP)
		for range 100 {
			if away, stopped := allAway(tb, p, begin, end); stopped && away {
				return true
			} else if stopped {
				break
			}
			time.Sleep(time.Millisecond)
		}
		signal(syscall.SIGCONT)
		return false
	})
	do()
}

// allAway tells whether all threads of a process are stopped, and outside of the given addresses.
func allAway(tb testing.TB, p *process, begin, end int64) (away, stopped bool) {
	tb.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", p.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		tb.Fatalf("no threads of %s: %v", p.name, err)
	}
	away = true
	for _, thread := range threads {
		stat, statErr := os.ReadFile(thread + "/stat")
		call, err := os.ReadFile(thread + "/syscall")
		fields := strings.Fields(string(call))
		if err := errors.Join(statErr, err); err != nil {
			tb.Fatal(err)
		}
		_, state, _ := strings.Cut(string(stat), ") ")
		if !strings.HasPrefix(state, "T") || len(fields) < 3 {
			return false, false
		}
		var at int64
		if _, err := fmt.Sscanf(fields[len(fields)-1], "0x%x", &at); err != nil {
			tb.Fatalf("%s/syscall: %q: %v", thread, call, err)
		}
		away = away && (at < begin || at >= end)
	}
	return away, true
}

// requireClock wants that zsidecar takes the time of day that was set for the right one: its answers over HTTP bear it.
func requireClock(t *testing.T, c *sidecar, by time.Duration) {
	t.Helper()
	resp, err := http.Get("http://" + c.httpAddr + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if off := time.Until(date.Add(-by)).Abs(); err != nil || off > time.Minute || resp.StatusCode != http.StatusOK {
		t.Fatalf("the clock was set %v off, and zsidecar says %v, %v (/livez: %d)", by, date, err, resp.StatusCode)
	}
}

const year = 365 * 24 * time.Hour

// jumps are how far from ours the clock is set, one after the other.
func jumps() []time.Duration {
	return []time.Duration{year, -10 * year, 0, time.Second, -time.Hour, 30 * year, -time.Second}
}

// TestClockJumps sets the clock of a zsidecar back and forth while it opens, builds and follows a node that never rests: it is ready all the
// time, wallets read what is right, and it ends in order.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	k := &killer{node: startRestlessNode(t, 7), rng: rand.New(rand.NewPCG(7, 0))}
	c := newSidecar(t, k.node.URL(), k.node.CookieFile(), smallSegments)
	k.c = c
	for range 2 { // from nothing, and from what there is
		c.start()
		clock, w := takeClock(t, c.proc), c.wallet()
		clock.set(year)
		awaitAnswer(t, w)
		requireClock(t, c, year)
		for _, by := range append(jumps(), jumps()...) {
			clock.set(by)
			for range 3 {
				if err := k.readNewest(t, w); err != nil {
					t.Fatalf("the clock is set %v off: %v", by, err)
				}
				if code, text, err := c.get("/readyz"); code != 200 {
					t.Fatalf("the clock is set %v off: /readyz: %d %s, %v", by, code, text, err)
				}
			}
			requireClock(t, c, by)
		}
		if log := c.proc.output.String(); strings.Contains(log, "level=ERROR") {
			t.Errorf("the log:\n%s", log)
		}
		c.stop()
		k.requirePrefix(t)
	}
	k.requireAll(t)
}

// TestClockJumpsInAnOutage sets the clock while Zebra is away. How long ago it has answered does not depend on that: for a while its tip
// holds, and then no more.
func TestClockJumpsInAnOutage(t *testing.T) {
	t.Parallel()
	n := startRestlessNode(t, 8)
	c := newSidecar(t, n.URL(), n.CookieFile(), passthrough)
	c.start()
	clock, w := takeClock(t, c.proc), c.wallet()
	awaitAnswer(t, w)
	n.mu.Lock() // it rests
	defer n.mu.Unlock()
	defer n.Fault(zebratest.Fault{Drop: true})()
	requireTipUnknown(t, w)
	above := func() error { _, err := w.readBlock(t.Context(), getBlock, int(n.highest)+1); return err }
	clock.set(30 * year)
	requireClock(t, c, 30*year)
	requireCode(t, "30 years on, a block above the tip", above(), codes.OutOfRange)
	if code, text, err := c.get("/readyz"); code != 200 {
		t.Errorf("30 years on: /readyz: %d %s, %v", code, text, err)
	}
	clock.set(-30 * year)
	requireClock(t, c, -30*year)
	await(t, "nobody knows any more what is above the tip", 20*time.Second, func() bool { return status.Code(above()) == codes.Unavailable })
	var health struct {
		Node struct {
			Seconds float64 `json:"last_answer_seconds"`
		} `json:"node"`
	}
	if _, text, err := c.get("/healthz"); err != nil || json.Unmarshal([]byte(text), &health) != nil || health.Node.Seconds < 10 || health.Node.Seconds > 60 {
		t.Errorf("30 years back: /healthz: %s, %v", text, err)
	}
	if slowly(true, false) {
		await(t, "it is not ready any more", 40*time.Second, func() bool { return c.status("/readyz") == 503 })
	}
	c.stop()
}

// TestClockJumpsInADeepReorg sets the clock on while the node shows a chain that leaves ours among sealed blocks: that chain is not followed
// before it has lasted.
func TestClockJumpsInADeepReorg(t *testing.T) {
	t.Parallel()
	blocks, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Test})
	if err == nil {
		err = blocks.Extend(600, zebratest.Small)
	}
	if err != nil {
		t.Fatal(err)
	}
	n := zebratest.NewNode(blocks, zebratest.NodeOptions{CookieDir: t.TempDir()})
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := newSidecar(t, n.URL(), n.CookieFile(), smallSegments)
	c.start()
	clock := takeClock(t, c.proc)
	c.awaitIndex(600, time.Minute)
	if err := blocks.Reorg(300, 310, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	seen := time.Now()
	said := func() bool {
		return c.status("/readyz") == 503 && strings.Contains(c.proc.output.String(), "nothing in common above block")
	}
	await(t, "the other chain is seen", 20*time.Second, said)
	for _, by := range slowly([]time.Duration{year, -year, 30 * year, -30 * year}, []time.Duration{year}) {
		clock.set(by)
		requireClock(t, c, by)
		for range 5 { // it has to be seen five times in a row at least, which happens at every new tip
			asked := n.Requests("getbestblockheightandhash")
			if err := blocks.Extend(1, zebratest.Small); err != nil {
				t.Fatal(err)
			}
			await(t, "zsidecar asks again", 10*time.Second, func() bool { return n.Requests("getbestblockheightandhash") > asked })
		}
		time.Sleep(200 * time.Millisecond)
		if (c.indexHeight() != 600 || !said()) && time.Since(seen) < 25*time.Second {
			t.Fatalf("the clock is set %v off, and the index is cut at once:\n%s", by, c.proc.output.tail(2000))
		}
	}
	if slowly(true, false) {
		await(t, "it is followed in the end", time.Minute, func() bool { return c.indexHeight() == int(blocks.Tip().Height) && c.status("/readyz") == 200 })
	}
	c.stop()
	requireClean(t, c)
}
