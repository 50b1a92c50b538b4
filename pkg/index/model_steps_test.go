package index

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// modelStep is what a step of a script does, and how often it is drawn.
type modelStep struct {
	weight int
	run    func(m *model, a, b uint32)
}

func modelSteps() map[string]modelStep {
	return map[string]modelStep{
		"extend":  {30, (*model).extend},
		"far":     {4, (*model).far},
		"fork":    {18, (*model).fork},
		"deep":    {2, (*model).deep},
		"edge":    {4, (*model).edge},
		"jump":    {8, (*model).jump},
		"behind":  {4, (*model).behind},
		"lose":    {3, (*model).lose},
		"swap":    {2, (*model).swap},
		"cut":     {3, (*model).cut},
		"move":    {6, (*model).move},
		"fault":   {5, (*model).fault},
		"die":     {3, (*model).die},
		"crash":   {1, (*model).crashNow},
		"restart": {1, (*model).restart},
		"open":    {8, (*model).openView},
		"read":    {10, (*model).readView},
		"stream":  {8, (*model).stream},
		"pull":    {12, (*model).pull},
		"rush":    {4, (*model).rushBeside},
		"tree":    {6, (*model).bringTree},
		"ask":     {6, (*model).askTree},
		"roots":   {4, (*model).bringRoots},
		"list":    {4, (*model).askRoots},
	}
}

func contextOf(m *model) (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background()) // not m.Context(), which ends before the bubble's cleanups do
}

// The steps of the node.

func (m *model) extend(a, _ uint32) {
	m.setBest(m.forge.extend(m, m.best, 1+int(a%3)))
	m.settle()
}

// far: more than a whole segment at once. It is sealed on its way in.
func (m *model) far(a, _ uint32) {
	m.setBest(m.forge.extend(m, m.best, 10+int(a%30)))
	m.settle()
}

// forkAt gives the node a chain that has n blocks of its present one, at least genesis, and some of its own.
func (m *model) forkAt(n, more int) {
	n = min(max(n, 1), len(m.best))
	m.setBest(m.forge.extend(m, m.best[:n:n], more))
	m.settle()
}

func (m *model) fork(a, b uint32) {
	m.forkAt(len(m.best)-int(a%uint32(small().SealDepth+2)), 1+int(b%8))
}

// deep forks anywhere, to a chain that may be longer or shorter.
func (m *model) deep(a, b uint32) {
	cut := 1 + int(a)%len(m.best)
	m.forkAt(len(m.best)-cut, 1+int(b)%(cut+5))
}

// edge forks where the sealed blocks end, or one block below or above.
func (m *model) edge(a, b uint32) {
	m.forkAt(int(m.store.current.Load().sealed.blocks)+[]int{0, 1, -1}[a%3], 1+int(b%16))
}

// jump goes back to a chain that was left, one of the latest.
func (m *model) jump(a, _ uint32) {
	if len(m.others) == 0 {
		return
	}
	m.setBest(m.others[max(len(m.others)-1-int(a%6), 0)])
	m.settle()
}

// behind: the node has lost its newest blocks, as after a restart. Mostly it catches up then.
func (m *model) behind(a, b uint32) {
	best := m.best
	m.setBest(best[:1+int(a)%len(best)])
	m.settle()
	m.count("behind")
	if b%4 > 0 {
		m.setBest(best)
		m.settle()
	}
}

func (m *model) lose(uint32, uint32) {
	m.away = true
	m.node.set(m.best, chain.ErrUnavailable)
	m.settle()
	m.count("lost")
	m.away = false
	m.node.set(m.best, nil)
	m.settle()
}

// swap puts a node of another network in place of ours for a while, with a shorter or longer chain.
func (m *model) swap(a, _ uint32) {
	m.foreign = true
	m.node.set(m.forge.extend(m, nil, 1+int(a)%(2*len(m.best))), nil)
	m.settle()
	if err := m.store.Apart(); len(m.chain) > 0 && !errors.Is(err, ErrOtherNetwork) {
		m.Fatalf("a node of another network: %v", err)
	}
	m.count("other network")
	m.foreign = false
	m.node.set(m.best, nil)
	m.settle()
}

// during does something once, when the node has delivered n more blocks; the next steps make it deliver them.
func (m *model) during(n int, do func() error) {
	m.node.with(func() {
		m.node.block = func(b testBlock) (*chain.Block, error) {
			if n--; n >= 0 {
				return b.Block, nil
			}
			m.node.with(func() { m.node.block = nil })
			return b.Block, do()
		}
	})
}

// cut loses the node in the middle of a fetch.
func (m *model) cut(a, b uint32) {
	m.during(int(a%12), func() error { return chain.ErrUnavailable })
	m.far(b, 0)
}

