package integration

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// suffixes is a case of exclude_txid_suffixes: what is asked for, and which of the mempool's ids must be left out.
type suffixes struct {
	name   string
	make   func(ids [][]byte) [][]byte
	leaves func(ids [][]byte) [][]byte // left out
	code   codes.Code
	beside place
}

func suffixCases() []suffixes {
	nothing := func([][]byte) [][]byte { return nil }
	first := func(ids [][]byte) [][]byte { return ids[:1] }
	return []suffixes{
		{"no suffix: everything, ascending txid in display order", nothing, nothing, codes.OK, anywhere},
		{"whole txid", first, first, codes.OK, anywhere},
		{"last 16 bytes", func(ids [][]byte) [][]byte { return [][]byte{ids[0][16:]} }, first, codes.OK, anywhere},
		{"first 16 bytes exclude nothing", func(ids [][]byte) [][]byte { return [][]byte{ids[0][:16]} }, nothing, codes.OK, anywhere},
		{"empty suffix excludes nothing", func([][]byte) [][]byte { return [][]byte{{}} }, nothing, codes.OK, anywhere},
		{"the same suffix twice", func(ids [][]byte) [][]byte { return [][]byte{ids[0], ids[0]} }, first, codes.OK, anywhere},
		{"every txid", slices.Clone[[][]byte], slices.Clone[[][]byte], codes.OK, anywhere},
		{"suffix that fits several excludes nothing", func(ids [][]byte) [][]byte { return [][]byte{twins(ids)[0][31:]} }, nothing, codes.OK, simulated},
		{"ambiguous suffix beside an exact one", func(ids [][]byte) [][]byte { t := twins(ids); return [][]byte{t[0][31:], t[0]} },
			func(ids [][]byte) [][]byte { return twins(ids)[:1] }, codes.OK, simulated},
		{"20,000 suffixes of 32 bytes", func(ids [][]byte) [][]byte { return append(slices.Repeat([][]byte{wrongHash}, 19_999), ids[0]) }, first, codes.OK, anywhere},
		{"20,001 suffixes", func([][]byte) [][]byte { return slices.Repeat([][]byte{{}}, 20_001) }, nothing, codes.InvalidArgument, anywhere},
		{"suffix of 33 bytes", func(ids [][]byte) [][]byte { return [][]byte{append(ids[0][:32:32], 0)} }, nothing, codes.InvalidArgument, anywhere},
	}
}

// twins are two ids that end with the same byte, the later one first.
func twins(ids [][]byte) [][]byte {
	for i, a := range ids {
		for _, b := range ids[:i] {
			if a[31] == b[31] {
				return [][]byte{a, b}
			}
		}
	}
	return nil // which panics where it is used: forty random ids have such a pair
}

func mempoolRows() (rows []row) {
	for _, c := range suffixCases() {
		rows = append(rows, row{"GetMempoolTx", c.name, always(c.code), "", c.beside, func(ctx context.Context, e *env) error {
			ids, err := e.pooled(ctx)
			if err != nil {
				return err
			}
			left := c.leaves(ids)
			want := slices.DeleteFunc(slices.Clone(ids), func(id []byte) bool { return containsBytes(left, id) })
			got, err := e.mempoolIDs(ctx, c.make(ids)...)
			if err == nil && !slices.EqualFunc(got, want, bytes.Equal) {
				return wrong("%d of %d transactions, want all but %x", len(got), len(ids), left)
			}
			return err
		}})
	}
	return append(rows, row{"GetMempoolTx", "a transaction that does not parse is left out", always(codes.OK), "", simulated, func(ctx context.Context, e *env) error {
		before, err := e.mempoolIDs(ctx)
		if err != nil {
			return err
		}
		ids := e.sim.AddTransactions([]byte("this is no transaction, but Zebra has it in its mempool"))
		defer e.sim.RemoveTransactions(ids...)
		read := e.sim.Requests("getrawmempool")
		// A snapshot may be two seconds old, but not older than the last transaction that was sent, were it refused.
		if err := e.ask(ctx, sendTransaction, &walletrpc.RawTransaction{Data: []byte{1}}); err != nil {
			return err
		}
		after, err := e.mempoolIDs(ctx)
		if err == nil && !slices.EqualFunc(before, after, bytes.Equal) {
			return wrong("%d transactions before, %d after", len(before), len(after))
		}
		if err == nil && e.sim.Requests("getrawmempool") == read {
			return wrong("the mempool was not read anew")
		}
		return err
	}})
}

