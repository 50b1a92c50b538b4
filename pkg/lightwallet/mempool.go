package lightwallet

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"sort"

	"google.golang.org/grpc"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// Mempool is the node's mempool, read once for all wallets. *mempool.Pool implements it.
type Mempool interface {
	// Snapshot returns the mempool as it was at most 2 s ago and after the last Refresh, ascending by id in display order.
	Snapshot(ctx context.Context) ([]*chain.PooledTransaction, error)
	// Follow yields what is in the mempool and then what is new in it, each transaction once, and ends at the first change of the
	// Source's tip. An error ends it too.
	Follow(ctx context.Context) iter.Seq2[[]*chain.PooledTransaction, error]
	// Refresh makes what the node has been given until now visible to whoever asks from now on.
	Refresh()
}

// GetMempoolTx sends the compact forms of the mempool's transactions that the client does not have yet.
func (s *service) GetMempoolTx(req *walletrpc.GetMempoolTxRequest, stream grpc.ServerStreamingServer[walletrpc.CompactTx]) error {
	ctx := stream.Context()
	pools, err := parsePools(req.PoolTypes)
	if err != nil {
		return err
	}
	if err := checkSuffixes(req.ExcludeTxidSuffixes); err != nil {
		return err
	}
	if err := sendHeader(stream); err != nil {
		return err
	}
	if err := s.sameChain(ctx); err != nil {
		return err
	}
	txs, err := s.mempool.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read the mempool: %w", err)
	}
	known := matchedAlone(txs, req.ExcludeTxidSuffixes)
	return s.sendPooled(s.newWriter(stream), txs, known, chain.Projection{Pools: pools})
}

func checkSuffixes(suffixes [][]byte) error {
	if n := len(suffixes); n > maxSuffixes {
		return invalidArgument("exclude_txid_suffixes: there are %d, more than %d", n, maxSuffixes)
	}
	for i, suffix := range suffixes {
		if len(suffix) > len(chain.TxID{}) {
			return invalidArgument("exclude_txid_suffixes: number %d has %d bytes, more than the %d of a transaction id", i, len(suffix), len(chain.TxID{}))
		}
	}
	return nil
}

// matchedAlone tells for each transaction whether some suffix of the internal byte order fits it and no other. The transactions are
// ascending in display order, which turns a suffix into a prefix: those that it fits stand side by side.
func matchedAlone(txs []*chain.PooledTransaction, suffixes [][]byte) []bool {
	alone := make([]bool, len(txs))
	for _, suffix := range suffixes {
		if len(suffix) == 0 {
			continue
		}
		first := sort.Search(len(txs), func(i int) bool { return compareSuffix(&txs[i].ID, suffix) >= 0 })
		fits := func(i int) bool { return i < len(txs) && compareSuffix(&txs[i].ID, suffix) == 0 }
		if fits(first) && !fits(first+1) {
			alone[first] = true
		}
	}
	return alone
}

// compareSuffix compares the end of an id with a suffix, from the last byte to the first.
func compareSuffix(id *chain.TxID, suffix []byte) int {
	end := id[len(id)-len(suffix):]
	for i := len(suffix) - 1; i >= 0; i-- {
		if end[i] != suffix[i] {
			return cmp.Compare(end[i], suffix[i])
		}
	}
	return 0
}

// sendPooled sends what p shows of the transactions, in runs, leaving out those that are known and those that have no compact form.
func (s *service) sendPooled(w *frameWriter, txs []*chain.PooledTransaction, known []bool, p chain.Projection) error {
	run, count := s.runs.Get(), 0
	defer func() { s.runs.Put(run) }() // the one that is not on its way
	flush := func() error {
		full := run
		f := chain.Frames{Bytes: *full, Count: count, Free: func() { s.runs.Put(full) }}
		run, count = s.runs.Get(), 0
		return w.send(f)
	}
	for i, tx := range txs {
		if known[i] || tx.Parsed == nil {
			continue
		}
		before := len(*run)
		if p == chain.DefaultProjection {
			*run = append(*run, tx.Frame...)
		} else {
			*run = tx.Parsed.AppendTxFrame(*run, p)
		}
		if len(*run) > before {
			count++
		}
		if len(*run) >= chain.RunSize {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if count == 0 {
		return nil
	}
	return flush()
}

// GetMempoolStream sends the transactions of the mempool, those that are there and those that come, until the tip changes: that of the
// view, so that a wallet that asks for the latest block next gets another than before.
func (s *service) GetMempoolStream(_ *walletrpc.Empty, stream grpc.ServerStreamingServer[walletrpc.RawTransaction]) error {
	if err := sendHeader(stream); err != nil {
		return err
	}
	ctx, cancel := s.untilStop(stream.Context())
	defer cancel()
	for txs, err := range s.mempool.Follow(ctx) {
		if err != nil {
			return fmt.Errorf("follow the mempool: %w", err)
		}
		for _, tx := range txs {
			if err := stream.Send(&walletrpc.RawTransaction{Data: tx.Raw}); err != nil {
				return fmt.Errorf("send a transaction: %w: %w", errClientGone, err)
			}
		}
	}
	return nil
}

// untilStop returns a context for streams that have no end of their own: it ends with ctx, and when the Server stops.
func (s *service) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.stopping, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
