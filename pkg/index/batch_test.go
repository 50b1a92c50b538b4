package index

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// opaque makes blocks whose parts are any bytes of these lengths. Only what the index does not look into may be asked of them.
func opaque(n, shielded, transparent int) []testBlock {
	blocks := make([]testBlock, n)
	var prev chain.Hash
	for i := range blocks {
		id := chain.BlockID{Height: chain.Height(i), Hash: chain.Hash{byte(i + 1), byte((i + 1) >> 8)}}
		blocks[i] = testBlock{Block: &chain.Block{
			ID: id, Prev: prev,
			Shielded: bytes.Repeat([]byte{byte(i)}, shielded), Transparent: bytes.Repeat([]byte{byte(i)}, transparent),
		}}
		prev = id.Hash
	}
	return blocks
}

// TestSegmentsOfOneCommit builds chains whose segments reach each limit of a commit, and looks at what the commits held.
func TestSegmentsOfOneCommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		blocks []testBlock
		o      Options
		want   []int // blocks that each commit sealed
	}{
		"number":                    {opaque(128, 10, 10), Options{SegmentBlocks: 1}, []int{1, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 12, 15, 16, 16, 16, 4}},
		"bytes":                     {opaque(20, 4<<20, 10), Options{}, []int{1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2}},
		"bytes in the memory table": {opaque(60, 120<<10, 120<<10), Options{SegmentBlocks: 1}, []int{1, 1, 1, 1, 2, 2, 3, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5}},
		"age":                       {opaque(7, 10, 10), Options{SegmentAge: time.Nanosecond}, []int{1, 1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.o.MinFree, c.o.SealDepth = -1, 1
			s, err := Open(t.TempDir(), c.o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var got []int
			before := s.state.sealed.blocks
			s.o.commitHook = func(write func() error) error {
				err := write()
				after, readErr := s.readState()
				if n := int(after.sealed.blocks - before); n > 0 {
					got, before = append(got, n), after.sealed.blocks
				}
				return errors.Join(err, readErr)
			}
			n := newFakeNode(c.blocks)
			drive(t, NewBuilder(s, n, BuilderOptions{}), n)
			if !slices.Equal(got, c.want) {
				t.Errorf("commits of %v blocks, want %v", got, c.want)
			}
		})
	}
}
