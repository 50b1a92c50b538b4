package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// keeper holds what the node has computed from the chain's blocks and would have to compute again: tree states, a bounded number of
// them, and the roots of complete subtrees. Any goroutine may bring something. It waits in memory, where readers find it, until the
// writer's next commit takes it along; what does not fit into the queue is not kept, and what a crash takes is asked again.
type keeper struct {
	most    int           // tree states in the database
	filling chan struct{} // holds one element after the queue has become a quarter full: the writer need not wait for a block

	mu    sync.Mutex
	queue []queuedTree            // not committed yet, oldest first
	rows  map[chain.Hash]struct{} // committed
	order []chain.Hash            // of them, oldest first
	roots [chain.Ironwood + 1]keptRoots
	node  keptNode
}

// queuedTree is a tree state on its way to its row.
type queuedTree struct {
	chain.TreeState
	row []byte
}

// keptRoots are the first subtree roots of a pool. The slice is only ever replaced or appended to, since readers hold parts of it.
type keptRoots struct {
	list  []chain.SubtreeRoot
	saved int // the first ones, which are committed: their blocks are sealed
}

// Limits of what one commit takes along besides blocks; see commitBytes.
const (
	maxQueuedTrees = 64 // 3 pools of at most 1 kB each
	maxEvicted     = 512
	maxSavedRoots  = 2048
)

// PutTreeState keeps the trees at the end of a block, of whatever chain, for TreeState of views. It may be called by any goroutine. It
// keeps nothing while much is waiting to be written, and no trees that are no hex.
func (s *Store) PutTreeState(t chain.TreeState) {
	row, err := encodeTree(&t)
	if err != nil {
		return
	}
	k := &s.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.rows[t.ID.Hash]; ok || len(k.queue) >= maxQueuedTrees || k.queued(t.ID.Hash) != nil {
		return
	}
	k.queue = append(k.queue, queuedTree{t, row})
	if len(k.queue) >= maxQueuedTrees/4 {
		select {
		case k.filling <- struct{}{}:
		default:
		}
	}
}

// HasTreeState tells whether TreeState of a view has the trees at the end of this block, as far as is known without reading them. It may
// be called by any goroutine.
func (s *Store) HasTreeState(hash chain.Hash) bool {
	k := &s.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	_, committed := k.rows[hash]
	return committed || k.queued(hash) != nil
}

// queued returns the waiting tree state of a block, or nil. k.mu is held.
func (k *keeper) queued(hash chain.Hash) *chain.TreeState {
	for i := range k.queue {
		if k.queue[i].ID.Hash == hash {
			return &k.queue[i].TreeState
		}
	}
	return nil
}

// PutSubtreeRoots keeps the roots of a pool's first subtrees: roots[0] is that of index 0. Their completing blocks must be those of one
// chain, that of a view of this store, maybe an old one; they are kept as far as that is still the present one. It may be called by any
// goroutine.
func (s *Store) PutSubtreeRoots(pool chain.Pool, roots []chain.SubtreeRoot) {
	k := &s.kept
	r := &k.roots[pool]
	for {
		snap := s.current.Load()
		known := s.verified(snap, snap.holding(roots))
		k.mu.Lock()
		if s.current.Load() == snap {
			if len(known) > r.saved { // what is saved stays: it is below the sealed height
				r.list = append(r.list[:r.saved:r.saved], known[r.saved:]...)
			}
			k.mu.Unlock()
			return
		}
		k.mu.Unlock() // the chain has moved meanwhile
	}
}

// verified returns the first of the roots, as far as the sealed blocks that completed them are on this chain and can be read. All of them
// belong to one chain, so that mostly it reads one block, that of the last one.
func (s *Store) verified(snap *snapshot, roots []chain.SubtreeRoot) []chain.SubtreeRoot {
	v := view{store: s, snap: snap}
	for n := rootsBelow(roots, snap.sealed.blocks); n > 0; n-- {
		id := roots[n-1].Completing
		if hash, err := v.hashAt(id.Height); err == nil && hash == id.Hash {
			break
		}
		roots = roots[:n-1]
	}
	return roots
}

// holding returns the first of the roots, as far as their completing blocks are on this chain. Those of sealed blocks are taken for true.
func (s *snapshot) holding(roots []chain.SubtreeRoot) []chain.SubtreeRoot {
	n := rootsBelow(roots, s.sealed.blocks)
	for ; n < len(roots); n++ {
		if id := roots[n].Completing; id.Height >= s.top.blocks || s.recentAt(id.Height).hash != id.Hash {
			break
		}
	}
	return roots[:n:n]
}

