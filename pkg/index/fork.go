package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// rewindToFork compares our chain with the node's, and rewinds ours to the last block that both have. A node whose tip is one of our
// blocks is merely behind: that is no fork.
func (b *Builder) rewindToFork(ctx context.Context, tip chain.BlockID) error {
	if !b.segments.empty() || !b.recent.empty() {
		// Only the last of the blocks that are not committed is compared: they are deep, or few.
		same, err := b.same(ctx, tip, b.end())
		if err != nil || same {
			return err
		}
		b.drop()
	}
	top := b.store.state.top
	shared, err := b.sharedBlocks(ctx, tip, min(top.blocks, tip.Height+1))
	if errors.Is(err, ErrDeepReorg) {
		return b.followDeep(ctx, tip)
	}
	if err != nil {
		return err
	}
	b.other = otherChain{}
	switch shared {
	case top.blocks, tip.Height + 1:
		return nil
	case 0:
		return fmt.Errorf("%w: %s holds the chain of genesis %s, and the node has none of its blocks", ErrOtherNetwork, b.store.dir, b.store.net.genesis)
	}
	b.log.Info("the node's best chain has changed: rewinding", "from", top.blocks-1, "hash", top.hash, "to", shared-1, "node", tip.Height)
	err = b.commit(ctx, func() error {
		err := b.store.rewind(shared)
		b.setOrphaned(NoRoom(err))
		return err
	})
	if err != nil {
		return err
	}
	b.recent.reset(b.store.state.top)
	return nil
}

// same tells whether the node has the last block of the given chain too. A chain that is longer than the node's is not the same.
func (b *Builder) same(ctx context.Context, tip chain.BlockID, end chainEnd) (bool, error) {
	h := end.blocks - 1
	if h >= tip.Height {
		return end.tip() == tip, nil
	}
	hash, err := b.node.BlockHash(ctx, h)
	if err != nil {
		return false, fmt.Errorf("compare block %s with the node's: %w", end.tip(), err)
	}
	return hash == end.hash, nil
}

// sharedBlocks returns how many of our first n blocks are the node's too: it goes down from n in growing steps to a block that both
// have, and halves the last step. It is an ErrDeepReorg if the last sealed one differs as well.
func (b *Builder) sharedBlocks(ctx context.Context, tip chain.BlockID, n chain.Height) (chain.Height, error) {
	sharedAt := func(n chain.Height) (bool, error) {
		end, err := b.store.endAt(n)
		if err != nil || n == 0 {
			return err == nil, err
		}
		return b.same(ctx, tip, end)
	}
	same, err := sharedAt(n)
	if err != nil || same {
		return n, err
	}
	sealed := b.store.state.sealed.blocks
	high, low := n, n // the chain of high blocks is not the node's
	for step := chain.Height(1); !same; step *= 2 {
		if high = low; high <= sealed {
			return 0, ErrDeepReorg
		}
		low = max(sealed, high-min(step, high))
		if same, err = sharedAt(low); err != nil {
			return 0, err
		}
	}
	shared, err := b.lastShared(ctx, tip, int(low), int(high), func(n int) (chainEnd, error) { return b.store.endAt(chain.Height(n)) })
	return chain.Height(shared), err
}

// endAt returns the end of the stored chain's first n blocks. The tree sizes of a sealed one are left out.
func (s *Store) endAt(n chain.Height) (chainEnd, error) {
	snap := s.current.Load()
	if n == 0 || n >= snap.sealed.blocks {
		if n == 0 {
			return chainEnd{}, nil
		}
		return snap.endAt(n), nil
	}
	v := view{store: s, snap: snap}
	hash, err := v.hashAt(n - 1)
	return chainEnd{blocks: n, hash: hash}, err
}
