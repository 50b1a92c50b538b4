package index

import (
	"errors"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

var (
	modelSteps = flag.Int("model.steps", 1000, "steps of the model test")
	modelSeed  = flag.Uint64("model.seed", 1, "seed of the model test")
)

// model runs random steps on a store and on plain slices of blocks.
type model struct {
	t      *testing.T
	rng    *rand.Rand
	forge  *forge
	dir    string
	store  *Store
	node   *fakeNode
	build  *Builder
	chain  []testBlock   // what the store must hold
	others [][]testBlock // chains that were best once
	views  []modelView
	steps  map[string]int
}

type modelView struct {
	chain.View
	chain []testBlock
}

// TestModel extends, forks, jumps back to chains that were left, falls behind, reopens, and reads through views of any age.
func TestModel(t *testing.T) {
	t.Parallel()
	m := &model{t: t, rng: rand.New(rand.NewPCG(*modelSeed, 0)), forge: newForge(), dir: t.TempDir(), steps: map[string]int{}}
	m.chain = m.forge.extend(t, nil, 1)
	m.node = newFakeNode(m.chain)
	m.open()
	for range *modelSteps {
		m.step()
	}
	for _, v := range m.views {
		expectView(t, v, v.chain)
	}
	expectChain(t, m.store, m.chain)
	t.Logf("%v, %d blocks at the end, %+v", m.steps, len(m.chain), m.store.Stats())
}

func (m *model) open() {
	m.store = open(m.t, m.dir, small())
	m.build = NewBuilder(m.store, m.node, BuilderOptions{})
	m.build.suspect = true
	m.sync()
}

// sync makes the builder take over the node's chain, which must succeed.
func (m *model) sync() {
	m.t.Helper()
	drive(m.t, m.build, m.node)
	m.node.with(func() { m.chain = m.node.best })
	if tip, ok := m.store.Tip(); !ok || tip != m.chain[len(m.chain)-1].ID {
		m.t.Fatalf("tip %v, want %v", tip, m.chain[len(m.chain)-1].ID)
	}
}

func (m *model) step() {
	m.t.Helper()
	name := "extend"
	switch dice := m.rng.IntN(100); {
	case dice < 35:
		m.node.set(m.forge.extend(m.t, m.chain, 1+m.rng.IntN(3)), nil)
		m.sync()
	case dice < 38:
		name = "extend far"
		m.node.set(m.forge.extend(m.t, m.chain, 10+m.rng.IntN(10)), nil)
		m.sync()
	case dice < 58:
		name = "fork"
		m.fork()
	case dice < 68:
		name = "jump"
		m.jump()
	case dice < 74:
		name = "behind"
		m.behind()
	case dice < 84:
		name = "view"
		m.views = append(m.views, modelView{openView(m.t, m.store), m.chain})
	case dice < 98:
		name = "read"
		m.read()
	default:
		name = "reopen"
		m.reopen()
	}
	m.steps[name]++
}

// fork leaves the chain among its recent blocks for a new one, which may be shorter.
func (m *model) fork() {
	cut := m.rng.IntN(min(len(m.chain), int(small().SealDepth)))
	if len(m.chain)-cut <= int(m.store.state.sealed.blocks) {
		return
	}
	m.others = append(m.others, m.chain)
	m.node.set(m.forge.extend(m.t, m.chain[:len(m.chain)-cut], 1+m.rng.IntN(4)), nil)
	m.sync()
}

// jump goes back to a chain that was left, or finds that it was left among sealed blocks.
func (m *model) jump() {
	if len(m.others) == 0 {
		return
	}
	i := max(len(m.others)-1-m.rng.IntN(6), 0)
	other := m.others[i]
	sealed := m.store.state.sealed
	m.node.set(other, nil)
	if len(other) >= int(sealed.blocks) && (sealed.blocks == 0 || other[sealed.blocks-1].ID.Hash == sealed.hash) {
		if isPrefix(other, m.chain) {
			m.node.set(m.chain, nil) // that would be a node which is merely behind
			return
		}
		m.others = append(m.others, m.chain)
		m.sync()
		return
	}
	tip, _ := m.node.Tip()
	if err := m.build.sync(m.t.Context(), tip); !isPrefix(other, m.chain) && !errors.Is(err, ErrDeepReorg) {
		m.t.Fatalf("a reorg below block %d: %v", sealed.blocks, err)
	} else if err != nil {
		m.steps["too deep"]++
	}
	m.node.set(m.chain, nil)
	m.sync()
}

func isPrefix(a, b []testBlock) bool {
	return len(a) <= len(b) && a[len(a)-1].ID == b[len(a)-1].ID
}

// behind: the node has lost its newest blocks, as after a restart. Nothing of ours changes.
func (m *model) behind() {
	m.node.set(m.chain[:1+m.rng.IntN(len(m.chain))], nil)
	tip, _ := m.node.Tip()
	m.build.suspect = m.rng.IntN(2) == 0
	if err := m.build.sync(m.t.Context(), tip); err != nil {
		m.t.Fatal(err)
	}
	m.node.set(m.chain, nil)
	m.sync()
}

// read looks at one view, at a random range of it, and sometimes closes it.
func (m *model) read() {
	if len(m.views) == 0 {
		m.views = append(m.views, modelView{openView(m.t, m.store), m.chain})
	}
	i := m.rng.IntN(len(m.views))
	v := m.views[i]
	if m.rng.IntN(20) == 0 {
		expectView(m.t, v, v.chain)
	}
	from, to := chain.Height(m.rng.IntN(len(v.chain))), chain.Height(m.rng.IntN(len(v.chain)))
	for name, p := range projections { // the map gives any one of them
		got, err := read(m.t, v, from, to, p)
		if err != nil || string(got) != string(want(m.t, v.chain, from, to, p)) {
			m.t.Fatalf("%s: blocks %d to %d of a view: %d bytes that differ, %v", name, from, to, len(got), err)
		}
		break
	}
	if m.rng.IntN(3) == 0 {
		v.Close()
		m.views = append(m.views[:i], m.views[i+1:]...)
	}
}

func (m *model) reopen() {
	for _, v := range m.views {
		v.Close()
	}
	m.views = nil
	closeAndCheck(m.t, m.store)
	m.open()
	expectChain(m.t, m.store, m.chain)
}
