package passthrough

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
)

// testBlock makes block h of the branch that salt names: its hash depends on both, and it adds h%3 Sapling and 1 Ironwood leaves.
func testBlock(h chain.Height, prev chain.Hash, salt string) *chain.Block {
	b := &chain.Block{
		ID:   chain.BlockID{Height: h, Hash: sha256.Sum256(fmt.Append(prev[:], h, salt))},
		Prev: prev, Time: 1_300_000_000 + uint32(h), TxCount: 1,
		Added: chain.TreeSizes{Sapling: uint32(h % 3), Ironwood: 1},
	}
	if h > 0 {
		b.Shielded = protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), uint64(h))
	}
	b.Shielded = protowire.AppendBytes(protowire.AppendTag(b.Shielded, 3, protowire.BytesType), b.ID.Hash[:])
	b.Shielded = protowire.AppendBytes(protowire.AppendTag(b.Shielded, 4, protowire.BytesType), prev[:])
	b.Shielded = protowire.AppendVarint(protowire.AppendTag(b.Shielded, 5, protowire.VarintType), uint64(b.Time))
	txid := sha256.Sum256(b.ID.Hash[:])
	tx := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), txid[:])
	b.Transparent = protowire.AppendBytes(protowire.AppendTag(nil, 7, protowire.BytesType), tx)
	return b
}

// branch returns blocks 0..tip that follow base up to height fork and then go their own way.
func branch(base []*chain.Block, fork, tip chain.Height, salt string) []*chain.Block {
	blocks := slices.Clone(base[:min(int(fork), len(base))])
	var prev chain.Hash
	if len(blocks) > 0 {
		prev = blocks[len(blocks)-1].ID.Hash
	}
	for h := chain.Height(len(blocks)); h <= tip; h++ {
		blocks = append(blocks, testBlock(h, prev, salt))
		prev = blocks[h].ID.Hash
	}
	return blocks
}

// sizesAt counts the leaves up to and including block h.
func sizesAt(blocks []*chain.Block, h chain.Height) (s chain.TreeSizes) {
	for _, b := range blocks[:h+1] {
		s, _ = s.Plus(b.Added)
	}
	return s
}

// frame is the expected frame of block h.
func frame(t *testing.T, blocks []*chain.Block, h chain.Height, p chain.Projection) []byte {
	t.Helper()
	message := chain.AppendFrame(nil, blocks[h].Shielded, sizesAt(blocks, h))[chain.FramePrefixLen:]
	f, err := chain.Project(nil, message, blocks[h].Transparent, p)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// fakeNode is a scripted Node. Its hooks run while it is unlocked, so that they may change it.
type fakeNode struct {
	mu       sync.Mutex
	blocks   []*chain.Block
	tip      zebrarpc.TipState
	err      error // every question fails with it
	pace     func(h chain.Height)
	onSizes  func()
	requests int                           // blocks asked for
	swap     map[chain.Height]*chain.Block // what Blocks gives instead, while everything else goes by blocks
	pruned   chain.Height                  // of the blocks below it, but genesis, there are only hashes and sizes
	trees    treeAnswers
}

func newFakeNode(blocks []*chain.Block) *fakeNode {
	n := &fakeNode{}
	n.set(blocks)
	return n
}

// set switches the node to another chain; the watcher sees it at once.
func (n *fakeNode) set(blocks []*chain.Block) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blocks = blocks
	n.tip = zebrarpc.TipState{ID: blocks[len(blocks)-1].ID, Known: true, Confirmed: time.Now()}
}

// fail makes every question fail, the watcher's included, since the given time ago.
func (n *fakeNode) fail(err error, since time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err, n.tip.Err, n.tip.Confirmed = err, err, time.Now().Add(-since)
}

func (n *fakeNode) Tip() zebrarpc.TipState {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tip
}

func (n *fakeNode) block(h chain.Height) (*chain.Block, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.err != nil:
		return nil, n.err
	case int(h) >= len(n.blocks):
		return nil, fmt.Errorf("getblock %d: %w", h, chain.ErrAboveTip)
	}
	n.requests++
	return n.blocks[h], nil
}

func (n *fakeNode) Blocks(ctx context.Context, from, to chain.Height, _ zebrarpc.Class) iter.Seq2[chain.Fetched, error] {
	return func(yield func(chain.Fetched, error) bool) {
		step := 1
		if from > to {
			step = -1
		}
		for h := int(from); ; h += step {
			if n.pace != nil {
				n.pace(chain.Height(h))
			}
			b, err := n.block(chain.Height(h))
			if 0 < h && h < int(n.pruned) {
				err = fmt.Errorf("getblock %d: %w", h, chain.ErrAboveTip)
			}
			if other := n.swap[chain.Height(h)]; err == nil && other != nil {
				b = other
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(chain.Fetched{}, err)
				return
			}
			// The fetcher recycles what it yielded: nothing may be kept.
			scratch := *b
			scratch.Shielded, scratch.Transparent = slices.Clone(b.Shielded), slices.Clone(b.Transparent)
			more := yield(chain.Fetched{Block: &scratch, NextReady: h%7 != 0}, nil)
			clear(scratch.Shielded)
			clear(scratch.Transparent)
			scratch.ID, scratch.Prev = chain.BlockID{}, chain.Hash{}
			if !more || h == int(to) {
				return
			}
		}
	}
}

