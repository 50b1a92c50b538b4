package lightwallet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// fakeSource is a chain in memory whose blocks are protobuf messages, projected by a few lines that share nothing with package chain.
type fakeSource struct {
	blocks   []*walletrpc.CompactBlock // every pool, every transaction; the index is the height
	runLen   int                       // blocks per run; 0 means 7
	noTip    bool                      // blocks can be read, the tip is not known
	apart    bool                      // and will not be, since the node has another
	viewErr  error
	before   func(ctx context.Context, run int) error                    // called before each run of an iteration
	mangle   func(run int, f *chain.Frames)                              // changes what the source gives
	frame    func(dst []byte, h chain.Height, p chain.Projection) []byte // nil: of blocks, by project
	origin   chain.Origin
	buffers  chain.BufferPool
	opened   atomic.Int64
	closed   atomic.Int64
	taken    atomic.Int64 // runs that were yielded
	released atomic.Int64
	trees    fakeTrees
}

func (s *fakeSource) View(context.Context) (chain.View, error) {
	if s.viewErr != nil {
		return nil, s.viewErr
	}
	s.opened.Add(1)
	return &fakeView{s}, nil
}

type fakeView struct{ *fakeSource }

func (v *fakeView) Close() { v.closed.Add(1) }

func (v *fakeView) tip() chain.Height { return chain.Height(len(v.blocks) - 1) }

func (v *fakeView) Tip() (chain.BlockID, error) {
	if v.apart {
		return chain.BlockID{}, fmt.Errorf("zebra at http://secret:1: %w: %w", chain.ErrUnavailable, chain.ErrApart)
	}
	if v.noTip {
		return chain.BlockID{}, fmt.Errorf("zebra at http://secret:1: %w", chain.ErrUnavailable)
	}
	return v.id(v.tip()), nil
}

func (v *fakeView) id(h chain.Height) chain.BlockID {
	return chain.BlockID{Height: h, Hash: chain.Hash(v.blocks[h].Hash)}
}

func (v *fakeView) HashAt(_ context.Context, h chain.Height) (chain.Hash, error) {
	return v.id(h).Hash, nil
}

func (v *fakeView) HeightOf(_ context.Context, hash chain.Hash) (chain.Height, error) {
	for h, b := range v.blocks {
		if chain.Hash(b.Hash) == hash {
			return chain.Height(h), nil
		}
	}
	if v.trees.unsure {
		return 0, fmt.Errorf("fake: %w", chain.ErrUnavailable)
	}
	return 0, fmt.Errorf("fake: %w", chain.ErrNotFound)
}

// above is the error for a height above the tip.
func (v *fakeView) above(h chain.Height) error {
	if v.noTip {
		return fmt.Errorf("height %d: %w", h, chain.ErrUnavailable)
	}
	return fmt.Errorf("fake: %w", &chain.AboveTipError{Asked: uint64(h), Tip: v.tip()})
}

func (v *fakeView) Blocks(ctx context.Context, from, to chain.Height, p chain.Projection) iter.Seq2[chain.Frames, error] {
	return func(yield func(chain.Frames, error) bool) {
		if from > v.tip() {
			yield(chain.Frames{}, v.above(from))
			return
		}
		end := min(to, v.tip())
		heights := heightsOf(from, end)
		run := 0
		for part := range slices.Chunk(heights, cmp.Or(v.runLen, 7)) {
			if v.before != nil {
				if err := v.before(ctx, run); err != nil {
					yield(chain.Frames{}, err)
					return
				}
			}
			f := v.frames(part, p)
			if v.mangle != nil {
				v.mangle(run, &f)
			}
			v.taken.Add(1)
			if !yield(f, nil) {
				return
			}
			run++
		}
		if to > end {
			yield(chain.Frames{}, v.above(to))
		}
	}
}

