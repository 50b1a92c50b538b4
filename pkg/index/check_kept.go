package index

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// checkedRoot is a subtree root that waits for the block that completed it.
type checkedRoot struct {
	key  subtreeKey
	root chain.SubtreeRoot
}

// quoted names a row whose key may be anything.
type quoted []byte

func (q quoted) String() string {
	if key, err := parseTreeKey(q); err == nil {
		return key.String()
	}
	if key, err := parseSubtreeKey(q); err == nil {
		return key.String()
	}
	return fmt.Sprintf("%q", []byte(q))
}

// kept reads what was kept beside the blocks: each row must be readable, and subtree roots must follow each other. What they say of
// their blocks is held against those by keptOf.
func (c *checker) kept() error {
	return c.read(func(txn *badger.Txn) error {
		err := readRow(txn, keyNode.bytes(), func(row []byte) error {
			_, err := decodeNode(row, c.net.genesis)
			return err
		})
		known := c.net.genesis != (chain.Hash{}) // else the network row is wrong, and comes first
		if err != nil && known && !errors.Is(err, badger.ErrKeyNotFound) {
			c.drop(keyNode, keyNode.bytes(), 0, err)
		}
		for row, item := range rowsOf(txn, prefixTree, true) {
			var t chain.TreeState
			key, err := parseTreeKey(row)
			if err == nil {
				err = item.Value(func(v []byte) (err error) {
					if t, err = decodeTree(key, v); err == nil {
						_, err = t.Sizes()
					}
					return err
				})
			}
			if err != nil {
				c.drop(quoted(row), row, 0, err)
			}
			c.trees[t.ID.Hash] = t
			c.report.TreeStates++
		}
		var want subtreeKey
		for row, item := range rowsOf(txn, prefixSubtree, true) {
			var root chain.SubtreeRoot
			key, err := parseSubtreeKey(row)
			if err == nil {
				if want.pool != key.pool {
					want = subtreeKey{pool: key.pool}
				}
				if key != want {
					err = fmt.Errorf("%w: root %d of this pool", errMissing, want.index)
				}
			}
			if err == nil {
				err = item.Value(func(v []byte) (err error) { root, err = decodeSubtree(v); return err })
			}
			switch h := root.Completing.Height; {
			case err != nil:
				c.drop(quoted(row), row, 0, err)
			case h < c.state.sealed.blocks:
				c.roots[h] = append(c.roots[h], checkedRoot{key, root})
			case c.live == nil:
				c.drop(key, row, h, fmt.Errorf("its block %s is not sealed", root.Completing))
			}
			if err == nil {
				want.index++
			}
			c.report.SubtreeRoots++
		}
		return c.ctx.Err()
	})
}

// keptOf holds what was kept of a block against the block.
func (c *checker) keptOf(s chain.Summary, before chain.TreeSizes) {
	if t, ok := c.trees[s.ID.Hash]; ok {
		if sizes, err := t.Sizes(); err != nil || t.ID != s.ID || t.Time != s.Time || sizes != s.Sizes {
			key := treeKey(s.ID.Hash)
			c.drop(key, key.bytes(), s.ID.Height, fmt.Errorf("it has the trees of block %s at time %d with %+v, but the block is %s at time %d with %+v",
				t.ID, t.Time, sizes, s.ID, s.Time, s.Sizes))
		}
	}
	for _, r := range c.roots[s.ID.Height] {
		leaves := (uint64(r.key.index) + 1) * chain.SubtreeLeaves
		if from, to := uint64(before.Of(r.key.pool)), uint64(s.Sizes.Of(r.key.pool)); s.ID != r.root.Completing || from >= leaves || to < leaves {
			c.drop(r.key, r.key.bytes(), s.ID.Height, fmt.Errorf("its block is %s, but the one of that height is %s with leaves %d to %d, and the subtree ends with leaf %d",
				r.root.Completing, s.ID, from, to, leaves))
		}
	}
}

// others counts the rows that the tip does not name, which the next start deletes, and complains of those that nothing would ever read.
func (c *checker) others() error {
	return c.read(func(txn *badger.Txn) error {
		for row := range rowsOf(txn, "", false) {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			if err := c.other(row); err != nil {
				c.drop(quoted(row), row, 0, err)
			}
		}
		if c.live != nil {
			c.report.UnnamedRows = 0 // they come and go
		}
		return nil
	})
}

func (c *checker) other(row []byte) error {
	switch kind, _, _ := strings.Cut(string(row), "/"); kind + "/" {
	case prefixMeta:
		if !slices.Contains([]metaKey{keyFormat, keyNetwork, keyState, keyNode}, metaKey(row)) {
			return errNoSuchRow
		}
	case prefixSegment:
		return c.sealedRow(prefixSegment, row)
	case prefixTransparent:
		return c.sealedRow(prefixTransparent, row)
	case prefixRecent:
		key, err := parseRecentKey(row)
		if err != nil {
			return err
		}
		if _, ok := c.named[key.Hash]; !ok || key.Height >= c.state.top.blocks {
			c.report.UnnamedRows++
		}
	case prefixTree, prefixSubtree: // kept has looked at them
	default:
		return errNoSuchRow
	}
	return nil
}

// sealedRow looks for the span that a row belongs to.
func (c *checker) sealedRow(prefix string, row []byte) error {
	last, err := parseHeightKey(prefix, row)
	if err != nil {
		return err
	}
	i, found := slices.BinarySearchFunc(c.spans, last, func(g span, h chain.Height) int { return int(g.last) - int(h) })
	switch {
	case i == len(c.spans):
		c.report.UnnamedRows++
	case !found && !c.spans[i].bad:
		return fmt.Errorf("its blocks are those of %s", segmentKey(c.spans[i].last))
	}
	return nil
}
