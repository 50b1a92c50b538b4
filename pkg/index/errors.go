package index

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// What a caller of Open, Check or Builder.Run branches on. The errors that wrap these say which directory and what to do.
var (
	// ErrLocked: another process has the index open.
	ErrLocked = errors.New("the index is in use by another process")
	// ErrOtherNetwork: the index holds the chain of another network than the one asked for or the node's.
	ErrOtherNetwork = errors.New("the index belongs to another network")
	// ErrFormat: the index was written by a newer release, or is none of ours.
	ErrFormat = errors.New("the index has a format that this release does not know")
	// ErrDiskFull: a commit would leave less free than Options.MinFree; a DiskFullError carries the numbers.
	ErrDiskFull = errors.New("disk full")
	// ErrTooManyFiles: the process, or the machine, has too few file descriptors left for what Badger may open in a commit.
	ErrTooManyFiles = errors.New("too many open files")
	// ErrDeepReorg: the node's best chain leaves ours below the recent rows, among sealed blocks.
	ErrDeepReorg = errors.New("the node's chain leaves the index below its recent blocks")
	// ErrContradiction: the node sends blocks that do not link to its own best chain, again and again.
	ErrContradiction = errors.New("the node's blocks do not link to each other: its database is damaged, or what it sends is changed on its way")
	// ErrDamaged: a file of the database is damaged in its structure, so that rows cannot even be looked for.
	ErrDamaged = errors.New("a file of the index is damaged beyond its rows: delete the directory, all of it can be built again")
	// ErrUnusable: the database neither takes a commit nor tells whether it took it, or the disk did not keep one. The process has to open
	// it anew.
	ErrUnusable = errors.New("the index cannot be used")
	// ErrClosed: the store was closed. It matches chain.ErrUnavailable.
	ErrClosed = fmt.Errorf("the index is closed: %w", chain.ErrUnavailable)
)

// recovered turns a panic into ErrDamaged: that is how Badger answers when the structure of a table is damaged.
func recovered(err *error) {
	if p := recover(); p != nil {
		text, _, _ := strings.Cut(strings.TrimLeft(fmt.Sprint(p), "\n"), "\n")
		*err = fmt.Errorf("%w (%s)", ErrDamaged, text)
	}
}

// whenItStays is what to do when a database cannot be opened.
const whenItStays = "if this does not go away, delete the directory: all of it can be built again"

// DiskFullError says how much is free where, and how much a commit needs. It matches ErrDiskFull.
type DiskFullError struct {
	Dir          string
	Free, Needed int64 // bytes; Needed includes Options.MinFree
	Refused      error // what the kernel says to so many bytes, whatever is free: a quota is used up. Nil when too little is free
}

func (e *DiskFullError) Error() string {
	if e.Refused != nil {
		return fmt.Sprintf("disk full: %s does not take the %d MiB that the index may need (%v): free some space, or raise the quota; a build goes on by itself then",
			e.Dir, e.Needed>>20, e.Refused)
	}
	return fmt.Sprintf("disk full: %s has %d MiB free and the index needs %d MiB: free some space; a build goes on by itself then",
		e.Dir, e.Free>>20, e.Needed>>20)
}

// Is makes errors.Is(err, ErrDiskFull) true.
func (e *DiskFullError) Is(target error) bool { return target == ErrDiskFull }

// Unwrap returns what the kernel says.
func (e *DiskFullError) Unwrap() error { return e.Refused }

// NoRoom tells whether err is ErrDiskFull or ErrTooManyFiles: nothing is wrong with the index, and what it wanted can be tried again when
// there is room.
func NoRoom(err error) bool { return errors.Is(err, ErrDiskFull) || errors.Is(err, ErrTooManyFiles) }

// CorruptError says that the stored bytes of the blocks First..Last do not match their checksum, or are gone. Those heights count as
// not indexed: whoever has another source asks it. It matches chain.ErrUnavailable.
type CorruptError struct {
	First, Last chain.Height // both included
	Key         string       // of the row, readable
	Err         error        // what is wrong with it
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("index row %s of blocks %d to %d is corrupt: %v", e.Key, e.First, e.Last, e.Err)
}

// Unwrap returns what is wrong with the row.
func (e *CorruptError) Unwrap() error { return e.Err }

// As lets readers find the heights as a *chain.UnreadableError, without knowing of rows.
func (e *CorruptError) As(target any) bool {
	t, ok := target.(**chain.UnreadableError)
	if ok {
		*t = &chain.UnreadableError{First: e.First, Last: e.Last, Err: e}
	}
	return ok
}

// Is makes errors.Is(err, chain.ErrUnavailable) true.
func (e *CorruptError) Is(target error) bool { return target == chain.ErrUnavailable }

// TreeSizeError says that the note commitments counted in the blocks up to Block are not as many as the node's trees have. Nothing
// above the last block that was compared before stays stored.
type TreeSizeError struct {
	Block      chain.BlockID
	Ours, Node chain.TreeSizes
}

func (e *TreeSizeError) Error() string {
	return fmt.Sprintf("tree sizes at the end of block %s: the blocks add up to sapling %d, orchard %d, ironwood %d, but the node says %d, %d, %d",
		e.Block, e.Ours.Sapling, e.Ours.Orchard, e.Ours.Ironwood, e.Node.Sapling, e.Node.Orchard, e.Node.Ironwood)
}
