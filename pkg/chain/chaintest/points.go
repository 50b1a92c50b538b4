package chaintest

import "math/big"

// Points are valid encodings of curve points, so that what is built with them parses where points are decoded: in the Rust libraries, all
// of value commitments, randomized keys and ephemeral keys are. They are computed here from the curves' equations and belong to nobody:
// the multiples 1 to 64 of one point of the prime-order subgroup of Jubjub (protocol specification section 5.4.9.3) and of one of Pallas
// (section 5.4.9.6). A Points does not change, and may be shared.
type Points struct{ jubjub, pallas [pointCount][32]byte }

const pointCount = 64

// NewPoints computes them, which takes some milliseconds.
func NewPoints() *Points {
	p := &Points{}
	newJubjub().fill(&p.jubjub)
	newPallas().fill(&p.pallas)
	return p
}

// prime is a field of integers modulo a prime number.
type prime struct{ p *big.Int }

func newPrime(hexDigits string) prime {
	p, _ := new(big.Int).SetString(hexDigits, 16) // constants of the specification
	return prime{p}
}

func (f prime) mul(a, b *big.Int) *big.Int { return f.mod(new(big.Int).Mul(a, b)) }
func (f prime) add(a, b *big.Int) *big.Int { return f.mod(new(big.Int).Add(a, b)) }
func (f prime) sub(a, b *big.Int) *big.Int { return f.mod(new(big.Int).Sub(a, b)) }
func (f prime) mod(a *big.Int) *big.Int    { return a.Mod(a, f.p) }

// div is for b that is not zero.
func (f prime) div(a, b *big.Int) *big.Int { return f.mul(a, new(big.Int).ModInverse(b, f.p)) }

// encode writes a coordinate in 32 bytes, least significant first, and the lowest bit of the other one as the highest bit.
func encode(dst *[32]byte, coordinate, other *big.Int) {
	coordinate.FillBytes(dst[:])
	for i := range 16 {
		dst[i], dst[31-i] = dst[31-i], dst[i]
	}
	dst[31] |= byte(other.Bit(0)) << 7
}

// point is in affine coordinates: (u, v) on Jubjub, (x, y) on Pallas.
type point struct{ x, y *big.Int }

// jubjub is the curve -u^2 + v^2 = 1 + d*u^2*v^2 over the scalar field of BLS12-381, whose group has eight times a prime number of points.
type jubjub struct {
	prime
	d *big.Int // -10240/10241
}

func newJubjub() jubjub {
	f := newPrime("73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001")
	return jubjub{f, f.div(big.NewInt(-10240), big.NewInt(10241))}
}

// sum is complete: it is defined for every two points of the curve.
func (c jubjub) sum(a, b point) point {
	xx, yy := c.mul(a.x, b.x), c.mul(a.y, b.y)
	dxy, one := c.mul(c.d, c.mul(xx, yy)), big.NewInt(1)
	return point{
		c.div(c.add(c.mul(a.x, b.y), c.mul(a.y, b.x)), c.add(one, dxy)),
		c.div(c.add(yy, xx), c.sub(one, dxy)),
	}
}

// generator is eight times the point with the lowest v for which that is not of small order.
func (c jubjub) generator() point {
	for v := int64(2); ; v++ {
		vv := big.NewInt(v * v)
		uu := c.div(c.sub(vv, big.NewInt(1)), c.add(c.mul(c.d, vv), big.NewInt(1)))
		u := new(big.Int).ModSqrt(uu, c.p)
		if u == nil {
			continue
		}
		g := point{u, big.NewInt(v)}
		for range 3 {
			g = c.sum(g, g)
		}
		if g.x.Sign() != 0 { // not the identity (0, 1), so of prime order
			return g
		}
	}
}

func (c jubjub) fill(dst *[pointCount][32]byte) {
	g := c.generator()
	p := g
	for i := range dst {
		encode(&dst[i], p.y, p.x)
		p = c.sum(p, g)
	}
}

// pallas is the curve y^2 = x^3 + 5, whose group has a prime number of points.
type pallas struct{ prime }

func newPallas() pallas {
	return pallas{newPrime("40000000000000000000000000000000224698fc094cf91b992d30ed00000001")}
}

// sum is for points that are not each other's negatives.
func (c pallas) sum(a, b point) point {
	rise, run := c.sub(b.y, a.y), c.sub(b.x, a.x)
	if run.Sign() == 0 {
		rise, run = c.mul(big.NewInt(3), c.mul(a.x, a.x)), c.add(a.y, a.y)
	}
	slope := c.div(rise, run)
	x := c.sub(c.sub(c.mul(slope, slope), a.x), b.x)
	return point{x, c.sub(c.mul(slope, c.sub(a.x, x)), a.y)}
}

// generator is the point with the lowest x from 1 on.
func (c pallas) generator() point {
	for x := int64(1); ; x++ {
		if y := new(big.Int).ModSqrt(big.NewInt(x*x*x+5), c.p); y != nil {
			return point{big.NewInt(x), y}
		}
	}
}

func (c pallas) fill(dst *[pointCount][32]byte) {
	g := c.generator()
	p := g
	for i := range dst {
		encode(&dst[i], p.x, p.y)
		p = c.sum(p, g)
	}
}
