package sidecar

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/ops"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// confirmDeep is how long a deep reorg has to last in these tests.
const confirmDeep = 200 * time.Millisecond

// lines is a log that a test reads.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// count counts the lines that have a text.
func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// follow starts a sidecar with small segments beside whoever answers at url, and returns it with its log.
func follow(t *testing.T, url string, change func(*config.Config)) (*Sidecar, *lines, walletrpc.CompactTxStreamerClient) {
	t.Helper()
	log := &lines{}
	s, _ := runWith(t, Options{
		Config: settings(t, func(c *config.Config) {
			c.Zebra, c.SealDepth, c.SegmentBlocks = url, 50, 16
			change(c)
		}),
		Build: ops.Build{Version: "1.2.3"}, ConfirmDeep: confirmDeep, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	return s, log, treeClient(t, s)
}

func unchanged(*config.Config) {}

// awaitChain waits until the node's tip is the index's and the one that wallets are told, and then reads the newest blocks, and those
// around height around, in one range each.
func awaitChain(t *testing.T, s *Sidecar, client walletrpc.CompactTxStreamerClient, c *zebratest.Chain, around chain.Height) {
	t.Helper()
	tip := c.Tip()
	await(t, fmt.Sprintf("the tip is %s", tip), func() bool {
		id, err := client.GetLatestBlock(t.Context(), &walletrpc.ChainSpec{})
		return err == nil && id.Height == uint64(tip.Height) && bytes.Equal(id.Hash, tip.Hash[:]) && s.Health().Index.State == "complete"
	})
	for _, r := range [][2]chain.Height{{tip.Height - min(tip.Height, 20), tip.Height}, {around - min(around, 10), min(around+10, tip.Height)}} {
		expectRange(t, client, c, r[0], r[1])
	}
	if h := s.Health(); !h.Ready || len(h.Reasons) > 0 {
		t.Errorf("health: %+v", h)
	}
}

// expectRange reads blocks that must be the chain's.
func expectRange(t *testing.T, client walletrpc.CompactTxStreamerClient, c *zebratest.Chain, from, to chain.Height) {
	t.Helper()
	stream, err := client.GetBlockRange(t.Context(), &walletrpc.BlockRange{Start: &walletrpc.BlockID{Height: uint64(from)}, End: &walletrpc.BlockID{Height: uint64(to)}})
	if err != nil {
		t.Fatal(err)
	}
	next := from
	for ; ; next++ {
		block, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("block %d: %v", next, err)
		}
		if want, err := c.Hash(next); err != nil || !bytes.Equal(block.Hash, want[:]) {
			t.Fatalf("block %d is %x, want %s (%v)", next, block.Hash, want, err)
		}
	}
	if next != to+1 {
		t.Fatalf("the range ended before block %d", next)
	}
}

func expectCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if status.Code(err) != want {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// TestReorgs: of any depth among the recent blocks, to a longer, an equal and a shorter chain, one after the other.
func TestReorgs(t *testing.T) {
	n := newNode(t, 1200, zebratest.NodeOptions{})
	startNode(t, n)
	s, log, client := follow(t, n.URL(), func(c *config.Config) { c.SealDepth, c.SegmentBlocks = 1100, 100 })
	awaitChain(t, s, client, n.Chain(), 100)
	for _, r := range []struct{ depth, extend int }{
		{1, 1}, {1, 2}, {2, 1}, {5, 6}, {50, 50}, {110, 100}, {500, 501}, {999, 950}, {1000, 1001}, {1000, 1000},
	} {
		old := n.Chain().Tip()
		if err := n.Chain().Reorg(r.depth, r.extend, zebratest.Small); err != nil {
			t.Fatal(err)
		}
		awaitChain(t, s, client, n.Chain(), old.Height-chain.Height(r.depth))
		_, err := client.GetBlock(t.Context(), &walletrpc.BlockID{Hash: old.Hash[:]})
		expectCode(t, "a block that has left", err, codes.NotFound)
	}
	// Several at once: what is followed last counts.
	for range 10 {
		if err := n.Chain().Reorg(30, 31, zebratest.Small); err != nil {
			t.Fatal(err)
		}
	}
	awaitChain(t, s, client, n.Chain(), n.Chain().Tip().Height-40)
	if log.count("cut back") > 0 || log.count("level=ERROR") > 0 {
		t.Errorf("a plain reorg was taken for more:\n%s", log.buf.String())
	}
}

// TestReorgsDuringTheFirstBuild moves the chain near its tip again and again while the index is built.
func TestReorgsDuringTheFirstBuild(t *testing.T) {
	n := newNode(t, 3000, zebratest.NodeOptions{})
	startNode(t, n)
	s, log, client := follow(t, n.URL(), unchanged)
	for range 50 {
		if err := n.Chain().Reorg(40, 41, zebratest.Small); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	awaitChain(t, s, client, n.Chain(), n.Chain().Tip().Height-50)
	if log.count("cut back") > 0 {
		t.Error("a plain reorg was taken for a deep one")
	}
}

// TestDeepReorg: the chain leaves ours among sealed blocks. No tip is named until the index has been cut and follows the new chain; what
// both have is served all the time, and out of the index at the end too.
func TestDeepReorg(t *testing.T) {
	n := newNode(t, 400, zebratest.NodeOptions{})
	startNode(t, n)
	s, log, client := follow(t, n.URL(), unchanged)
	awaitChain(t, s, client, n.Chain(), 100)
	old := n.Chain().Tip()
	if err := n.Chain().Reorg(250, 260, zebratest.Small); err != nil { // 150 is the last block that both have
		t.Fatal(err)
	}
	await(t, "no tip is named", func() bool {
		_, err := client.GetLatestBlock(t.Context(), &walletrpc.ChainSpec{})
		return status.Code(err) == codes.Unavailable
	})
	if h := s.Health(); h.Ready || !strings.Contains(strings.Join(h.Reasons, ""), "leaves the index below its recent blocks") {
		t.Errorf("health: %+v", h)
	}
	stop, wrong := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(wrong)
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := client.GetBlock(t.Context(), &walletrpc.BlockID{Height: 140}); err != nil {
					wrong <- err
					return
				}
			}
		}
	}()
	awaitChain(t, s, client, n.Chain(), 150)
	close(stop)
	if err := <-wrong; err != nil {
		t.Errorf("a block that both chains have: %v", err)
	}
	expectRange(t, client, n.Chain(), 0, n.Chain().Tip().Height)
	_, err := client.GetBlock(t.Context(), &walletrpc.BlockID{Hash: old.Hash[:]})
	expectCode(t, "a block that has left", err, codes.NotFound)
	if log.count("the index is cut back, and goes on from there") != 1 {
		t.Errorf("the log does not tell once:\n%s", log.buf.String())
	}
}

