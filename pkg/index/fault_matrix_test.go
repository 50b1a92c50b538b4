package index

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// faultOperation is something that commits. It starts from an index that holds the chain before, and ends with one that holds after.
type faultOperation struct {
	before, after []testBlock
	prepare       func(t *testing.T, s *Store) // may be nil
	// do may be done again after an error. It returns the store to go on with, nil when there is none.
	do     func(t *testing.T, s *Store) (*Store, error)
	putOff bool // a commit that fails is no error: a later one does what it should have done
}

// faultOperations are the rows of the matrix.
func faultOperations(t *testing.T) map[string]faultOperation {
	f := newForge()
	base := f.extend(t, nil, 30)
	longer, far := f.extend(t, base, 3), f.extend(t, base, 30)
	shorter, other, deep := f.extend(t, base[:27], 2), f.extend(t, base[:26], 12), f.extend(t, base[:9], 30)
	return map[string]faultOperation{
		"connect the first blocks":   {after: base[:5], do: follow(base[:5])},
		"connect":                    {before: base[:4], after: base[:6], do: follow(base[:6])},
		"connect the first segments": {after: base, do: follow(base)},
		"connect and seal":           {before: base, after: longer, do: follow(longer)},
		"seal all, and segments":     {before: base, after: far, do: follow(far)},
		"rewind, to a shorter chain": {before: base, after: shorter, do: follow(shorter)},
		"rewind, connect and seal":   {before: base, after: other, do: follow(other)},
		"cut, and build again":       {before: base, after: deep, do: follow(deep)},
		"open, and delete rows":      {before: base, after: shorter, prepare: leaveRows(shorter), do: openAgain, putOff: true},
		"close, and delete rows":     {before: base, after: shorter, prepare: unreadRows(shorter), do: closeStore},
		"close, and write trees":     {before: base, after: base, prepare: keepTree, do: closeStore},
		"repair segments and rows":   {before: base, after: base, prepare: spoilRows, do: repairRows(base), putOff: true},
		"write trees":                {before: base, after: base, prepare: keepTree, do: save},
	}
}

// follow lets a builder follow a node that has these blocks.
func follow(blocks []testBlock) func(*testing.T, *Store) (*Store, error) {
	return func(t *testing.T, s *Store) (*Store, error) {
		b := NewBuilder(s, newFakeNode(blocks), BuilderOptions{ConfirmDeep: 1})
		for {
			b.suspect = true
			if err := b.sync(t.Context(), blocks[len(blocks)-1].ID); !errors.Is(err, ErrDeepReorg) || b.other.looks == 0 {
				return s, err
			}
		}
	}
}

func save(_ *testing.T, s *Store) (*Store, error)       { return s, s.saveState() }
func closeStore(_ *testing.T, s *Store) (*Store, error) { return nil, s.Close() }
func openAgain(_ *testing.T, s *Store) (*Store, error)  { return Open(s.dir, s.o) }

// unreadRows follows a reorg, so that rows of blocks that left the chain are due to be deleted.
func unreadRows(after []testBlock) func(*testing.T, *Store) {
	return func(t *testing.T, s *Store) {
		v := openView(t, s)
		if _, err := follow(after)(t, s); err != nil {
			t.Fatal(err)
		}
		if v.Close(); s.due() == 0 {
			t.Fatal("no row is due to be deleted")
		}
	}
}

// leaveRows follows a reorg and closes the store while a view still reads the blocks that left the chain.
func leaveRows(after []testBlock) func(*testing.T, *Store) {
	return func(t *testing.T, s *Store) {
		openView(t, s)
		_, err := follow(after)(t, s)
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		if r := check(t, s.dir); r.UnnamedRows == 0 {
			t.Fatal("no row is left to be deleted")
		}
	}
}

// keepTree brings the trees of a block of another chain.
func keepTree(t *testing.T, s *Store) {
	id := chain.BlockID{Height: 5, Hash: hashOf(0xee)}
	s.PutTreeState(chain.TreeState{ID: id, Sapling: chain.EmptyTree, Orchard: chain.EmptyTree, Ironwood: chain.EmptyTree})
	if !s.kept.waiting(s.state, s.net.genesis) {
		t.Fatal("nothing waits to be written")
	}
}

