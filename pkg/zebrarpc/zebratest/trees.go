package zebratest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"sort"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

var (
	errNotInMainChain = &rpcError{Code: -8, Message: "the requested block is not in the main chain"}
	errBadPool        = &rpcError{Code: -1, Message: `invalid pool name, must be one of: ["sapling", "orchard", "ironwood"]`}
)

const (
	argPool       = "pool"
	argStartIndex = "start_index"
	argLimit      = "limit"
)

// treeStateObject is z_gettreestate's result. Before its upgrade Ironwood is not mentioned, and the other pools have no commitments.
type treeStateObject struct {
	Hash     string       `json:"hash"`
	Height   chain.Height `json:"height"`
	Time     uint32       `json:"time"`
	Sapling  treeObject   `json:"sapling"`
	Orchard  treeObject   `json:"orchard"`
	Ironwood *treeObject  `json:"ironwood,omitempty"`
}

type treeObject struct {
	Commitments commitments `json:"commitments"`
}

type commitments struct {
	FinalRoot  string `json:"finalRoot,omitempty"`
	FinalState string `json:"finalState,omitempty"`
}

// getTreeState answers "z_gettreestate".
func (n *Node) getTreeState(dst []byte, w *workshop, c Call, fault *Fault) ([]byte, *rpcError) {
	p := newParams(c.Params)
	id := p.text(argBlock)
	if p.err != nil {
		return dst, p.err
	}
	ref, ok := parseRef(id, c.chain.Tip().Height)
	if !ok {
		return dst, errBadBlockRef
	}
	f, err := c.chain.lookup(ref)
	if err != nil || n.lacks(f.Height) {
		return dst, errNotInMainChain
	}
	h, err := parseHeader(f.raw(w))
	if err != nil {
		return appendObject(dst, nil, err)
	}
	if fault != nil && fault.Sizes != nil {
		f.sizes = fault.Sizes(f.sizes)
	}
	o := treeStateObject{
		Hash: f.Hash.String(), Height: f.Height, Time: h.time,
		Sapling: c.chain.treeObject(&f, chain.Sapling, "Sapling"),
		Orchard: c.chain.treeObject(&f, chain.Orchard, "NU5"),
	}
	if ironwood := c.chain.treeObject(&f, chain.Ironwood, "NU6.3"); ironwood != (treeObject{}) {
		o.Ironwood = &ironwood
	}
	return appendObject(dst, o, nil)
}

// treeObject describes a pool's tree. Built chains may have notes before their pool is active; nobody shall take that tree for empty.
func (c *Chain) treeObject(f *found, pool chain.Pool, upgrade string) treeObject {
	if !reached(c.upgrades, upgrade, f.Height) && f.sizes.Of(pool) == 0 {
		return treeObject{}
	}
	return treeObject{commitments{finalRoot(pool, f.sizes.Of(pool)), madeUpTree(pool, f.sizes.Of(pool), f.Hash)}}
}

// finalRoot is the root as z_gettreestate shows it: reversed for Sapling alone. The roots of empty trees are the real ones.
func finalRoot(pool chain.Pool, size uint32) string {
	switch {
	case size == 0 && pool == chain.Sapling:
		return "3e49b5f954aa9d3545bc6c37744661eea48d7c34e3000d82b7f0010c30f4c2fb"
	case size == 0:
		return "ae2935f1dfd8a24aed7c70df7de3a668eb7a49b1319880dde2bbd9031ae5d82f"
	case pool == chain.Sapling:
		return reversedHex(madeUpRoot(pool, size))
	}
	return hex.EncodeToString(madeUpRoot(pool, size))
}

// element makes a hash an element of each of the fields that trees have their nodes in, so that strict parsers take it.
func element(sum [32]byte) []byte {
	sum[31] &= 0x3f
	return sum[:]
}

// madeUpTree encodes a tree of that size as Zebra does, with all 31 places for parents. Its nodes are made up, and others for every block, so
// that the trees of two blocks are never taken for each other. A real tree stays as it is where a block adds no notes.
func madeUpTree(pool chain.Pool, size uint32, hash chain.Hash) string {
	if size == 0 {
		return chain.EmptyTree
	}
	var tree []byte
	node := func(place int, there bool) {
		if !there {
			tree = append(tree, 0)
			return
		}
		sum := sha256.Sum256(fmt.Appendf(hash[:], "%s %d", pool, place))
		tree = append(append(tree, 1), element(sum)...)
	}
	// The two lowest places hold leaves: both when the size is even. What is left over is a number of pairs, one bit for each parent.
	node(-2, true)
	node(-1, size%2 == 0)
	tree = append(tree, 31)
	pairs := (size - 1) / 2
	for i := range 31 {
		node(i, pairs>>i&1 == 1)
	}
	return hex.EncodeToString(tree)
}

// subtreesObject is z_getsubtreesbyindex's result.
type subtreesObject struct {
	Pool       string          `json:"pool"`
	StartIndex int64           `json:"start_index"`
	Subtrees   []subtreeObject `json:"subtrees"`
}

type subtreeObject struct {
	Root      string       `json:"root"`
	EndHeight chain.Height `json:"end_height"`
}

// getSubtrees answers "z_getsubtreesbyindex".
func (n *Node) getSubtrees(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	name := p.text(argPool)
	start := p.integer(argStartIndex, "u16", 0, math.MaxUint16)
	limit := int64(math.MaxUint16 + 1)
	if raw := p.next(argLimit); p.err == nil && raw != nil && string(raw) != "null" {
		limit = p.bounded(raw, "u16", 0, math.MaxUint16)
	}
	if p.err != nil {
		return dst, p.err
	}
	for _, pool := range []chain.Pool{chain.Sapling, chain.Orchard, chain.Ironwood} {
		if pool.String() == name {
			subtrees, err := c.chain.subtrees(pool, start, limit, cmp.Or(n.opts.SubtreeLeaves, chain.SubtreeLeaves))
			return appendObject(dst, subtreesObject{name, start, subtrees}, err)
		}
	}
	return dst, errBadPool
}

// subtrees lists the complete subtrees of so many leaves from index start on.
func (c *Chain) subtrees(pool chain.Pool, start, limit int64, leaves uint32) (list []subtreeObject, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	list = []subtreeObject{}
	at := func(h int) (b block) {
		if err == nil {
			b, err = c.block(chain.Height(h))
		}
		return b
	}
	for i := start; i < start+limit; i++ {
		end := (i + 1) * int64(leaves)
		h := sort.Search(c.length(), func(h int) bool { return int64(at(h).sizes.Of(pool)) >= end })
		if h == c.length() || err != nil {
			break
		}
		list = append(list, subtreeObject{hex.EncodeToString(madeUpSubtreeRoot(pool, i, at(h).hash)), chain.Height(h)})
	}
	return list, err
}

// madeUpSubtreeRoot stands for the root of the subtree that the given block completed.
func madeUpSubtreeRoot(pool chain.Pool, index int64, hash chain.Hash) []byte {
	return element(sha256.Sum256(fmt.Appendf(hash[:], "root of %s subtree %d", pool, index)))
}