// TestNodeSetBack: Zebra comes back below our tip, with an old state or none. Everything indexed is served on, health says so, and the
// index goes on when the node has caught up.
func TestNodeSetBack(t *testing.T) {
	n := newNode(t, 300, zebratest.NodeOptions{})
	startNode(t, n)
	s, log, client := follow(t, n.URL(), unchanged)
	whole := n.Chain()
	awaitChain(t, s, client, whole, 100)
	for _, height := range []chain.Height{295, 200, 0, 1, 150, 299} {
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		short, err := whole.Fork(height)
		if err != nil {
			t.Fatal(err)
		}
		n.SetChain(short)
		startNode(t, n)
		await(t, "the node is seen below", func() bool {
			return strings.Contains(strings.Join(s.Health().Reasons, ""), fmt.Sprintf("is at height %d, below the index's 300", height))
		})
		id, err := client.GetLatestBlock(t.Context(), &walletrpc.ChainSpec{})
		if err != nil || id.Height != 300 || !s.Health().Ready {
			t.Errorf("with a node at %d: tip %v, %v, %+v", height, id, err, s.Health())
		}
		expectRange(t, client, whole, 0, 300)
	}
	if err := whole.Extend(3, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	n.SetChain(whole)
	awaitChain(t, s, client, whole, 300)
	if log.count("rewinding") > 0 || log.count("level=ERROR") > 0 {
		t.Errorf("what was no reorg was taken for one:\n%s", log.buf.String())
	}
}

// balancer is an address behind which several nodes answer, any one of them each call.
type balancer struct {
	mu    sync.Mutex
	rng   *rand.Rand
	nodes []*zebratest.Node
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	n := b.nodes[b.rng.IntN(len(b.nodes))]
	b.mu.Unlock()
	n.ServeHTTP(w, r)
}

// TestBalancedNodes: nodes with different tips of one chain answer at one address. The index reaches the highest and never goes back.
func TestBalancedNodes(t *testing.T) {
	t.Parallel()
	highest := newNode(t, 300, zebratest.NodeOptions{})
	b := &balancer{rng: rand.New(rand.NewPCG(1, 2)), nodes: []*zebratest.Node{highest}}
	for _, below := range []chain.Height{3, 10} {
		short, err := highest.Chain().Fork(300 - below)
		if err != nil {
			t.Fatal(err)
		}
		b.nodes = append(b.nodes, zebratest.NewNode(short, zebratest.NodeOptions{}))
	}
	server := httptest.NewServer(b)
	defer server.Close()
	s, log, client := follow(t, server.URL, unchanged)
	tip := func() chain.Height {
		if store := s.store.Load(); store != nil {
			if id, some := store.Tip(); some {
				return id.Height
			}
		}
		return 0
	}
	best := chain.Height(0)
	climb := func(to chain.Height) {
		await(t, fmt.Sprintf("the index reaches %d", to), func() bool {
			now := tip()
			if now < best {
				t.Fatalf("the index went back from %d to %d", best, now)
			}
			best = now
			return now == to
		})
	}
	climb(300)
	if err := highest.Chain().Extend(2, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	climb(302)
	expectRange(t, client, highest.Chain(), 0, 300)
	if log.count("rewinding") > 0 || log.count("level=ERROR") > 0 {
		t.Errorf("what was no reorg was taken for one:\n%s", log.buf.String())
	}
}

// TestOtherNetworkMeanwhile: a node of another network takes the place of ours. It is refused, indexed blocks are served on, nobody is told
// of the other chain, and all is well when ours is back.
func TestOtherNetworkMeanwhile(t *testing.T) {
	for name, noIndex := range map[string]bool{"complete": false, "no index": true} {
		t.Run(name, func(t *testing.T) { testOtherNetwork(t, noIndex) })
	}
}

func testOtherNetwork(t *testing.T, noIndex bool) {
	n := newNode(t, 300, zebratest.NodeOptions{})
	startNode(t, n)
	s, log, client := follow(t, n.URL(), func(c *config.Config) { c.NoIndex = noIndex })
	ours := n.Chain()
	right := func() bool {
		id, err := client.GetLatestBlock(t.Context(), &walletrpc.ChainSpec{})
		h := s.Health()
		return err == nil && id.Height == uint64(ours.Tip().Height) && h.Ready && len(h.Reasons) == 0 && (noIndex || h.Index.State == "complete")
	}
	await(t, "our network is served", right)
	other, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Main})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Extend(400, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	n.SetChain(other)
	await(t, "the other network is refused", func() bool {
		h := s.Health()
		return !h.Ready && strings.Contains(strings.Join(h.Reasons, ""), "is of another network now: its genesis block is ")
	})
	questions := func() int {
		return n.Requests("getaddressbalance") + n.Requests("getrawmempool") + n.Requests("getblock")
	}
	asked := -1
	await(t, "questions from before have come to an end", func() bool {
		before := questions()
		time.Sleep(confirmDeep)
		asked = questions()
		return asked == before
	})
	_, err = client.GetLatestBlock(t.Context(), &walletrpc.ChainSpec{})
	expectCode(t, "the tip", err, codes.Unavailable)
	_, err = client.GetBlock(t.Context(), &walletrpc.BlockID{Height: 350})
	expectCode(t, "a block of the other network", err, codes.Unavailable)
	_, err = client.GetTaddressBalance(t.Context(), &walletrpc.AddressList{Addresses: []string{"tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNV"}})
	expectCode(t, "a balance", err, codes.Unavailable)
	_, err = client.SendTransaction(t.Context(), &walletrpc.RawTransaction{Data: []byte{1, 2, 3}})
	expectCode(t, "a transaction", err, codes.Unavailable)
	if !noIndex {
		expectRange(t, client, ours, 0, 300)
	}
	time.Sleep(3 * confirmDeep)
	if now := questions(); now != asked {
		t.Errorf("the other network's node got %d questions", now-asked)
	}
	n.SetChain(ours)
	if err := ours.Extend(1, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	await(t, "our network is served again", right)
	expectRange(t, client, ours, 280, 301)
	if log.count("cut back") > 0 || log.count("rewinding") > 0 || log.count("zebra is refused") != 1 {
		t.Errorf("the log:\n%s", log.buf.String())
	}
}