func heightsOf(from, to chain.Height) []chain.Height {
	var heights []chain.Height
	for h := from; ; {
		heights = append(heights, h)
		switch {
		case h == to:
			return heights
		case from > to:
			h--
		default:
			h++
		}
	}
}

func (v *fakeView) frames(heights []chain.Height, p chain.Projection) chain.Frames {
	buf := v.buffers.Get()
	for _, h := range heights {
		if v.frame != nil {
			*buf = v.frame(*buf, h, p)
		} else {
			*buf = appendFrame(*buf, project(v.blocks[h], p))
		}
	}
	low := min(heights[0], heights[len(heights)-1])
	return chain.Frames{
		Bytes: *buf, Count: len(heights), First: v.id(heights[0]), Last: v.id(heights[len(heights)-1]),
		Prev: chain.Hash(v.blocks[low].PrevHash), Origin: v.origin,
		Free: func() {
			clear(*buf) // whoever reads it after this sees it
			v.buffers.Put(buf)
			v.released.Add(1)
		},
	}
}

func appendFrame(b []byte, m proto.Message) []byte {
	message, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	b = append(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(message)))
	return append(b, message...)
}

// project is the protocol's table of what each method shows.
func project(b *walletrpc.CompactBlock, p chain.Projection) *walletrpc.CompactBlock {
	b = proto.CloneOf(b)
	vtx := b.Vtx
	b.Vtx = nil
	for _, tx := range vtx {
		if !p.Pools.Has(chain.Transparent) {
			tx.Vin, tx.Vout = nil, nil
		}
		if !p.Pools.Has(chain.Sapling) {
			tx.Spends, tx.Outputs = nil, nil
		}
		if !p.Pools.Has(chain.Orchard) {
			tx.Actions = nil
		}
		if !p.Pools.Has(chain.Ironwood) {
			tx.IronwoodActions = nil
		}
		n := len(tx.Vin) + len(tx.Vout) + len(tx.Spends) + len(tx.Outputs) + len(tx.Actions) + len(tx.IronwoodActions)
		if n == 0 && !p.KeepEmpty {
			continue
		}
		if p.NullifiersOnly {
			tx.Vin, tx.Vout, tx.Outputs = nil, nil, nil
			for _, a := range slices.Concat(tx.Actions, tx.IronwoodActions) {
				a.Cmx, a.EphemeralKey, a.Ciphertext = nil, nil, nil
			}
		}
		b.Vtx = append(b.Vtx, tx)
	}
	if p.NullifiersOnly {
		b.ChainMetadata = &walletrpc.ChainMetadata{}
	}
	return b
}

// fakeBlocks makes n linked blocks whose transactions have every mix of pools.
func fakeBlocks(n int) []*walletrpc.CompactBlock {
	blocks := make([]*walletrpc.CompactBlock, n)
	prev := make([]byte, 32)
	for h := range blocks {
		b := &walletrpc.CompactBlock{
			Height: uint64(h), Hash: pattern("hash", h), PrevHash: prev, Time: uint32(1_477_641_360 + 25*h),
			ChainMetadata: &walletrpc.ChainMetadata{SaplingCommitmentTreeSize: uint32(3 * h), IronwoodCommitmentTreeSize: uint32(h)},
		}
		for i := range h % 4 {
			b.Vtx = append(b.Vtx, fakeTx(h, i))
		}
		blocks[h], prev = b, b.Hash
	}
	return blocks
}

