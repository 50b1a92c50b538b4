package zebrarpc

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// TreeState returns the note commitment trees at the end of the block with that hash (z_gettreestate). The tree of a pool about which Zebra
// says nothing is empty text: most of these pools are not active yet, but only the tree's size tells. A block that is not on the best
// chain is an answerable error that matches chain.ErrNotFound. Zebra reads the whole block for it.
func (c *Client) TreeState(ctx context.Context, hash chain.Hash) (chain.TreeState, error) {
	q := query{method: getTreeState, subject: withHash(hash), params: `"` + hash.String() + `"`, limit: treeLimit, tries: callTries, patient: true}
	state, err := ask(ctx, c, &q, func(v *fastjson.Value) (s chain.TreeState, err error) {
		if err := expectHash(v, hash); err != nil {
			return s, err
		}
		return treeStateOf(v, hash)
	})
	return state, about(err, chain.ErrNotFound)
}

func treeStateOf(v *fastjson.Value, hash chain.Hash) (s chain.TreeState, err error) {
	s.ID.Hash = hash
	if s.ID.Height, err = heightOf(v, "height"); err != nil {
		return s, err
	}
	time, err := unsigned(v, "time", math.MaxUint32)
	if err != nil {
		return s, err
	}
	s.Time = uint32(time)
	if s.Sapling, err = treeOf(v, chain.Sapling); err != nil {
		return s, err
	}
	if s.Orchard, err = treeOf(v, chain.Orchard); err != nil {
		return s, err
	}
	s.Ironwood, err = treeOf(v, chain.Ironwood)
	return s, err
}

// treeOf reads a pool's finalState, empty when there is none. A tree that cannot be read is an error.
func treeOf(v *fastjson.Value, pool chain.Pool) (string, error) {
	object := v.Get(pool.String())
	if object == nil {
		return "", nil
	}
	commitments, err := member(object, "commitments")
	if err != nil {
		return "", fmt.Errorf("%s: %w", pool, err)
	}
	if commitments.Type() != fastjson.TypeObject {
		return "", fmt.Errorf("%s.commitments is %s, not an object", pool, text(commitments))
	}
	if m := commitments.Get("finalState"); m == nil || m.Type() == fastjson.TypeNull {
		return "", nil
	}
	tree, err := stringOf(commitments, "finalState")
	if err != nil {
		return "", fmt.Errorf("%s: %w", pool, err)
	}
	if _, err := chain.TreeSize(tree); err != nil {
		return "", fmt.Errorf("%s.finalState: %w", pool, err)
	}
	return tree, nil
}

// Subtree is a complete subtree of 2^16 leaves of a pool's note commitment tree.
type Subtree struct {
	Root [32]byte     // not reversed
	End  chain.Height // of the block on the best chain whose outputs filled the last leaf
}

// maxSubtreeIndex is the largest index that Zebra's parameters can express: a tree of depth 32 has no more subtrees.
const maxSubtreeIndex = math.MaxUint16

// Subtrees returns the complete subtrees of a shielded pool (z_getsubtreesbyindex) from index start on, limit at most, or all when limit
// is 0. There are none past the end, and that is no error. Some time after an upgrade of Zebra the list may be too short.
func (c *Client) Subtrees(ctx context.Context, pool chain.Pool, start, limit uint32) ([]Subtree, error) {
	if start > maxSubtreeIndex {
		return nil, nil
	}
	index := strconv.FormatUint(uint64(start), 10)
	q := query{
		method: getSubtreesByIndex, subject: pool.String() + " from index " + index, params: `"` + pool.String() + `",` + index,
		limit: treeLimit, tries: callTries,
	}
	if limit > 0 && limit <= math.MaxUint16 {
		q.params += "," + strconv.FormatUint(uint64(limit), 10)
	}
	return ask(ctx, c, &q, func(v *fastjson.Value) ([]Subtree, error) {
		name, err := stringOf(v, "pool")
		if err != nil {
			return nil, err
		}
		first, err := unsigned(v, "start_index", maxSubtreeIndex)
		if err != nil {
			return nil, err
		}
		if name != pool.String() || first != uint64(start) {
			return nil, fmt.Errorf("the reply is about %s subtrees from index %d", name, first)
		}
		return subtreesOf(v, limit)
	})
}

// subtreesOf reads the list, whose blocks ascend.
func subtreesOf(v *fastjson.Value, limit uint32) ([]Subtree, error) {
	m, err := member(v, "subtrees")
	if err != nil {
		return nil, err
	}
	items, err := m.Array()
	if err != nil {
		return nil, fmt.Errorf("subtrees is %s, not a list", text(m))
	}
	if limit > 0 && uint64(len(items)) > uint64(limit) {
		return nil, fmt.Errorf("%d subtrees of at most %d", len(items), limit)
	}
	list := make([]Subtree, len(items))
	for i, item := range items {
		if list[i], err = subtreeOf(item); err != nil {
			return nil, fmt.Errorf("subtrees[%d]: %w", i, err)
		}
		if i > 0 && list[i].End < list[i-1].End {
			return nil, fmt.Errorf("subtrees[%d]: its end_height is below that of the one before", i)
		}
	}
	return list, nil
}

func subtreeOf(v *fastjson.Value) (s Subtree, err error) {
	if s.End, err = heightOf(v, "end_height"); err != nil {
		return s, err
	}
	root, err := stringOf(v, "root")
	if err != nil {
		return s, err
	}
	if n, err := hex.Decode(s.Root[:], []byte(root[:min(len(root), 2*len(s.Root))])); err != nil || n != len(s.Root) || len(root) != 2*n {
		return s, fmt.Errorf("root %q is not 64 hex digits", root)
	}
	return s, nil
}
