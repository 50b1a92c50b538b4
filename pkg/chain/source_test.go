package chain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

func TestCheckLink(t *testing.T) {
	t.Parallel()
	parent := chain.BlockID{Height: 6, Hash: chain.Hash{1}}
	child := chain.Block{ID: chain.BlockID{Height: 7, Hash: chain.Hash{2}}, Prev: chain.Hash{1}}
	if err := chain.CheckLink(parent, &child); err != nil {
		t.Error(err)
	}
	zeros := strings.Repeat("0", 62)
	other := chain.Block{ID: child.ID, Prev: chain.Hash{3}}
	err := chain.CheckLink(parent, &other)
	want := fmt.Sprintf("block 7 (%[1]s02) has parent %[1]s03, not 6 (%[1]s01): the best chain changed", zeros)
	if !errors.Is(err, chain.ErrReorged) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	parent.Height = 7
	if err := chain.CheckLink(parent, &child); !errors.Is(err, chain.ErrReorged) {
		t.Errorf("a parent of the same height: error %v", err)
	}
}

func TestAboveTipError(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("read: %w", &chain.AboveTipError{Asked: 1<<64 - 1, Tip: 5})
	if want := "read: height 18446744073709551615 is above the tip 5"; err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if !errors.Is(err, chain.ErrAboveTip) || errors.Is(err, chain.ErrNotFound) {
		t.Errorf("%v is not ErrAboveTip, or is ErrNotFound", err)
	}
}

func TestNeedsTransparent(t *testing.T) {
	t.Parallel()
	for _, p := range allProjections() {
		if got, want := p.NeedsTransparent(), p.KeepEmpty || p.Pools.Has(chain.Transparent); got != want {
			t.Errorf("%+v needs the column: %t, want %t", p, got, want)
		}
	}
	if chain.DefaultProjection.NeedsTransparent() {
		t.Error("the default projection needs the column")
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	if chain.FromIndex.String() != "index" || chain.FromZebra.String() != "zebra" {
		t.Errorf("origins %s and %s", chain.FromIndex, chain.FromZebra)
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	n := 0
	chain.Frames{Free: func() { n++ }}.Release()
	chain.Frames{}.Release()
	if n != 1 {
		t.Errorf("released %d times", n)
	}
}

func TestBufferPool(t *testing.T) {
	t.Parallel()
	var pool chain.BufferPool
	b := pool.Get()
	if len(*b) != 0 || cap(*b) < chain.RunSize {
		t.Errorf("a buffer of %d bytes with room for %d", len(*b), cap(*b))
	}
	*b = append(*b, 1, 2, 3)
	pool.Put(b)
	if again := pool.Get(); len(*again) != 0 || cap(*again) < chain.RunSize {
		t.Errorf("a used buffer of %d bytes with room for %d", len(*again), cap(*again))
	}
	huge := make([]byte, 4*chain.RunSize+1)
	pool.Put(&huge)
	for range 3 {
		if got := pool.Get(); cap(*got) > 4*chain.RunSize {
			t.Errorf("a huge buffer of %d bytes came back", cap(*got))
		}
	}
}
