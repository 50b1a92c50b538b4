package passthrough

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
)

// treeWith encodes a tree of so many leaves, whose nodes say which block it is of.
func treeWith(size uint32, hash chain.Hash) string {
	if size == 0 {
		return chain.EmptyTree
	}
	node := "01" + hex.EncodeToString(hash[:])
	tree := node
	if size%2 == 0 {
		tree += node
	} else {
		tree += "00"
	}
	tree += "1f"
	for i := range 31 {
		if (size-1)/2>>i&1 == 1 {
			tree += node
		} else {
			tree += "00"
		}
	}
	return tree
}

// treesOf is the tree state that belongs to block h.
func treesOf(blocks []*chain.Block, h chain.Height) chain.TreeState {
	b, s := blocks[h], sizesAt(blocks, h)
	return chain.TreeState{
		ID: b.ID, Time: b.Time,
		Sapling: treeWith(s.Sapling, b.ID.Hash), Orchard: treeWith(s.Orchard, b.ID.Hash), Ironwood: treeWith(s.Ironwood, b.ID.Hash),
	}
}

// rootsOf are the roots of the Orchard subtrees that the blocks complete.
func rootsOf(blocks []*chain.Block) (roots []chain.SubtreeRoot) {
	var sizes chain.TreeSizes
	for _, b := range blocks {
		sizes, _ = sizes.Plus(b.Added)
		for n := len(roots); int(sizes.Orchard/chain.SubtreeLeaves) > n; n++ {
			roots = append(roots, chain.SubtreeRoot{Root: sha256.Sum256(fmt.Append(b.ID.Hash[:], n)), Completing: b.ID})
		}
	}
	return roots
}

// withLeaves gives copies of the blocks so many Orchard leaves each.
func withLeaves(blocks []*chain.Block, leaves uint32) []*chain.Block {
	changed := slices.Clone(blocks)
	for i, b := range changed {
		c := *b
		c.Added.Orchard = leaves
		changed[i] = &c
	}
	return changed
}

// treeAnswers are the parts of fakeNode that answer about trees.
type treeAnswers struct {
	asked    int                    // tree states
	hashes   int                    // block hashes
	hashErr  error                  // of a question for a block hash
	sizes    int                    // tree sizes of a hash
	lists    int                    // lists of subtrees
	onAsk    func()                 // before a tree state is answered
	onList   func()                 // before a list of subtrees is answered
	spoil    func(*chain.TreeState) // changes the answer
	shortest int                    // subtrees are listed up to this one only; 0: all
}

func (n *fakeNode) BlockHash(_ context.Context, h chain.Height) (chain.Hash, error) {
	b, err := n.block(h)
	if err != nil {
		return chain.Hash{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trees.hashes++
	return b.ID.Hash, n.trees.hashErr
}

func (n *fakeNode) TreeState(ctx context.Context, hash chain.Hash) (chain.TreeState, error) {
	if n.trees.onAsk != nil {
		n.trees.onAsk()
	}
	h, err := n.HeightOf(ctx, hash)
	if err == nil && h < n.pruned {
		err = chain.ErrNotFound
	}
	if err != nil {
		return chain.TreeState{}, fmt.Errorf("z_gettreestate: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trees.asked++
	state := treesOf(n.blocks, h)
	if n.trees.spoil != nil {
		n.trees.spoil(&state)
	}
	return state, nil
}

func (n *fakeNode) Subtrees(_ context.Context, pool chain.Pool, start, limit uint32) (list []zebrarpc.Subtree, err error) {
	if n.trees.onList != nil {
		n.trees.onList()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trees.lists++
	if n.err != nil {
		return nil, n.err
	}
	if pool != chain.Orchard || limit != 0 {
		return nil, nil
	}
	roots := rootsOf(n.blocks)
	if n.trees.shortest > 0 {
		roots = roots[:n.trees.shortest]
	}
	for _, r := range roots[min(int(start), len(roots)):] {
		list = append(list, zebrarpc.Subtree{Root: r.Root, End: r.Completing.Height})
	}
	return list, nil
}

// keptByIndex are the parts of fakeIndex that keep what was asked.
type keptByIndex struct {
	states map[chain.Hash]chain.TreeState
	roots  []chain.SubtreeRoot
}

func (x *fakeIndex) PutTreeState(s chain.TreeState) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.kept.states == nil {
		x.kept.states = map[chain.Hash]chain.TreeState{}
	}
	x.kept.states[s.ID.Hash] = s
}

func (x *fakeIndex) HasTreeState(hash chain.Hash) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := x.kept.states[hash]
	return ok
}

func (x *fakeIndex) PutSubtreeRoots(pool chain.Pool, roots []chain.SubtreeRoot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if pool == chain.Orchard {
		x.kept.roots = slices.Clone(roots)
	}
}

func (v *fakeIndexView) TreeState(_ context.Context, h chain.Height) (chain.TreeState, error) {
	if int(h) >= len(v.blocks) {
		v.x.t.Errorf("the index was asked for the trees of height %d, above its tip", h)
		return chain.TreeState{}, errors.New("above the tip")
	}
	if err := v.unreadable(h); err != nil {
		return chain.TreeState{}, fmt.Errorf("%w: %w", err, chain.ErrUnavailable)
	}
	v.x.mu.Lock()
	defer v.x.mu.Unlock()
	if state, ok := v.x.kept.states[v.blocks[h].ID.Hash]; ok {
		return state, nil
	}
	return chain.TreeState{}, fmt.Errorf("fake: tree state %d: %w", h, chain.ErrUnavailable)
}

func (v *fakeIndexView) SubtreeRoots(_ context.Context, pool chain.Pool, start, limit uint32) ([]chain.SubtreeRoot, error) {
	v.x.mu.Lock()
	defer v.x.mu.Unlock()
	all := 0
	if pool == chain.Orchard {
		all = len(rootsOf(v.blocks))
	}
	want := cutRoots(make([]chain.SubtreeRoot, all), chain.MaxHeight, start, limit)
	if got := cutRoots(v.x.kept.roots, v.blocks[len(v.blocks)-1].ID.Height, start, limit); len(got) >= len(want) {
		return got[:len(want)], nil
	}
	return nil, fmt.Errorf("fake: roots: %w", chain.ErrUnavailable)
}

func expectTrees(t *testing.T, v chain.View, blocks []*chain.Block, h chain.Height) {
	t.Helper()
	if got, err := v.TreeState(t.Context(), h); err != nil || got != treesOf(blocks, h) {
		t.Errorf("trees of block %d: %.200v, %v", h, got, err)
	}
}

func expectTreesError(t *testing.T, v chain.View, h chain.Height, want error) {
	t.Helper()
	got, err := v.TreeState(t.Context(), h)
	if !errors.Is(err, want) || got != (chain.TreeState{}) {
		t.Errorf("trees of block %d: %.200v, %v; want %v", h, got, err, want)
	}
	for _, other := range []error{chain.ErrNotFound, chain.ErrAboveTip, chain.ErrReorged, chain.ErrUnavailable} {
		if other != want && errors.Is(err, other) {
			t.Errorf("trees of block %d: %v is also %v", h, err, other)
		}
	}
}
