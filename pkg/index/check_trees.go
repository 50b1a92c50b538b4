package index

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// kept verifies what was kept beside the blocks: that each row can be read, and that subtree roots follow each other and belong to the
// blocks that completed them. genesis is that of meta/network.
func (c *checker) kept(genesis chain.Hash) error {
	err := readRow(c.txn, keyNode.bytes(), func(row []byte) error {
		_, err := decodeNode(row, genesis)
		return err
	})
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		c.problem(keyNode, 0, 0, err, doAgain)
	}
	err = c.rows(prefixTree, func(item *badger.Item) error {
		key, err := parseTreeKey(item.Key())
		if err == nil {
			err = item.Value(func(v []byte) error {
				t, err := decodeTree(key, v)
				if err == nil {
					_, err = t.Sizes()
				}
				return err
			})
		}
		if err != nil {
			c.problem(key, 0, 0, err, doAgain)
		}
		c.report.TreeStates++
		return nil
	})
	if err != nil {
		return err
	}
	var before subtreeKey
	return c.rows(prefixSubtree, func(item *badger.Item) error {
		key, err := parseSubtreeKey(item.Key())
		if before.pool != key.pool {
			before = subtreeKey{pool: key.pool}
		}
		if err == nil && key.index != before.index {
			err = fmt.Errorf("%w: root %d of this pool", errMissing, before.index)
		}
		before.index = key.index + 1
		if err == nil {
			err = item.Value(func(v []byte) error { return c.subtree(key, v) })
		}
		if err != nil {
			c.problem(key, 0, 0, err, doAgain)
		}
		c.report.SubtreeRoots++
		return nil
	})
}

func (c *checker) subtree(key subtreeKey, v []byte) error {
	root, err := decodeSubtree(v)
	if err != nil {
		return err
	}
	id := root.Completing
	if id.Height >= c.state.sealed.blocks {
		return fmt.Errorf("its block %s is not sealed", id)
	}
	s, err := c.sealedBlock(id.Height)
	if err != nil {
		return nil // the segment's own problem, which was told
	}
	if s.ID != id || uint64(s.Sizes.Of(key.pool)) < (uint64(key.index)+1)*chain.SubtreeLeaves {
		return fmt.Errorf("its block is %s, but that of its height is %s and ends with %d leaves", id, s.ID, s.Sizes.Of(key.pool))
	}
	return nil
}

// sealedBlock reads the header fields of a sealed block.
func (c *checker) sealedBlock(h chain.Height) (s chain.Summary, err error) {
	it := c.txn.NewIterator(badger.IteratorOptions{Prefix: []byte(prefixSegment)})
	defer it.Close()
	if it.Seek(segmentKey(h).bytes()); !it.Valid() {
		return s, errMissing
	}
	err = it.Item().Value(func(v []byte) error {
		row, err := decodeSegment(v)
		if err == nil {
			s, err = summarize(row, h)
		}
		return err
	})
	return s, err
}
