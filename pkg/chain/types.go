package chain

import (
	"encoding/hex"
	"fmt"
	"math"
)

// Height counts the blocks above genesis, which has height 0.
type Height uint32

// MaxHeight is the largest height that the consensus rules and Zebra's RPC can express (2^31 - 1).
const MaxHeight Height = math.MaxInt32

// Hash is a block hash: the double SHA-256 of the block header, in internal byte order.
type Hash [32]byte

// TxID identifies a transaction: double SHA-256 up to version 4, the ZIP 244 digest from version 5, in internal byte order.
type TxID [32]byte

// String returns the hash in display order: the reversed hex of explorers and of Zebra's RPC.
func (h Hash) String() string { return displayHex(h) }

// String returns the transaction id in display order: the reversed hex of explorers and of Zebra's RPC.
func (t TxID) String() string { return displayHex(t) }

// ParseHash reads a block hash from its display form, 64 hex digits.
func ParseHash(s string) (Hash, error) {
	b, err := parseDisplayHex(s)
	if err != nil {
		return Hash{}, fmt.Errorf("block hash %q: %w", s, err)
	}
	return Hash(b), nil
}

// ParseTxID reads a transaction id from its display form, 64 hex digits.
func ParseTxID(s string) (TxID, error) {
	b, err := parseDisplayHex(s)
	if err != nil {
		return TxID{}, fmt.Errorf("txid %q: %w", s, err)
	}
	return TxID(b), nil
}

func displayHex(b [32]byte) string {
	for i := range 16 {
		b[i], b[31-i] = b[31-i], b[i]
	}
	return hex.EncodeToString(b[:])
}

func parseDisplayHex(s string) ([32]byte, error) {
	var b [32]byte
	if len(s) != 64 {
		return b, fmt.Errorf("has %d characters, not 64", len(s))
	}
	if _, err := hex.Decode(b[:], []byte(s)); err != nil {
		return b, err
	}
	for i := range 16 {
		b[i], b[31-i] = b[31-i], b[i]
	}
	return b, nil
}

// BlockID names one block of one chain: a height alone is not enough, since a reorg puts another block there.
type BlockID struct {
	Height Height
	Hash   Hash
}

// String is the form used in errors and logs: the height and the hash in display order.
func (b BlockID) String() string { return fmt.Sprintf("%d (%s)", b.Height, b.Hash) }

// Pool is a value pool; the numbers are those of the wallet protocol's PoolType.
type Pool uint8

// The pools that compact blocks show. Sprout is not represented in them.
const (
	Transparent Pool = 1 + iota
	Sapling
	Orchard
	Ironwood
)

var poolNames = [...]string{Transparent: "transparent", Sapling: "sapling", Orchard: "orchard", Ironwood: "ironwood"}

// String returns the pool's lower-case name, as z_getsubtreesbyindex spells it.
func (p Pool) String() string {
	if p < Transparent || p > Ironwood {
		return fmt.Sprintf("pool(%d)", uint8(p))
	}
	return poolNames[p]
}

// Pools is a set of pools. The zero value is the empty set.
type Pools uint8

const (
	// ShieldedPools is what a wallet gets when it asks for nothing in particular.
	ShieldedPools = Pools(1<<Sapling | 1<<Orchard | 1<<Ironwood)
	// AllPools adds transparent inputs and outputs.
	AllPools = ShieldedPools | Pools(1<<Transparent)
)

// With returns the set with p added.
func (s Pools) With(p Pool) Pools { return s | 1<<p }

// Without returns the set with p removed.
func (s Pools) Without(p Pool) Pools { return s &^ (1 << p) }

// Has tells whether p is in the set.
func (s Pools) Has(p Pool) bool { return s&(1<<p) != 0 }

// TreeSizes counts the leaves of the note commitment trees at the END of a block, or the leaves that a block adds.
// It is the wallet protocol's ChainMetadata and Zebra's getblock "trees" (protocol specification section 3.7).
type TreeSizes struct {
	Sapling, Orchard, Ironwood uint32
}

// Plus returns the sizes after added leaves. The error says which pool's tree, of depth 32, would overflow.
func (s TreeSizes) Plus(added TreeSizes) (TreeSizes, error) {
	sum := TreeSizes{s.Sapling + added.Sapling, s.Orchard + added.Orchard, s.Ironwood + added.Ironwood}
	switch {
	case sum.Sapling < s.Sapling:
		return s, fmt.Errorf("sapling tree size %d + %d overflows", s.Sapling, added.Sapling)
	case sum.Orchard < s.Orchard:
		return s, fmt.Errorf("orchard tree size %d + %d overflows", s.Orchard, added.Orchard)
	case sum.Ironwood < s.Ironwood:
		return s, fmt.Errorf("ironwood tree size %d + %d overflows", s.Ironwood, added.Ironwood)
	}
	return sum, nil
}

// Minus returns the sizes before a block that added leaves. The error says which pool has fewer leaves than were added.
func (s TreeSizes) Minus(added TreeSizes) (TreeSizes, error) {
	switch {
	case added.Sapling > s.Sapling:
		return s, fmt.Errorf("sapling tree size %d is below the %d leaves of one block", s.Sapling, added.Sapling)
	case added.Orchard > s.Orchard:
		return s, fmt.Errorf("orchard tree size %d is below the %d leaves of one block", s.Orchard, added.Orchard)
	case added.Ironwood > s.Ironwood:
		return s, fmt.Errorf("ironwood tree size %d is below the %d leaves of one block", s.Ironwood, added.Ironwood)
	}
	return TreeSizes{s.Sapling - added.Sapling, s.Orchard - added.Orchard, s.Ironwood - added.Ironwood}, nil
}
