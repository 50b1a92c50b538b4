package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// wounded returns the folder of an index of 40 blocks with much damage, and the rows that it had before.
func wounded(t *testing.T, blocks []testBlock) (dir string, good rowSet) {
	t.Helper()
	dir = t.TempDir()
	s, err := Open(dir, small()) // which is not checked when the test ends
	if err != nil {
		t.Fatal(err)
	}
	s.PutTreeState(madeUpState(blocks[14]))
	build(t, s, newFakeNode(blocks))
	closeAndCheck(t, s)
	good = readRows(t, dir)
	bad := maps.Clone(good)
	for _, change := range []func(rowSet){
		gone(segmentKey(7).bytes()), gone(segmentKey(11).bytes()), at(transparentKey(19).bytes(), false, flip(-1)),
		gone(recentKey(blocks[35].ID).bytes()), at(recentKey(blocks[39].ID).bytes(), false, flip(30)),
		at(keyState.bytes(), true, flip(stateLen-2)), put([]byte("zzz"), []byte("row")), gone(keyNetwork.bytes()),
	} {
		change(bad)
	}
	writeRows(t, dir, good, bad)
	return dir, good
}

func expectRows(t *testing.T, dir string, want rowSet) {
	t.Helper()
	got := readRows(t, dir)
	for key := range want {
		if !bytes.Equal(got[key], want[key]) {
			t.Errorf("row %q is %x, not %x", key, got[key], want[key])
		}
		delete(got, key)
	}
	for key := range got {
		t.Errorf("row %q is left", key)
	}
}

func repair(t *testing.T, dir string, n BestChain, o Options) Report {
	t.Helper()
	r, err := Repair(t.Context(), dir, n, o, CheckOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRepair: much is wrong, and one run makes all of it right.
func TestRepair(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	dir, good := wounded(t, blocks)
	before := versions(t, dir)
	n := newFakeNode(blocks)
	var last int64
	r, err := Repair(t.Context(), dir, n, small(), CheckOptions{Progress: func(done, total int64) { last = done }})
	if err != nil || len(r.Problems) > 0 || r.Height != 39 || r.Dir != dir || r.DiskBytes == 0 || last != 40 {
		t.Errorf("%+v, %v", r, err)
	}
	if d := r.Repair; d == nil || d.Segments != 3 || d.Recent != 2 || d.Dropped != 1 || fmt.Sprint(d.Meta) != "[meta/network meta/state]" || d.CutTo != nil || len(d.Failures) > 0 {
		t.Errorf("%+v", r.Repair)
	}
	if n.blocksSent != 4+4+4+2 {
		t.Errorf("%d blocks were fetched", n.blocksSent)
	}
	expectRows(t, dir, good)
	written := 0
	for key, version := range versions(t, dir) {
		if version != before[key] {
			written++
		}
	}
	if written != 2+1+2+2 { // two segments, one transparent row, two recent rows, the network and the state
		t.Errorf("%d rows were written", written)
	}
}

// versions reads in which commit each row of a closed index was written.
func versions(t *testing.T, dir string) map[string]uint64 {
	t.Helper()
	db, err := badger.OpenManaged(badgerOptions(dir, Options{Logger: logTo(t)}))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	txn := db.NewTransactionAt(latest, false)
	defer txn.Discard()
	versions := make(map[string]uint64)
	for key, item := range rowsOf(txn, "", false) {
		versions[string(key)] = item.Version()
	}
	return versions
}

// TestRepairSubtreeRoots: a root that is wrong goes, and those behind it.
func TestRepairSubtreeRoots(t *testing.T) {
	t.Parallel()
	blocks := withLeaves(newForge().extend(t, nil, 40), leavesABlock)
	roots := rootsOf(blocks)
	dir := t.TempDir()
	s := open(t, dir, small())
	build(t, s, newFakeNode(blocks))
	s.PutSubtreeRoots(chain.Orchard, roots)
	closeAndCheck(t, s)
	wrong := roots[4]
	wrong.Completing = blocks[7].ID
	writeRow(t, dir, subtreeKey{chain.Orchard, 4}.bytes(), encodeSubtree(wrong))
	sizes := CheckOptions{madeUpSizes: true}
	if r := check(t, dir, sizes); len(r.Problems) != 1 || r.Problems[0].Key != "subtree/orchard/4" || r.Problems[0].First != 7 {
		t.Errorf("check: %v", r.Problems)
	}
	r, err := Repair(t.Context(), dir, nil, small(), sizes)
	if err != nil || len(r.Problems) > 0 || r.SubtreeRoots != 4 || r.Repair.Dropped < 2 {
		t.Errorf("%+v, %+v, %v", r, r.Repair, err)
	}
	s = open(t, dir, small())
	expectRoots(t, s, 0, 4, roots[:4])
	expectNoRoots(t, s, 0, 5)
}

// TestRepairSurvivesEveryCommit loses each commit, or its answer, and the process with it. What is there is never worse than before, and
// the next repair makes it right.
func TestRepairSurvivesEveryCommit(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	base, good := wounded(t, blocks)
	count := &fault{}
	run := func(t *testing.T, f *fault) (string, Report) {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
		o := small()
		o.commitHook = f.hook
		return dir, repair(t, dir, newFakeNode(blocks), o)
	}
	run(t, count)
	if count.count < 7 {
		t.Fatalf("%d commits", count.count)
	}
	for k := 1; k <= count.count; k++ {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("commit=%d/lost=%t", k, lost), func(t *testing.T) {
				t.Parallel()
				f := &fault{at: k, lost: lost}
				dir, r := run(t, f)
				if f.count < k {
					t.Errorf("only %d commits", f.count)
				}
				if len(r.Problems) > 0 {
					t.Logf("left: %v", r.Problems)
				}
				if r = repair(t, dir, newFakeNode(blocks), small()); len(r.Problems) > 0 {
					t.Errorf("the next repair: %v, %+v", r.Problems, r.Repair)
				}
				expectRows(t, dir, good)
			})
		}
	}
}

