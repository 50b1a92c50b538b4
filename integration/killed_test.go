package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// restlessNode is a simulated Zebra whose chain never rests: it grows by single blocks and by hundreds, and reorganises. It remembers every
// block that it has had.
type restlessNode struct {
	*zebratest.Node
	rng *rand.Rand

	mu      sync.Mutex
	had     map[chain.Hash]chain.Height // guarded by mu, like the rest and every change of the chain
	highest chain.Height
	reorgs  int
}

// restlessDepth is how deep its reorgs go below the highest tip: less than the seal_depth of smallConfig.
const restlessDepth = 45

func startRestlessNode(t *testing.T, seed uint64) *restlessNode {
	t.Helper()
	c, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Test})
	if err != nil {
		t.Fatal(err)
	}
	n := &restlessNode{rng: rand.New(rand.NewPCG(seed, 1)), had: make(map[chain.Hash]chain.Height)}
	n.Node = zebratest.NewNode(c, zebratest.NodeOptions{CookieDir: t.TempDir()})
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	n.change(t, func(c *zebratest.Chain) (chain.Height, error) { return 0, c.Extend(3000, zebratest.Small) })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			n.step(t)
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(5+n.rng.IntN(35)) * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// change does something to the chain above the height that it returns.
func (n *restlessNode) change(t *testing.T, do func(*zebratest.Chain) (chain.Height, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.Chain()
	from, err := do(c)
	tip := c.Tip()
	for h := from; err == nil && h <= tip.Height; h++ {
		var hash chain.Hash
		hash, err = c.Hash(h)
		n.had[hash] = h
	}
	if err != nil {
		t.Errorf("change the node's chain: %v", err)
	}
	n.highest = max(n.highest, tip.Height)
}

func (n *restlessNode) step(t *testing.T) {
	n.change(t, func(c *zebratest.Chain) (chain.Height, error) {
		tip := c.Tip().Height
		switch dice := n.rng.IntN(100); {
		case dice < 2:
			return tip, c.Extend(50+n.rng.IntN(100), zebratest.Small)
		case dice < 60 || tip+restlessDepth <= n.highest:
			return tip, c.Extend(1+n.rng.IntN(3), zebratest.Mixed)
		}
		depth := 1 + n.rng.IntN(int(tip+restlessDepth-n.highest))
		n.reorgs++
		return tip - chain.Height(depth), c.Reorg(depth, 1+n.rng.IntN(depth+2), zebratest.Small)
	})
}

// hasHad tells whether a block was on the node's best chain once; the hash is in internal order.
func (n *restlessNode) hasHad(height uint64, hash []byte) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	h, ok := n.had[chain.Hash(hash)]
	return ok && uint64(h) == height
}

// numberFrom reads a setting of the tests.
func numberFrom(t *testing.T, name string, standard uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return standard
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		t.Fatalf("%s is %q, which is no number", name, text)
	}
	return n
}

// TestKilled ends zsidecar with SIGKILL again and again, while it opens the index, builds, follows a chain with reorgs, seals, and closes.
// After each time the index is right and ends with a block that the node has had, and the next process serves within a second.
// ZSIDECAR_KILLS says how often (30), ZSIDECAR_KILL_SEED which times are drawn (1).
func TestKilled(t *testing.T) { // not parallel: it measures time
	kills, seed := int(numberFrom(t, "ZSIDECAR_KILLS", 30)), numberFrom(t, "ZSIDECAR_KILL_SEED", 1)
	n := startRestlessNode(t, seed)
	c := newSidecar(t, n.URL(), n.CookieFile(), smallSegments)
	program(t)
	k := &killer{c: c, node: n, rng: rand.New(rand.NewPCG(seed, 0))}
	moments := []struct {
		name string
		kill func(*testing.T)
	}{{"serving", k.whileServing}, {"opening", k.whileOpening}, {"closing", k.whileClosing}, {"behind", k.whileBehind}}
	for i := range kills {
		m := moments[i%len(moments)]
		t.Run(fmt.Sprintf("%d of %d, %s", i+1, kills, m.name), func(t *testing.T) {
			c.tb = t
			defer func() { c.tb = nil }()
			m.kill(t)
			k.requirePrefix(t)
		})
		if t.Failed() {
			t.Fatalf("to see it again: ZSIDECAR_KILL_SEED=%d ZSIDECAR_KILLS=%d", seed, i+1)
		}
	}
	c.tb = t
	slices.Sort(k.took)
	median, slowest := k.took[len(k.took)/2], k.took[len(k.took)-1]
	t.Logf("%d kills, %d reorgs of the node, %d blocks; serving out of the index after %v, %v at worst", kills, n.reorgs, k.height, median, slowest)
	if median > time.Second {
		t.Errorf("half of the restarts took more than %v, want at most 1s", median)
	}
	if n.reorgs == 0 || k.height < 3000 {
		t.Errorf("%d reorgs, %d blocks: this shows little", n.reorgs, k.height)
	}
	k.requireAll(t)
}

// killer starts and kills one zsidecar.
type killer struct {
	c      *sidecar
	node   *restlessNode
	rng    *rand.Rand
	height int64           // of the index after the last kill
	took   []time.Duration // from the start of each process until it served out of the index
}

