package index

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// hashOf is a hash whose bytes count up from first.
func hashOf(first byte) (h chain.Hash) {
	for i := range h {
		h[i] = first + byte(i)
	}
	return h
}

// layoutBlocks are three blocks whose parts are readable in a hex dump. Rows do not look into them.
func layoutBlocks() []testBlock {
	return []testBlock{
		{&chain.Block{ID: chain.BlockID{Height: 100, Hash: hashOf(0x10)}, Prev: hashOf(0x00),
			Shielded: []byte("shielded 100"), Transparent: []byte("transparent 100")}, chain.TreeSizes{Sapling: 1, Orchard: 2, Ironwood: 3}},
		{&chain.Block{ID: chain.BlockID{Height: 101, Hash: hashOf(0x20)}, Prev: hashOf(0x10),
			Shielded: []byte("shielded 101 is longer"), Transparent: nil}, chain.TreeSizes{Sapling: 4, Orchard: 5, Ironwood: 6}},
		{&chain.Block{ID: chain.BlockID{Height: 102, Hash: hashOf(0x30)}, Prev: hashOf(0x20),
			Shielded: nil, Transparent: []byte("transparent 102")}, chain.TreeSizes{Sapling: 7, Orchard: 8, Ironwood: 1 << 31}},
	}
}

func layoutAssembler() *assembler {
	a := new(assembler)
	for _, b := range layoutBlocks() {
		a.add(b.Block, b.sizes)
	}
	return a
}

func layoutState() state {
	return state{
		seq:      0x0102030405060708,
		sealed:   chainEnd{blocks: 103, hash: hashOf(0x30), sizes: chain.TreeSizes{Sapling: 7, Orchard: 8, Ironwood: 9}},
		top:      chainEnd{blocks: 1203, hash: hashOf(0x40), sizes: chain.TreeSizes{Sapling: 10, Orchard: 11, Ironwood: 12}},
		complete: true,
	}
}

// TestLayouts pins every key and row of docs/format.md to its bytes. A change here is a new format version.
func TestLayouts(t *testing.T) {
	t.Parallel()
	segment, transparent := layoutAssembler().rows()
	first := layoutBlocks()[0]
	var got strings.Builder
	for _, row := range []struct {
		name       string
		key, value []byte
	}{
		{"format version", keyFormat.bytes(), encodeFormat(FormatVersion)},
		{"network", keyNetwork.bytes(), network{genesis: hashOf(0xe0), name: "main"}.encode()},
		{"node", keyNode.bytes(), layoutNode()},
		{"state", keyState.bytes(), layoutState().encode()},
		{"segment of blocks 100 to 102", segmentKey(102).bytes(), segment},
		{"transparent row of blocks 100 to 102", transparentKey(102).bytes(), transparent},
		{"recent block 100", recentKey(first.ID).bytes(), appendRecentRow(nil, first.Block, first.sizes)},
		{"tree state of block 100", treeKey(first.ID.Hash).bytes(), layoutTree()},
		{"orchard subtree 258", subtreeKey{chain.Orchard, 258}.bytes(), layoutSubtree()},
	} {
		fmt.Fprintf(&got, "%s\nkey\n%svalue\n%s\n", row.name, hex.Dump(row.key), hex.Dump(row.value))
	}
	const path = "testdata/layouts.txt"
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(golden) {
		t.Errorf("the layouts have changed. If that is meant, raise FormatVersion and run with -update. They are now:\n%s", got.String())
	}
}

