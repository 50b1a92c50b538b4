package index

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// confirmLooks is how often in a row, at least, the node has to show the same other chain before the index is cut.
const confirmLooks = 5

// otherChain is a chain of the node that leaves ours among sealed blocks, as it was seen at each look since the first.
type otherChain struct {
	first chain.BlockID // of its blocks that is not ours
	since time.Time
	looks int
}

// followDeep deals with a node whose chain leaves ours among sealed blocks, which no rollback of Zebra's does: it is another node, one
// that was synced anew, or our chain was wrong. The index is cut to the last segment that both have when the node has shown one and the
// same chain, at least as high as ours, at every look for ConfirmDeep, and when its blocks link to ours. Until then, and when they
// don't, this is an ErrDeepReorg, with which no tip is served.
func (b *Builder) followDeep(ctx context.Context, tip chain.BlockID) error {
	if err := b.checkGenesis(ctx); err != nil {
		return err
	}
	fork, err := b.deepFork(ctx, tip)
	if err != nil {
		return err
	}
	top := b.store.state.top
	if tip.Height+1 < top.blocks {
		b.other = otherChain{}
		return b.deepReorg(fork, "The node's tip is below that block, so it is not followed. If the node is right all the same, stop zsidecar and delete "+b.store.dir)
	}
	first := chain.BlockID{Height: fork.blocks}
	if first.Hash, err = b.node.BlockHash(ctx, first.Height); err != nil {
		return fmt.Errorf("ask the node for its block above %s: %w", fork.tip(), err)
	}
	if b.other.first != first {
		b.other = otherChain{first: first, since: time.Now()}
	}
	b.other.looks++
	if b.other.looks < confirmLooks || time.Since(b.other.since) < b.o.ConfirmDeep {
		return b.deepReorg(fork, fmt.Sprintf("If the node goes on saying so for %v, the index is cut back to there and follows it", b.o.ConfirmDeep))
	}
	b.other = otherChain{}
	if err := b.vouch(ctx, fork, first, tip); err != nil {
		return b.deepReorg(fork, fmt.Sprintf("The node's blocks do not bear it out, so it is not followed: %v", err))
	}
	b.log.Error("the node's chain has left the index below its recent blocks: the index is cut back, and goes on from there",
		"from", top.blocks-1, "hash", top.hash, "kept_blocks", fork.blocks, "node", tip.Height, "node_hash", tip.Hash)
	if err := b.commit(ctx, func() error { return b.store.cut(fork.blocks) }); err != nil {
		return err
	}
	b.recent.reset(b.store.state.top)
	return nil
}

// deepReorg is the error as long as nothing is cut. Its text stays the same, so that it is logged once.
func (b *Builder) deepReorg(fork chainEnd, then string) error {
	common := fmt.Sprintf("nothing in common above block %s", fork.tip())
	if fork.blocks == 0 { // genesis is ours, but its segment cannot be read
		common = "nothing in common that can be read"
	}
	return fmt.Errorf("%w: the two have %s, and ours are sealed up to height %d. "+
		"The blocks up to %s are still served, but no tip is. %s",
		ErrDeepReorg, common, b.store.state.sealed.blocks-1, b.store.state.top.tip(), then)
}

// deepFork returns the end of what our sealed blocks and the node's chain have in common, without its tree sizes. The last sealed block
// is known to be ours alone. Where a segment cannot be read, the last block below it counts.
func (b *Builder) deepFork(ctx context.Context, tip chain.BlockID) (chainEnd, error) {
	segments := b.store.current.Load().segments
	endOf := func(n int) (chainEnd, error) {
		for ; n > 0; n-- {
			if g := segments[n-1]; g.hash != (chain.Hash{}) {
				return chainEnd{blocks: g.last + 1, hash: g.hash}, nil
			}
		}
		return chainEnd{}, nil
	}
	whole, err := b.lastShared(ctx, tip, 0, len(segments), endOf)
	if err != nil {
		return chainEnd{}, err
	}
	base, _ := endOf(whole)
	inside := func(n int) (chainEnd, error) { return b.store.endAt(chain.Height(n)) }
	n, err := b.lastShared(ctx, tip, int(base.blocks), int(segments[whole].last)+1, inside)
	var corrupt *CorruptError
	if errors.As(err, &corrupt) || err == nil && n == int(base.blocks) {
		return base, nil
	}
	if err != nil {
		return chainEnd{}, err
	}
	return inside(n)
}

// lastShared returns the largest n, from low on and below high, for which the chain that ends with endOf(n) is the node's too. For low it is.
func (b *Builder) lastShared(ctx context.Context, tip chain.BlockID, low, high int, endOf func(int) (chainEnd, error)) (int, error) {
	for high-low > 1 {
		middle := low + (high-low)/2
		end, err := endOf(middle)
		same := end.blocks == 0
		if err == nil && !same {
			same, err = b.same(ctx, tip, end)
		}
		if err != nil {
			return 0, err
		}
		if same {
			low = middle
		} else {
			high = middle
		}
	}
	return low, nil
}

// vouch fetches the node's blocks from its first one on, as many as a node may roll back at most, and checks that each is the child of the
// one before it, the first one of our fork.
func (b *Builder) vouch(ctx context.Context, fork chainEnd, first, tip chain.BlockID) error {
	end := fork
	last := min(tip.Height, first.Height+b.store.o.SealDepth-1)
	for f, err := range b.node.Blocks(ctx, first.Height, last) {
		if err == nil {
			err = checkBlock(end, f.Block)
		}
		if err == nil && end.blocks == first.Height && f.ID != first {
			err = fmt.Errorf("block %s where it names %s", f.ID, first)
		}
		if err != nil {
			return err
		}
		end = chainEnd{blocks: f.ID.Height + 1, hash: f.ID.Hash}
	}
	if end.blocks != last+1 || last == tip.Height && end.tip() != tip {
		return fmt.Errorf("they end with %s, below the tip %s", end.tip(), tip)
	}
	return nil
}