// wait waits for some part of a time.
func (k *killer) wait(most time.Duration) { time.Sleep(time.Duration(k.rng.Int64N(int64(most)))) }

// serve starts zsidecar and waits until it serves what the index had.
func (k *killer) serve(t *testing.T) {
	t.Helper()
	k.c.start()
	w := k.c.wallet()
	await(t, "the tip is served", 15*time.Second, func() bool { _, err := w.latest(t.Context()); return err == nil })
	await(t, "the index is open", 15*time.Second, func() bool { return k.c.indexHeight() >= 0 })
	k.took = append(k.took, time.Since(k.c.proc.started))
	if id, err := w.latest(t.Context()); err != nil || !k.node.hasHad(id.Height, id.Hash) {
		t.Fatalf("the tip is %d %x, %v, which the node has never had", id.Height, id.Hash, err)
	}
	if err := k.readNewest(t, w); err != nil {
		t.Fatal(err)
	}
}

// readNewest reads the newest blocks. A reorg may end the range, but never mixes two chains.
func (k *killer) readNewest(t *testing.T, w *wallet) error {
	id, err := w.latest(t.Context())
	if err != nil {
		return err
	}
	var prev []byte
	err = w.stream(t.Context(), getBlockRange, query{method: getBlockRange}.blockRange(int(id.Height)-200, int(id.Height)), func(raw []byte) error {
		b := &walletrpc.CompactBlock{}
		if err := proto.Unmarshal(raw, b); err != nil {
			return err
		}
		if prev != nil && !slices.Equal(b.PrevHash, prev) || !k.node.hasHad(b.Height, b.Hash) {
			return fmt.Errorf("block %d %x on %x comes after %x", b.Height, b.Hash, b.PrevHash, prev)
		}
		prev = slices.Clone(b.Hash)
		return nil
	})
	if c := status.Code(err); c == codes.Aborted || c == codes.OutOfRange {
		return nil
	}
	return err
}

func (k *killer) whileServing(t *testing.T) {
	k.serve(t)
	k.wait(600 * time.Millisecond)
	k.c.proc.kill()
}

func (k *killer) whileOpening(t *testing.T) {
	k.c.proc = startProcess(t, "zsidecar", program(t), k.c.args...)
	k.wait(200 * time.Millisecond)
	k.c.proc.kill()
}

func (k *killer) whileClosing(t *testing.T) {
	k.serve(t)
	k.wait(200 * time.Millisecond)
	if err := k.c.proc.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	k.wait(100 * time.Millisecond)
	k.c.proc.kill()
}

// whileBehind lets the node get far ahead before the start, so that whole segments are built.
func (k *killer) whileBehind(t *testing.T) {
	k.node.change(t, func(c *zebratest.Chain) (chain.Height, error) {
		return c.Tip().Height, c.Extend(500+k.rng.IntN(1000), zebratest.Small)
	})
	k.serve(t)
	k.wait(400 * time.Millisecond)
	k.c.proc.kill()
}

// requirePrefix checks the index: everything in it fits together, and its tip is a block that the node has had.
func (k *killer) requirePrefix(t *testing.T) {
	t.Helper()
	var complaint strings.Builder
	check := exec.Command(program(t), "check", "--json", "--data-dir", k.c.dataDir)
	check.Stderr = &complaint
	out, err := check.Output()
	if err != nil {
		t.Fatalf("zsidecar check: %v\n%s%s", err, out, complaint.String())
	}
	var report struct {
		Height int64  `json:"height"`
		Tip    string `json:"tip"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if report.Height < 0 {
		if k.height > 0 {
			t.Fatalf("the index is empty, and had %d blocks", k.height)
		}
		return
	}
	tip, err := chain.ParseHash(report.Tip)
	if err != nil || !k.node.hasHad(uint64(report.Height), tip[:]) {
		t.Fatalf("the tip %d %s, %v, is none that the node has had", report.Height, report.Tip, err)
	}
	if k.height-report.Height > restlessDepth {
		t.Fatalf("the index has lost blocks: it ends at %d, and had %d", report.Height, k.height)
	}
	k.height = report.Height
}

// requireAll lets zsidecar follow to the end, and compares every block.
func (k *killer) requireAll(t *testing.T) {
	t.Helper()
	k.node.mu.Lock() // it rests
	defer k.node.mu.Unlock()
	c := k.node.Chain()
	k.c.start()
	tip := c.Tip()
	w := k.c.wallet()
	await(t, "the index follows to the end", time.Minute, func() bool {
		return k.c.indexHeight() == int(tip.Height) && k.c.status("/readyz") == 200
	})
	next := chain.Height(0)
	err := w.stream(t.Context(), getBlockRange, query{method: getBlockRange}.blockRange(0, int(tip.Height)), func(raw []byte) error {
		b := &walletrpc.CompactBlock{}
		if err := proto.Unmarshal(raw, b); err != nil {
			return err
		}
		if want, err := c.Hash(next); err != nil || b.Height != uint64(next) || chain.Hash(b.Hash) != want {
			return fmt.Errorf("block %d %x, want %d %s, %v", b.Height, b.Hash, next, want, err)
		}
		next++
		return nil
	})
	if err != nil || next != tip.Height+1 {
		t.Errorf("the whole chain: %d blocks of %d, %v", next, tip.Height+1, err)
	}
	k.c.stop()
	requireClean(t, k.c)
}