func TestRowsDecodeAgain(t *testing.T) {
	t.Parallel()
	if s, err := decodeState(layoutState().encode()); err != nil || s != layoutState() {
		t.Errorf("state %+v, %v", s, err)
	}
	net := network{genesis: hashOf(9), name: "regtest"}
	if n, err := decodeNetwork(net.encode()); err != nil || n != net {
		t.Errorf("network %+v, %v", n, err)
	}
	for _, b := range layoutBlocks() {
		row, err := decodeRecentRow(appendRecentRow([]byte("before"), b.Block, b.sizes)[len("before"):])
		if err != nil || row.prev != b.Prev || row.sizes != b.sizes || !bytes.Equal(row.frame, b.frame()) || !bytes.Equal(row.column, b.Transparent) {
			t.Errorf("recent block %v: %+v, %v", b.ID, row, err)
		}
		if key, err := parseRecentKey(recentKey(b.ID).bytes()); err != nil || key != recentKey(b.ID) {
			t.Errorf("key %v, %v", key, err)
		}
	}
	segment, transparent := layoutAssembler().rows()
	s, err := decodeSegment(segment)
	if err := errors.Join(err, s.verifyTables(), s.verifyFrames()); err != nil {
		t.Fatal(err)
	}
	if s.first != 100 || s.lastHeight() != 102 || s.prev != hashOf(0) || s.last != hashOf(0x30) || string(s.prefixes) != "\x10\x11\x12\x13\x20\x21\x22\x23\x30\x31\x32\x33" {
		t.Errorf("segment %+v", s)
	}
	c, err := decodeTransparent(transparent)
	if err := errors.Join(err, c.verify()); err != nil || c.first != 100 {
		t.Fatal(err, c.first)
	}
	for _, b := range layoutBlocks() {
		if frame, err := s.frame(b.ID.Height); err != nil || !bytes.Equal(frame, b.frame()) {
			t.Errorf("frame %d: %q, %v", b.ID.Height, frame, err)
		}
		if column, err := c.column(b.ID.Height); err != nil || !bytes.Equal(column, b.Transparent) {
			t.Errorf("column %d: %q, %v", b.ID.Height, column, err)
		}
	}
	for _, h := range []chain.Height{0, 99, 103, chain.MaxHeight} {
		if _, err := s.frame(h); err == nil {
			t.Errorf("a segment of blocks 100 to 102 has a frame %d", h)
		}
	}
}

// verifyRow decodes a row as the kind of its key, and verifies all of it.
func verifyRow(kind byte, row []byte) error {
	switch kind % rowKinds {
	case 0:
		_, err := decodeFormat(row)
		return err
	case 1:
		_, err := decodeNetwork(row)
		return err
	case 2:
		_, err := decodeState(row)
		return err
	case 3:
		s, err := decodeSegment(row)
		if err == nil {
			err = errors.Join(s.verifyTables(), s.verifyFrames())
		}
		for h := s.first; err == nil && h <= s.lastHeight() && h-s.first < 1000; h++ {
			_, err = s.frame(h)
			_, _ = summarize(s, h)
		}
		return err
	case 4:
		c, err := decodeTransparent(row)
		if err == nil {
			err = c.verify()
		}
		for i := 0; err == nil && i < min(c.ends.len(), 1000); i++ {
			_, err = c.column(c.first + chain.Height(i))
		}
		return err
	case 5:
		_, err := decodeRecentRow(row)
		return err
	case 6:
		_, err := decodeTree(treeKey{}, row)
		return err
	case 7:
		_, err := decodeSubtree(row)
		return err
	default:
		_, err := decodeNode(row, hashOf(0xe0))
		return err
	}
}

const rowKinds = 9

func layoutRows() [][]byte {
	segment, transparent := layoutAssembler().rows()
	first := layoutBlocks()[0]
	return [][]byte{
		encodeFormat(FormatVersion), network{genesis: hashOf(1), name: "main"}.encode(), layoutState().encode(),
		segment, transparent, appendRecentRow(nil, first.Block, first.sizes), layoutTree(), layoutSubtree(), layoutNode(),
	}
}

func layoutNodeInfo() chain.NodeInfo {
	return chain.NodeInfo{
		Chain: "main", Genesis: hashOf(0xe0), Tip: chain.BlockID{Height: 1202, Hash: hashOf(0x40)}, EstimatedHeight: 1204, BranchID: 0x77190ad9,
		Upgrades: []chain.Upgrade{{BranchID: 0x5ba81b19, Name: "Overwinter", Height: 3}, {BranchID: 0x0badcafe, Name: "Canto", Height: 9000, Pending: true}},
		Build:    "v7.0.0", Subversion: "/Zebra:7.0.0/",
	}
}

func layoutNode() []byte {
	info := layoutNodeInfo()
	row, err := encodeNode(&info)
	if err != nil {
		panic(err)
	}
	return row
}

// TestEveryFlippedBitIsFound changes each bit of each row, cuts it short everywhere and makes it longer.
func TestEveryFlippedBitIsFound(t *testing.T) {
	t.Parallel()
	for kind, row := range layoutRows() {
		if err := verifyRow(byte(kind), row); err != nil {
			t.Fatalf("row %d: %v", kind, err)
		}
		for i := range row {
			if verifyRow(byte(kind), row[:i]) == nil {
				t.Errorf("row %d passes when cut to %d bytes", kind, i)
			}
			for bit := range 8 {
				changed := slices.Clone(row)
				changed[i] ^= 1 << bit
				if kind > 0 && verifyRow(byte(kind), changed) == nil {
					t.Errorf("row %d passes with bit %d of byte %d changed", kind, bit, i)
				}
			}
		}
		if verifyRow(byte(kind), append(slices.Clone(row), 0)) == nil {
			t.Errorf("row %d passes with a byte more", kind)
		}
	}
}