// spoilRows closes the store and damages two segments and a recent row.
func spoilRows(t *testing.T, s *Store) {
	snap := s.current.Load()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	writeRow(t, s.dir, segmentKey(snap.segments[0].last).bytes(), []byte("damaged"))
	writeRow(t, s.dir, transparentKey(snap.segments[2].last).bytes(), nil)
	tip := snap.top.tip()
	writeRow(t, s.dir, recentKey(tip).bytes(), []byte("damaged"))
	if r := check(t, s.dir); len(r.Problems) < 3 {
		t.Fatalf("only %d problems: %v", len(r.Problems), r.Problems)
	}
}

// repairRows repairs a closed index, again when something is left.
func repairRows(blocks []testBlock) func(*testing.T, *Store) (*Store, error) {
	return func(t *testing.T, s *Store) (*Store, error) {
		for range 3 {
			r, err := Repair(t.Context(), s.dir, newFakeNode(blocks), s.o, CheckOptions{})
			if err != nil || len(r.Problems) == 0 {
				return nil, err
			}
		}
		return nil, errors.New("something is left to be repaired")
	}
}

// TestFaultMatrix makes every commit of every operation fail, or its answer get lost. The index is then what it was before that commit or
// after it, on the disk as in memory; it goes on, in the same process or after a restart, and nothing is missing or too much in the end.
func TestFaultMatrix(t *testing.T) {
	t.Parallel()
	for name, op := range faultOperations(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := testFault(t, op, &fault{at: -1}, 0, false)
			if n == 0 {
				t.Fatal("nothing is committed")
			}
			for at := 1; at <= n; at++ {
				for _, lost := range []bool{false, true} {
					for _, restart := range []bool{false, true} {
						t.Run(fmt.Sprintf("commit=%d of %d/lost=%t/restart=%t", at, n, lost, restart), func(t *testing.T) {
							t.Parallel()
							testFault(t, op, &fault{lost: lost}, at, restart)
						})
					}
				}
			}
		})
	}
}

// testFault does the operation with its commit number at failing, none for 0, and returns how many commits there were.
func testFault(t *testing.T, op faultOperation, f *fault, at int, restart bool) (commits int) {
	dir := memoryDir(t)
	o := small()
	o.commitHook = f.hook
	s := open(t, dir, o)
	if len(op.before) > 0 {
		if _, err := follow(op.before)(t, s); err != nil {
			t.Fatal(err)
		}
	}
	if op.prepare != nil {
		op.prepare(t, s)
	}

	start := f.count
	if at > 0 {
		f.at = start + at
	}
	s, err := op.do(t, s)
	commits = f.count - start
	if fails := at > 0 && !f.lost && !op.putOff; fails != (err != nil) || err != nil && !errors.Is(err, errInjected) {
		t.Fatalf("after %d commits: %v", commits, err)
	}
	if commits < at {
		t.Fatalf("only %d commits", commits)
	}

	if s != nil {
		expectEither(t, s, op)
	}
	if s != nil && restart {
		closeAndCheck(t, s)
		s = nil
	}
	if s == nil {
		if r := check(t, dir); len(r.Problems) > 0 {
			t.Errorf("check: %v", r.Problems)
		}
		s = open(t, dir, o)
		expectEither(t, s, op)
	}
	if _, err := follow(op.after)(t, s); err != nil {
		t.Fatalf("it does not go on: %v", err)
	}
	expectChain(t, s, op.after)
	closeAndCheck(t, s)
	if r := check(t, dir); r.UnnamedRows > 0 {
		t.Errorf("%d rows are left over", r.UnnamedRows)
	}
	return commits
}

// expectEither checks that the store holds the first blocks of the chain before the operation or of that after it, and that its state is the
// one on the disk.
func expectEither(t *testing.T, s *Store, op faultOperation) {
	t.Helper()
	disk, err := s.readState()
	if err != nil || disk.top != s.state.top || disk.sealed != s.state.sealed || disk.seq != s.state.seq {
		t.Fatalf("the state on the disk is %+v, %v, and in memory %+v", disk, err, s.state)
	}
	n := int(s.state.top.blocks)
	for _, blocks := range [][]testBlock{op.before, op.after} {
		if n == 0 {
			return
		}
		if n <= len(blocks) && blocks[n-1].ID == s.state.top.tip() {
			expectChain(t, s, blocks[:n])
			return
		}
	}
	t.Fatalf("the tip is %v, which neither chain has", s.state.top.tip())
}