// move forks the node's chain in the middle of a fetch.
func (m *model) move(a, b uint32) {
	depth, more := int(b%16), 1+int(b/16%16)
	m.during(int(a%24), func() error {
		defer m.catch()
		n := max(len(m.best)-depth, 1)
		m.setBest(m.forge.extend(m, m.best[:n:n], more))
		return nil
	})
	m.far(a/24, 0)
}

// The steps of the store.

// fault makes one of the next commits fail, or its answer get lost.
func (m *model) fault(a, b uint32) { m.countdown, m.lost, m.crash = 1+int(a%4), b%2 == 1, false }

// die makes one of the next commits the last one.
func (m *model) die(a, b uint32) { m.countdown, m.lost, m.crash = 1+int(a%4), b%2 == 1, true }

func (m *model) crashNow(a, _ uint32) {
	m.recoverCrash(a)
	m.count("crash")
	m.settle()
}

func (m *model) restart(uint32, uint32) {
	m.closeReaders()
	m.stop()
	m.countdown = 0
	dir := m.store.dir
	if err := m.store.Close(); err != nil {
		m.Fatalf("close: %v", err)
	}
	m.expectClean(dir, true)
	m.open(dir)
	m.count("restart")
	m.settle()
}

// The steps of readers.

// modelView is a view with the chain that it must show.
type modelView struct {
	chain.View
	blocks []testBlock
}

func (m *model) view() *modelView {
	v, err := m.store.View(m.Context())
	if err != nil {
		m.Fatalf("view: %v", err)
	}
	return &modelView{v, m.chain}
}

func (m *model) closeReaders() {
	for _, v := range m.views {
		v.Close()
	}
	for _, s := range m.streams {
		s.close()
	}
	m.views, m.streams = nil, nil
}

func (m *model) openView(uint32, uint32) { m.views = append(m.views, m.view()) }

// pick returns one of the views that are open, or a new one.
func (m *model) pick(a uint32) (v *modelView, i int) {
	if len(m.views) == 0 {
		m.openView(0, 0)
	}
	i = int(a) % len(m.views)
	return m.views[i], i
}

func projectionName(n uint32) string {
	names := slices.Sorted(maps.Keys(projections))
	return names[int(n)%len(names)]
}

// readView reads a range of a view, and closes it or not.
func (m *model) readView(a, b uint32) {
	v, i := m.pick(a)
	n := uint32(len(v.blocks))
	m.expectRange(v, chain.Height(b%n), chain.Height(b/3%n), projectionName(a))
	if b%8 == 0 {
		m.expectAll(v)
	}
	last := v.blocks[n-1-min(b%4, n-1)].ID
	if h, err := v.HeightOf(m.Context(), last.Hash); err != nil || h != last.Height {
		m.Fatalf("height of %v: %d, %v", last, h, err)
	}
	if !isPrefix(v.blocks, m.chain) {
		m.count("orphan read")
	}
	if a%3 == 0 {
		v.Close()
		m.views = slices.Delete(m.views, i, i+1)
	}
}

func (m *model) expectRange(v *modelView, from, to chain.Height, projection string) {
	p := projections[projection]
	got, err := read(m, v, from, to, p)
	if err != nil || !bytes.Equal(got, want(m, v.blocks, from, to, p)) {
		m.Fatalf("%s: blocks %d to %d of a view of %d blocks: %d bytes that differ, %v", projection, from, to, len(v.blocks), len(got), err)
	}
}

func (m *model) expectAll(v *modelView) {
	top := v.blocks[len(v.blocks)-1].ID
	if tip, err := v.Tip(); err != nil || tip != top {
		m.Fatalf("the tip of a view is %v, %v, want %v", tip, err, top)
	}
	m.expectRange(v, 0, top.Height, "default")
	m.expectRange(v, top.Height, 0, "all")
}

// modelStream is a range that is being read. Its reader takes its time.
type modelStream struct {
	v          *modelView
	next       func() (chain.Frames, error, bool)
	stop       func()
	want       []byte // that has not come yet
	projection string
}

func (s *modelStream) close() {
	s.stop()
	s.v.Close()
}

func (m *model) stream(a, b uint32) {
	v := m.view()
	n := uint32(len(v.blocks))
	from, to := chain.Height(a%n), chain.Height(b%n)
	s := &modelStream{v: v, projection: projectionName(a ^ b)}
	s.want = want(m, v.blocks, from, to, projections[s.projection])
	s.next, s.stop = iter.Pull2(v.Blocks(m.Context(), from, to, projections[s.projection]))
	m.streams = append(m.streams, s)
}

