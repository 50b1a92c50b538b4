package index

import (
	"bytes"
	"slices"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// FuzzSegmentRun reads runs out of segments whose checksums are right and whose bytes may be anything: no height, table or block in them
// makes a reader panic, or claim blocks that it was not asked for.
func FuzzSegmentRun(f *testing.F) {
	segment, transparent := layoutAssembler().rows()
	for i := range len(projections) {
		f.Add(segment, transparent, byte(0), byte(2), byte(i))
		f.Add(segment, transparent, byte(2), byte(1), byte(i))
	}
	f.Fuzz(func(t *testing.T, segment, transparent []byte, from, to, projection byte) {
		if len(segment) > 1<<15 || len(transparent) > 1<<15 {
			return
		}
		segment, transparent = slices.Clone(segment), slices.Clone(transparent)
		fixChecksums(3, segment)
		fixChecksums(4, transparent)
		row, err := decodeSegment(segment)
		if err != nil || row.verifyTables() != nil || row.verifyFrames() != nil {
			return
		}
		columns, err := decodeTransparent(transparent)
		if err != nil || columns.verify() != nil || columns.first != row.first || columns.ends.len() != row.ends.len() || row.lastHeight() < row.first {
			return // what a store does not read any further
		}
		n := row.ends.len()
		r := runReader{
			p: projections[projectionName(uint32(projection))], cur: row.first + chain.Height(int(from)%n), last: row.first + chain.Height(int(to)%n),
			buf: new([]byte),
		}
		r.down = r.cur > r.last
		if r.p == chain.DefaultProjection && !r.down {
			err = r.copyFrames(row, r.last)
		} else {
			err = r.cut(row, &columns, r.last)
		}
		if err != nil {
			return
		}
		low, high := min(r.cur, r.last), max(r.cur, r.last)
		if r.out.First.Height != r.cur || r.out.Last.Height < low || r.out.Last.Height > high ||
			r.out.Count != int(max(r.out.First.Height, r.out.Last.Height)-min(r.out.First.Height, r.out.Last.Height))+1 {
			t.Fatalf("blocks %d to %d: a run of %d from %v to %v", r.cur, r.last, r.out.Count, r.out.First, r.out.Last)
		}
	})
}

// FuzzParseKey: a key that is read is the one that would be written.
func FuzzParseKey(f *testing.F) {
	for _, key := range [][]byte{
		keyState.bytes(), segmentKey(7).bytes(), transparentKey(7).bytes(), recentKey{Height: 7, Hash: hashOf(1)}.bytes(), treeKey(hashOf(2)).bytes(),
		subtreeKey{chain.Orchard, 5}.bytes(), nil,
	} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		var again [][]byte
		if h, err := parseHeightKey(prefixSegment, key); err == nil {
			again = append(again, segmentKey(h).bytes())
		}
		if h, err := parseHeightKey(prefixTransparent, key); err == nil {
			again = append(again, transparentKey(h).bytes())
		}
		if k, err := parseRecentKey(key); err == nil {
			again = append(again, k.bytes())
		}
		if k, err := parseTreeKey(key); err == nil {
			again = append(again, k.bytes())
		}
		if k, err := parseSubtreeKey(key); err == nil {
			again = append(again, k.bytes())
		}
		if len(again) > 1 || len(again) == 1 && !bytes.Equal(again[0], key) {
			t.Fatalf("%q is read as %q", key, again)
		}
	})
}