func fakeTx(h, i int) *walletrpc.CompactTx {
	tx := &walletrpc.CompactTx{Index: uint64(i), Txid: pattern("tx", h, i)}
	action := func(pool string) *walletrpc.CompactOrchardAction {
		return &walletrpc.CompactOrchardAction{
			Nullifier: pattern(pool, h, i, 0), Cmx: pattern(pool, h, i, 1), EphemeralKey: pattern(pool, h, i, 2),
			Ciphertext: append(pattern(pool, h, i, 3), make([]byte, 20)...),
		}
	}
	mix := (h + 5*i) % 16
	if mix&1 != 0 {
		tx.Vin = []*walletrpc.CompactTxIn{{PrevoutTxid: pattern("in", h, i), PrevoutIndex: 1}}
		tx.Vout = []*walletrpc.TxOut{{Value: 5, ScriptPubKey: []byte{0x51}}}
	}
	if mix&2 != 0 {
		tx.Spends = []*walletrpc.CompactSaplingSpend{{Nf: pattern("nf", h, i)}}
		tx.Outputs = []*walletrpc.CompactSaplingOutput{{Cmu: pattern("cmu", h, i), EphemeralKey: pattern("epk", h, i), Ciphertext: make([]byte, 52)}}
	}
	if mix&4 != 0 {
		tx.Actions = []*walletrpc.CompactOrchardAction{action("orchard")}
	}
	if mix&8 != 0 {
		tx.IronwoodActions = []*walletrpc.CompactOrchardAction{action("ironwood")}
	}
	return tx
}

func pattern(args ...any) []byte {
	sum := sha256.Sum256(fmt.Append(nil, args...))
	return sum[:]
}

// fakeNode answers NodeInfo.
type fakeNode struct {
	fakeAddresses
	fakeTransactions
	asked  atomic.Int64
	answer atomic.Pointer[chain.NodeInfo] // nil: away
	wait   func(context.Context) error
}

func (n *fakeNode) NodeInfo(ctx context.Context) (chain.NodeInfo, error) {
	n.asked.Add(1)
	if n.wait != nil {
		if err := n.wait(ctx); err != nil {
			return chain.NodeInfo{}, err
		}
	}
	if info := n.answer.Load(); info != nil {
		return *info, nil
	}
	return chain.NodeInfo{}, fmt.Errorf("connection refused: %w", chain.ErrUnavailable)
}

// testServer serves on a loopback socket until the test ends.
type testServer struct {
	*Server
	addr   string
	source *fakeSource
	node   *fakeNode
	pool   *fakeMempool
}

type testOption func(o *Options, fallback *bool)

func withFallback(_ *Options, fallback *bool) { *fallback = true }

func start(t testing.TB, source *fakeSource, options ...testOption) *testServer {
	t.Helper()
	node, pool := &fakeNode{}, newFakeMempool()
	o := Options{Source: source, Node: node, Mempool: pool, Logger: slog.New(slog.DiscardHandler)}
	fallback := false
	for _, apply := range options {
		apply(&o, &fallback)
	}
	s, err := newServer(o, fallback)
	if err != nil {
		t.Fatal(err)
	}
	ts := &testServer{Server: s, source: source, node: node, pool: pool}
	ts.addr = serve(t, s)
	t.Cleanup(func() {
		if opened, closed := source.opened.Load(), source.closed.Load(); opened != closed {
			t.Errorf("%d views were opened and %d closed", opened, closed)
		}
	})
	t.Cleanup(func() { // runs first
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second)
		defer cancel()
		s.Stop(ctx)
	})
	return ts
}

func serve(t testing.TB, s *Server) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop(context.Background())
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}

func (s *testServer) dial(t testing.TB, options ...grpc.DialOption) walletrpc.CompactTxStreamerClient {
	t.Helper()
	return walletrpc.NewCompactTxStreamerClient(s.conn(t, options...))
}

func (s *testServer) conn(t testing.TB, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("passthrough:///"+s.addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// eventually waits until the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after 10 s it is still not so that %s", what)
		}
	}
}

var errFake = errors.New("fake: disk on fire at /var/secret")

// failAt fails an iteration before its run n.
func failAt(n int, err error) func(context.Context, int) error {
	return func(_ context.Context, run int) error {
		if run == n {
			return err
		}
		return nil
	}
}

// logBuffer keeps what is logged. Handlers write to it while a test reads.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