// pull takes a few runs of a stream.
func (m *model) pull(a, b uint32) {
	if len(m.streams) == 0 {
		return
	}
	i := int(a) % len(m.streams)
	s := m.streams[i]
	if !isPrefix(s.v.blocks, m.chain) {
		m.count("stream over a reorg")
	}
	for range 1 + b%5 {
		f, err, more := s.next()
		if !more {
			if len(s.want) > 0 {
				m.Fatalf("%s: a stream ends with %d bytes to come", s.projection, len(s.want))
			}
			s.close()
			m.streams = slices.Delete(m.streams, i, i+1)
			return
		}
		if err != nil || !bytes.HasPrefix(s.want, f.Bytes) {
			m.Fatalf("%s: a stream of blocks of %v sends something else from block %v on, %v", s.projection, s.v.blocks[len(s.v.blocks)-1].ID, f.First, err)
		}
		s.want = s.want[len(f.Bytes):]
		f.Release()
	}
}

// rushBeside lets readers of several views run beside the builder while it follows the next blocks.
func (m *model) rushBeside(a, b uint32) {
	for i := range uint32(3) {
		v := m.view()
		m.rush.Go(func() {
			defer m.catch()
			defer v.Close()
			n := uint32(len(v.blocks))
			m.expectRange(v, chain.Height((a+i)%n), chain.Height((b*i)%n), projectionName(a+i))
			m.expectAll(v)
		})
	}
	if b%2 == 0 {
		m.extend(a, 0)
	} else {
		m.fork(a, b)
	}
}

// The steps of what is kept beside the blocks.

// someBlock picks a block of the store's chain, or of one that was left.
func (m *model) someBlock(a, b uint32) testBlock {
	blocks := m.chain
	if a%4 == 0 && len(m.others) > 0 {
		blocks = m.others[int(a/4)%len(m.others)]
	}
	return blocks[len(blocks)-1-int(b)%len(blocks)]
}

func (m *model) bringTree(a, b uint32) {
	block := m.someBlock(a, b)
	m.brought = append(m.brought, block)
	m.trees[block.ID.Hash] = madeUpState(block)
	m.store.PutTreeState(madeUpState(block))
	v := m.view()
	defer v.Close()
	if shared(m.chain, m.known[block.ID.Hash]) < int(block.ID.Height)+1 {
		return // of an orphaned block: no view shows it
	}
	if got, err := v.TreeState(m.Context(), block.ID.Height); err != nil || got != m.trees[block.ID.Hash] {
		m.Fatalf("the trees of block %v were brought and are %+v, %v", block.ID, got, err)
	}
}

// askTree asks a view for trees, which may have been forgotten but are never those of another block.
func (m *model) askTree(a, b uint32) {
	v, _ := m.pick(a)
	block := v.blocks[len(v.blocks)-1-int(b)%len(v.blocks)]
	if n := len(m.brought); n > 0 && b%4 > 0 { // one of the latest that were brought, or the view's block of its height
		block = v.blocks[min(int(m.brought[max(n-1-int(a%8), 0)].ID.Height), len(v.blocks)-1)]
	}
	got, err := v.TreeState(m.Context(), block.ID.Height)
	want, brought := m.trees[block.ID.Hash]
	switch {
	case err == nil && brought && got == want:
		m.count("tree read")
	case !errors.Is(err, chain.ErrUnavailable):
		m.Fatalf("the trees of block %v are %+v, %v, and were brought: %t", block.ID, got, err, brought)
	}
	if st := m.store.Stats(); st.TreeStates > modelOptions().TreeStates+maxQueuedTrees {
		m.Fatalf("%d tree states are kept", st.TreeStates)
	}
}

// modelRoots are the subtree roots of a chain. They are as many as the sizes of its trees say, and tell by which block they were completed.
func modelRoots(blocks []testBlock) (roots []chain.SubtreeRoot) {
	for _, b := range blocks {
		for int(b.sizes.Orchard/chain.SubtreeLeaves) > len(roots) {
			root := b.ID.Hash
			binary.BigEndian.PutUint32(root[:], uint32(len(roots)))
			roots = append(roots, chain.SubtreeRoot{Root: root, Completing: b.ID})
		}
	}
	return roots
}

func (m *model) bringRoots(a, b uint32) {
	v, _ := m.pick(a)
	roots := modelRoots(v.blocks)
	m.store.PutSubtreeRoots(chain.Orchard, roots[:len(roots)-min(len(roots), int(b%4))])
}

func (m *model) askRoots(a, b uint32) {
	v, _ := m.pick(a)
	all := modelRoots(v.blocks)
	start, limit := b%uint32(len(all)+2), a%5
	want := all[min(int(start), len(all)):]
	if limit > 0 {
		want = want[:min(int(limit), len(want))]
	}
	got, err := v.SubtreeRoots(m.Context(), chain.Orchard, start, limit)
	if err == nil && slices.Equal(got, want) {
		m.count("roots read")
		return
	}
	if !errors.Is(err, chain.ErrUnavailable) {
		m.Fatalf("subtree roots from %d, at most %d, of a chain that has %d: %d, %v", start, limit, len(all), len(got), err)
	}
}
