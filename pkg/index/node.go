package index

import (
	"context"
	"iter"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Node is what a Builder needs of the full node. Errors that match chain.ErrUnavailable pass: the Builder waits a little and asks
// again. Errors that match chain.ErrNotFound, chain.ErrAboveTip or chain.ErrReorged mean that the best chain changed in between. All
// others end the attempt, which is made again each minute and at every change of the tip.
type Node interface {
	// Tip is the best block as last polled. It fails when the node cannot be asked now. It does not block.
	Tip() (chain.BlockID, error)
	// Changed returns a channel that is closed at the next change of what Tip says. Get the channel first and the Tip after.
	Changed() <-chan struct{}
	// SetFollowing says whether the tip should be polled often, because the index has reached it.
	SetFollowing(bool)

	BestChain
}

// BestChain is what Check and Repair ask of the full node: its best chain. Errors are those of a Node.
type BestChain interface {
	// BlockHash returns the hash of the best chain's block at a height.
	BlockHash(context.Context, chain.Height) (chain.Hash, error)
	// TreeSizes returns the note commitment tree sizes at the end of a block.
	TreeSizes(context.Context, chain.Hash) (chain.TreeSizes, error)
	// Blocks yields the blocks from..to, both included, ascending, each verified by itself: its hash and Merkle root are right. It
	// ends after an error. A block is valid until the next step.
	Blocks(ctx context.Context, from, to chain.Height) iter.Seq2[chain.Fetched, error]
}
