package chain_test

import (
	"math"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

func TestParseHash(t *testing.T) {
	t.Parallel()
	const genesis = "00040fe8ec8471911baa1db1266ea15dd06b4a8a5c453883c000b031973dce08"
	h, err := chain.ParseHash(genesis)
	if err != nil || h.String() != genesis || h[0] != 0x08 || h[31] != 0x00 || h[30] != 0x04 {
		t.Errorf("%s reads as %x (%v) and prints as %s", genesis, [32]byte(h), err, h)
	}
	id, err := chain.ParseTxID(strings.ToUpper(genesis))
	if err != nil || id.String() != genesis || id != chain.TxID(h) {
		t.Errorf("as a txid it reads as %s (%v)", id, err)
	}
	tests := []struct{ in, hash, txid string }{
		{"", `block hash "": has 0 characters, not 64`, `txid "": has 0 characters, not 64`},
		{genesis[1:], `block hash "` + genesis[1:] + `": has 63 characters, not 64`, `txid "` + genesis[1:] + `": has 63 characters, not 64`},
		{genesis[1:] + "g", `block hash "` + genesis[1:] + `g": encoding/hex: invalid byte: U+0067 'g'`,
			`txid "` + genesis[1:] + `g": encoding/hex: invalid byte: U+0067 'g'`},
	}
	for _, tt := range tests {
		if _, err := chain.ParseHash(tt.in); err == nil || err.Error() != tt.hash {
			t.Errorf("error %v, want %s", err, tt.hash)
		}
		if _, err := chain.ParseTxID(tt.in); err == nil || err.Error() != tt.txid {
			t.Errorf("error %v, want %s", err, tt.txid)
		}
	}
}

func TestBlockIDString(t *testing.T) {
	t.Parallel()
	id := chain.BlockID{Height: 7, Hash: chain.Hash{0: 1}}
	if want := "7 (" + strings.Repeat("0", 62) + "01)"; id.String() != want {
		t.Errorf("%s, want %s", id, want)
	}
}

func TestPools(t *testing.T) {
	t.Parallel()
	names := map[chain.Pool]string{
		chain.Transparent: "transparent", chain.Sapling: "sapling", chain.Orchard: "orchard", chain.Ironwood: "ironwood", 0: "pool(0)", 5: "pool(5)",
	}
	for pool, want := range names {
		if pool.String() != want {
			t.Errorf("pool %d is called %s, want %s", uint8(pool), pool, want)
		}
	}
	var s chain.Pools
	for _, pool := range []chain.Pool{chain.Transparent, chain.Sapling, chain.Orchard, chain.Ironwood} {
		if s.Has(pool) || chain.AllPools.Without(pool).Has(pool) || !chain.AllPools.Has(pool) {
			t.Errorf("%s is in a set where it is not, or the other way round", pool)
		}
		s = s.With(pool).With(pool)
	}
	if s != chain.AllPools || s.Without(chain.Transparent) != chain.ShieldedPools {
		t.Errorf("the sum of all pools is %b, and %b without the transparent one", s, s.Without(chain.Transparent))
	}
}

func TestTreeSizes(t *testing.T) {
	t.Parallel()
	a, b := chain.TreeSizes{Sapling: 10, Orchard: 20, Ironwood: math.MaxUint32 - 3}, chain.TreeSizes{Sapling: 1, Orchard: 20, Ironwood: 3}
	sum, err := a.Plus(b)
	if want := (chain.TreeSizes{Sapling: 11, Orchard: 40, Ironwood: math.MaxUint32}); err != nil || sum != want {
		t.Errorf("sum %+v (%v), want %+v", sum, err, want)
	}
	if back, err := sum.Minus(b); err != nil || back != a {
		t.Errorf("difference %+v (%v), want %+v", back, err, a)
	}
	full, one := chain.TreeSizes{Sapling: math.MaxUint32, Orchard: math.MaxUint32, Ironwood: math.MaxUint32}, []chain.TreeSizes{{Sapling: 1}, {Orchard: 1}, {Ironwood: 1}}
	for i, pool := range []string{"sapling", "orchard", "ironwood"} {
		got, err := full.Plus(one[i])
		if want := pool + " tree size 4294967295 + 1 overflows"; err == nil || err.Error() != want || got != full {
			t.Errorf("%+v, error %v, want %s", got, err, want)
		}
		got, err = chain.TreeSizes{}.Minus(one[i])
		if want := pool + " tree size 0 is below the 1 leaves of one block"; err == nil || err.Error() != want || got != (chain.TreeSizes{}) {
			t.Errorf("%+v, error %v, want %s", got, err, want)
		}
	}
}
