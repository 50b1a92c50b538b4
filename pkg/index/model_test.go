package index

import (
	"errors"
	"flag"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

var (
	modelTotal  = flag.Int("model.steps", standardSteps, "steps of the model test in all")
	modelLength = flag.Int("model.length", 400, "steps of each script of the model test")
	modelSeed   = flag.Uint64("model.seed", 1, "seed of the first script of the model test; each has the next one")
	modelScript = flag.String("model.script", "", "a script that the model test printed, to run it alone")
)

// TestModel runs random scripts on a store whose builder follows a node, and compares it after every step with plain slices of blocks. A
// script that fails is made as short as it goes, and printed.
func TestModel(t *testing.T) {
	t.Parallel()
	if *modelScript != "" {
		s, err := parseScript(*modelScript)
		if err == nil {
			_, err = runScript(t, s)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	scripts := uint64(max(*modelTotal / *modelLength, 1))
	var next atomic.Uint64
	var mu sync.Mutex
	counts := make(map[string]int)
	for range runtime.GOMAXPROCS(0) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for i := next.Add(1) - 1; i < scripts; i = next.Add(1) - 1 {
				seed := *modelSeed + i
				s := randomScript(seed, *modelLength)
				m, err := runScript(t, s)
				if err != nil {
					next.Store(scripts) // one is enough
					report(t, seed, s, m.at, err)
					return
				}
				mu.Lock()
				for name, n := range m.counts {
					counts[name] += n
				}
				mu.Unlock()
			}
		})
	}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		t.Logf("%d scripts of %d steps: %v", scripts, *modelLength, counts)
		for _, name := range interesting {
			if counts[name] == 0 && *modelTotal >= 10_000 {
				t.Errorf("no script had a case of %q", name)
			}
		}
	})
}

// interesting are the events that 10,000 steps must have had, or the scripts show little.
var interesting = []string{
	"reorg", "reorg of all recent blocks", "deep reorg", "lower chain that leaves ours among sealed blocks", "cut view", "shorter", "other network", "behind", "lost",
	"failed commit", "lost answer", "crash in a commit", "crash", "restart", "orphan read", "tree read", "roots read", "saved roots cut", "stream over a reorg",
}

// report shrinks a script that failed at step at.
func report(t *testing.T, seed uint64, s script, at int, err error) {
	t.Logf("seed %d fails at step %d of %d: %v", seed, at+1, len(s), err)
	small := shrink(s[:min(at+1, len(s))], func(s script) bool { _, err := runScript(t, s); return err != nil }, time.Minute)
	if _, again := runScript(t, small); again != nil {
		err = again
	}
	t.Errorf("%d steps of seed %d fail: %v\nto run them: go test ./pkg/index -run 'TestModel$' -model.script '%s'", len(small), seed, err, small)
}

// runScript runs one script on a new index, in a bubble whose time stands still while anything is done.
func runScript(t *testing.T, s script) (m *model, err error) {
	dir := memoryDir(t)
	defer os.RemoveAll(dir)
	synctest.Test(t, func(t *testing.T) {
		m = &model{
			recorder: &recorder{TB: t}, dir: dir, forge: newForge(), node: newFakeNode(nil), counts: make(map[string]int),
			known: make(map[chain.Hash][]testBlock), trees: make(map[chain.Hash]chain.TreeState),
		}
		m.run(s)
	})
	return m, m.err
}

// model is the store under test beside what it must hold.
type model struct {
	*recorder
	dir    string
	copies int // of the index, one after each crash
	forge  *forge
	node   *fakeNode
	store  *Store
	stop   func() // ends the builder
	counts map[string]int
	at     int // the step that runs

	known      map[chain.Hash][]testBlock // every chain that the node has had, by its last block
	best       []testBlock                // the node's
	chain      []testBlock                // the store's
	sealed     int                        // of them, as of the last step
	others     [][]testBlock              // chains that were best once
	away       bool                       // the node cannot be asked
	foreign    bool                       // the node is of another network
	highest    chain.Height               // of all the node's tips
	moved      bool                       // the chain changed in the middle of a fetch
	refused    int                        // steps for which the node's chain has been one that is not followed
	views      []*modelView
	streams    []*modelStream
	trees      map[chain.Hash]chain.TreeState // that were brought
	brought    []testBlock                    // whose trees they are
	savedRoots int                            // subtree roots on the disk, as of the last step
	rush       sync.WaitGroup                 // readers that run beside the builder
	rushed     []rushedRead                   // what came of those that failed; guarded by the recorder's mu

	// Of the hook that stands around commits.
	countdown int  // until the commit that fails; 0 for none
	lost      bool // it takes place all the same
	crash     bool // it is the last one
	crashed   bool
}

