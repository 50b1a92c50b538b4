package chain

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
)

// What a caller of a View branches on. Errors that carry more wrap one of these.
var (
	// ErrNotFound: no block of the best chain has that hash.
	ErrNotFound = errors.New("not found")
	// ErrAboveTip: the height is above the tip; an AboveTipError carries the numbers.
	ErrAboveTip = errors.New("above the tip")
	// ErrReorged: the best chain changed under the reader; asking again gives the new chain.
	ErrReorged = errors.New("the best chain changed")
	// ErrUnavailable: the answer exists, but whoever has it cannot be asked now. Asking again later helps.
	ErrUnavailable = errors.New("unavailable")
	// ErrNode: the node answered, with something that nobody asked for or can use. Every error about a question to the node matches it,
	// besides what else it may match.
	ErrNode = errors.New("no usable answer from the node")
	// ErrApart: what is served is known to be another chain than the node's, so that nothing of the node's belongs to it. It comes with
	// ErrUnavailable, and ends when an operator has settled it.
	ErrApart = errors.New("the node follows another chain")
	// ErrBusy: too many expensive requests are waiting already.
	ErrBusy = errors.New("too many requests are waiting")
)

// AboveTipError says which height was asked and what the tip was. It matches ErrAboveTip.
type AboveTipError struct {
	Asked uint64 // as on the wire, so that any 64-bit height can be named
	Tip   Height
}

func (e *AboveTipError) Error() string {
	return fmt.Sprintf("height %d is above the tip %d", e.Asked, e.Tip)
}

// Is makes errors.Is(err, ErrAboveTip) true.
func (e *AboveTipError) Is(target error) bool { return target == ErrAboveTip }

