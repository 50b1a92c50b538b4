package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// The methods of this file are the builder's one goroutine.

// end is where our chain ends, blocks that are not committed yet included.
func (b *Builder) end() chainEnd {
	switch {
	case !b.segments.empty():
		return b.segments.end()
	case !b.recent.empty():
		return b.recent.end
	}
	return b.store.state.top
}

// drop forgets the blocks that are not committed yet.
func (b *Builder) drop() {
	b.segments.reset()
	b.recent.reset(b.store.state.top)
}

// sync makes the node's best chain ours. It returns nil when we have the tip, or when the node is merely behind.
func (b *Builder) sync(ctx context.Context, tip chain.BlockID) error {
	b.target(tip.Height)
	if b.suspect || tip.Height < b.end().blocks {
		err := b.rewindToFork(ctx, tip)
		b.store.setApart(err)
		if err != nil {
			return err
		}
		b.suspect = false
		b.setOrphaned(false)
	}
	b.resume()
	if from := b.end().blocks; from <= tip.Height {
		if err := b.fetch(ctx, from, tip); err != nil {
			return err
		}
	}
	return b.flush(ctx, tip)
}

// fetch connects the blocks from..tip; the last of them may be left for flush.
func (b *Builder) fetch(ctx context.Context, from chain.Height, tip chain.BlockID) error {
	for f, err := range b.node.Blocks(ctx, from, tip.Height) {
		if err != nil {
			next := b.end().blocks
			err = fmt.Errorf("fetch block %d: %w", next, b.explainMissing(ctx, next, tip, err))
			// What arrived before is good, and asking for it again costs the node more than it costs us to keep it.
			if flushErr := b.flushRecent(ctx, tip); flushErr != nil {
				return flushErr // the fetch is tried again, and says then what it has to say
			}
			return err
		}
		if err := b.add(ctx, f, tip); err != nil {
			return err
		}
	}
	if b.end().blocks <= tip.Height {
		return fmt.Errorf("fetch block %d: the node sent none: %w", b.end().blocks, chain.ErrUnavailable)
	}
	return nil
}

// add appends a fetched block to our chain, and commits what is due.
func (b *Builder) add(ctx context.Context, f chain.Fetched, tip chain.BlockID) error {
	end := b.end()
	if err := checkBlock(end, f.Block); err != nil {
		return err
	}
	sizes, err := end.sizes.Plus(f.Added)
	if err != nil {
		return fmt.Errorf("block %s: %w", f.ID, err)
	}
	o := &b.store.o
	if f.ID.Height+o.SealDepth < tip.Height {
		if err := b.sealAll(ctx, tip); err != nil {
			return err
		}
		if err := b.gather(f.Block, func() { b.segments.add(f.Block, sizes, o) }); err != nil {
			return err
		}
		if b.segments.due(len(b.store.current.Load().segments), o) {
			return b.flushSegments(ctx)
		}
		return nil
	}
	if err := b.flushSegments(ctx); err != nil {
		return err
	}
	if b.recent.empty() {
		b.recent.reset(b.store.state.top)
	}
	if err := b.gather(f.Block, func() { b.recent.add(f.Block, sizes) }); err != nil {
		return err
	}
	if b.recent.full() || !f.NextReady {
		return b.flushRecent(ctx, tip)
	}
	return nil
}

// gather makes rows of a block's bytes. A panic ends the attempt, and what was gathered with it.
func (b *Builder) gather(block *chain.Block, add func()) error {
	err := chain.Guard(func() error { add(); return nil })
	if err == nil {
		return nil
	}
	b.drop()
	if bug := (*chain.Panic)(nil); errors.As(err, &bug) {
		b.log.Error("a block made us panic", "height", block.ID.Height, "hash", block.ID.Hash, "err", err, "stack", string(bug.Stack))
	}
	return fmt.Errorf("gather block %s: %w", block.ID, err)
}

// checkBlock checks that a block is the next one.
func checkBlock(end chainEnd, block *chain.Block) error {
	if end.blocks > 0 {
		return chain.CheckLink(end.tip(), block)
	}
	if block.ID.Height != 0 || block.Prev != (chain.Hash{}) {
		return fmt.Errorf("block %s with parent %s is no genesis block", block.ID, block.Prev)
	}
	return nil
}

func (b *Builder) flush(ctx context.Context, tip chain.BlockID) error {
	if err := b.flushSegments(ctx); err != nil {
		return err
	}
	return b.flushRecent(ctx, tip)
}

