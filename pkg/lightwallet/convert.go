package lightwallet

import (
	"fmt"
	"strings"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// blockName is a BlockID as a client sent it, checked as far as that goes without a chain.
type blockName struct {
	height  uint64
	hash    chain.Hash
	hasHash bool
}

// parseBlock reads the one block that a request asks for: genesis is asked for by its hash, since height 0 is as good as none.
func parseBlock(m *walletrpc.BlockID) (blockName, error) {
	name, err := parseBlockName("block", m)
	if err == nil && name.height == 0 && !name.hasHash {
		err = invalidArgument("block: neither a height above 0 nor a hash is given")
	}
	return name, err
}

// parseBlockName reads what a client sent in the named field. The hash is in internal byte order and has 32 bytes, or none.
func parseBlockName(field string, id *walletrpc.BlockID) (blockName, error) {
	if id == nil {
		return blockName{}, invalidArgument("%s is missing", field)
	}
	name := blockName{height: id.Height}
	switch len(id.Hash) {
	case 0:
	case len(name.hash):
		name.hash, name.hasHash = chain.Hash(id.Hash), true
	default:
		return blockName{}, invalidArgument("%s: a block hash has 32 bytes, not %d", field, len(id.Hash))
	}
	return name, nil
}

// blockIDMessage is the wire form, with the hash in internal byte order.
func blockIDMessage(id chain.BlockID) *walletrpc.BlockID {
	return &walletrpc.BlockID{Height: uint64(id.Height), Hash: id.Hash[:]}
}

// parsePools reads the pools of a request. None named means all shielded ones; order and repeats do not matter.
func parsePools(types []walletrpc.PoolType) (chain.Pools, error) {
	if len(types) == 0 {
		return chain.ShieldedPools, nil
	}
	var pools chain.Pools
	for _, t := range types {
		switch t {
		case walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING, walletrpc.PoolType_ORCHARD, walletrpc.PoolType_IRONWOOD:
			pools = pools.With(chain.Pool(t))
		default:
			return 0, invalidArgument("poolTypes: there is no pool %s", poolTypeName(t))
		}
	}
	return pools, nil
}

// poolTypeName is the number, and the name where there is one.
func poolTypeName(t walletrpc.PoolType) string {
	if name := t.String(); !strings.EqualFold(name, fmt.Sprint(int32(t))) {
		return fmt.Sprintf("%d (%s)", int32(t), name)
	}
	return fmt.Sprint(int32(t))
}

// branchIDHex is a consensus branch id as wallets compare it: 8 lower-case hex digits.
func branchIDHex(id uint32) string { return fmt.Sprintf("%08x", id) }