// TestRepairStops: the disk is full, or the node goes away, is of another network, or on another branch. What can be repaired is, the rest
// is named and as it was, and the next run finishes.
func TestRepairStops(t *testing.T) {
	t.Parallel()
	f := newForge()
	blocks := f.extend(t, nil, 40)
	branch := f.extend(t, blocks[:9], 40)
	foreign := f.extend(t, nil, 40)
	for name, c := range map[string]struct {
		node func() *fakeNode
		free int64
		want string
		left string // what is wrong afterwards
	}{
		"full disk": {func() *fakeNode { return newFakeNode(blocks) }, badgerRoom, "disk full", "segment/11 transparent/19 recent/ zzz meta/network"},
		"node away": {func() *fakeNode { n := newFakeNode(blocks); n.set(blocks, chain.ErrUnavailable); return n }, 1 << 40, "unavailable", "segment/11 transparent/19 recent/ meta/network"},
		"node goes away": {func() *fakeNode {
			n := newFakeNode(blocks)
			n.block = func(b testBlock) (*chain.Block, error) {
				if b.ID.Height >= 6 {
					return nil, fmt.Errorf("connection refused: %w", chain.ErrUnavailable)
				}
				return b.Block, nil
			}
			return n
		}, 1 << 40, "fetch block 6: connection refused", "segment/11 transparent/19 recent/"},
		"another network": {func() *fakeNode { return newFakeNode(foreign) }, 1 << 40, ErrOtherNetwork.Error(), "segment/11 transparent/19 recent/ meta/network"},
		"another branch":  {func() *fakeNode { return newFakeNode(branch) }, 1 << 40, "the node's blocks are not those of this index", "segment/11 transparent/19"},
		"node behind":     {func() *fakeNode { return newFakeNode(blocks[:10]) }, 1 << 40, "fetch block 10", "segment/11 transparent/19"},
		"wrong sizes": {func() *fakeNode {
			n := newFakeNode(blocks)
			n.treeSizes = func(chain.Hash, chain.TreeSizes) (chain.TreeSizes, error) { return chain.TreeSizes{Sapling: 1}, nil }
			return n
		}, 1 << 40, "but the node says 1, 0, 0", "segment/11 transparent/19 recent/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, good := wounded(t, blocks)
			bad := readRows(t, dir)
			o := small()
			o.freeHook = func() int64 { return c.free }
			o.MinFree = badgerRoom
			r := repair(t, dir, c.node(), o)
			if r.Repair == nil || !strings.Contains(strings.Join(r.Repair.Failures, "\n"), c.want) {
				t.Errorf("failures: %+v", r.Repair)
			}
			for _, key := range strings.Fields(c.left) {
				if !strings.Contains(fmt.Sprint(r.Problems), key) {
					t.Errorf("%s is not said to be wrong: %v", key, r.Problems)
				}
			}
			for key, value := range readRows(t, dir) {
				if !bytes.Equal(value, bad[key]) && !bytes.Equal(value, good[key]) && key != string(keyState) {
					t.Errorf("row %q is neither what it was nor right: %x", key, value)
				}
			}
			if r = repair(t, dir, newFakeNode(blocks), small()); len(r.Problems) > 0 {
				t.Errorf("the next repair: %v, %+v", r.Problems, r.Repair)
			}
			s := open(t, dir, small())
			build(t, s, newFakeNode(blocks))
			expectChain(t, s, blocks)
		})
	}
}