// rootsBelow counts the roots whose completing blocks are below a height.
func rootsBelow(roots []chain.SubtreeRoot, n chain.Height) int {
	i, _ := slices.BinarySearchFunc(roots, n, func(r chain.SubtreeRoot, h chain.Height) int {
		return cmp.Compare(r.Completing.Height, h)
	})
	return i
}

// TreeState implements chain.View with what was kept. ErrUnavailable says that others have to be asked.
func (v *view) TreeState(_ context.Context, h chain.Height) (chain.TreeState, error) {
	if top := v.snap.top.blocks; h >= top {
		return chain.TreeState{}, &chain.AboveTipError{Asked: uint64(h), Tip: top - 1}
	}
	id := chain.BlockID{Height: h}
	if h >= v.snap.sealed.blocks {
		id.Hash = v.snap.recentAt(h).hash
	} else if hash, err := v.hashAt(h); err == nil {
		id.Hash = hash
	} else {
		return chain.TreeState{}, fmt.Errorf("tree state of block %d: %w", h, err)
	}
	t, err := v.keptTree(id.Hash)
	if err == nil && t.ID != id {
		err = fmt.Errorf("the row is about block %s: %w", t.ID, chain.ErrUnavailable)
	}
	if err != nil {
		return chain.TreeState{}, fmt.Errorf("tree state of block %s: %w", id, err)
	}
	return t, nil
}

// keptTree returns the tree state of a block, from the queue or from its row. A damaged row counts as none.
func (v *view) keptTree(hash chain.Hash) (t chain.TreeState, err error) {
	k := &v.store.kept
	k.mu.Lock()
	waiting := k.queued(hash)
	if waiting != nil {
		t = *waiting
	}
	_, committed := k.rows[hash]
	k.mu.Unlock()
	switch {
	case waiting != nil:
		return t, nil
	case !committed:
		return t, fmt.Errorf("it is not kept: %w", chain.ErrUnavailable)
	}
	key := treeKey(hash)
	err = v.store.read(func(txn *badger.Txn) error {
		return readRow(txn, key.bytes(), func(row []byte) (err error) {
			t, err = decodeTree(key, row)
			return err
		})
	})
	switch {
	case err == nil || errors.Is(err, ErrClosed):
		return t, err
	case !errors.Is(err, badger.ErrKeyNotFound): // that one was the oldest, and has just been deleted
		v.store.o.Logger.Warn("a tree state of the index is corrupt: it is asked for again", "hash", hash, "error", err)
	}
	k.mu.Lock()
	delete(k.rows, hash) // so that it is kept again
	k.mu.Unlock()
	return t, fmt.Errorf("its row cannot be read: %w: %w", missing(err), chain.ErrUnavailable)
}

// SubtreeRoots implements chain.View with what was kept. ErrUnavailable says that this is not all that was asked for, by the sizes of
// the trees at the tip, and that others have to be asked.
func (v *view) SubtreeRoots(_ context.Context, pool chain.Pool, start, limit uint32) ([]chain.SubtreeRoot, error) {
	k := &v.store.kept
	k.mu.Lock()
	roots := k.roots[pool].list
	k.mu.Unlock()
	roots = v.snap.holding(roots)
	if v.snap.cutOff() {
		return nil, fmt.Errorf("sealed blocks were cut off the index: %w", chain.ErrReorged)
	}

	all := uint64(v.snap.top.sizes.Of(pool) / chain.SubtreeLeaves)
	end := all
	if limit > 0 {
		end = min(all, uint64(start)+uint64(limit))
	}
	switch {
	case uint64(start) >= end:
		return nil, nil
	case uint64(len(roots)) < end:
		return nil, fmt.Errorf("%d of %d %s subtree roots are kept: %w", len(roots), all, pool, chain.ErrUnavailable)
	}
	return roots[start:end:end], nil
}

// taken is what a commit takes along.
type taken struct {
	trees   int // the first ones of the queue
	evicted int // the oldest rows
	roots   [chain.Ironwood + 1]int
	node    nodeRow
}