func (m *model) run(s script) {
	defer m.end()
	defer m.catch()
	m.forge.leaves = 20_000
	m.forge.kind = func(b *chaintest.Builder, dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
		if seed%8 == 0 {
			return b.Mixed(dst, h, prev, seed)
		}
		return b.Small(dst, h, prev, seed)
	}
	m.node.late = func(h chain.Height) bool { return h%7 == 3 || h%11 == 4 }
	m.setBest(m.forge.extend(m, nil, 1))
	m.open(m.dir + "/0")
	m.settle()
	for i, st := range s {
		m.at, m.moved = i, false
		modelSteps()[st.op].run(m, st.a, st.b)
		if m.failed() {
			return
		}
	}
	m.at = len(s)
	m.restart(0, 0)
	m.expectAll(m.view())
}

// end leaves nothing behind, whatever happened.
func (m *model) end() {
	defer m.catch()
	m.closeReaders()
	if m.store == nil {
		return
	}
	m.stop()
	m.countdown, m.crashed = 0, false
	if err := m.store.Close(); err != nil {
		m.Errorf("close: %v", err)
	}
}

func modelOptions() Options {
	o := small()
	o.TreeStates = 12
	o.badgerHook = func(b badger.Options) badger.Options { // half the segments go to the value log, as full ones do
		return b.WithValueLogFileSize(1 << 20).WithValueLogMaxEntries(8).WithValueThreshold(1 << 10)
	}
	return o
}

// open opens the index in dir and starts its builder.
func (m *model) open(dir string) {
	o := modelOptions()
	o.commitHook, o.Genesis = m.hook, m.best[0].ID.Hash
	s, err := Open(dir, o)
	if err != nil {
		m.Fatalf("open: %v", err)
	}
	m.store = s
	b := NewBuilder(s, m.node, BuilderOptions{RetryFatal: time.Second, RetryPassing: time.Second, RetryDisk: time.Second, ConfirmDeep: 2 * time.Second})
	ctx, cancel := contextOf(m)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer m.catch()
		if err := b.Run(ctx); err != nil {
			m.Errorf("the builder ended: %v", err)
		}
	}()
	m.stop = sync.OnceFunc(func() { cancel(); <-done })
}

func (m *model) hook(write func() error) error {
	if m.crashed {
		return errInjected
	}
	if m.countdown == 0 {
		return write()
	}
	if m.countdown--; m.countdown > 0 {
		return write()
	}
	m.crashed = m.crash
	m.count(map[bool]string{true: "crash in a commit", false: map[bool]string{true: "lost answer", false: "failed commit"}[m.lost]}[m.crash])
	if m.lost {
		return errors.Join(write(), errInjected)
	}
	return errInjected
}

func (m *model) count(event string) { m.counts[event]++ }

// setBest gives the node a chain.
func (m *model) setBest(blocks []testBlock) {
	if len(m.best) > 0 && !isPrefix(m.best, blocks) {
		m.others = append(m.others, m.best)
	}
	for i := len(blocks); i > 0 && m.known[blocks[i-1].ID.Hash] == nil; i-- {
		m.known[blocks[i-1].ID.Hash] = blocks[:i:i]
	}
	m.best = blocks
	m.highest = max(m.highest, blocks[len(blocks)-1].ID.Height)
	m.node.set(blocks, nil)
}

func isPrefix(a, b []testBlock) bool {
	return len(a) <= len(b) && a[len(a)-1].ID == b[len(a)-1].ID
}

// shared counts the blocks that two chains have in common.
func shared(a, b []testBlock) int {
	n := 0
	for n < min(len(a), len(b)) && a[n].ID == b[n].ID {
		n++
	}
	return n
}

// settle waits until the builder has done what it can, and verifies that this is what it had to do.
func (m *model) settle() {
	before := m.chain
	for tries := 0; ; tries++ {
		synctest.Wait()
		if m.crashed {
			m.recoverCrash(0)
			before = m.chain
			continue
		}
		tip, ok := m.store.Tip()
		if m.failed() || ok && tip == m.best[len(m.best)-1].ID && !m.away && !m.foreign || tries == 6 {
			break
		}
		m.node.with(func() {})              // for the race detector: what we have read, move writes after this
		time.Sleep(1500 * time.Millisecond) // the next attempts
	}
	m.rush.Wait()
	m.verify(before)
	m.markCut()
	for _, r := range m.rushed {
		m.allow(r.view, r.err)
	}
	m.rushed = nil
	if m.refused > 2 { // the node comes back to our chain, since nothing much happens else
		m.setBest(m.chain)
		m.settle()
	}
}