// FuzzDecodeRow looks for rows that make a decoder panic. The first byte says which kind the row is of; half of the inputs get right
// checksums, so that the rest of the decoder is reached.
func FuzzDecodeRow(f *testing.F) {
	for kind, row := range layoutRows() {
		f.Add(append([]byte{byte(kind)}, row...))
		f.Add(append([]byte{byte(kind + rowKinds)}, row...))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 9 || len(in) > 1<<16 {
			return
		}
		kind, row := in[0], slices.Clone(in[1:])
		if kind/rowKinds%2 == 1 {
			fixChecksums(kind, row)
		}
		_ = verifyRow(kind, row)
	})
}

func fixChecksums(kind byte, row []byte) {
	if len(row) < 4 {
		return // no room for one
	}
	if kind%rowKinds != 3 {
		sealCRC(row)
		return
	}
	if s, err := decodeSegment(row); err == nil {
		copy(row[4:8], sealCRC(append(make([]byte, 4), s.frames...))[:4])
		copy(row[:4], sealCRC(append(make([]byte, 4), s.tables...))[:4])
	}
}

// TestHashTable grows tables over several pages, with segments that are missing, cuts them, and grows them again.
func TestHashTable(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 5*pageBlocks/2 + 100
	prefixes := make([]byte, n*hashPrefixLen)
	for h := range n {
		p := prefixes[h*hashPrefixLen:][:hashPrefixLen]
		binary.BigEndian.PutUint32(p, rng.Uint32())
		if h%10_000 == 0 {
			copy(p, []byte{0, 0, byte(h / 10_000 % 3), 7}) // some share all of it
		}
	}
	prefix := func(h chain.Height) []byte { return prefixes[int(h)*hashPrefixLen:][:hashPrefixLen] }
	grow := func(table hashTable, listed map[uint64][]chain.Height, from, to chain.Height) hashTable {
		for from < to {
			next := min(to, from+1+chain.Height(rng.IntN(3000)))
			if next == to || rng.IntN(20) > 0 { // else a segment that cannot be read
				table = table.with(appendEntries(nil, from, prefixes[int(from)*hashPrefixLen:int(next)*hashPrefixLen]))
				for h := from; h < next; h++ {
					listed[hashKey(prefix(h))] = append(listed[hashKey(prefix(h))], h)
				}
			}
			from = next
		}
		if len(table.pages) != int(to>>pageBits) || len(table.runs) > 12 {
			t.Fatalf("%d pages and %d runs of %d blocks", len(table.pages), len(table.runs), to)
		}
		return table
	}
	var samples []chain.Height
	for h := chain.Height(0); h < n; h += 10_000 {
		samples = append(samples, h, min(h+1+chain.Height(rng.IntN(9_999)), n-1))
	}
	check := func(table hashTable, listed map[uint64][]chain.Height, blocks chain.Height) {
		t.Helper()
		for _, h := range samples {
			var hash chain.Hash
			copy(hash[:], prefix(h))
			for _, limit := range []chain.Height{blocks, min(h+1, blocks), min(h, blocks)} {
				var want []chain.Height
				for _, same := range listed[hashKey(hash[:])] {
					if same < limit {
						want = append(want, same)
					}
				}
				got := table.candidates(nil, hash, limit)
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Fatalf("height %d of %d below %d: %v, want %v", h, blocks, limit, got, want)
				}
			}
		}
	}
	listed := map[uint64][]chain.Height{}
	table := grow(hashTable{}, listed, 0, n)
	check(table, listed, n)
	for _, to := range []chain.Height{n - 1, 2*pageBlocks + 1, 2 * pageBlocks, pageBlocks + 12_345, 1, 0} {
		kept := map[uint64][]chain.Height{}
		for key, heights := range listed {
			for _, h := range heights {
				if h < to {
					kept[key] = append(kept[key], h)
				}
			}
		}
		less := table.below(to)
		check(less, kept, to)
		check(table, listed, n) // is as it was
		if to > pageBlocks {
			check(grow(less, kept, to, n), kept, n)
		}
	}
}

func TestSortEntries(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 2, 4095, 4096, 100_000} {
		entries := make([]uint64, n)
		for i := range entries {
			entries[i] = uint64(rng.Uint32()>>(32-hashBits)>>rng.IntN(hashBits))<<32 | uint64(i)
		}
		want := slices.Clone(entries)
		slices.Sort(want)
		if got := sortEntries(entries); !slices.Equal(got, want) {
			t.Errorf("%d entries are not sorted", n)
		}
	}
}
