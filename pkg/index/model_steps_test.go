package index

import (
	"context"
	"errors"

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
	m.node.with(func() { m.node.block = nil }) // a move that waits for another block would bring our node back
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
		m.moved = true
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
