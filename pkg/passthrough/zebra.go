package passthrough

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
)

// tipTrust is how long after Zebra's last answer a height above its tip is still called "above the tip" (protocol rule 5):
// later the tip may have moved on, and only UNAVAILABLE is honest.
const tipTrust = 10 * time.Second

// Node is what is asked of Zebra; *zebrarpc.Client implements it.
type Node interface {
	Tip() zebrarpc.TipState
	Blocks(ctx context.Context, from, to chain.Height, class zebrarpc.Class) iter.Seq2[chain.Fetched, error]
	TreeSizesAt(ctx context.Context, h chain.Height) (chain.BlockID, chain.TreeSizes, error)
	TreeSizes(ctx context.Context, hash chain.Hash) (chain.TreeSizes, error)
	HeightOf(ctx context.Context, hash chain.Hash) (chain.Height, error)
	BlockHash(ctx context.Context, h chain.Height) (chain.Hash, error)
	TreeState(ctx context.Context, hash chain.Hash) (chain.TreeState, error)
	Subtrees(ctx context.Context, pool chain.Pool, start, limit uint32) ([]zebrarpc.Subtree, error)
}

// Zebra is the Source answered by a Zebra node. It is safe for concurrent use.
type Zebra struct {
	node    Node
	buffers chain.BufferPool
	trees   treeCache
	roots   [chain.Ironwood + 1]rootCache
}

// New returns the Source that asks the given node.
func New(node Node) *Zebra {
	z := &Zebra{node: node}
	for pool := range z.roots {
		z.roots[pool].turn = make(chan struct{}, 1)
	}
	return z
}

