package index

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// rowSet is what a database holds, by key.
type rowSet map[string][]byte

// readRows reads a closed index. The count of commits is left out, since a repair is one.
func readRows(t *testing.T, dir string) rowSet {
	t.Helper()
	db, err := badger.OpenManaged(badgerOptions(dir, Options{Logger: logTo(t)}))
	if err != nil {
		t.Fatal(err)
	}
	rows := make(rowSet)
	txn := db.NewTransactionAt(latest, false)
	for key, item := range rowsOf(txn, "", true) {
		value, err := item.ValueCopy(nil)
		if err != nil {
			t.Fatal(err)
		}
		rows[string(key)] = value
	}
	txn.Discard()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if st, err := decodeState(rows[string(keyState)]); err == nil {
		st.seq = 1
		rows[string(keyState)] = st.encode()
	}
	return rows
}

// writeRows makes the rows of a closed index those of after.
func writeRows(t *testing.T, dir string, before, after rowSet) {
	t.Helper()
	db, err := badger.OpenManaged(badgerOptions(dir, Options{Logger: logTo(t)}))
	if err != nil {
		t.Fatal(err)
	}
	txn := db.NewTransactionAt(latest, true)
	for key, value := range after {
		if old, ok := before[key]; !ok || !bytes.Equal(old, value) {
			err = errors.Join(err, txn.Set([]byte(key), value))
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok {
			err = errors.Join(err, txn.Delete([]byte(key)))
		}
	}
	if err := errors.Join(err, txn.CommitAt(db.MaxVersion()+1, nil), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// reseal makes the checksums of a row right again.
func reseal(key string, row []byte) {
	if strings.HasPrefix(key, prefixSegment) {
		fixChecksums(3, row)
	} else {
		sealCRC(row)
	}
}

// damage is one thing that is done to the rows of an index.
type damage struct {
	name   string
	change func(rowSet)
	key    string // of a problem that must be found
	cut    bool   // it cannot be repaired in place
	other  bool   // the index is right afterwards, but divided into other rows
	node   bool   // only a comparison with the node finds it
}

// at changes bytes of a row. With seal the checksums are right afterwards.
func at(key []byte, seal bool, change func(row []byte)) func(rowSet) {
	return func(rows rowSet) {
		row := bytes.Clone(rows[string(key)])
		change(row)
		if seal {
			reseal(string(key), row)
		}
		rows[string(key)] = row
	}
}

func flip(i int) func([]byte) {
	return func(row []byte) {
		if i < 0 {
			i += len(row)
		}
		row[i] ^= 0x10
	}
}

func put(key, value []byte) func(rowSet) {
	return func(rows rowSet) { rows[string(key)] = value }
}

func gone(key []byte) func(rowSet) { return func(rows rowSet) { delete(rows, string(key)) } }

func cutShort(key []byte, n int) func(rowSet) {
	return func(rows rowSet) { rows[string(key)] = rows[string(key)][:n] }
}

func longer(key []byte) func(rowSet) {
	return func(rows rowSet) {
		row := append(bytes.Clone(rows[string(key)]), 0)
		reseal(string(key), row)
		rows[string(key)] = row
	}
}

func swap(a, b []byte) func(rowSet) {
	return func(rows rowSet) { rows[string(a)], rows[string(b)] = rows[string(b)], rows[string(a)] }
}

func move(from, to []byte) func(rowSet) {
	return func(rows rowSet) {
		rows[string(to)] = rows[string(from)]
		delete(rows, string(from))
	}
}

// TestEveryDamage does what can be done to the rows of an index, one thing after the other. Check names the row, the heights, and what to
// do; Repair makes the index what it was, row by row, or goes back to the last segment that is right; without a node it harms nothing.
func TestEveryDamage(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	base := t.TempDir()
	s := open(t, base, small())
	for _, h := range []int{5, 14, 37} {
		s.PutTreeState(madeUpState(blocks[h]))
	}
	s.PutNodeInfo(chain.NodeInfo{Genesis: blocks[0].ID.Hash, Chain: "test", Build: "build"})
	build(t, s, newFakeNode(blocks))
	closeAndCheck(t, s)
	good := readRows(t, base)
	if len(good) != 4+2*9+7+3 {
		t.Fatalf("%d rows", len(good))
	}
	all := slices.Concat(damageSegment(blocks), damageRecent(blocks), damageMeta(), damageTrees(blocks[14]))
	for _, d := range all {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
				t.Fatal(err)
			}
			bad := maps.Clone(good)
			d.change(bad)
			writeRows(t, dir, good, bad)
			testDamage(t, dir, d, blocks, good)
		})
	}
}

