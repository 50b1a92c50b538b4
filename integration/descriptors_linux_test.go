package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// TestTooManyConnections gives zsidecar few file descriptors and lets clients take them while the index is built from large blocks, which
// makes its database open files: the connections are closed that are too many, and nothing else happens. Then the limit falls below what
// is in use: the build pauses, and goes on when it can.
func TestTooManyConnections(t *testing.T) { // not parallel: it measures processor time
	const limit, blocks = 300, 350 // the database's tables of 16 MiB hold some 250 of these blocks
	chain, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Test})
	if err != nil {
		t.Fatal(err)
	}
	if err := chain.Extend(blocks, zebratest.DenseV4); err != nil {
		t.Fatal(err)
	}
	n := newSimulatedNode(t, chain)
	c := newSidecar(t, n.URL(), n.CookieFile(), defaultSegments)
	c.shell = fmt.Sprintf("ulimit -n %d; ulimit -Sn 64", limit)
	c.start()
	if soft := fileLimit(t, c.proc); soft < limit-1 { // one less tells the Go runtime that it was it
		t.Errorf("the soft limit of open files is %d, want the hard one, %d", soft, limit)
	}
	w := c.wallet()
	awaitAnswer(t, w)
	var crowd []net.Conn
	leave := func() {
		for _, conn := range crowd {
			conn.Close()
		}
	}
	defer leave()
	come := func(count int) {
		for range count {
			conn, err := net.Dial("tcp", c.grpcAddr)
			if err != nil {
				t.Fatal(err)
			}
			crowd = append(crowd, conn)
		}
	}
	come(2 * limit)
	await(t, "connections are closed", 10*time.Second, func() bool { return c.metric("zsidecar_connections_refused_total") > limit })
	c.awaitIndex(blocks, time.Minute)
	if _, err := w.latest(t.Context()); err != nil {
		t.Errorf("a wallet that was there before: %v", err)
	}
	requireIdle(t, c)
	if c.status("/readyz") != 200 {
		t.Error("not ready")
	}

	// No descriptor is left, for anybody.
	if err := unix.Prlimit(c.proc.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: lowestFree(t, c.proc), Max: limit}, nil); err != nil {
		t.Fatal(err)
	}
	if err := chain.Extend(1, zebratest.DenseV4); err != nil {
		t.Fatal(err)
	}
	come(20) // the kernel takes them, accept does not
	await(t, "the build pauses", 10*time.Second, func() bool { return strings.Contains(c.proc.output.String(), "too many open files") })
	requireIdle(t, c)
	if _, err := w.readBlock(t.Context(), getBlock, blocks); err != nil {
		t.Errorf("a block, without descriptors: %v", err)
	}
	if err := unix.Prlimit(c.proc.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
		t.Fatal(err)
	}
	leave()
	c.awaitIndex(blocks+1, 10*time.Second)
	awaitAnswer(t, c.wallet())
	if !c.proc.running() {
		t.Fatal("zsidecar has ended")
	}
	c.stop()
	requireClean(t, c)
}

// requireIdle wants a program with nothing to do to do next to nothing.
func requireIdle(t *testing.T, c *sidecar) {
	t.Helper()
	const stretch = time.Second
	used := procCPU(t, c.proc)
	time.Sleep(stretch)
	if used = procCPU(t, c.proc) - used; used > stretch/4 {
		t.Errorf("%v of processor time in %v", used, stretch)
	}
}

// fileLimit reads the soft limit of open files.
func fileLimit(t *testing.T, p *process) uint64 {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	return limit.Cur
}

// lowestFree is the number that the process's next file descriptor has.
func lowestFree(t *testing.T, p *process) uint64 {
	t.Helper()
	for n := uint64(0); ; n++ {
		name := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "fd", strconv.FormatUint(n, 10))
		if _, err := os.Lstat(name); os.IsNotExist(err) {
			return n
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
