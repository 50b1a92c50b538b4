package index

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"
)

var (
	powerCuts = flag.Int("power.cuts", standardCuts, "cuts of each kind of the power test")
	powerSeed = flag.Uint64("power.seed", 1, "seed of the first cut of the power test; each has the next one")
)

const pageSize = 4096

// diskFile is a file as it lies on a disk. Pages of zeros are left out.
type diskFile struct {
	size  int64
	pages map[int64]string
}

// disk is a directory: its files by name.
type disk map[string]diskFile

// readDisk reads a directory while Badger may be at work in it; whatever moved meanwhile makes it read again.
func readDisk(t testing.TB, dir string) disk {
	t.Helper()
	for {
		before := listing(t, dir)
		d := make(disk)
		var err error
		for name := range before {
			var f diskFile
			if f, err = readPages(filepath.Join(dir, name)); err != nil {
				break // it has just been deleted
			}
			d[name] = f
		}
		if err == nil && maps.Equal(before, listing(t, dir)) {
			return d
		}
	}
}

func listing(t testing.TB, dir string) map[string]int64 {
	t.Helper()
	list := make(map[string]int64)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			list[e.Name()] = info.Size()
		}
	}
	return list
}

func readPages(path string) (diskFile, error) {
	in, err := os.Open(path)
	if err != nil {
		return diskFile{}, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return diskFile{}, err
	}
	f := diskFile{size: info.Size(), pages: make(map[int64]string)}
	page, zero := make([]byte, pageSize), make([]byte, pageSize)
	for pos := int64(0); pos < f.size; pos += pageSize {
		start, err := unix.Seek(int(in.Fd()), pos, unix.SEEK_DATA)
		if err != nil {
			break // a hole up to the end
		}
		pos = start / pageSize * pageSize
		clear(page)
		if _, err := in.ReadAt(page, pos); err != nil && pos+pageSize < f.size {
			return diskFile{}, err
		}
		if !bytes.Equal(page, zero) {
			f.pages[pos] = string(page)
		}
	}
	return f, nil
}