// UnreadableError says that the stored blocks First..Last (both included) cannot be read, so that somebody else must answer for them.
type UnreadableError struct {
	First, Last Height
	Err         error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("stored blocks %d to %d cannot be read: %v", e.First, e.Last, e.Err)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// Block is one verified block in compact form, as Encoder.Encode leaves it.
// The two byte slices belong to whoever owns the Block; see there for how long they live.
type Block struct {
	ID   BlockID
	Prev Hash // of the parent; 32 zero bytes for genesis
	Time uint32

	RawSize int // bytes of the serialized block
	TxCount int

	Added TreeSizes // the note commitments of this block alone

	// Shielded is a CompactBlock message for ShieldedPools without its last field, chainMetadata:
	// AppendFrame completes it once the tree sizes are known.
	Shielded []byte
	// Transparent is the transparent column: for EVERY transaction one CompactTx (as field 7 of a CompactBlock) with index, txid,
	// vin and vout.
	Transparent []byte
}

// Fetched is a block on its way from Zebra. The block is valid until the next step of the iteration that yielded it.
type Fetched struct {
	*Block
	// NextReady says that the following block has arrived already, so that a writer may wait for it rather than send a short run.
	NextReady bool
}

// CheckLink returns ErrReorged (wrapped, naming both) unless child's parent is the given block.
func CheckLink(parent BlockID, child *Block) error {
	if child.ID.Height == parent.Height+1 && child.Prev == parent.Hash {
		return nil
	}
	return fmt.Errorf("block %s has parent %s, not %s: %w", child.ID, child.Prev, parent, ErrReorged)
}

// Projection says what of a block is sent. The zero value is not a valid projection: use DefaultProjection.
type Projection struct {
	// Pools whose parts are kept. A transaction with nothing left is dropped unless KeepEmpty.
	Pools Pools
	// NullifiersOnly reduces what is kept to Sapling, Orchard and Ironwood nullifiers, after empty transactions were dropped,
	// and sends an empty chainMetadata.
	NullifiersOnly bool
	// KeepEmpty keeps transactions without any kept part, as index and txid.
	KeepEmpty bool
}

// DefaultProjection is the one that stored bytes answer without any work: all shielded pools, empty transactions dropped.
var DefaultProjection = Projection{Pools: ShieldedPools}

// NeedsTransparent tells whether the transparent column takes part in the answer.
func (p Projection) NeedsTransparent() bool { return p.Pools.Has(Transparent) || p.KeepEmpty }

// Origin says who answered.
type Origin uint8

// The origins, in the order of the metric's labels.
const (
	FromIndex Origin = iota
	FromZebra
)

// String is the metric label.
func (o Origin) String() string {
	if o == FromIndex {
		return "index"
	}
	return "zebra"
}

// FramePrefixLen is the length of the gRPC message prefix: one compression flag byte (0) and the message length, big-endian.
const FramePrefixLen = 5

// Frames is a run of consecutive compact blocks, each one gRPC frame (prefix and message), in the order they are sent.
// Whoever receives a Frames must call Release exactly once, and must not touch Bytes afterwards.
type Frames struct {
	Bytes       []byte
	Count       int     // blocks in Bytes, at least 1
	First, Last BlockID // in sending order: First is the highest block of a descending run
	Prev        Hash    // parent of the run's LOWEST block
	Origin      Origin
	Free        func() // returns Bytes to its owner; nil when nobody waits for it
}

// Release gives Bytes back to its owner.
func (f Frames) Release() {
	if f.Free != nil {
		f.Free()
	}
}

// Source opens Views.
type Source interface {
	// View returns one best chain as it is now. It fails with ErrUnavailable when nothing is known of any chain.
	View(ctx context.Context) (View, error)
}

// View is one best chain, fixed when it was opened. It never mixes two chains: a break is ErrReorged.
// A View is for one goroutine; Close it when done.
type View interface {
	// Tip is the newest block of this view. ErrUnavailable means that blocks can be read, but the tip is not known at present.
	Tip() (BlockID, error)

	// HeightOf returns the height of a block of this chain, or ErrNotFound.
	HeightOf(ctx context.Context, hash Hash) (Height, error)

	// HashAt returns the hash of this chain's block of height h. A height above the tip is an AboveTipError.
	HashAt(ctx context.Context, h Height) (Hash, error)

	// Blocks yields the blocks from..to (both included, descending when from > to) in runs, and ends after an error.
	// A first height above the tip is an AboveTipError before any block; an ascending range that passes the tip yields every block
	// up to the tip and then an AboveTipError. Each block's parent is checked to be the block below it.
	Blocks(ctx context.Context, from, to Height, p Projection) iter.Seq2[Frames, error]

	// TreeState returns the note commitment trees at the end of this chain's block of height h: of that very block, never of another
	// branch's. A height above the tip is an AboveTipError. Trees that cannot be had now are ErrUnavailable, never empty ones.
	TreeState(ctx context.Context, h Height) (TreeState, error)

	// SubtreeRoots returns the roots of a shielded pool's complete subtrees up to the tip, in order: of index start and the following
	// ones, limit at most, or all when limit is 0. There are none past the end, whatever start is, and that is no error.
	// The slice is shared: it must not be changed.
	SubtreeRoots(ctx context.Context, pool Pool, start, limit uint32) ([]SubtreeRoot, error)

	Close()
}

// NodeInfo is what wallets are told of the node, from getblockchaininfo, getblockhash 0 and getinfo.
type NodeInfo struct {
	Chain           string // "main" or "test"; Zebra says "test" for regtest too
	Genesis         Hash   // of block 0: tells regtest from testnet
	Tip             BlockID
	EstimatedHeight Height // of the network's tip
	BranchID        uint32 // consensus.chaintip: of the tip; 0 before Overwinter
	Upgrades        []Upgrade
	Build           string // getinfo "build"
	Subversion      string // getinfo "subversion"
}

// Upgrade is one entry of getblockchaininfo "upgrades", in height order. Names that we have never heard of are passed on.
type Upgrade struct {
	BranchID uint32
	Name     string
	Height   Height
	Pending  bool // status is not "active"
}

// BufferPool lends byte buffers for runs of frames. The zero value is ready; it may be shared by goroutines.
type BufferPool struct{ pool sync.Pool }

// RunSize is the aimed-at length of a run of frames: one write to the transport.
const RunSize = 64 << 10

// Get returns an empty buffer with room for a run. It grows beyond that for larger blocks.
func (p *BufferPool) Get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		*b = (*b)[:0]
		return b
	}
	b := make([]byte, 0, RunSize+RunSize/4)
	return &b
}

// Put takes a buffer back. Buffers that a huge block has grown are dropped, so that the pool stays small.
func (p *BufferPool) Put(b *[]byte) {
	if cap(*b) <= 4*RunSize {
		p.pool.Put(b)
	}
}
