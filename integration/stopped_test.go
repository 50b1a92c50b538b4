package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A process that is stopped (SIGSTOP, or a debugger, a frozen container, a machine under too much load) keeps its connections and its clock
// goes on: when it runs again, every time that it had set itself is over at once.

// stopFor is how long a process is stopped: a minute in full length.
func stopFor() time.Duration { return slowly(time.Minute, 4*time.Second) }

// whileStopped runs during while the process is stopped, which lasts for stopFor at least.
func whileStopped(t *testing.T, p *process, during func()) {
	t.Helper()
	begin := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}()
	during()
	time.Sleep(time.Until(begin.Add(stopFor())))
}

// requireNoReorg wants that a zsidecar has not taken anything for one.
func requireNoReorg(t *testing.T, c *sidecar) {
	t.Helper()
	if log := c.proc.output.String(); strings.Contains(log, "rewinding") || strings.Contains(log, "level=ERROR") {
		t.Errorf("a reorganization or an error that there was not:\n%s", log)
	}
}

// heldRange reads the whole chain in the background and waits after the tenth block until it is let go.
type heldRange struct {
	begun, let chan struct{}
	ended      chan error
}

func holdRange(t *testing.T, w *wallet, want [][]byte) *heldRange {
	t.Helper()
	r := &heldRange{begun: make(chan struct{}), let: make(chan struct{}), ended: make(chan error, 1)}
	read := 0
	go func() {
		r.ended <- w.readRange(t.Context(), query{method: getBlockRange}, 0, len(want)-1, want, func() {
			if read++; read == 10 {
				close(r.begun)
				<-r.let
			}
		})
	}()
	select {
	case <-r.begun:
	case err := <-r.ended:
		t.Fatal(err)
	}
	return r
}

func (r *heldRange) end() error {
	close(r.let)
	return <-r.ended
}

// TestStoppedSidecar stops zsidecar while streams are open and the chain grows.
func TestStoppedSidecar(t *testing.T) {
	t.Parallel()
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
			held, mempool := holdRange(t, w, want), followMempool(t, w)
			height := 0
			whileStopped(t, c.proc, func() { height = n.mine(3, keyHash) })
			await(t, "the new tip is named", 5*time.Second, func() bool {
				id, err := w.latest(t.Context())
				return err == nil && id.Height == uint64(height)
			})
			if err := held.end(); err != nil {
				t.Errorf("the stream that was open: %v", err)
			}
			mempool.requireEnd(t) // new blocks end it
			if _, err := w.readBlock(t.Context(), getBlock, height); err != nil {
				t.Errorf("the newest block: %v", err)
			}
			requireFollows(t, n, w)
			if code := c.status("/readyz"); code != 200 {
				t.Errorf("/readyz: %d", code)
			}
			requireNoReorg(t, c)
			c.stop()
		})
	}
}

// TestStoppedZebra stops zebrad beside zsidecars with and without an index, and one that is building its own. What is indexed is served as
// before, the rest waits or is UNAVAILABLE, and everything goes on when zebrad does.
func TestStoppedZebra(t *testing.T) {
	t.Parallel()
	n, indexer := tipNode(t)
	tip, _ := n.tip()
	want := query{method: getBlockRange}.encoded(t, expectChain(t, n, 0, tip))
	complete, bare := tipSidecar(t, n, indexer), newSidecar(t, n.url(), n.cookie(), passthrough)
	bare.start()
	building := newSidecar(t, n.url(), n.cookie(), smallSegments)
	w, b := complete.wallet(), bare.wallet()
	awaitAnswer(t, b)
	complete.awaitTipStream(true, 10*time.Second)
	held := holdRange(t, b, want)
	building.start()
	whileStopped(t, n.proc, func() {
		requireTipUnknown(t, b)
		for begin := time.Now(); time.Since(begin) < stopFor()-2*time.Second; time.Sleep(200 * time.Millisecond) {
			if id, err := w.latest(t.Context()); err != nil || id.Height != uint64(tip) {
				t.Fatalf("GetLatestBlock with a complete index: %v, %v; want height %d", id, err, tip)
			}
			if err := w.requireRange(t.Context(), query{method: getBlockRange}, 0, tip, want); err != nil {
				t.Fatal(err)
			}
		}
		if code := complete.status("/readyz"); code != 200 {
			t.Errorf("/readyz with a complete index: %d", code)
		}
	})
	building.awaitIndex(tip, time.Minute)
	requireFollows(t, n, w)
	requireFollows(t, n, b)
	// It may have run out of patience, but not of order.
	if err := held.end(); err != nil && status.Code(err) != codes.Unavailable {
		t.Errorf("a range from zebrad that was open: %v", err)
	}
	if err := b.requireRange(t.Context(), query{method: getBlockRange}, 0, tip, want); err != nil {
		t.Error(err)
	}
	complete.awaitTipStream(true, time.Minute)
	for _, c := range []*sidecar{complete, bare, building} {
		requireNoReorg(t, c)
		c.stop()
	}
}

// TestStoppedWallets stops a process of wallets that read at full speed: others do not feel it, and they read on.
func TestStoppedWallets(t *testing.T) {
	t.Parallel()
	n := fixtureNode(t, "")
	tip, _ := n.tip()
	want := query{method: getBlockRange}.encoded(t, expectChain(t, n, 0, tip))
	c := newSidecar(t, n.url(), n.cookie(), smallSegments)
	c.start()
	c.awaitIndex(tip, time.Minute)
	w := c.wallet()
	readers := startHelper(t, readersHelper, c.grpcAddr, "8", fmt.Sprint(tip))
	await(t, "the readers read", 10*time.Second, func() bool { return readers.output.String() != "" })
	whileStopped(t, readers, func() {
		for range 5 {
			if err := w.requireRange(t.Context(), query{method: getBlockRange}, 0, tip, want); err != nil {
				t.Fatal(err)
			}
		}
	})
	before := c.served("index")
	await(t, "the readers read on", 10*time.Second, func() bool { return c.served("index") > before+2*float64(tip) })
	if !readers.running() {
		t.Fatalf("the readers gave up:\n%s", readers.output.tail(2000))
	}
	readers.kill()
	c.stop()
}