func (d disk) write(t testing.TB, dir string) {
	t.Helper()
	for name, f := range d {
		out, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for pos, page := range f.pages {
			if _, err := out.WriteAt([]byte(page), pos); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmp.Or(out.Truncate(f.size), out.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// tear returns what a disk may hold of a file that was being written when the power failed: each page is the old or the new one, and so is
// the size. A file that is new may not be there, or be empty.
func tear(rng *rand.Rand, old, now diskFile) (f diskFile, there bool) {
	if old.size == 0 && rng.IntN(4) == 0 {
		return diskFile{}, rng.IntN(2) == 0
	}
	f = diskFile{size: now.size, pages: maps.Clone(old.pages)}
	if f.pages == nil {
		f.pages = make(map[int64]string)
	}
	if old.size > 0 && rng.IntN(2) == 0 {
		f.size = old.size
	}
	changed := slices.DeleteFunc(slices.Sorted(maps.Keys(now.pages)), func(pos int64) bool { return now.pages[pos] == old.pages[pos] })
	lost := func(int) bool { return rng.IntN(2) == 0 }
	n := rng.IntN(len(changed) + 1)
	switch rng.IntN(4) {
	case 0: // the end
		lost = func(i int) bool { return i >= n }
		if n < len(changed) && rng.IntN(2) == 0 {
			f.size = cutBehind(rng, old, changed[n])
		}
	case 1: // the beginning
		lost = func(i int) bool { return i < n }
	case 2: // one page
		lost = func(i int) bool { return i == n }
	}
	for i, pos := range changed {
		if !lost(i) {
			f.pages[pos] = now.pages[pos]
		}
	}
	return f, true
}

// cutBehind returns where a file may end whose page at pos, and all after it, got lost: nothing of the old file is cut off.
func cutBehind(rng *rand.Rand, old diskFile, pos int64) int64 {
	for p := range old.pages {
		pos = max(pos, p+pageSize)
	}
	return pos + rng.Int64N(2)*rng.Int64N(pageSize)
}

// put tears a file into d.
func (d disk) put(rng *rand.Rand, name string, old, now diskFile) {
	if f, there := tear(rng, old, now); there {
		d[name] = f
	} else {
		delete(d, name)
	}
}

func isLog(name string) bool { return isValues(name) || strings.HasSuffix(name, ".mem") }

func isValues(name string) bool { return strings.HasSuffix(name, ".vlog") }

// powerStory is an index whose disk was read after every commit.
type powerStory struct {
	o      Options
	chains [][]testBlock // that the node had
	disks  []disk        // the first one before any commit
	states []state
}

// smallFiles let a few blocks fill the files of both logs.
func smallFiles(memTable int64) func(badger.Options) badger.Options {
	return func(o badger.Options) badger.Options {
		return o.WithMemTableSize(memTable).WithValueLogFileSize(1 << 20).WithValueLogMaxEntries(8).WithValueThreshold(512)
	}
}

// tellPowerStory builds, follows, rewinds and seals, with rows in both logs and in tables.
func tellPowerStory(t *testing.T) *powerStory {
	f := newForge()
	p := &powerStory{o: small()}
	p.o.Logger = logTo(t)
	p.o.badgerHook = smallFiles(256 << 10)
	dir := memoryDir(t)
	o := p.o
	o.badgerHook = smallFiles(12 << 10)
	var s *Store
	note := func() {
		st, err := s.readState()
		if err != nil {
			t.Fatal(err)
		}
		p.disks, p.states = append(p.disks, readDisk(t, dir)), append(p.states, st)
	}
	o.commitHook = func(write func() error) error {
		err := write()
		if s != nil {
			note()
		}
		return err
	}
	s = open(t, dir, o)
	if !s.db.Opts().SyncWrites {
		t.Fatal("commits are not synced")
	}
	note()
	blocks := f.extend(t, nil, 140)
	follow := func(blocks []testBlock) { p.follow(t, s, blocks) }
	follow(blocks[:60])
	for i := 61; i <= 120; i++ {
		follow(blocks[:i])
	}
	other := f.extend(t, blocks[:117], 5)
	follow(other)
	follow(blocks)
	p.chains = [][]testBlock{blocks, other}
	return p
}

// cutAt returns the disk after a power cut in commit k, and tells whether the commit had taken place.
func (p *powerStory) cutAt(rng *rand.Rand, k int) disk {
	before, after := p.disks[k-1], p.disks[k]
	values := rng.IntN(2) == 0 // the value log is synced first
	d := maps.Clone(after)
	if values {
		d = maps.Clone(before)
	}
	for name, now := range after {
		if values == isValues(name) && isLog(name) {
			d.put(rng, name, before[name], now)
		}
		if !values && isValues(name) {
			d[name] = now
		}
	}
	return d
}

// TestPowerCut cuts the power in each commit: some pages of the log that is being synced are on the disk, and some are not. The index is
// as it was before the commit, or after it.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	p := tellPowerStory(t)
	t.Logf("%d commits", len(p.disks)-1)
	for i := range uint64(*powerCuts) {
		seed := *powerSeed + i
		rng := rand.New(rand.NewPCG(seed, 0))
		k := 1 + rng.IntN(len(p.disks)-1)
		d := p.cutAt(rng, k)
		p.recover(t, fmt.Sprintf("seed %d, in commit %d", seed, k), d, p.states[k-1:k+1]...)
	}
}

// TestPowerCutOfDeceitfulDisk cuts the power when the disk has not written what it said it had.
func TestPowerCutOfDeceitfulDisk(t *testing.T) {
	t.Parallel()
	p := tellPowerStory(t)
	for i := range uint64(*powerCuts) {
		seed := *powerSeed + i
		rng := rand.New(rand.NewPCG(seed, 1))
		to := 1 + rng.IntN(len(p.disks)-1)
		from := max(0, to-1-rng.IntN(8))
		d := maps.Clone(p.disks[to])
		for name, now := range d {
			if isLog(name) {
				d.put(rng, name, p.disks[from][name], now)
			}
		}
		p.recover(t, fmt.Sprintf("seed %d, with commits %d to %d", seed, from+1, to), d)
	}
}

// recover opens what a power cut has left. The chain is that of one of the states, if any are given, or the beginning of any that the node
// had. All of it can be read, and it goes on.
func (p *powerStory) recover(t *testing.T, what string, d disk, states ...state) {
	t.Helper()
	dir := memoryDir(t)
	defer os.RemoveAll(dir)
	d.write(t, dir)
	s, err := Open(dir, p.o)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer s.Close()
	top := s.state.top
	same := func(st state) bool { return st.top == top && st.sealed == s.state.sealed }
	if len(states) > 0 && !slices.ContainsFunc(states, same) {
		t.Errorf("%s: the tip is %v, it was one of %v", what, top.tip(), states)
	}
	if n := s.Stats().CorruptSegments; n > 0 {
		t.Errorf("%s: %d corrupt segments", what, n)
	}
	if top.blocks > 0 {
		i := slices.IndexFunc(p.chains, func(blocks []testBlock) bool {
			return int(top.blocks) <= len(blocks) && blocks[top.blocks-1].ID == top.tip()
		})
		if i < 0 {
			t.Fatalf("%s: the tip is %v, which the node never had", what, top.tip())
		}
		expectChain(t, s, p.chains[i][:top.blocks])
	}
	p.follow(t, s, p.chains[0])
	expectChain(t, s, p.chains[0])
	closeAndCheck(t, s)
	if t.Failed() {
		t.Fatalf("%s: see above", what)
	}
}

func (p *powerStory) follow(t *testing.T, s *Store, blocks []testBlock) {
	t.Helper()
	n := newFakeNode(blocks)
	b := NewBuilder(s, n, BuilderOptions{})
	b.suspect = true
	drive(t, b, n)
}
