package index

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// testBlock is a block with the tree sizes at its end.
type testBlock struct {
	*chain.Block
	sizes chain.TreeSizes
}

// frame is what the default projection answers.
func (b testBlock) frame() []byte { return chain.AppendFrame(nil, b.Shielded, b.sizes) }

// forge makes blocks; every one is different.
type forge struct {
	builder *chaintest.Builder
	encoder *chain.Encoder
	kind    func(b *chaintest.Builder, dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte
	seed    uint64
	leaves  uint32 // Orchard leaves that every block claims to add besides its own
	raw     []byte
}

func newForge() *forge {
	return &forge{builder: chaintest.NewBuilder(), encoder: chain.NewEncoder(chain.EncoderOptions{}), kind: (*chaintest.Builder).Mixed}
}

// extend appends n blocks to a chain, of which the first end are kept.
func (f *forge) extend(t testing.TB, base []testBlock, n int) []testBlock {
	t.Helper()
	blocks := slices.Clone(base)
	for range n {
		var parent testBlock
		var prev chain.Hash
		if len(blocks) > 0 {
			parent = blocks[len(blocks)-1]
			prev = parent.ID.Hash
		}
		f.seed++
		h := chain.Height(len(blocks))
		f.raw = f.kind(f.builder, f.raw[:0], h, prev, f.seed)
		b := new(chain.Block)
		if err := f.encoder.Encode(b, h, f.raw); err != nil {
			t.Fatalf("encode block %d: %v", h, err)
		}
		b.Added.Orchard += f.leaves
		sizes, err := parent.sizes.Plus(b.Added)
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, testBlock{b, sizes})
	}
	return blocks
}

// fakeNode is a Node in memory. Its chain is set as a whole.
type fakeNode struct {
	mu        sync.Mutex
	best      []testBlock
	other     []testBlock // when not nil, every other question is answered from it
	err       error       // of Tip and every question
	changed   chan struct{}
	following bool

	treeSizes func(chain.Hash, chain.TreeSizes) (chain.TreeSizes, error) // changes an answer
	block     func(testBlock) (*chain.Block, error)                      // changes what Blocks yields
	late      func(chain.Height) bool                                    // tells which blocks come some time after the one below them

	hashAsked, sizesAsked int
	asked                 int // blocks asked for
	blocksSent            int
}

func newFakeNode(best []testBlock) *fakeNode {
	return &fakeNode{best: best, changed: make(chan struct{})}
}

// set changes the node's chain, and whether it can be asked.
func (n *fakeNode) set(best []testBlock, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.best, n.err = best, err
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *fakeNode) with(fn func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fn()
}

func (n *fakeNode) Tip() (chain.BlockID, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil && len(n.best) == 0 {
		return chain.BlockID{}, errors.New("not polled yet")
	}
	if n.err != nil {
		return chain.BlockID{}, n.err
	}
	return n.best[len(n.best)-1].ID, nil
}

func (n *fakeNode) Changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

func (n *fakeNode) SetFollowing(following bool) { n.with(func() { n.following = following }) }

func (n *fakeNode) BlockHash(_ context.Context, h chain.Height) (chain.Hash, error) {
	b, err := n.at(h)
	n.with(func() { n.hashAsked++ })
	if err != nil {
		return chain.Hash{}, err
	}
	return b.ID.Hash, nil
}

func (n *fakeNode) at(h chain.Height) (testBlock, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.other != nil {
		n.best, n.other = n.other, n.best
	}
	switch {
	case n.err != nil:
		return testBlock{}, n.err
	case int(h) >= len(n.best):
		return testBlock{}, fmt.Errorf("height %d: %w", h, chain.ErrAboveTip)
	}
	return n.best[h], nil
}

func (n *fakeNode) TreeSizes(_ context.Context, hash chain.Hash) (chain.TreeSizes, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sizesAsked++
	if n.err != nil {
		return chain.TreeSizes{}, n.err
	}
	for i := len(n.best) - 1; i >= 0; i-- {
		if n.best[i].ID.Hash != hash {
			continue
		}
		if n.treeSizes != nil {
			return n.treeSizes(hash, n.best[i].sizes)
		}
		return n.best[i].sizes, nil
	}
	return chain.TreeSizes{}, fmt.Errorf("block %s: %w", hash, chain.ErrNotFound)
}

func (n *fakeNode) Blocks(ctx context.Context, from, to chain.Height) iter.Seq2[chain.Fetched, error] {
	return func(yield func(chain.Fetched, error) bool) {
		for h := from; h <= to; h++ {
			tb, err := n.at(h)
			b := tb.Block
			n.with(func() { n.asked++ })
			if err == nil && n.block != nil {
				b, err = n.block(tb)
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(chain.Fetched{}, err)
				return
			}
			n.with(func() { n.blocksSent++ })
			if !yield(chain.Fetched{Block: b, NextReady: h < to && (n.late == nil || !n.late(h+1))}, nil) {
				return
			}
		}
	}
}