// verify compares the store's tip with the one that it must have, and what is on the disk with what is in memory.
func (m *model) verify(before []testBlock) {
	tip, ok := m.store.Tip()
	if !ok && len(before) == 0 && (m.away || m.foreign) {
		return
	}
	m.chain = m.known[tip.Hash]
	if !ok || m.chain == nil || m.chain[len(m.chain)-1].ID != tip {
		m.Fatalf("the tip is %v, %t, which the node has never had", tip, ok)
	}
	sealed := m.store.current.Load().sealed
	refused := m.refused
	m.refused = 0
	top, apart := m.best[len(m.best)-1].ID, m.store.Apart()
	switch {
	case m.away, m.foreign, len(before) > 0 && isPrefix(m.best, before):
		if len(before) > 0 && tip != before[len(before)-1].ID {
			m.Fatalf("the tip moved from %v to %v, and the node's is %v (away %t, foreign %t)", before[len(before)-1].ID, tip, top, m.away, m.foreign)
		}
	case len(m.best) < len(m.chain) && shared(m.best, m.chain) < int(sealed.blocks):
		if !errors.Is(apart, ErrDeepReorg) {
			m.Fatalf("the node has %d blocks of another chain, %d of ours are sealed, and the store says %v", len(m.best), sealed.blocks, apart)
		}
		m.refused = refused + 1
		m.count("lower chain that leaves ours among sealed blocks")
	case len(m.best) < len(before) && shared(m.best, before) < m.sealed && !m.moved:
		m.Fatalf("the store follows the node's chain up to %v, which is lower than ours up to %v and leaves it among %d sealed blocks",
			top, before[len(before)-1].ID, m.sealed)
	default:
		if tip != top || !m.store.Complete() || apart != nil {
			m.Fatalf("the tip is %v, complete %t, apart %v; the node's is %v", tip, m.store.Complete(), apart, top)
		}
		m.countReorg(before)
	}
	if int(sealed.blocks) > max(0, int(m.highest)-int(small().SealDepth)) || sealed.blocks > 0 && m.chain[sealed.blocks-1].ID.Hash != sealed.hash {
		m.Fatalf("%d blocks are sealed up to %v, with a highest tip of %d", sealed.blocks, sealed.hash, m.highest)
	}
	m.verifyRows()
	m.verifyRoots(sealed.blocks)
	m.verifyNewest(before)
	m.sealed = int(sealed.blocks)
}

func (m *model) countReorg(before []testBlock) {
	common := shared(before, m.chain)
	if len(before) == 0 || common == len(before) {
		return
	}
	m.count("reorg")
	switch {
	case common == m.sealed:
		m.count("reorg of all recent blocks")
	case common < m.sealed:
		m.count("deep reorg")
	}
	if len(m.chain) <= len(before) {
		m.count("shorter")
	}
}

// verifyRows compares the rows on the disk with those that snapshots name, or that are listed as to be deleted.
func (m *model) verifyRows() {
	s := m.store
	disk, err := s.readState()
	want := s.state
	disk.complete, want.complete = false, false
	if err != nil || disk != want || s.current.Load().top != want.top || s.current.Load().sealed != want.sealed {
		m.Fatalf("the state on the disk is %+v, %v, and in memory %+v", disk, err, want)
	}
	named := make(map[string]bool)
	s.mu.Lock()
	lists := [][][]byte{s.garbage}
	for _, snap := range s.snapshots {
		for i, b := range snap.recent {
			named[string(recentKey{Height: snap.sealed.blocks + chain.Height(i), Hash: b.hash}.bytes())] = true
		}
		lists = append(lists, snap.garbage)
	}
	segments := s.current.Load().segments
	s.mu.Unlock()
	for _, key := range slices.Concat(lists...) {
		named[string(key)] = true
	}
	for _, g := range segments {
		named[string(segmentKey(g.last).bytes())], named[string(transparentKey(g.last).bytes())] = true, true
	}
	txn := s.db.NewTransactionAt(latest, false)
	defer txn.Discard()
	for _, prefix := range []string{prefixRecent, prefixSegment, prefixTransparent} {
		for key := range rowsOf(txn, prefix, false) {
			if !named[string(key)] {
				m.Fatalf("the row %q is named by no chain, and not listed to be deleted", key)
			}
		}
	}
}

// verifyNewest reads the newest blocks, and looks for one that has just left the chain.
func (m *model) verifyNewest(before []testBlock) {
	v := m.view()
	defer v.Close()
	top := chain.Height(len(m.chain) - 1)
	m.expectRange(v, top-min(top, 3), top, "default")
	if n := len(before); n > 0 && shared(before, m.chain) < n {
		if h, err := v.HeightOf(m.Context(), before[n-1].ID.Hash); !errors.Is(err, chain.ErrNotFound) {
			m.Fatalf("the orphaned block %v is found at height %d, %v", before[n-1].ID, h, err)
		}
	}
}