func testDamage(t *testing.T, dir string, d damage, blocks []testBlock, good rowSet) {
	o := CheckOptions{}
	if d.node {
		if r := check(t, dir); len(r.Problems) > 0 {
			t.Errorf("check without the node: %v", r.Problems)
		}
		o.Compare, o.All = newFakeNode(blocks), true
	}
	r := check(t, dir, o)
	i := slices.IndexFunc(r.Problems, func(p Problem) bool { return strings.HasPrefix(p.Key, d.key) })
	if i < 0 || r.Problems[i].What == "" || r.Problems[i].Do == "" || len(r.Problems) > 4 {
		t.Fatalf("check: %v", r.Problems)
	}
	for _, p := range r.Problems {
		if p.First > p.Last || p.Last > 40 {
			t.Errorf("heights %d to %d: %v", p.First, p.Last, p)
		}
	}
	bad := readRows(t, dir)

	away := newFakeNode(blocks)
	away.set(blocks, chain.ErrUnavailable)
	left, err := Repair(t.Context(), dir, away, small(), CheckOptions{})
	if err != nil {
		t.Fatalf("repair without the node: %v", err)
	}
	if len(left.Problems) > 0 && (left.Repair == nil || len(left.Repair.Failures) == 0) {
		t.Errorf("repair without the node: %v is left, and %+v", left.Problems, left.Repair)
	}
	for key, value := range readRows(t, dir) {
		if !bytes.Equal(value, bad[key]) && !bytes.Equal(value, good[key]) && !d.cut {
			t.Errorf("repair without the node changed %q", key)
		}
	}

	r, err = Repair(t.Context(), dir, newFakeNode(blocks), small(), o)
	if err != nil || len(r.Problems) > 0 || r.Repair != nil && len(r.Repair.Failures) > 0 {
		t.Fatalf("repair: %v, %+v, %v", r.Problems, r.Repair, err)
	}
	if cut := r.Repair != nil && r.Repair.CutTo != nil || left.Repair != nil && left.Repair.CutTo != nil; cut != d.cut {
		t.Errorf("cut back: %t\n%+v\n%+v", cut, left.Repair, r.Repair)
	}
	if !d.cut && !d.other {
		repaired, want := readRows(t, dir), maps.Clone(good)
		if _, ok := repaired[d.droppedKey(repaired)]; !ok {
			delete(want, d.droppedKey(repaired))
		}
		for key := range want {
			if !bytes.Equal(repaired[key], want[key]) {
				t.Errorf("row %q is not what it was: %x, not %x", key, repaired[key], want[key])
			}
		}
		for key := range repaired {
			if _, ok := want[key]; !ok {
				t.Errorf("row %q is left", key)
			}
		}
	}
	if again, err := Repair(t.Context(), dir, newFakeNode(blocks), small(), o); err != nil || again.Repair != nil {
		t.Errorf("a second repair: %+v, %v", again.Repair, err)
	}
	s := open(t, dir, small())
	build(t, s, newFakeNode(blocks))
	expectChain(t, s, blocks)
}

// droppedKey is the key of a row that is not made again but asked for again: of a tree state, or of what the node has said.
func (d damage) droppedKey(rows rowSet) string {
	for _, key := range []string{string(keyNode)} {
		if _, ok := rows[key]; !ok {
			return key
		}
	}
	if strings.HasPrefix(d.key, prefixTree) {
		hash, _ := chain.ParseHash(strings.TrimPrefix(d.key, prefixTree))
		return string(treeKey(hash).bytes())
	}
	return ""
}
