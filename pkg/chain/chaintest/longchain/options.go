package longchain

import "fmt"

// Kind says what a chain is like.
type Kind uint8

// The kinds, which the package's comment describes.
const (
	TestnetLike Kind = 1 + iota
	MainnetLike
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{TestnetLike, MainnetLike} }

// String returns the kind's name on the command line.
func (k Kind) String() string {
	switch k {
	case TestnetLike:
		return "testnet"
	case MainnetLike:
		return "mainnet"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// ParseKind reads a kind's name. The error lists the names.
func ParseKind(name string) (Kind, error) {
	for _, k := range Kinds() {
		if k.String() == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("%q is no kind of chain: must be one of %v", name, Kinds())
}

// How many blocks a chain may have, genesis included.
const (
	MinBlocks = 2_000
	MaxBlocks = 5_000_000
)

// Options describe a chain. All but Dir and Progress decide its blocks.
type Options struct {
	Kind   Kind
	Blocks int // genesis included: MinBlocks to MaxBlocks
	Seed   uint64
	// WithoutNU7 lets NU6.3 be the last upgrade, for servers that do not know the branch id of NU7.
	WithoutNU7 bool

	// Dir is the folder of the chain's file. It must exist.
	Dir string
	// Progress, when not nil, is called by one goroutine while the hashes are being computed.
	Progress func(done, total int)
}

func (o Options) validate() error {
	switch {
	case o.Kind != TestnetLike && o.Kind != MainnetLike:
		return fmt.Errorf("open a chain: %s is unknown", o.Kind)
	case o.Blocks < MinBlocks || o.Blocks > MaxBlocks:
		return fmt.Errorf("open a chain of %d blocks: must be from %d to %d", o.Blocks, MinBlocks, MaxBlocks)
	}
	return nil
}

// fileName tells chains apart.
func (o Options) fileName() string {
	suffix := ""
	if o.WithoutNU7 {
		suffix = "-without-nu7"
	}
	return fmt.Sprintf("%s-%d-seed-%d%s.chain", o.Kind, o.Blocks, o.Seed, suffix)
}
