package longchain

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Chain is a chain whose hashes are known. Its methods may be called until Close.
type Chain struct {
	*recipe
	file                    *os.File
	stats                   Stats
	blockRuns, transactions []run
	made                    string
	builders                sync.Pool
}

// Stats are the figures of a chain.
type Stats struct {
	Dense        int    // blocks of the spam
	Bytes        uint64 // of all serialized blocks
	Transactions uint64
}

// Open returns the chain that o describes. It computes the hashes, unless the file in o.Dir has them, every byte of which is verified.
func Open(ctx context.Context, o Options) (*Chain, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &Chain{recipe: newRecipe(o)}
	c.builders.New = func() any { return newBuilder(c.recipe) }
	path := filepath.Join(o.Dir, o.fileName())
	why := c.openFile(path, o)
	if why == nil {
		return c, nil
	}
	if err := c.makeFile(ctx, path, o); err != nil {
		return nil, fmt.Errorf("make the chain %s: %w", path, err)
	}
	if err := c.openFile(path, o); err != nil {
		return nil, fmt.Errorf("open the chain %s, which was just made: %w", path, err)
	}
	if c.made = "new"; !errors.Is(why, fs.ErrNotExist) {
		c.made = "made again, since its file could not be used: " + why.Error()
	}
	return c, nil
}

// Close closes the chain's file.
func (c *Chain) Close() error { return c.file.Close() }

// Made tells why the hashes were computed by Open; "" when the file had them.
func (c *Chain) Made() string { return c.made }

// Path returns the path of the chain's file.
func (c *Chain) Path() string { return c.file.Name() }

// Stats returns the chain's figures.
func (c *Chain) Stats() Stats { return c.stats }

// Len returns how many blocks the chain has, genesis included.
func (c *Chain) Len() int { return c.blocks }

// Upgrades returns the chain's upgrades in height order.
func (c *Chain) Upgrades() []chain.Upgrade { return slices.Clone(c.upgrades) }

// openFile opens and verifies the file. The error says why it cannot be used.
func (c *Chain) openFile(path string, o Options) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	c.file, c.blockRuns, c.transactions = file, nil, nil
	if err = c.read(o); err == nil {
		err = c.compare()
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	return nil
}

// compare builds the newest page again, so that blocks that have changed without a new generatorVersion are noticed.
func (c *Chain) compare() error {
	first := chain.Height((c.blocks - 1) / pageBlocks * pageBlocks)
	b := newBuilder(c.recipe)
	var below chain.Hash
	var err error
	if first > 0 {
		if below, _, err = c.At(first - 1); err != nil {
			return err
		}
	}
	l := linker{prev: below}
	p := page{first: first}
	p.fill(b, c.blocks-int(first))
	if _, _, err := l.append(nil, nil, &p); err != nil {
		return err
	}
	tip, _, err := c.At(chain.Height(c.blocks - 1))
	if err == nil && tip != l.prev {
		err = fmt.Errorf("its tip is %s, not %s", tip, l.prev)
	}
	return err
}

// makeFile computes the hashes and puts the file into its place when it is complete.
func (c *Chain) makeFile(ctx context.Context, path string, o Options) (err error) {
	removeLeft(filepath.Dir(path))
	file, err := os.CreateTemp(filepath.Dir(path), "chain-*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	defer func() { err = errors.Join(err, file.Close()) }()
	runs, err := os.CreateTemp(filepath.Dir(path), "chain-runs-*.tmp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runs.Close(), os.Remove(runs.Name())) }()
	w := &writer{file: file, out: bufio.NewWriterSize(file, 1<<20), runs: runs, head: head{options: o}}
	if _, err := w.out.Write(make([]byte, headSize)); err != nil {
		return err
	}
	if err := pass(ctx, c.recipe, w.page); err != nil {
		return err
	}
	if err := w.finish(); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// leftAfter is how long nothing has been written to the unfinished file of a process that is gone. A pass writes several times a second.
const leftAfter = time.Hour

// removeLeft removes the unfinished files that killed processes have left in dir, and none that another process may be writing. What cannot
// be removed only takes room.
func removeLeft(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if unfinished, _ := filepath.Match("chain-*.tmp", e.Name()); !unfinished {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > leftAfter {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

func (c *Chain) addRun(r run) {
	if r.what == blockRun {
		c.blockRuns = append(c.blockRuns, r)
	} else {
		c.transactions = append(c.transactions, r)
	}
}

// At returns the hash of the block at height h, which must be below Len, and the tree sizes at its end.
func (c *Chain) At(h chain.Height) (hash chain.Hash, sizes chain.TreeSizes, err error) {
	var b [recordSize]byte
	if int(h) >= c.blocks {
		return hash, sizes, fmt.Errorf("height %d of a chain of %d blocks", h, c.blocks)
	}
	if _, err := c.file.ReadAt(b[:], offsetOf(h)); err != nil {
		return hash, sizes, fmt.Errorf("read the record of block %d: %w", h, err)
	}
	copy(hash[:], b[:])
	sizes = chain.TreeSizes{
		Sapling: binary.LittleEndian.Uint32(b[32:]), Orchard: binary.LittleEndian.Uint32(b[36:]), Ironwood: binary.LittleEndian.Uint32(b[40:]),
	}
	return hash, sizes, nil
}

// HeightOf returns the height of the block with a hash, false when the chain has none.
func (c *Chain) HeightOf(hash chain.Hash) (height chain.Height, ok bool, err error) {
	for _, r := range c.blockRuns {
		ok, err := r.heights(c.file, hash[:], func(h chain.Height) (bool, error) {
			height = h
			got, _, err := c.At(h)
			return got == hash, err
		})
		if ok || err != nil {
			return height, ok, err
		}
	}
	return 0, false, nil
}

// HeightOfTransaction returns the height of the block that has a transaction, false when there is none.
func (c *Chain) HeightOfTransaction(id chain.TxID) (height chain.Height, ok bool, err error) {
	b := c.builders.Get().(*builder)
	defer c.builders.Put(b)
	var header []byte
	for _, r := range c.transactions {
		ok, err := r.heights(c.file, id[:], func(h chain.Height) (bool, error) {
			height = h
			header = b.header(header[:0], h, chain.Hash{}, 0)
			return slices.Contains(b.ids, id), nil
		})
		if ok || err != nil {
			return height, ok, err
		}
	}
	return 0, false, nil
}

// Append appends the serialized block of height h on top of prev. Branch 0 gives the chain's own block when prev is its parent; other
// branches and greater heights give blocks of the same kind, for what takes the place of the chain's own blocks or comes after them.
func (c *Chain) Append(dst []byte, h chain.Height, prev chain.Hash, branch uint64) []byte {
	b := c.builders.Get().(*builder)
	defer c.builders.Put(b)
	return b.block(dst, h, prev, branch)
}