// flushSegments commits the gathered blocks that are sealed at once.
func (b *Builder) flushSegments(ctx context.Context) error {
	if b.segments.empty() {
		return nil
	}
	if err := b.checkSizes(ctx, b.segments.end()); err != nil {
		return err
	}
	b.segments.closeOpen()
	if err := b.commit(ctx, func() error { return b.store.connectSegments(b.segments.full) }); err != nil {
		return err
	}
	b.segments.reset()
	return nil
}

// flushRecent commits the gathered recent blocks, and seals what has become deep enough to fill a segment.
func (b *Builder) flushRecent(ctx context.Context, tip chain.BlockID) error {
	if b.recent.empty() {
		return nil
	}
	end := b.recent.end
	if end.blocks > tip.Height || b.store.Complete() || end.blocks-b.checked >= b.store.o.TreeCheckEvery {
		if err := b.checkSizes(ctx, end); err != nil {
			return err
		}
	}
	if err := b.commit(ctx, func() error { return b.store.connect(&b.recent) }); err != nil {
		return err
	}
	b.recent.reset(end)
	if end.blocks <= b.store.o.SealDepth {
		return nil
	}
	return b.sealWhile(ctx, end.blocks-1-b.store.o.SealDepth, false)
}

// sealAll seals every recent block, before blocks that are sealed themselves are put on top of them.
func (b *Builder) sealAll(ctx context.Context, tip chain.BlockID) error {
	if err := b.flushRecent(ctx, tip); err != nil {
		return err
	}
	if b.store.state.top == b.store.state.sealed {
		return nil
	}
	return b.sealWhile(ctx, tip.Height-b.store.o.SealDepth, true)
}

// sealWhile seals the recent blocks below limit, one segment after the other.
func (b *Builder) sealWhile(ctx context.Context, limit chain.Height, partial bool) error {
	for {
		var more bool
		err := b.commit(ctx, func() (err error) {
			more, err = b.store.seal(limit, partial)
			return err
		})
		var corrupt *CorruptError
		if errors.As(err, &corrupt) {
			// The node still has these blocks: rewind below the damaged one, and fetch them again.
			b.log.Error("a recent row of the index is corrupt: it is fetched again", "error", err)
			b.drop()
			err = b.commit(ctx, func() error { return b.store.rewind(corrupt.First) })
			return errors.Join(err, fmt.Errorf("seal: %w: %w", corrupt, chain.ErrReorged))
		}
		if err != nil || !more {
			return err
		}
	}
}

// checkSizes compares the tree sizes at the end of our chain with the node's, before they are committed.
func (b *Builder) checkSizes(ctx context.Context, end chainEnd) error {
	node, err := b.node.TreeSizes(ctx, end.hash)
	if err != nil {
		return fmt.Errorf("ask the node for the tree sizes of block %s: %w", end.tip(), err)
	}
	if node == end.sizes {
		b.checked = end.blocks
		return nil
	}
	b.drop()
	wrong := &TreeSizeError{Block: end.tip(), Ours: end.sizes, Node: node}
	// Recent blocks are committed before they are compared while the index is being built. Nobody takes their tip for that of the chain yet.
	if right := max(b.checked, b.store.state.sealed.blocks); right < b.store.state.top.blocks && !b.store.Complete() {
		err := b.commit(ctx, func() error { return b.store.rewind(right) })
		b.recent.reset(b.store.state.top)
		return errors.Join(wrong, err)
	}
	return wrong
}

// errTipMoved says that the node's tip has changed while a commit waited for room: what it was to do may be wrong by now.
var errTipMoved = errors.New("the node's tip has changed while there was no room")

// commit does one write of the store. While there is no room it waits, in place as long as the node's tip stays. Afterwards it is
// errTipMoved, unless fetched blocks would be thrown away that nobody asks an incomplete index for.
func (b *Builder) commit(ctx context.Context, write func() error) error {
	for {
		err := write()
		if err == nil {
			b.advance()
			b.evaluate()
			return nil
		}
		if !NoRoom(err) {
			return err
		}
		b.note(StatePaused, err)
		b.logOnce(StatePaused, err)
		changed := b.changed
		if !b.store.Complete() && !(b.segments.empty() && b.recent.empty()) {
			changed = nil
		}
		b.wait(ctx, changed, b.o.RetryDisk)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		select {
		case <-changed:
			return errTipMoved
		default:
		}
	}
}
