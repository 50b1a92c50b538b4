package chaintest

import (
	"math/big"
	"slices"
	"testing"
)

// decode reads a coordinate and the lowest bit of the other one.
func decode(b [32]byte) (coordinate *big.Int, odd byte) {
	odd = b[31] >> 7
	b[31] &= 0x7f
	slices.Reverse(b[:])
	return new(big.Int).SetBytes(b[:]), odd
}

// TestJubjubPoints decodes every point as the specification says (section 5.4.9.3): the encoding is canonical, the point is on the curve,
// and it has the order of the subgroup, which is prime.
func TestJubjubPoints(t *testing.T) {
	t.Parallel()
	c := newJubjub()
	order, _ := new(big.Int).SetString("0e7db4ea6533afa906673b0101343b00a6682093ccc81082d0970e5ed6f72cb7", 16)
	if !order.ProbablyPrime(20) || !c.p.ProbablyPrime(20) {
		t.Fatal("a constant is wrong")
	}
	seen := make(map[[32]byte]bool)
	for i, b := range NewPoints().jubjub {
		seen[b] = true
		v, odd := decode(b)
		vv := c.mul(v, v)
		u := new(big.Int).ModSqrt(c.div(c.sub(vv, big.NewInt(1)), c.add(c.mul(c.d, vv), big.NewInt(1))), c.p)
		if v.Cmp(c.p) >= 0 || u == nil {
			t.Fatalf("point %d, %x, is not on the curve", i, b)
		}
		if byte(u.Bit(0)) != odd {
			u = c.sub(new(big.Int), u)
		}
		sum, power := point{new(big.Int), big.NewInt(1)}, point{u, v}
		for bit := range order.BitLen() {
			if order.Bit(bit) == 1 {
				sum = c.sum(sum, power)
			}
			power = c.sum(power, power)
		}
		if sum.x.Sign() != 0 || sum.y.Cmp(big.NewInt(1)) != 0 {
			t.Errorf("point %d, %x, times the order of the subgroup is not the identity", i, b)
		}
	}
	if len(seen) != pointCount {
		t.Errorf("%d different points, not %d", len(seen), pointCount)
	}
}

// TestPallasPoints does the same on Pallas (section 5.4.9.6), all of whose points but the one at infinity have prime order.
func TestPallasPoints(t *testing.T) {
	t.Parallel()
	c := newPallas()
	if !c.p.ProbablyPrime(20) {
		t.Fatal("a constant is wrong")
	}
	seen := make(map[[32]byte]bool)
	for i, b := range NewPoints().pallas {
		seen[b] = true
		x, odd := decode(b)
		y := new(big.Int).ModSqrt(c.add(c.mul(x, c.mul(x, x)), big.NewInt(5)), c.p)
		if x.Cmp(c.p) >= 0 || y == nil {
			t.Fatalf("point %d, %x, is not on the curve", i, b)
		}
		if y.Bit(0) != uint(odd) && c.sub(new(big.Int), y).Bit(0) != uint(odd) {
			t.Errorf("point %d, %x, has an impossible sign", i, b)
		}
	}
	if len(seen) != pointCount {
		t.Errorf("%d different points, not %d", len(seen), pointCount)
	}
}