// TestRepairNeedsNoNode: an index that is right is not touched, and what needs no block is repaired without a node.
func TestRepairNeedsNoNode(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	dir := t.TempDir()
	s := open(t, dir, small())
	build(t, s, newFakeNode(blocks))
	closeAndCheck(t, s)
	if r := repair(t, dir, nil, small()); r.Repair != nil || len(r.Problems) > 0 || r.Recovered {
		t.Errorf("an index that is right: %+v", r)
	}
	good := readRows(t, dir)
	writeRow(t, dir, keyState.bytes(), nil)
	writeRow(t, dir, treeKey(hashOf(3)).bytes(), []byte("damaged"))
	r := repair(t, dir, nil, small())
	if len(r.Problems) > 0 || r.Repair.CutTo == nil || *r.Repair.CutTo != 33 || r.Repair.Dropped != 1 {
		t.Errorf("%v, %+v", r.Problems, r.Repair)
	}
	writeRow(t, dir, segmentKey(15).bytes(), nil)
	if r = repair(t, dir, nil, small()); len(r.Problems) != 1 || !strings.Contains(fmt.Sprint(r.Repair.Failures), "no node is given") {
		t.Errorf("%v, %+v", r.Problems, r.Repair)
	}
	writeRow(t, dir, segmentKey(15).bytes(), good[string(segmentKey(15).bytes())])
	s = open(t, dir, small())
	expectChain(t, s, blocks[:33])

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	closeAndCheck(t, s)
	if _, err := Repair(ctx, dir, nil, small(), CheckOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := Repair(t.Context(), t.TempDir(), nil, small(), CheckOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no index: %v", err)
	}
}

// TestRepairLargeGap: when many segments are gone in a row, their blocks are divided anew, each part in a commit of its own.
func TestRepairLargeGap(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	dir := t.TempDir()
	s := open(t, dir, small())
	build(t, s, newFakeNode(blocks))
	closeAndCheck(t, s)
	good := readRows(t, dir)
	bad := maps.Clone(good)
	for h := chain.Height(3); h < 30; h += 4 {
		delete(bad, string(segmentKey(h).bytes()))
		delete(bad, string(transparentKey(h).bytes()))
	}
	writeRows(t, dir, good, bad)
	if r := repair(t, dir, newFakeNode(blocks), small()); len(r.Problems) > 0 || r.Repair.Segments != 7 {
		t.Errorf("%v, %+v", r.Problems, r.Repair)
	}
	expectRows(t, dir, good)
}
