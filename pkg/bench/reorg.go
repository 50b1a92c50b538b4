package bench

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

const (
	// reorgStreams is how many ranges are being read while the chain moves.
	reorgStreams = 3
	// reorgStreamBlocks is how long they are: longer than what fits into the buffers between a server and a client that does not read.
	reorgStreamBlocks = 50_000
)

// reorgDepths are how many blocks are replaced.
func reorgDepths() []uint32 { return []uint32{1, 10, 100} }

// reorgCases measures how long it takes until a reorg of the node has been followed. The node mines a branch beside its chain and then
// goes back to its chain in one step, so that every round leaves it as it was.
func reorgCases(r *run) (cases []testCase) {
	for _, depth := range reorgDepths() {
		c := testCase{name: fmt.Sprintf("depth %d", depth), client: Decoding}
		if r.chain.last < uint64(depth)+2 {
			c.skip = "the chain is too short"
		}
		c.measure = func(ctx context.Context, t *target) (round, error) { return r.measureReorg(ctx, t, depth) }
		cases = append(cases, c)
	}
	return cases
}

// branch is what the node goes through in a reorg.
type branch struct {
	tip, root blockRef        // of the chain that the node has before and after; root is the lowest block that is replaced
	other     blockRef        // the tip in between, as high
	otherRoot string          // hash of the block in root's place
	known     map[string]bool // hashes of all blocks that may be served meanwhile
}

// lacks tells of a tip that is on neither branch.
func (b branch) lacks(served blockRef) bool { return !b.known[served.hash] }

func (r *run) measureReorg(ctx context.Context, t *target, depth uint32) (got round, err error) {
	tip, err := r.node.tip(ctx)
	if err != nil {
		return got, err
	}
	if _, err := r.awaitServed(ctx, t, tip, nil); err != nil {
		return got, err
	}
	b, err := r.node.leave(ctx, tip, depth)
	if err != nil {
		return got, err
	}
	back := false
	defer func() {
		// Whatever went wrong, the node shall not stay on the branch, and shall not fall back to it when the next round leaves its chain.
		ctx := context.WithoutCancel(ctx)
		if !back {
			err = errors.Join(err, r.node.reconsider(ctx, b.root.hash))
		}
		err = errors.Join(err, r.node.call(ctx, nil, "invalidateblock", b.otherRoot))
	}()
	if _, err := r.awaitServed(ctx, t, b.other, b.lacks); err != nil {
		return got, err
	}
	streams, err := t.openRanges(ctx, b.other.height)
	if err != nil {
		return got, err
	}
	defer streams.cancel()
	if err := offBeat(ctx); err != nil {
		return got, err
	}
	if err := r.node.reconsider(ctx, b.root.hash); err != nil {
		return got, err
	}
	back = true
	moved := time.Now()
	if _, err := r.awaitServed(ctx, t, b.tip, b.lacks); err != nil {
		return got, err
	}
	got.times = []time.Duration{time.Since(moved)}
	if err := r.node.awaitTip(ctx, b.tip.hash); err != nil {
		return got, err
	}
	if err := t.checkOrphan(ctx, b.other); err != nil {
		return got, err
	}
	for _, s := range streams.list {
		if err := s.drain(b); err != nil {
			return got, err
		}
	}
	return got, nil
}

// leave moves the node from its tip to another branch that is as high.
func (n *node) leave(ctx context.Context, tip blockRef, depth uint32) (b branch, err error) {
	b = branch{tip: tip, known: make(map[string]bool)}
	for h := b.tip.height - depth; h <= b.tip.height; h++ {
		hash, err := n.hashAt(ctx, h)
		if err != nil {
			return b, err
		}
		b.known[hash] = true
		if h == b.tip.height-depth+1 {
			b.root = blockRef{height: h, hash: hash}
		}
	}
	if err := n.invalidate(ctx, b.root); err != nil {
		return b, err
	}
	hashes, err := n.generate(ctx, int(depth))
	if err == nil {
		err = n.awaitTip(ctx, hashes[depth-1])
	}
	if err != nil {
		return b, errors.Join(err, n.reconsider(context.WithoutCancel(ctx), b.root.hash))
	}
	for _, hash := range hashes {
		b.known[hash] = true
	}
	b.other, b.otherRoot = blockRef{height: b.tip.height, hash: hashes[depth-1]}, hashes[0]
	return b, nil
}

// checkOrphan asks for a block of the branch that was left, by its hash: it may not come any more.
func (t *target) checkOrphan(ctx context.Context, orphan blockRef) error {
	hash, err := hex.DecodeString(orphan.hash)
	if err != nil {
		return err
	}
	slices.Reverse(hash)
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	// Servers that do not look blocks up by their hash refuse, or go by the height, for which 0 stands.
	block, err := walletrpc.NewCompactTxStreamerClient(t.conn).GetBlock(ctx, &walletrpc.BlockID{Hash: hash})
	if err == nil && bytes.Equal(block.Hash, hash) {
		return fmt.Errorf("GetBlock gives the orphaned block %s of height %d after its tip has moved to the other branch", orphan.hash, orphan.height)
	}
	return nil
}

// ranges are streams that are open.
type ranges struct {
	cancel context.CancelFunc
	list   []*openRange
}

// openRange is a stream of which the first block was read.
type openRange struct {
	stream grpc.ServerStreamingClient[walletrpc.CompactBlock]
	last   *walletrpc.CompactBlock
	to     uint64
}

// openRanges begins to read up to a height.
func (t *target) openRanges(ctx context.Context, to uint32) (ranges, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	open := ranges{cancel: cancel}
	first := max(t.firstHeight, uint64(to)-min(uint64(to), reorgStreamBlocks))
	for range reorgStreams {
		s := &openRange{to: uint64(to)}
		var err error
		s.stream, err = walletrpc.NewCompactTxStreamerClient(t.conn).GetBlockRange(ctx, &walletrpc.BlockRange{
			Start: &walletrpc.BlockID{Height: first}, End: &walletrpc.BlockID{Height: uint64(to)},
		})
		if err == nil {
			s.last, err = s.stream.Recv()
		}
		if err != nil {
			cancel()
			return ranges{}, fmt.Errorf("GetBlockRange %d to %d: %w", first, to, err)
		}
		open.list = append(open.list, s)
	}
	return open, nil
}

// drain reads the rest. The stream ends on one of the two branches, or with ABORTED; it may not mix them.
func (s *openRange) drain(b branch) error {
	for {
		block, err := s.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			if hash := displayHex(s.last.Hash); s.last.Height != s.to || hash != b.other.hash && hash != b.tip.hash {
				return fmt.Errorf("a range to %d that was being read during the reorg ended with OK at %d %s", s.to, s.last.Height, hash)
			}
			return nil
		case status.Code(err) == codes.Aborted:
			return nil
		case err != nil:
			return fmt.Errorf("a range that was being read during the reorg ended at height %d with neither ABORTED nor OK: %w", s.last.Height, err)
		case block.Height != s.last.Height+1 || !bytes.Equal(block.PrevHash, s.last.Hash):
			return fmt.Errorf("a range that was being read during the reorg mixes two chains: block %d names %s as the one before it, after %d %s",
				block.Height, displayHex(block.PrevHash), s.last.Height, displayHex(s.last.Hash))
		}
		s.last = block
	}
}