const getMempoolStream = "GetMempoolStream"

// firstFollower is the row that needs a server which was never asked before.
const firstFollower = "the very first call after the start: everything that is in the mempool"

func mempoolStreamRows() []row {
	return []row{
		{getMempoolStream, firstFollower, always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			f := e.another().follow(ctx)
			defer f.cancel()
			return e.requireFollowed(ctx, f)
		}},
		{getMempoolStream, "what enters it within a second, once, height 0; OK at the next block", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			f := e.follow(ctx)
			defer f.cancel()
			if err := e.requireFollowed(ctx, f); err != nil {
				return err
			}
			raw := e.pay()
			if _, err := e.send(ctx, raw); err != nil {
				return err
			}
			if err := f.next(raw); err != nil {
				return err
			}
			if err := e.mine(ctx); err != nil {
				return err
			}
			err := f.end()
			return errors.Join(e.settle(ctx), err)
		}},
		{getMempoolStream, "OK at a tip of the same height", always(codes.OK), "", simulated, func(ctx context.Context, e *env) error {
			f := e.follow(ctx)
			defer f.cancel()
			if err := e.requireFollowed(ctx, f); err != nil {
				return err
			}
			if err := e.sim.Chain().Reorg(1, 1, zebratest.Small); err != nil {
				return err
			}
			err := f.end()
			return errors.Join(e.settle(ctx), err)
		}},
		{getMempoolStream, "twenty clients leave, another misses nothing", always(codes.Canceled), "", anywhere, func(ctx context.Context, e *env) error {
			leaves, stays := e.follow(ctx), e.follow(ctx)
			defer stays.cancel()
			var others []func()
			for range 19 {
				others = append(others, e.follow(ctx).cancel)
			}
			if err := e.requireFollowed(ctx, stays); err != nil {
				return err
			}
			leaves.cancel()
			for _, leave := range others {
				leave()
			}
			raw := e.pay()
			if _, err := e.send(ctx, raw); err != nil {
				return err
			}
			if err := stays.next(raw); err != nil {
				return err
			}
			return leaves.end()
		}},
	}
}

// follower is a running GetMempoolStream.
type follower struct {
	cancel context.CancelFunc
	got    chan *walletrpc.RawTransaction
	ended  chan error
}

func (w *wallet) follow(ctx context.Context) *follower {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{cancel: cancel, got: make(chan *walletrpc.RawTransaction, 1000), ended: make(chan error, 1)}
	go func() {
		stream, err := walletrpc.NewCompactTxStreamerClient(w.conn).GetMempoolStream(ctx, &walletrpc.Empty{})
		for err == nil {
			var tx *walletrpc.RawTransaction
			if tx, err = stream.Recv(); err == nil {
				f.got <- tx
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		f.ended <- err
	}()
	return f
}

// next wants a transaction within a second.
func (f *follower) next(raw []byte) error {
	select {
	case tx := <-f.got:
		if !bytes.Equal(tx.Data, raw) || tx.Height != 0 {
			return wrong("%x at %d, want %x at 0", tx.Data, tx.Height, raw)
		}
		return nil
	case err := <-f.ended:
		return wrong("the stream ended: %v", err)
	case <-time.After(1500 * time.Millisecond): // half a second for a busy machine
		return wrong("nothing came within a second")
	}
}

// end waits for the status.
func (f *follower) end() error {
	select {
	case err := <-f.ended:
		return err
	case <-time.After(3 * time.Second):
		return wrong("the stream goes on")
	}
}

// requireFollowed wants the whole mempool, each transaction once.
func (e *env) requireFollowed(ctx context.Context, f *follower) error {
	ids, err := e.pooled(ctx)
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	for range ids {
		select {
		case tx := <-f.got:
			seen[string(tx.Data)] = true
		case err := <-f.ended:
			return wrong("the stream ended after %d of %d: %v", len(seen), len(ids), err)
		case <-time.After(3 * time.Second):
			return wrong("%d of %d transactions", len(seen), len(ids))
		}
	}
	if len(seen) != len(ids) {
		return wrong("%d transactions came for %d", len(seen), len(ids))
	}
	return nil
}