// take adds what waits to a commit that leads to the given state of the chain of that genesis block, if it is known yet. The writer calls it, and done after the commit.
func (k *keeper) take(b *batch, cur *snapshot, next state, genesis chain.Hash) (t taken) {
	if next.top.blocks == 0 {
		return t // the database says what it is with its first block
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if row, ok := k.node.due(genesis); ok {
		t.node = row
		b.put(keyNode.bytes(), row.row)
	}
	t.trees = len(k.queue)
	for _, q := range k.queue {
		b.put(treeKey(q.ID.Hash).bytes(), q.row)
	}
	t.evicted = min(max(len(k.order)+t.trees-k.most, 0), len(k.order), maxEvicted)
	for _, hash := range k.order[:t.evicted] {
		b.deletes = append(b.deletes, treeKey(hash).bytes())
	}
	for pool := chain.Sapling; pool <= chain.Ironwood; pool++ {
		r := &k.roots[pool]
		// Blocks that this very commit seals are still recent in cur: a root of one that left the chain goes.
		if known := cur.holding(r.list); len(known) < len(r.list) && r.list[len(known)].Completing.Height < next.sealed.blocks {
			r.list = known
		}
		for i := r.saved; i < len(r.list) && i < r.saved+maxSavedRoots && r.list[i].Completing.Height < next.sealed.blocks; i++ {
			b.put(subtreeKey{pool, uint32(i)}.bytes(), encodeSubtree(r.list[i]))
			t.roots[pool]++
		}
	}
	return t
}

// done moves what was taken from the waiting to the committed.
func (k *keeper) done(t taken) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, hash := range k.order[:t.evicted] {
		delete(k.rows, hash)
	}
	k.order = slices.Delete(k.order, 0, t.evicted)
	for _, q := range k.queue[:t.trees] {
		k.rows[q.ID.Hash] = struct{}{}
		k.order = append(k.order, q.ID.Hash)
	}
	k.queue = slices.Delete(k.queue, 0, t.trees)
	for pool, n := range t.roots {
		k.roots[pool].saved += n
	}
	if t.node.row != nil {
		k.node.done(t.node)
	}
}

// waiting tells whether a commit of the given state of the chain of that genesis block would take something along.
func (k *keeper) waiting(s state, genesis chain.Hash) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.top.blocks == 0 {
		return false
	}
	_, node := k.node.due(genesis)
	return node || len(k.queue) > 0 || slices.ContainsFunc(k.roots[:], func(r keptRoots) bool {
		return r.saved < len(r.list) && r.list[r.saved].Completing.Height < s.sealed.blocks
	})
}

// count returns how many tree states and subtree roots are kept, committed or not.
func (k *keeper) count() (trees, roots int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.roots {
		roots += len(r.list)
	}
	return len(k.rows) + len(k.queue), roots
}

// loadKept reads what was kept, and returns the keys of rows that cannot be used: they are deleted, and kept again when somebody asks.
func (s *Store) loadKept(txn *badger.Txn, snap *snapshot) (unusable [][]byte, err error) {
	k := &s.kept
	k.most, k.rows, k.filling = s.o.TreeStates, make(map[chain.Hash]struct{}), make(chan struct{}, 1)
	type row struct {
		hash    chain.Hash
		version uint64 // of the commit that wrote it
	}
	var trees []row
	for key, item := range rowsOf(txn, prefixTree, false) {
		if hash, err := parseTreeKey(key); err == nil {
			trees = append(trees, row{chain.Hash(hash), item.Version()})
		} else {
			unusable = append(unusable, key)
		}
	}
	slices.SortFunc(trees, func(a, b row) int { return cmp.Compare(a.version, b.version) })
	for _, t := range trees {
		k.rows[t.hash] = struct{}{}
		k.order = append(k.order, t.hash)
	}
	for key, item := range rowsOf(txn, prefixSubtree, true) {
		id, err := parseSubtreeKey(key)
		if err == nil {
			err = item.Value(func(v []byte) error { return k.loadRoot(id, v, snap) })
		}
		if err != nil {
			s.o.Logger.Warn("a subtree root of the index cannot be used: it is asked for again", "key", id.String(), "error", err)
			unusable = append(unusable, key)
		}
	}
	if err := k.node.load(txn, s.net.genesis); err != nil {
		s.o.Logger.Warn("what the node has said of itself cannot be read in the index: it is asked again", "key", keyNode.String(), "error", err)
		unusable = append(unusable, keyNode.bytes())
	}
	return unusable, nil
}

// loadRoot appends the root that a row holds. Roots behind a missing one are of no use.
func (k *keeper) loadRoot(id subtreeKey, row []byte, snap *snapshot) error {
	root, err := decodeSubtree(row)
	if err != nil {
		return err
	}
	r := &k.roots[id.pool]
	switch {
	case int(id.index) != len(r.list):
		return fmt.Errorf("%w: root %d of this pool", errMissing, len(r.list))
	case root.Completing.Height >= snap.sealed.blocks:
		return fmt.Errorf("its block %s is not sealed", root.Completing)
	case len(r.list) > 0 && root.Completing.Height < r.list[len(r.list)-1].Completing.Height:
		return fmt.Errorf("its block %s is below that of the root before", root.Completing)
	}
	r.list = append(r.list, root)
	r.saved++
	return nil
}
