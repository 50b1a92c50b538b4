package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// readerQueries are what the readers ask for.
func readerQueries() []query {
	all := []walletrpc.PoolType{walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING, walletrpc.PoolType_ORCHARD, walletrpc.PoolType_IRONWOOD}
	return []query{{method: getBlockRange}, {getBlockRange, all[:1]}, {getBlockRange, all}, {method: getBlockRangeNullifiers}}
}

// TestReorgUnderReaders replaces 1, 5 and 20 blocks and takes that back, each time while four readers read the chain again and again and
// four others have stopped after their first block. Every answer has to be of one chain.
func TestReorgUnderReaders(t *testing.T) {
	t.Parallel()
	for _, s := range []setup{passthrough, smallSegments} {
		t.Run(s.name, func(t *testing.T) {
			n := fixtureNode(t, "")
			tip, _ := n.tip()
			c := newSidecar(t, n.url(), n.cookie(), s)
			c.start()
			awaitAnswer(t, c.wallet())
			if !s.noIndex {
				c.awaitIndex(tip, time.Minute)
			}
			r := &reorgReaders{t: t, node: n, sidecar: c}
			if s.noIndex {
				r.from = tip - 500 // each reader has Zebra read all blocks again
			}
			r.now = r.read(0)
			for _, depth := range []int{1, 5, 20} {
				r.replace(depth)
			}
			c.stop()
			if !s.noIndex {
				requireClean(t, c)
			}
		})
	}
}

// branch is the wire form of a chain's blocks for each of readerQueries.
type branch [][][]byte

func (b branch) tip() int { return len(b[0]) - 1 }

// reorgReaders is a zsidecar beside a node whose chain changes.
type reorgReaders struct {
	t       *testing.T
	node    *node
	sidecar *sidecar
	from    int // the lowest block that is read
	now     branch
	round   int // the readers that stop do not do so in the next one
}

// read asks the node for its chain, of which the blocks below fork are those of r.now.
func (r *reorgReaders) read(fork int) (b branch) {
	r.t.Helper()
	tip, _ := r.node.tip()
	full := expectChain(r.t, r.node, fork, tip)
	for i, q := range readerQueries() {
		var shared [][]byte
		if fork > 0 {
			shared = slices.Clone(r.now[i][:fork])
		}
		b = append(b, append(shared, q.encoded(r.t, full)...))
	}
	return b
}

// replace replaces the newest blocks by one more, and goes back to the old ones, which are fewer.
func (r *reorgReaders) replace(depth int) {
	r.t.Helper()
	fork := r.now.tip() - depth + 1
	before := r.node.hashAt(fork)
	r.over(fork, func() {
		r.node.invalidate(fork)
		r.node.mine(depth+1, anyoneCanSpend)
	})
	r.over(fork, func() {
		r.node.invalidate(fork + 1) // of fork itself Zebra would forget that the old block was invalidated
		r.node.call(nil, "reconsiderblock", before)
		await(r.t, "zebra is back on the old branch", 5*time.Second, func() bool {
			return r.node.hashAt(fork) == before
		})
	})
}

// over changes the chain under eight readers.
func (r *reorgReaders) over(fork int, change func()) {
	r.t.Helper()
	old := r.now
	var done atomic.Bool
	resume := make(chan struct{})
	answers := make(chan answer, 1000)
	var readers sync.WaitGroup
	for i := range readerQueries() {
		for _, ends := range [][2]int{{r.from, old.tip()}, {old.tip(), r.from}} {
			if (i+r.round)%2 == 0 {
				begun := make(chan struct{}, 2)
				readers.Go(func() {
					answers <- r.ask(i, ends, func() { begun <- struct{}{}; <-resume })
					begun <- struct{}{} // should there have been no block
				})
				<-begun
				continue
			}
			readers.Go(func() {
				var last answer
				for !done.Load() {
					a := r.ask(i, ends, func() {})
					if !a.same(&last) {
						answers <- a
					}
					last = a
				}
			})
		}
	}
	r.round++
	go func() { readers.Wait(); close(answers) }()
	orphans := [][]byte{reversed(r.node.hashAt(fork)), reversed(r.node.hashAt(old.tip()))}
	change()
	w := r.sidecar.wallet()
	tip, hash := r.node.tip()
	await(r.t, "the new tip is served", 10*time.Second, func() bool {
		id, err := w.latest(r.t.Context())
		return err == nil && id.Height == uint64(tip) && bytes.Equal(id.Hash, reversed(hash))
	})
	for _, orphan := range orphans {
		requireOrphan(r.t, w, orphan)
		err := w.call(r.t.Context(), "GetTreeState", &walletrpc.BlockID{Hash: orphan}, &walletrpc.TreeState{})
		requireCode(r.t, "GetTreeState of an orphaned hash", err, codes.NotFound)
	}
	r.now = r.read(fork)
	if os.Getenv(slowVariable) != "" {
		time.Sleep(time.Minute) // as long as a phone sleeps
	}
	done.Store(true)
	close(resume)
	for a := range answers {
		if err := a.check(old, r.now); err != nil {
			r.t.Errorf("fork at %d: %v", fork, err)
		}
	}
}

// answer is what a reader got.
type answer struct {
	query  int // of readerQueries
	ends   [2]int
	blocks [][]byte
	err    error
}

// ask reads a range, on a connection of its own that has little on its way, with a pause after the first block.
func (r *reorgReaders) ask(i int, ends [2]int, pause func()) answer {
	a := answer{query: i, ends: ends}
	conn, err := grpc.NewClient(r.sidecar.grpcAddr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	if err != nil {
		a.err = err
		return a
	}
	defer conn.Close()
	q := readerQueries()[i]
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
	defer cancel()
	a.err = (&wallet{conn}).stream(ctx, q.method, q.blockRange(ends[0], ends[1]), func(block []byte) error {
		a.blocks = append(a.blocks, slices.Clone(block))
		if len(a.blocks) == 1 {
			pause()
		}
		return nil
	})
	return a
}

// same tells whether a later answer says nothing new.
func (a *answer) same(b *answer) bool {
	return status.Code(a.err) == status.Code(b.err) && slices.EqualFunc(a.blocks, b.blocks, bytes.Equal)
}

// check wants the blocks to be those of one of the branches, as far as they came, and the code to say how far that was. A chain that is
// too short for the range for a while is the beginning of both.
func (a *answer) check(branches ...branch) error {
	step := 1
	if a.ends[0] > a.ends[1] {
		step = -1
	}
	where := func(i int) string {
		return fmt.Sprintf("%v %d..%d, height %d", readerQueries()[a.query], a.ends[0], a.ends[1], a.ends[0]+i*step)
	}
	fits := len(branches)
	for _, b := range branches {
		for i, block := range a.blocks {
			if h := a.ends[0] + i*step; h >= len(b[a.query]) || !bytes.Equal(block, b[a.query][h]) {
				fits--
				break
			}
		}
	}
	code, whole := status.Code(a.err), len(a.blocks) == max(a.ends[0], a.ends[1])-min(a.ends[0], a.ends[1])+1
	switch {
	case fits == 0:
		return errors.New(where(len(a.blocks)-1) + " or before: the blocks are of no one branch")
	case code == codes.OK && !whole:
		return errors.New(where(len(a.blocks)-1) + ": ended OK")
	case code != codes.OK && code != codes.Aborted && code != codes.OutOfRange:
		return fmt.Errorf("%s: %w", where(len(a.blocks)), a.err)
	}
	return nil
}
