package index

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// expectNodeInfo checks what the store tells of the node; nil when that is nothing.
func expectNodeInfo(t *testing.T, s *Store, want *chain.NodeInfo) {
	t.Helper()
	got, ok := s.NodeInfo()
	if ok != (want != nil) || ok && !reflect.DeepEqual(got, *want) {
		t.Errorf("node info %+v, %v; want %+v", got, ok, want)
	}
}

func TestNodeRowDecodesAgain(t *testing.T) {
	t.Parallel()
	for _, info := range []chain.NodeInfo{layoutNodeInfo(), {Genesis: hashOf(0xe0)}} {
		row, err := encodeNode(&info)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeNode(row, info.Genesis); err != nil || !reflect.DeepEqual(got, info) {
			t.Errorf("%+v, %v; want %+v", got, err, info)
		}
		if got, err := decodeNode(row, hashOf(1)); err == nil {
			t.Errorf("another network's row is %+v", got)
		}
	}
	for _, info := range []chain.NodeInfo{
		{Build: strings.Repeat("b", 1<<16+5)},
		{Upgrades: slices.Repeat([]chain.Upgrade{{Name: strings.Repeat("u", 1000)}}, 20)},
	} {
		if row, err := encodeNode(&info); err == nil {
			t.Errorf("a row of %d bytes was encoded", len(row))
		}
	}
}

// What the node says goes along with the next commit, is there again after a restart, and is replaced by what it says later.
func TestNodeInfoIsKept(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 40)
	dir := t.TempDir()
	info := layoutNodeInfo()
	info.Genesis = blocks[0].ID.Hash

	s := open(t, dir, small())
	s.PutNodeInfo(info) // before there is a block, and so before the index knows its network
	expectNodeInfo(t, s, nil)
	build(t, s, newFakeNode(blocks[:20]))
	expectNodeInfo(t, s, &info)
	closeAndCheck(t, s)

	s = open(t, dir, small())
	expectNodeInfo(t, s, &info)
	other := info
	other.Genesis, other.Build = hashOf(9), "of another network"
	s.PutNodeInfo(other)
	build(t, s, newFakeNode(blocks[:21]))
	expectNodeInfo(t, s, &info)
	info.Tip.Height, info.Build, info.Upgrades = 7, "v8", nil
	s.PutNodeInfo(info)
	closeAndCheck(t, s) // no block came: Close writes it

	s = open(t, dir, small())
	expectNodeInfo(t, s, &info)
	version := s.version
	s.PutNodeInfo(info)
	closeAndCheck(t, s)
	if s.version != version {
		t.Error("what was kept already was written again")
	}
}

// A commit whose answer was lost has kept it, one that failed has not.
func TestNodeInfoSurvivesFailedCommits(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 10)
	info := layoutNodeInfo()
	info.Genesis = blocks[0].ID.Hash
	for name, write := range map[string]func(func() error) error{
		"before": func(func() error) error { return errInjected },
		"after": func(write func() error) error {
			if err := write(); err != nil {
				return err
			}
			return errInjected
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := small()
			s := open(t, t.TempDir(), o)
			build(t, s, newFakeNode(blocks[:5]))
			s.PutNodeInfo(info)
			s.o.commitHook = write
			err := s.saveState()
			s.o.commitHook = nil
			if _, kept := s.NodeInfo(); kept != (err == nil) {
				t.Errorf("kept %v after %v", kept, err)
			}
			build(t, s, newFakeNode(blocks))
			expectNodeInfo(t, s, &info)
			closeAndCheck(t, s)
		})
	}
}

// A damaged row, and one of another network, count as none, are found by Check, and make room for the next.
func TestDamagedNodeInfo(t *testing.T) {
	t.Parallel()
	blocks := newForge().extend(t, nil, 10)
	info := layoutNodeInfo()
	info.Genesis = blocks[0].ID.Hash
	for name, damage := range map[string]func(row []byte) []byte{
		"a bit":           func(row []byte) []byte { row[len(row)-1] ^= 1; return row },
		"another network": func([]byte) []byte { return layoutNode() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir, small())
			build(t, s, newFakeNode(blocks[:5]))
			s.PutNodeInfo(info)
			closeAndCheck(t, s)
			writeRow(t, dir, keyNode.bytes(), damage(readBytes(t, dir, keyNode.bytes())))
			if r := check(t, dir); len(r.Problems) != 1 || r.Problems[0].Key != "meta/node" {
				t.Errorf("check: %v", r.Problems)
			}
			s = open(t, dir, small())
			expectNodeInfo(t, s, nil)
			s.PutNodeInfo(info)
			build(t, s, newFakeNode(blocks))
			expectNodeInfo(t, s, &info)
			closeAndCheck(t, s)
		})
	}
}