// View returns the node's best chain as the tip watcher last saw it. It fails with ErrUnavailable until Zebra has answered once.
func (z *Zebra) View(context.Context) (chain.View, error) {
	v, err := z.view()
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (z *Zebra) view() (*zebraView, error) {
	state := z.node.Tip()
	if !state.Known {
		return nil, notAnswered(state.Err)
	}
	return &zebraView{zebra: z, state: state}, nil
}

// notAnswered says that Zebra has not answered, and why if that is known.
func notAnswered(err error) error {
	switch {
	case err == nil:
		return fmt.Errorf("zebra has not answered yet: %w", chain.ErrUnavailable)
	case errors.Is(err, chain.ErrUnavailable):
		return fmt.Errorf("zebra does not answer: %w", err)
	default:
		return fmt.Errorf("zebra does not answer: %w: %w", chain.ErrUnavailable, err)
	}
}

type zebraView struct {
	zebra *Zebra
	state zebrarpc.TipState
}

// Tip returns the node's tip, or ErrUnavailable when the last poll failed: a tip that cannot be served is not named.
func (v *zebraView) Tip() (chain.BlockID, error) {
	if v.state.Err != nil {
		return chain.BlockID{}, notAnswered(v.state.Err)
	}
	return v.state.ID, nil
}

// mayAsk says why Zebra need not be asked about a block: it is above the tip, or the last poll failed. Then the watcher tries again soon
// enough; a wallet need not wait for the fetcher to lose patience.
func (v *zebraView) mayAsk(h chain.Height) error {
	if h > v.state.ID.Height {
		return v.aboveTip(h)
	}
	if v.state.Err != nil {
		return notAnswered(v.state.Err)
	}
	return nil
}

// aboveTip is the error for a height above the tip: AboveTipError while the tip is trusted, ErrUnavailable later.
func (v *zebraView) aboveTip(h chain.Height) error {
	if v.state.Err != nil && time.Since(v.state.Confirmed) > tipTrust {
		return notAnswered(v.state.Err)
	}
	return &chain.AboveTipError{Asked: uint64(h), Tip: v.state.ID.Height}
}

// HeightOf asks Zebra for the height of a best-chain block. A block above this view's tip is not found.
func (v *zebraView) HeightOf(ctx context.Context, hash chain.Hash) (chain.Height, error) {
	h, err := v.zebra.node.HeightOf(ctx, hash)
	if err != nil {
		return 0, err
	}
	if h > v.state.ID.Height {
		return 0, fmt.Errorf("block %s is above the tip %d: %w", hash, v.state.ID.Height, chain.ErrNotFound)
	}
	return h, nil
}

// HashAt asks Zebra for the hash of a block up to this view's tip. A chain that has become shorter is another one.
func (v *zebraView) HashAt(ctx context.Context, h chain.Height) (chain.Hash, error) {
	switch tip := v.state.ID; {
	case h > tip.Height:
		return chain.Hash{}, v.aboveTip(h)
	case h == tip.Height:
		return tip.Hash, nil
	case v.state.Err != nil:
		return chain.Hash{}, notAnswered(v.state.Err)
	}
	hash, err := v.zebra.node.BlockHash(ctx, h)
	if errors.Is(err, chain.ErrAboveTip) {
		return hash, fmt.Errorf("%v: %w", err, chain.ErrReorged)
	}
	return hash, err
}

// Close does nothing: a zebraView holds nothing.
func (v *zebraView) Close() {}

// Blocks reads ahead in parallel and yields as soon as the next block is not there yet, so the first block is never held back.
func (v *zebraView) Blocks(ctx context.Context, from, to chain.Height, p chain.Projection) iter.Seq2[chain.Frames, error] {
	return func(yield func(chain.Frames, error) bool) {
		if err := v.mayAsk(from); err != nil {
			yield(chain.Frames{}, err)
			return
		}
		last := min(to, v.state.ID.Height)
		r := zebraRange{view: v, projection: p, ascending: from <= to}
		if !r.stream(ctx, from, last, yield) || last == to {
			return
		}
		yield(chain.Frames{}, v.aboveTip(to))
	}
}

// zebraRange is the state of one range read from Zebra: the block before, and the run that is being filled.
type zebraRange struct {
	view       *zebraView
	projection chain.Projection
	ascending  bool

	word    *word // what Zebra says of the range besides its blocks
	started bool
	before  chain.Block     // ID, Prev and Added of the block before; its byte slices are not kept
	sizes   chain.TreeSizes // at the end of the block before

	buf     *[]byte
	run     chain.Frames
	message []byte // scratch: one block's default frame, cut by the projection
}

// stream yields the blocks from..last, which must not be above the tip, and reports whether it got to the end.
//
// Zebra has most to do for the start of a range: its turn lasts until the first block has come.
func (r *zebraRange) stream(ctx context.Context, from, last chain.Height, yield func(chain.Frames, error) bool) bool {
	done, err := chain.TakeTurn(ctx)
	if err != nil {
		yield(chain.Frames{}, fmt.Errorf("ask zebra for block %d: %w", from, err))
		return false
	}
	started := sync.OnceFunc(done)
	defer started()
	ctx, cancel := context.WithCancel(ctx)
	r.word = r.ask(ctx, from, last)
	// The goroutine behind it ends with the context, and nothing of it may outlive the range.
	defer func() { cancel(); <-r.word.done }()
	defer r.drop()

	for f, err := range r.view.zebra.node.Blocks(ctx, from, last, zebrarpc.Range) {
		if err == nil {
			err = r.add(ctx, f.Block)
		}
		started()
		if err != nil {
			if !r.flush(yield) {
				return false
			}
			yield(chain.Frames{}, r.explain(ctx, from, err))
			return false
		}
		if (!f.NextReady || len(*r.buf) >= chain.RunSize) && !r.flush(yield) {
			return false
		}
	}
	return r.flush(yield)
}

// explain says what "no such height" means for the block that the range needs next.
func (r *zebraRange) explain(ctx context.Context, from chain.Height, err error) error {
	next := chain.BlockID{Height: from}
	switch {
	case r.started && r.ascending:
		next.Height = r.before.ID.Height + 1
	case r.started:
		next = chain.BlockID{Height: r.before.ID.Height - 1, Hash: r.before.Prev}
	}
	return r.view.explain(ctx, next, err)
}

// add verifies the block's place in the chain and appends its frame to the run.
func (r *zebraRange) add(ctx context.Context, b *chain.Block) error {
	if err := r.checkPlace(ctx, b); err != nil {
		return err
	}
	if err := r.advanceSizes(ctx, b); err != nil {
		return fmt.Errorf("tree sizes of block %s: %w", b.ID, err)
	}
	if r.buf == nil {
		r.buf = r.view.zebra.buffers.Get()
		r.run = chain.Frames{First: b.ID, Origin: chain.FromZebra}
	}
	if r.projection == chain.DefaultProjection {
		*r.buf = chain.AppendFrame(*r.buf, b.Shielded, r.sizes)
	} else {
		r.message = chain.AppendFrame(r.message[:0], b.Shielded, r.sizes)
		out, err := chain.Project(*r.buf, r.message[chain.FramePrefixLen:], b.Transparent, r.projection)
		if err != nil {
			return fmt.Errorf("block %s: %w", b.ID, err)
		}
		*r.buf = out
	}
	if r.run.Count == 0 || !r.ascending {
		r.run.Prev = b.Prev
	}
	r.run.Count++
	r.run.Last = b.ID
	r.before = chain.Block{ID: b.ID, Prev: b.Prev, Added: b.Added}
	r.started = true
	return nil
}

// checkPlace holds P1 and P2. It also holds the highest block, which no child in the range vouches for, against Zebra's word.
func (r *zebraRange) checkPlace(ctx context.Context, b *chain.Block) error {
	tip := r.view.state.ID
	if b.ID.Height == tip.Height && b.ID.Hash != tip.Hash {
		return fmt.Errorf("block %s is not the tip %s: %w", b.ID, tip, chain.ErrReorged)
	}
	if b.ID.Height == r.word.top {
		if err := r.word.vouch(ctx, b.ID); err != nil {
			return err
		}
	}
	switch {
	case !r.started:
		return nil
	case r.ascending:
		return chain.CheckLink(r.before.ID, b)
	default:
		return chain.CheckLink(b.ID, &r.before)
	}
}

// advanceSizes sets r.sizes to the sizes at the end of b: the base for the first block, then by counting.
func (r *zebraRange) advanceSizes(ctx context.Context, b *chain.Block) (err error) {
	switch {
	case r.projection.NullifiersOnly: // such blocks carry an empty chainMetadata
		return nil
	case !r.started:
		r.sizes, err = r.word.sizesOf(ctx, b.ID)
	case r.ascending:
		r.sizes, err = r.sizes.Plus(b.Added)
	default:
		r.sizes, err = r.sizes.Minus(r.before.Added)
	}
	return err
}

// flush yields the run, if there is one, and reports whether the consumer wants more.
func (r *zebraRange) flush(yield func(chain.Frames, error) bool) bool {
	if r.buf == nil {
		return true
	}
	run, buf := r.run, r.buf
	r.buf = nil
	if run.Count == 0 { // the run's first block could not be added
		r.view.zebra.buffers.Put(buf)
		return true
	}
	run.Bytes = *buf
	run.Free = func() { r.view.zebra.buffers.Put(buf) }
	return yield(run, nil)
}

// drop returns the buffer of a run that nobody wants any more.
func (r *zebraRange) drop() {
	if r.buf != nil {
		r.view.zebra.buffers.Put(r.buf)
		r.buf = nil
	}
}

// word is what Zebra answers about a range besides its blocks, asked while they are on their way: the tree sizes at the end of the first
// one, and the hash of the highest one where nothing else tells it.
type word struct {
	node  Node
	sized chan struct{} // closed when the first three are there
	id    chain.BlockID
	sizes chain.TreeSizes
	err   error

	done    chan struct{} // closed when the rest is there, and the goroutine has ended
	top     chain.Height  // noTop when the hash is not asked for
	hash    chain.Hash
	hashErr error
}

// noTop is no block's height.
const noTop = chain.MaxHeight + 1

// ask asks about the range from..last. The sizes are left out where the projection does without; the tip's hash is known, and the sizes
// of the first block come with its hash.
func (r *zebraRange) ask(ctx context.Context, from, last chain.Height) *word {
	w := &word{node: r.view.zebra.node, sized: make(chan struct{}), done: make(chan struct{}), top: max(from, last)}
	if w.top == r.view.state.ID.Height || w.top == from && !r.projection.NullifiersOnly {
		w.top = noTop
	}
	go func() {
		defer close(w.done)
		if !r.projection.NullifiersOnly {
			w.id, w.sizes, w.err = w.node.TreeSizesAt(ctx, from)
		}
		close(w.sized)
		if w.top != noTop {
			w.hash, w.hashErr = w.node.BlockHash(ctx, w.top)
		}
	}()
	return w
}

// sizesOf returns the sizes at the end of the given first block. The answer counts only if it speaks of that very block: a reorg may have
// come between the two questions, and then the question is asked again by hash.
func (w *word) sizesOf(ctx context.Context, id chain.BlockID) (chain.TreeSizes, error) {
	select {
	case <-w.sized:
	case <-ctx.Done():
		return chain.TreeSizes{}, ctx.Err()
	}
	if w.err == nil && w.id == id {
		return w.sizes, nil
	}
	sizes, err := w.node.TreeSizes(ctx, id.Hash)
	if errors.Is(err, chain.ErrNotFound) {
		return sizes, fmt.Errorf("it left the best chain: %w", chain.ErrReorged)
	}
	return sizes, err
}

// vouch returns nil when Zebra names the given block at its height.
func (w *word) vouch(ctx context.Context, id chain.BlockID) error {
	select {
	case <-w.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.hashErr != nil {
		return fmt.Errorf("verify block %s: %w", id, w.hashErr)
	}
	if w.hash != id.Hash {
		return fmt.Errorf("block %s is not zebra's %s of that height: %w", id, w.hash, chain.ErrReorged)
	}
	return nil
}
