package lightwallet

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// nullifiers is what the methods that end in Nullifiers send: they tell wallets only which of their notes are spent.
var nullifiers = chain.Projection{Pools: chain.ShieldedPools, NullifiersOnly: true}

// GetLatestBlock names the newest block of the view.
func (s *service) GetLatestBlock(ctx context.Context, _ *walletrpc.ChainSpec) (*walletrpc.BlockID, error) {
	view, err := s.source.View(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	tip, err := view.Tip()
	if err != nil {
		return nil, err
	}
	return blockIDMessage(tip), nil
}

// getBlock answers GetBlock, whose request has no pool filter.
func (s *service) getBlock(ctx context.Context, req *walletrpc.BlockID) (*rawMessage, error) {
	p := chain.Projection{Pools: s.getBlockPools, KeepEmpty: s.getBlockPools.Has(chain.Transparent)}
	return s.oneBlock(ctx, req, p)
}

// getBlockNullifiers answers the deprecated GetBlockNullifiers.
func (s *service) getBlockNullifiers(ctx context.Context, req *walletrpc.BlockID) (*rawMessage, error) {
	return s.oneBlock(ctx, req, nullifiers)
}

func (s *service) oneBlock(ctx context.Context, req *walletrpc.BlockID, p chain.Projection) (*rawMessage, error) {
	name, err := parseBlock(req)
	if err != nil {
		return nil, err
	}
	view, err := s.source.View(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	height, err := resolve(ctx, view, name)
	if err != nil {
		return nil, err
	}
	if height > uint64(chain.MaxHeight) {
		return nil, aboveAnyChain(view, height)
	}
	h := chain.Height(height)
	for run, err := range view.Blocks(s.forBlocks(ctx), h, h, p) {
		if err != nil {
			return nil, err
		}
		return s.unframe(ctx, run, h)
	}
	return nil, fmt.Errorf("read block %d: the source gave nothing", h)
}

// unframe takes the message out of a run of one block. It takes the run over.
func (s *service) unframe(ctx context.Context, run chain.Frames, h chain.Height) (*rawMessage, error) {
	message, err := frameAt(run.Bytes, 0)
	if err == nil && (run.Count != 1 || run.First.Height != h || chain.FramePrefixLen+message != len(run.Bytes)) {
		err = fmt.Errorf("the source gave %d blocks from %s in %d bytes", run.Count, run.First, len(run.Bytes))
	}
	if err != nil {
		run.Release()
		return nil, fmt.Errorf("read block %d: %w", h, err)
	}
	s.counters.served(ctx, run, len(run.Bytes))
	return &rawMessage{newBuffer(run.Bytes[chain.FramePrefixLen:], run.Release)}, nil
}

// GetBlockRange sends consecutive blocks with the pools that were asked for.
func (s *service) GetBlockRange(req *walletrpc.BlockRange, stream grpc.ServerStreamingServer[walletrpc.CompactBlock]) error {
	pools, err := parsePools(req.PoolTypes)
	if err != nil {
		return err
	}
	return s.sendRange(req, stream, chain.Projection{Pools: pools})
}

// GetBlockRangeNullifiers sends the nullifiers of consecutive blocks. There are none in the transparent pool; whoever asks for that
// alone gets all the others.
func (s *service) GetBlockRangeNullifiers(req *walletrpc.BlockRange, stream grpc.ServerStreamingServer[walletrpc.CompactBlock]) error {
	pools, err := parsePools(req.PoolTypes)
	if err != nil {
		return err
	}
	p := nullifiers
	if pools = pools.Without(chain.Transparent); pools != 0 {
		p.Pools = pools
	}
	return s.sendRange(req, stream, p)
}

func (s *service) sendRange(req *walletrpc.BlockRange, stream grpc.ServerStream, p chain.Projection) error {
	ctx := stream.Context()
	start, err := parseBlockName("start", req.Start)
	if err != nil {
		return err
	}
	end, err := parseBlockName("end", req.End)
	if err != nil {
		return err
	}
	if err := sendHeader(stream); err != nil {
		return err
	}
	view, err := s.source.View(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	from, err := resolve(ctx, view, start)
	if err != nil {
		return err
	}
	to, err := resolve(ctx, view, end)
	if err != nil {
		return err
	}
	if from > uint64(chain.MaxHeight) {
		return aboveAnyChain(view, from)
	}
	return s.sendBlocks(ctx, view, s.newWriter(stream), from, to, p)
}

// sendBlocks sends the blocks from..to, both included; from is at most chain.MaxHeight, to is any number.
func (s *service) sendBlocks(ctx context.Context, view chain.View, w *frameWriter, from, to uint64, p chain.Projection) error {
	// No chain reaches beyond MaxHeight, so the cut changes only the error at the tip, which names the height that was asked.
	last := chain.Height(min(to, uint64(chain.MaxHeight)))
	seq := newSequence(chain.Height(from), last)
	for run, err := range view.Blocks(s.forBlocks(ctx), chain.Height(from), last, p) {
		if err != nil {
			return nameAsked(err, from, to)
		}
		if err := seq.next(run); err != nil {
			run.Release()
			return err
		}
		bytes := len(run.Bytes)
		if err := w.send(run); err != nil {
			return err
		}
		s.counters.served(ctx, run, bytes)
	}
	if err := seq.complete(); err != nil {
		return err
	}
	if to > uint64(last) {
		return fmt.Errorf("send blocks %d to %d: the source has a block %d", from, to, last)
	}
	return nil
}

// resolve turns a name into the height of a block of the view. A height alone may be above the tip. NOT_FOUND when the hash is in no
// block of this chain, or in one of another height.
func resolve(ctx context.Context, view chain.View, name blockName) (uint64, error) {
	if !name.hasHash {
		return name.height, nil
	}
	h, err := view.HeightOf(ctx, name.hash)
	switch {
	case errors.Is(err, chain.ErrNotFound):
		return 0, notFound("no block has the hash %s", name.hash)
	case err != nil:
		return 0, fmt.Errorf("look up block %s: %w", name.hash, err)
	case name.height != 0 && name.height != uint64(h):
		return 0, notFound("block %s has the height %d, not %d", name.hash, h, name.height)
	}
	return uint64(h), nil
}

// aboveAnyChain refuses a height that no chain.Height should hold, and names the tip, if that is known.
func aboveAnyChain(view chain.View, height uint64) error {
	tip, err := view.Tip()
	if err != nil {
		return fmt.Errorf("height %d: %w", height, err)
	}
	return &chain.AboveTipError{Asked: height, Tip: tip.Height}
}

// nameAsked makes an AboveTipError name the end of the range that is above the tip, as the client wrote it.
func nameAsked(err error, from, to uint64) error {
	var above *chain.AboveTipError
	if !errors.As(err, &above) {
		return fmt.Errorf("send blocks %d to %d: %w", from, to, err)
	}
	asked := to
	if from > uint64(above.Tip) {
		asked = from
	}
	return &chain.AboveTipError{Asked: asked, Tip: above.Tip}
}
