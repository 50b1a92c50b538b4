package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// The steps of readers.

// modelView is a view with the chain that it must show.
type modelView struct {
	chain.View
	blocks []testBlock
	sealed int  // of the blocks, when it was opened
	cut    bool // some of those have been cut off the index since
}

// rushedRead is what came of a reader that ran beside the builder.
type rushedRead struct {
	view *modelView
	err  error
}

// allow fails the script unless err is nil, or is about blocks that were cut off since the view was opened. It tells whether it is nil.
func (m *model) allow(v *modelView, err error) bool {
	if err != nil && (!v.cut || !errors.Is(err, chain.ErrReorged)) {
		m.Fatalf("a view of block %v, cut %t: %v", v.blocks[len(v.blocks)-1].ID, v.cut, err)
	}
	if err != nil {
		m.count("cut view")
	}
	return err == nil
}

// markCut marks the views whose sealed blocks are no longer those of the index.
func (m *model) markCut() {
	mark := func(v *modelView) { v.cut = v.cut || shared(v.blocks, m.chain) < v.sealed }
	for _, v := range m.views {
		mark(v)
	}
	for _, s := range m.streams {
		mark(s.v)
	}
	for _, r := range m.rushed {
		mark(r.view)
	}
}

func (m *model) view() *modelView {
	v, err := m.store.View(m.Context())
	if err != nil {
		m.Fatalf("view: %v", err)
	}
	return &modelView{View: v, blocks: m.chain, sealed: m.sealed}
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
	if h, err := v.HeightOf(m.Context(), last.Hash); !(v.cut && errors.Is(err, chain.ErrNotFound)) && m.allow(v, err) && h != last.Height {
		m.Fatalf("height of %v: %d", last, h)
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
	m.allow(v, m.compareRange(v, from, to, projection))
}

// compareRange reads a range, and returns the error with which it ended.
func (m *model) compareRange(v *modelView, from, to chain.Height, projection string) error {
	p := projections[projection]
	all := want(m, v.blocks, from, to, p)
	got, err := read(m, v, from, to, p)
	if !bytes.HasPrefix(all, got) || err == nil && len(got) < len(all) {
		m.Fatalf("%s: blocks %d to %d of a view of %d blocks: %d bytes that differ, %v", projection, from, to, len(v.blocks), len(got), err)
	}
	return err
}

func (m *model) expectAll(v *modelView) { m.allow(v, m.compareAll(v)) }

func (m *model) compareAll(v *modelView) error {
	top := v.blocks[len(v.blocks)-1].ID
	if tip, err := v.Tip(); err != nil || tip != top {
		m.Fatalf("the tip of a view is %v, %v, want %v", tip, err, top)
	}
	return errors.Join(m.compareRange(v, 0, top.Height, "default"), m.compareRange(v, top.Height, 0, "all"))
}

// modelStream is a range that is being read. Its reader takes its time.
type modelStream struct {
	v          *modelView
	next       func() (chain.Frames, error, bool)
	stop       func()
	want       []byte // that has not come yet
	cut        bool   // it has ended with that error
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
			if len(s.want) > 0 && !s.cut {
				m.Fatalf("%s: a stream ends with %d bytes to come", s.projection, len(s.want))
			}
			s.close()
			m.streams = slices.Delete(m.streams, i, i+1)
			return
		}
		if !m.allow(s.v, err) {
			s.cut = true
			continue
		}
		if !bytes.HasPrefix(s.want, f.Bytes) {
			m.Fatalf("%s: a stream of blocks of %v sends something else from block %v on", s.projection, s.v.blocks[len(s.v.blocks)-1].ID, f.First)
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
			err := m.compareRange(v, chain.Height((a+i)%n), chain.Height((b*i)%n), projectionName(a+i))
			if err = errors.Join(err, m.compareAll(v)); err != nil {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.rushed = append(m.rushed, rushedRead{v, err})
			}
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
	case errors.Is(err, chain.ErrReorged):
		m.allow(v, err)
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

// pickOrOpen returns one of the views that are open, or one of the present chain.
func (m *model) pickOrOpen(a uint32) (v *modelView, done func()) {
	if a%2 == 0 {
		v = m.view()
		return v, v.Close
	}
	v, _ = m.pick(a / 2)
	return v, func() {}
}

func (m *model) bringRoots(a, b uint32) {
	v, done := m.pickOrOpen(a)
	defer done()
	roots := modelRoots(v.blocks)
	m.store.PutSubtreeRoots(chain.Orchard, roots[:len(roots)-min(len(roots), int(b%4))])
}

func (m *model) askRoots(a, b uint32) {
	v, done := m.pickOrOpen(a)
	defer done()
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
	if errors.Is(err, chain.ErrReorged) {
		m.allow(v, err)
	} else if !errors.Is(err, chain.ErrUnavailable) {
		m.Fatalf("subtree roots from %d, at most %d, of a chain that has %d: %d, %v", start, limit, len(all), len(got), err)
	}
}

// verifyRoots compares the subtree roots of sealed blocks, in memory and on the disk, with those of the chain. What is beside them belongs
// to recent blocks, and is compared with the chain whenever a view shows it.
func (m *model) verifyRoots(sealed chain.Height) {
	k := &m.store.kept
	k.mu.Lock()
	kept := k.roots[chain.Orchard]
	k.mu.Unlock()
	want, below := modelRoots(m.chain), rootsBelow(kept.list, sealed)
	if kept.saved > below || below > len(want) || !slices.Equal(kept.list[:below], want[:below]) {
		m.Fatalf("of %d subtree roots %d are saved and %d of sealed blocks; they are not those of this chain up to block %v, whose first %d are sealed",
			len(kept.list), kept.saved, below, m.chain[len(m.chain)-1].ID, sealed)
	}
	txn := m.store.db.NewTransactionAt(latest, false)
	defer txn.Discard()
	rows := 0
	for key, item := range rowsOf(txn, prefixSubtree, true) {
		id, err := parseSubtreeKey(key)
		if err == nil {
			err = item.Value(func(row []byte) error {
				root, err := decodeSubtree(row)
				if err == nil && (rows >= kept.saved || id != (subtreeKey{chain.Orchard, uint32(rows)}) || root != want[rows]) {
					err = errMissing
				}
				return err
			})
		}
		if err != nil {
			m.Fatalf("the row %q of %d saved subtree roots is not root %d of this chain: %v", key, kept.saved, rows, err)
		}
		rows++
	}
	if rows != kept.saved {
		m.Fatalf("%d subtree roots are saved, and %d rows are there", kept.saved, rows)
	}
	if kept.saved < m.savedRoots {
		m.count("saved roots cut")
	}
	m.savedRoots = kept.saved
}
