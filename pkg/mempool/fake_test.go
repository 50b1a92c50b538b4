package mempool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNode is a mempool in memory.
type fakeNode struct {
	mu      sync.Mutex
	txs     map[chain.TxID][]byte
	gone    map[chain.TxID]bool // listed, but not there any more when asked for
	err     error               // of MempoolIDs
	txErr   error               // of RawTransaction, once
	tip     chain.BlockID
	tipErr  error
	delay   time.Duration // of MempoolIDs
	txDelay time.Duration // of RawTransaction

	counts
	atOnce int
}

// counts are of the questions so far.
type counts struct{ lists, fetches, mostAtOnce int }

func (n *fakeNode) asked() counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts
}

var errAway = fmt.Errorf("connection refused: %w", chain.ErrUnavailable)

func newFakeNode() *fakeNode {
	return &fakeNode{txs: make(map[chain.TxID][]byte), gone: make(map[chain.TxID]bool), tip: chain.BlockID{Height: 5}}
}

func (n *fakeNode) MempoolIDs(ctx context.Context) ([]chain.TxID, error) {
	n.mu.Lock()
	n.lists++
	err, delay := n.err, n.delay
	ids := make([]chain.TxID, 0, len(n.txs))
	for id := range n.txs {
		ids = append(ids, id)
	}
	n.mu.Unlock()
	if sleep(ctx, delay) != nil {
		return nil, ctx.Err()
	}
	return ids, err
}

func (n *fakeNode) RawTransaction(ctx context.Context, id chain.TxID) ([]byte, error) {
	n.mu.Lock()
	n.fetches++
	n.atOnce++
	n.mostAtOnce = max(n.mostAtOnce, n.atOnce)
	raw, gone, err, delay := n.txs[id], n.gone[id], n.txErr, n.txDelay
	if err != nil {
		n.txErr = nil
	}
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.atOnce--
	}()
	switch {
	case sleep(ctx, delay) != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case gone || raw == nil:
		return nil, fmt.Errorf("fake: %w", chain.ErrNotFound)
	}
	return raw, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *fakeNode) readTip(context.Context) (chain.BlockID, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tip, n.tipErr
}

// change alters the node while nobody asks it.
func (n *fakeNode) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// add puts transactions into the mempool.
func (n *fakeNode) add(txs ...[]byte) {
	n.change(func() {
		for _, raw := range txs {
			n.txs[idOf(raw)] = raw
		}
	})
}

func (n *fakeNode) remove(txs ...[]byte) {
	n.change(func() {
		for _, raw := range txs {
			delete(n.txs, idOf(raw))
		}
	})
}

func idOf(raw []byte) chain.TxID {
	tx, err := chain.NewEncoder(chain.EncoderOptions{}).Transaction(raw)
	if err != nil {
		panic(err)
	}
	return tx.ID
}

// transparent is a transaction without shielded parts, ironwood one with two Ironwood actions.
func transparent(seed uint64) []byte {
	return chaintest.Tx{Version: 5, Inputs: 1, Outputs: 2, Seed: seed}.Append(nil)
}

func ironwood(seed uint64) []byte {
	return chaintest.Tx{Version: 6, Ironwood: 2, Seed: seed}.Append(nil)
}

// bubble runs a test in virtual time with a running pool.
func bubble(t *testing.T, o Options, test func(t *testing.T, n *fakeNode, p *Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode()
		o.Tip = n.readTip
		if o.Logger == nil {
			o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
		}
		p := New(n, o)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		test(t, n, p)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if s := p.Stats(); s.Followers != 0 {
			t.Errorf("%d followers are left", s.Followers)
		}
	})
}

// wantSnapshot compares a snapshot with the transactions, in any order; its own order is checked too.
func wantSnapshot(t *testing.T, p *Pool, want ...[]byte) {
	t.Helper()
	txs, err := p.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantTransactions(t, txs, want...)
	if !slices.IsSortedFunc(txs, func(a, b *chain.PooledTransaction) int { return compareDisplay(a.ID, b.ID) }) {
		t.Error("the snapshot is not in the order of display ids")
	}
}

func wantTransactions(t *testing.T, txs []*chain.PooledTransaction, want ...[]byte) {
	t.Helper()
	var got, expected []string
	for _, tx := range txs {
		got = append(got, tx.ID.String()+string(tx.Raw))
	}
	for _, raw := range want {
		expected = append(expected, idOf(raw).String()+string(raw))
	}
	slices.Sort(got)
	slices.Sort(expected)
	if !slices.Equal(got, expected) {
		t.Errorf("got %d transactions, want %d: %.200q, %.200q", len(got), len(want), got, expected)
	}
}

// follower collects what one call of Follow yields.
type follower struct {
	mu     sync.Mutex
	txs    []*chain.PooledTransaction
	counts []int
	err    error
	done   chan struct{}
	cancel context.CancelFunc
}

func follow(t *testing.T, p *Pool) *follower {
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(f.done)
		defer cancel()
		for txs, err := range p.Follow(ctx) {
			f.mu.Lock()
			f.txs, f.err = append(f.txs, txs...), err
			f.counts = append(f.counts, len(txs))
			f.mu.Unlock()
		}
	}()
	return f
}

func (f *follower) want(t *testing.T, raw ...[]byte) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	wantTransactions(t, f.txs, raw...)
}

// wantEnd wants the iteration to have ended with an error that matches, nil for the orderly end.
func (f *follower) wantEnd(t *testing.T, is error) {
	t.Helper()
	synctest.Wait()
	select {
	case <-f.done:
	default:
		t.Fatal("the iteration has not ended")
	}
	if !errors.Is(f.err, is) {
		t.Errorf("ended with %v, want %v", f.err, is)
	}
}

func (f *follower) wantOpen(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case <-f.done:
		t.Fatalf("the iteration has ended: %v", f.err)
	default:
	}
}
