package longchain

import (
	"math/rand/v2"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// recipe says what every block contains. It does not change.
type recipe struct {
	kind     Kind
	blocks   int
	seed     uint64
	upgrades []chain.Upgrade

	// First heights.
	overwinter, sapling, blossom, heartwood, nu5, nu63, nu7, spam, calm chain.Height

	points *chaintest.Points
	spams  [spamCount]stamped
}

// shares are the first heights of the upgrades as thousandths of the length, in the order of chaintest.Upgrades. They are about where the
// test network has them.
func shares() []int { return []int{50, 65, 140, 200, 250, 420, 680, 800, 830, 850, 900} }

// The spam's first height and the first one after it, in thousandths of the length.
const (
	spamBegins = 430
	spamEnds   = 560
)

func newRecipe(o Options) *recipe {
	share := func(thousandths int) chain.Height { return chain.Height(o.Blocks * thousandths / 1000) }
	r := &recipe{
		kind: o.Kind, blocks: o.Blocks, seed: o.Seed, points: chaintest.NewPoints(),
		upgrades: chaintest.Upgrades(), spam: share(spamBegins), calm: share(spamEnds), nu7: chain.MaxHeight,
	}
	if o.WithoutNU7 {
		r.upgrades = r.upgrades[:len(r.upgrades)-1]
	}
	first := map[string]*chain.Height{
		"Overwinter": &r.overwinter, "Sapling": &r.sapling, "Blossom": &r.blossom, "Heartwood": &r.heartwood,
		"NU5": &r.nu5, "NU6.3": &r.nu63, "NU7": &r.nu7,
	}
	for i := range r.upgrades {
		u := &r.upgrades[i]
		u.Height = share(shares()[i])
		if at := first[u.Name]; at != nil {
			*at = u.Height
		}
	}
	for i := range r.spams {
		r.spams[i] = newStamped(chaintest.Tx{
			Version: 4, Spends: spamSpends, SaplingOutputs: spamOutputs, Points: r.points, Seed: o.Seed + uint64(i),
		})
	}
	return r
}

// branchAt returns the branch id at height h.
func (r *recipe) branchAt(h chain.Height) (id uint32) {
	for _, u := range r.upgrades {
		if u.Height <= h {
			id = u.BranchID
		}
	}
	return id
}

// version is that of the newest transaction format at height h.
func (r *recipe) version(h chain.Height) uint32 {
	switch {
	case h < r.overwinter:
		return 1
	case h < r.sapling:
		return 3
	case h < r.nu5:
		return 4
	case h < r.nu63:
		return 5
	}
	return 6
}

// time is that of a block in Unix seconds: every 150 seconds one, from Blossom on every 75, from NU7 on every 25.
func (r *recipe) time(h chain.Height) uint32 {
	const begin = 1_477_641_360 // of the main network
	slow := min(h, r.blossom)
	middle := min(h, r.nu7) - min(h, r.blossom)
	fast := h - slow - middle
	return begin + 150*uint32(slow) + 75*uint32(middle) + 25*uint32(fast)
}

// plan is what one block contains.
type plan struct {
	txs   []chaintest.Tx // the coinbase first
	spam  int            // so many of recipe.spams after them, from this one on, cyclically
	first int
	seed  uint64 // of the header
}

// added counts the notes.
func (p *plan) added() (sizes chain.TreeSizes) {
	for i := range p.txs {
		t := &p.txs[i]
		sizes.Sapling += uint32(t.SaplingOutputs)
		sizes.Orchard += uint32(t.Orchard)
		sizes.Ironwood += uint32(t.Ironwood)
	}
	sizes.Sapling += uint32(p.spam * spamOutputs)
	return sizes
}

// dice decide what the recipe leaves open. Its generator's outputs are fixed by its definition.
type dice struct{ rand.PCG }

func (d *dice) below(n int) int { return int(d.Uint64() >> 32 % uint64(n)) }

// plan says what the block at height h contains. Branch 0 is the chain itself, others are for blocks that take the place of its own.
// Genesis has a coinbase that is no Tx. The plan's transactions use the memory of txs.
func (r *recipe) plan(txs []chaintest.Tx, h chain.Height, branch uint64) plan {
	var d dice
	d.Seed(r.seed^uint64(r.kind)<<56^branch<<32, uint64(h))
	p := plan{txs: txs[:0], seed: d.Uint64()}
	if h == 0 {
		return p
	}
	outputs := 2
	if d.below(100) >= 55 {
		outputs = 4
	}
	p.txs = append(p.txs, chaintest.Tx{Coinbase: true, Height: h, Outputs: outputs})
	switch {
	case r.kind == TestnetLike:
		if d.below(100) == 0 {
			r.transactions(&p, h, &d)
		}
	case h >= r.spam && h < r.calm && h%8 == 0:
		p.spam, p.first = spamLeast+d.below(spamMost-spamLeast+1), d.below(spamCount)
	case h >= r.nu7 && h%64 == 0:
		for range 11 {
			p.txs = append(p.txs, chaintest.Tx{Ironwood: 30})
		}
	case h < r.nu5 || d.below(2) == 0:
		r.transactions(&p, h, &d)
	}
	version, id := r.version(h), r.branchAt(h)
	for i := range p.txs {
		p.txs[i].Version, p.txs[i].BranchID, p.txs[i].Points, p.txs[i].Seed = version, id, r.points, d.Uint64()
	}
	return p
}

// transactions adds one to three of the kinds that a block of that height may have.
func (r *recipe) transactions(p *plan, h chain.Height, d *dice) {
	for range 1 + d.below(3)*d.below(2) {
		pools := 1 // transparent, then as they came
		switch {
		case h >= r.nu63:
			pools = 4
		case h >= r.nu5:
			pools = 3
		case h >= r.sapling:
			pools = 2
		}
		t := chaintest.Tx{}
		switch d.below(pools) {
		case 0:
			t.Inputs, t.Outputs = 1+d.below(3), 1+d.below(2)
		case 1:
			t.Spends, t.SaplingOutputs = 1+d.below(2), 2
		case 2:
			t.Orchard = 2 + d.below(2)
		case 3:
			t.Ironwood = 2 + d.below(3)
		}
		p.txs = append(p.txs, t)
	}
}
