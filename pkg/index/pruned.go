package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// A PrunedError says that the node no longer has the block that the index needs next, nor others up to First: it prunes old blocks, or was
// started from a snapshot.
type PrunedError struct {
	Missing, First chain.Height // the block that is needed, and the lowest above it that the node has
}

func (e *PrunedError) Error() string {
	return fmt.Sprintf("the node does not have block %d, which the index needs next; the first block from there on that it has is %d: "+
		"it prunes old blocks, or was started from a snapshot. The index can only be built with a node that has block %d and all after it; "+
		"what this node has is answered without the index", e.Missing, e.First, e.Missing)
}

// explainMissing turns the node's word that it has no block of a height far below its tip into a PrunedError, if it is true of the blocks
// up to some height. Otherwise, as when the chain has changed or several nodes answer in turn, the error stays what it was.
func (b *Builder) explainMissing(ctx context.Context, h chain.Height, tip chain.BlockID, err error) error {
	if !errors.Is(err, chain.ErrAboveTip) || h+b.store.o.SealDepth >= tip.Height {
		return err
	}
	low, high := h, tip.Height
	for _, ask := range []struct {
		height chain.Height
		want   bool
	}{{low, false}, {low, false}, {high, true}, {high, true}, {low, false}} { // in such an order that two nodes in turn do not pass for one
		if has, hasErr := b.has(ctx, ask.height); hasErr != nil || has != ask.want {
			return err
		}
	}
	for high-low > 1 {
		middle := low + (high-low)/2
		has, hasErr := b.has(ctx, middle)
		switch {
		case hasErr != nil:
			return err
		case has:
			high = middle
		default:
			low = middle
		}
	}
	return &PrunedError{Missing: h, First: high}
}

// has tells whether the node has the block of a height.
func (b *Builder) has(ctx context.Context, h chain.Height) (bool, error) {
	for _, err := range b.node.Blocks(ctx, h, h) {
		if errors.Is(err, chain.ErrAboveTip) {
			return false, nil
		}
		return err == nil, err
	}
	return false, fmt.Errorf("fetch block %d: the node sent none: %w", h, chain.ErrUnavailable)
}