func (n *fakeNode) TreeSizesAt(_ context.Context, h chain.Height) (chain.BlockID, chain.TreeSizes, error) {
	if n.onSizes != nil {
		n.onSizes()
	}
	b, err := n.block(h)
	if err != nil {
		return chain.BlockID{}, chain.TreeSizes{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return b.ID, sizesAt(n.blocks, h), nil
}

func (n *fakeNode) TreeSizes(_ context.Context, hash chain.Hash) (chain.TreeSizes, error) {
	h, err := n.HeightOf(context.Background(), hash)
	if err != nil {
		return chain.TreeSizes{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trees.sizes++
	return sizesAt(n.blocks, h), nil
}

func (n *fakeNode) HeightOf(_ context.Context, hash chain.Hash) (chain.Height, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return 0, n.err
	}
	for _, b := range n.blocks {
		if b.ID.Hash == hash {
			return b.ID.Height, nil
		}
	}
	return 0, chain.ErrNotFound
}

// fakeIndex is an Indexed over a growing list of blocks.
type fakeIndex struct {
	mu       sync.Mutex
	t        *testing.T
	blocks   []*chain.Block
	complete bool
	bad      *chain.UnreadableError
	apart    error
	open     int // views not closed yet
	served   int // blocks yielded
	kept     keptByIndex
}

func (x *fakeIndex) set(blocks []*chain.Block, complete bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.blocks, x.complete = blocks, complete
}

func (x *fakeIndex) Complete() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.complete
}

func (x *fakeIndex) Apart() error { return x.apart }

func (x *fakeIndex) View(context.Context) (chain.View, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.blocks) == 0 {
		return nil, fmt.Errorf("the index is empty: %w", chain.ErrUnavailable)
	}
	x.open++
	return &fakeIndexView{x: x, blocks: x.blocks}, nil
}

type fakeIndexView struct {
	x      *fakeIndex
	blocks []*chain.Block
}

func (v *fakeIndexView) Tip() (chain.BlockID, error) { return v.blocks[len(v.blocks)-1].ID, nil }

func (v *fakeIndexView) HeightOf(_ context.Context, hash chain.Hash) (chain.Height, error) {
	for _, b := range v.blocks {
		if b.ID.Hash == hash {
			if v.unreadable(b.ID.Height) != nil {
				return 0, v.x.bad
			}
			return b.ID.Height, nil
		}
	}
	return 0, chain.ErrNotFound
}

func (v *fakeIndexView) HashAt(_ context.Context, h chain.Height) (chain.Hash, error) {
	if err := v.unreadable(h); err != nil {
		return chain.Hash{}, err
	}
	return v.blocks[h].ID.Hash, nil
}

func (v *fakeIndexView) unreadable(h chain.Height) error {
	if bad := v.x.bad; bad != nil && bad.First <= h && h <= bad.Last {
		return bad
	}
	return nil
}

func (v *fakeIndexView) Close() {
	v.x.mu.Lock()
	defer v.x.mu.Unlock()
	v.x.open--
}

// Blocks yields runs of five.
func (v *fakeIndexView) Blocks(_ context.Context, from, to chain.Height, p chain.Projection) iter.Seq2[chain.Frames, error] {
	return func(yield func(chain.Frames, error) bool) {
		step := 1
		if from > to {
			step = -1
		}
		var run chain.Frames
		for h := int(from); h != int(to)+step; h += step {
			if h >= len(v.blocks) {
				v.x.t.Errorf("the index was asked for height %d, above its tip", h)
				return
			}
			if err := v.unreadable(chain.Height(h)); err != nil {
				if run.Count == 0 || yield(run, nil) {
					yield(chain.Frames{}, err)
				}
				return
			}
			b := v.blocks[h]
			if run.Count == 0 {
				run = chain.Frames{First: b.ID, Origin: chain.FromIndex}
			}
			if run.Count == 0 || step < 0 {
				run.Prev = b.Prev
			}
			run.Bytes = append(run.Bytes, frame(v.x.t, v.blocks, chain.Height(h), p)...)
			run.Last = b.ID
			run.Count++
			v.x.mu.Lock()
			v.x.served++
			v.x.mu.Unlock()
			if run.Count == 5 || h == int(to) {
				if !yield(run, nil) {
					return
				}
				run = chain.Frames{}
			}
		}
	}
}

// got is what a range gave.
type got struct {
	bytes   []byte
	count   int
	origins [2]int
	err     error
}

// read reads a whole range, releasing every run.
func read(t *testing.T, v chain.View, from, to chain.Height, p chain.Projection, each func(chain.Frames)) (g got) {
	t.Helper()
	for f, err := range v.Blocks(t.Context(), from, to, p) {
		if err != nil {
			if g.err != nil {
				t.Fatalf("a second error after %v: %v", g.err, err)
			}
			g.err = err
			continue
		}
		if g.err != nil {
			t.Fatalf("blocks after the error %v", g.err)
		}
		if n := framesIn(t, f.Bytes); n != f.Count {
			t.Fatalf("a run says it has %d blocks, but has %d", f.Count, n)
		}
		g.bytes = append(g.bytes, f.Bytes...)
		g.count += f.Count
		g.origins[f.Origin] += f.Count
		f.Release()
		if each != nil {
			each(f)
		}
	}
	return g
}

func framesIn(t *testing.T, b []byte) (n int) {
	t.Helper()
	for ; len(b) > 0; n++ {
		b = b[chain.FramePrefixLen+int(binary.BigEndian.Uint32(b[1:])):]
	}
	return n
}

// want is the concatenation of the frames from..to.
func want(t *testing.T, blocks []*chain.Block, from, to chain.Height, p chain.Projection) (b []byte) {
	t.Helper()
	step := 1
	if from > to {
		step = -1
	}
	for h := int(from); h != int(to)+step; h += step {
		b = append(b, frame(t, blocks, chain.Height(h), p)...)
	}
	return b
}
