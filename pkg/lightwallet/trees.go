package lightwallet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// GetTreeState sends the note commitment trees at the end of a block.
func (s *service) GetTreeState(ctx context.Context, req *walletrpc.BlockID) (*walletrpc.TreeState, error) {
	name, err := parseBlock(req)
	if err != nil {
		return nil, err
	}
	view, err := s.source.View(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	if name.height > uint64(chain.MaxHeight) {
		return nil, aboveAnyChain(view, name.height)
	}
	if name.height > 0 { // wallets pass both, and then the height is what they mean
		return s.treeState(ctx, view, chain.Height(name.height), nil)
	}
	h, hash, err := findEitherWay(ctx, view, name.hash)
	if err != nil {
		return nil, err
	}
	return s.treeState(ctx, view, h, &hash)
}

// findEitherWay looks a block up by its hash in internal byte order, and then in display order, which lightwalletd reads here. It
// returns the hash that the block has.
func findEitherWay(ctx context.Context, view chain.View, hash chain.Hash) (chain.Height, chain.Hash, error) {
	reversed := hash
	slices.Reverse(reversed[:])
	var failed error // of a lookup that says nothing: the block may still be found the other way
	for _, hash := range []chain.Hash{hash, reversed} {
		h, err := view.HeightOf(ctx, hash)
		switch {
		case err == nil:
			return h, hash, nil
		case failed == nil && !errors.Is(err, chain.ErrNotFound):
			failed = fmt.Errorf("look up block %s: %w", hash, err)
		}
	}
	if failed != nil {
		return 0, hash, failed
	}
	return 0, hash, notFound("no block has the hash %s, or that with its bytes reversed", hash)
}

// GetLatestTreeState sends the trees at the end of the block that GetLatestBlock names.
func (s *service) GetLatestTreeState(ctx context.Context, _ *walletrpc.Empty) (*walletrpc.TreeState, error) {
	view, err := s.source.View(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	tip, err := view.Tip()
	if err != nil {
		return nil, err
	}
	return s.treeState(ctx, view, tip.Height, &tip.Hash)
}

// treeState reads the trees of a height. With a hash, they must be those of that very block.
func (s *service) treeState(ctx context.Context, view chain.View, h chain.Height, hash *chain.Hash) (*walletrpc.TreeState, error) {
	ctx, cancel := context.WithTimeout(ctx, treesWithin)
	defer cancel()
	state, err := view.TreeState(chain.WithTurn(ctx, s.trees.take), h)
	if err != nil {
		return nil, fmt.Errorf("read the trees of block %d: %w", h, err)
	}
	if hash != nil && state.ID.Hash != *hash {
		return nil, fmt.Errorf("read the trees of block %s: height %d has block %s: %w", hash, h, state.ID.Hash, chain.ErrReorged)
	}
	network := s.chainName
	if network == "" {
		info, err := s.node.lasting(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask the node for the name of its chain: %w", err)
		}
		network = info.Chain
	}
	return &walletrpc.TreeState{
		Network: network, Height: uint64(state.ID.Height), Hash: state.ID.Hash.String(), Time: state.Time,
		SaplingTree: state.Sapling, OrchardTree: state.Orchard, IronwoodTree: state.Ironwood,
	}, nil
}

// GetSubtreeRoots sends the roots of a pool's complete subtrees, in runs as frames.go sends blocks.
func (s *service) GetSubtreeRoots(req *walletrpc.GetSubtreeRootsArg, stream grpc.ServerStreamingServer[walletrpc.SubtreeRoot]) error {
	ctx := stream.Context()
	pool, err := shieldedPool(req.ShieldedProtocol)
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
	roots, err := subtreeRoots(ctx, view, pool, req)
	if err != nil {
		return fmt.Errorf("read %s subtree roots from index %d: %w", pool, req.StartIndex, err)
	}
	w := s.newWriter(stream)
	for part := range slices.Chunk(roots, rootsInRun) {
		run := make([]byte, 0, len(part)*rootFrame)
		for i := range part {
			if run, err = appendMessage(run, subtreeRootMessage(&part[i])); err != nil {
				return fmt.Errorf("encode a subtree root: %w", err)
			}
		}
		if err := w.send(chain.Frames{Bytes: run, Count: len(part)}); err != nil {
			return err
		}
	}
	return nil
}

func subtreeRoots(ctx context.Context, view chain.View, pool chain.Pool, req *walletrpc.GetSubtreeRootsArg) ([]chain.SubtreeRoot, error) {
	ctx, cancel := context.WithTimeout(ctx, treesWithin)
	defer cancel()
	return view.SubtreeRoots(ctx, pool, req.StartIndex, req.MaxEntries)
}

// rootFrame is about the length of a subtree root's frame, and rootsInRun how many of them fill a run.
const (
	rootFrame  = 80
	rootsInRun = chain.RunSize / rootFrame
)

func shieldedPool(p walletrpc.ShieldedProtocol) (chain.Pool, error) {
	switch p {
	case walletrpc.ShieldedProtocol_sapling:
		return chain.Sapling, nil
	case walletrpc.ShieldedProtocol_orchard:
		return chain.Orchard, nil
	case walletrpc.ShieldedProtocol_ironwood:
		return chain.Ironwood, nil
	}
	return 0, invalidArgument("shieldedProtocol: there is no pool %d", int32(p))
}

// subtreeRootMessage is the wire form: here, as in no other message, the block hash is in display order.
func subtreeRootMessage(r *chain.SubtreeRoot) *walletrpc.SubtreeRoot {
	hash := slices.Clone(r.Completing.Hash[:])
	slices.Reverse(hash)
	return &walletrpc.SubtreeRoot{RootHash: r.Root[:], CompletingBlockHash: hash, CompletingBlockHeight: uint64(r.Completing.Height)}
}

// appendMessage appends a message as one gRPC frame.
func appendMessage(dst []byte, m proto.Message) ([]byte, error) {
	start := len(dst)
	dst, err := proto.MarshalOptions{}.MarshalAppend(append(dst, 0, 0, 0, 0, 0), m)
	if err != nil {
		return dst, err
	}
	binary.BigEndian.PutUint32(dst[start+1:], uint32(len(dst)-start-chain.FramePrefixLen))
	return dst, nil
}
