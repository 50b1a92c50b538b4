package integration

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// query is one way of asking for a block: the method, and for ranges the pools.
type query struct {
	method string
	pools  []walletrpc.PoolType
}

// The methods that serve compact blocks.
const (
	getBlock                = "GetBlock"
	getBlockNullifiers      = "GetBlockNullifiers"
	getBlockRange           = "GetBlockRange"
	getBlockRangeNullifiers = "GetBlockRangeNullifiers"
)

func (q query) String() string { return fmt.Sprintf("%s%v", q.method, q.pools) }

// rangeQueries is every set of pools on both range methods, the empty list first, and one list with repeats in odd order.
func rangeQueries() []query {
	all := []walletrpc.PoolType{
		walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING, walletrpc.PoolType_ORCHARD, walletrpc.PoolType_IRONWOOD,
	}
	var queries []query
	for _, method := range []string{getBlockRange, getBlockRangeNullifiers} {
		for set := range 1 << len(all) {
			var pools []walletrpc.PoolType
			for i, pool := range all {
				if set&(1<<i) != 0 {
					pools = append(pools, pool)
				}
			}
			queries = append(queries, query{method, pools})
		}
		queries = append(queries, query{method, []walletrpc.PoolType{all[3], all[1], all[3], all[1]}})
	}
	return queries
}

// cut makes of a full block what the query has to answer, a second time and written without a look at the program.
func (q query) cut(full *walletrpc.CompactBlock) *walletrpc.CompactBlock {
	keep := map[walletrpc.PoolType]bool{}
	for _, pool := range q.pools {
		keep[pool] = true
	}
	nullifiers := q.method == getBlockNullifiers || q.method == getBlockRangeNullifiers
	if nullifiers {
		delete(keep, walletrpc.PoolType_TRANSPARENT)
	}
	if len(keep) == 0 {
		keep[walletrpc.PoolType_SAPLING] = true
		keep[walletrpc.PoolType_ORCHARD] = true
		keep[walletrpc.PoolType_IRONWOOD] = true
		keep[walletrpc.PoolType_TRANSPARENT] = q.method == getBlock
	}

	block := proto.CloneOf(full)
	block.Vtx = nil
	for _, tx := range full.Vtx {
		tx = proto.CloneOf(tx)
		if !keep[walletrpc.PoolType_TRANSPARENT] {
			tx.Vin, tx.Vout = nil, nil
		}
		if !keep[walletrpc.PoolType_SAPLING] {
			tx.Spends, tx.Outputs = nil, nil
		}
		if !keep[walletrpc.PoolType_ORCHARD] {
			tx.Actions = nil
		}
		if !keep[walletrpc.PoolType_IRONWOOD] {
			tx.IronwoodActions = nil
		}
		parts := len(tx.Vin) + len(tx.Vout) + len(tx.Spends) + len(tx.Outputs) + len(tx.Actions) + len(tx.IronwoodActions)
		if parts == 0 && q.method != getBlock {
			continue
		}
		if nullifiers {
			tx.Outputs = nil
			tx.Actions = nullifiersOnly(tx.Actions)
			tx.IronwoodActions = nullifiersOnly(tx.IronwoodActions)
		}
		block.Vtx = append(block.Vtx, tx)
	}
	if nullifiers {
		block.ChainMetadata = &walletrpc.ChainMetadata{}
	}
	return block
}

func nullifiersOnly(actions []*walletrpc.CompactOrchardAction) []*walletrpc.CompactOrchardAction {
	var cut []*walletrpc.CompactOrchardAction
	for _, a := range actions {
		cut = append(cut, &walletrpc.CompactOrchardAction{Nullifier: a.Nullifier})
	}
	return cut
}

// encoded is the wire form of every block's answer.
func (q query) encoded(tb testing.TB, full []*walletrpc.CompactBlock) [][]byte {
	tb.Helper()
	answers := make([][]byte, len(full))
	for i, block := range full {
		answers[i] = encode(tb, q.cut(block))
	}
	return answers
}
