package index

import (
	"context"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

type blockKind = func(*chaintest.Builder, []byte, chain.Height, chain.Hash, uint64) []byte

// benchChain makes n encoded blocks of a kind.
func benchChain(b *testing.B, kind blockKind, n int) []testBlock {
	f := newForge()
	f.kind = kind
	return f.extend(b, nil, n)
}

// benchNode is a fakeNode without its lock and its questions.
type benchNode struct {
	*fakeNode
	blocks []testBlock
}

func (n benchNode) Blocks(_ context.Context, from, to chain.Height) iter.Seq2[chain.Fetched, error] {
	return func(yield func(chain.Fetched, error) bool) {
		for h := from; h <= to; h++ {
			if !yield(chain.Fetched{Block: n.blocks[h].Block, NextReady: h < to}, nil) {
				return
			}
		}
	}
}

// benchBuild fills an index with blocks, in this goroutine.
func benchBuild(b *testing.B, s *Store, blocks []testBlock) {
	n := benchNode{newFakeNode(blocks), blocks}
	build := NewBuilder(s, n, BuilderOptions{})
	tip, _ := n.Tip()
	if err := build.sync(b.Context(), tip); err != nil {
		b.Fatal(err)
	}
}

func benchOpen(b *testing.B, dir string, o Options) *Store {
	o.Logger = slog.New(slog.DiscardHandler)
	o.MinFree = -1
	s, err := Open(dir, o)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkBuild measures the builder and the store alone: blocks come encoded, and at once. It reports what a block occupies on the
// disk beyond its frame and its transparent column.
func BenchmarkBuild(b *testing.B) {
	for _, c := range []struct {
		name string
		kind blockKind
		n    int
	}{
		{"small", (*chaintest.Builder).Small, 50_000},
		{"dense-v4", (*chaintest.Builder).DenseV4, 1500},
	} {
		b.Run(c.name, func(b *testing.B) {
			blocks := benchChain(b, c.kind, c.n)
			raw, payload := 0, 0
			for _, block := range blocks {
				raw += block.RawSize
				payload += len(block.frame()) + len(block.Transparent)
			}
			b.SetBytes(int64(raw))
			b.ReportAllocs()
			var disk int64
			for b.Loop() {
				dir, err := os.MkdirTemp(b.TempDir(), "")
				if err != nil {
					b.Fatal(err)
				}
				s := benchOpen(b, dir, Options{})
				benchBuild(b, s, blocks)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				disk = allocatedBytes(dir)
				os.RemoveAll(dir)
			}
			perSecond := float64(c.n) * float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(perSecond, "blocks/s")
			b.ReportMetric(float64(disk)/float64(c.n), "disk-B/block")
			b.ReportMetric(float64(payload)/float64(c.n), "payload-B/block")
		})
	}
}

// BenchmarkRange reads the sealed part of a chain of small blocks from one end to the other.
func BenchmarkRange(b *testing.B) {
	const n = 60_000
	s := benchOpen(b, b.TempDir(), Options{})
	defer s.Close()
	benchBuild(b, s, benchChain(b, (*chaintest.Builder).Small, n))
	for _, c := range []struct {
		name     string
		from, to chain.Height
		p        chain.Projection
	}{
		{"default", 0, 49_999, chain.DefaultProjection},
		{"default-descending", 49_999, 0, chain.DefaultProjection},
		{"orchard-only", 0, 49_999, chain.Projection{Pools: chain.Pools(0).With(chain.Orchard)}},
		{"nullifiers", 0, 49_999, chain.Projection{Pools: chain.ShieldedPools, NullifiersOnly: true}},
		{"transparent", 0, 49_999, chain.Projection{Pools: chain.AllPools}},
		{"recent", n - 1000, n - 1, chain.DefaultProjection},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			blocks, size := 0, 0
			for b.Loop() {
				v, err := s.View(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				for f, err := range v.Blocks(b.Context(), c.from, c.to, c.p) {
					if err != nil {
						b.Fatal(err)
					}
					blocks, size = blocks+f.Count, size+len(f.Bytes)
					f.Release()
				}
				v.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(blocks), "ns/block")
			b.ReportMetric(float64(size)/float64(blocks), "B/block")
		})
	}
}

// BenchmarkGetBlock opens a view, reads one block as GetBlock asks for it, and closes the view.
func BenchmarkGetBlock(b *testing.B) {
	const n = 20_000
	blocks := benchChain(b, (*chaintest.Builder).Small, n)
	s := benchOpen(b, b.TempDir(), Options{})
	defer s.Close()
	benchBuild(b, s, blocks)
	get := func(b *testing.B, h chain.Height, hash *chain.Hash) {
		v, err := s.View(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		defer v.Close()
		if hash != nil {
			if h, err = v.HeightOf(b.Context(), *hash); err != nil {
				b.Fatal(err)
			}
		}
		for f, err := range v.Blocks(b.Context(), h, h, chain.Projection{Pools: chain.AllPools, KeepEmpty: true}) {
			if err != nil {
				b.Fatal(err)
			}
			f.Release()
		}
	}
	heights := func(b *testing.B, from, to chain.Height, byHash bool) {
		b.ReportAllocs()
		h := from
		for b.Loop() {
			if h += 97; h >= to {
				h = from + h%97
			}
			if byHash {
				get(b, 0, &blocks[h].ID.Hash)
			} else {
				get(b, h, nil)
			}
		}
	}
	b.Run("sealed", func(b *testing.B) { heights(b, 0, n-2000, false) })
	b.Run("recent", func(b *testing.B) { heights(b, n-1000, n, false) })
	b.Run("sealed-by-hash", func(b *testing.B) { heights(b, 0, n-2000, true) })
	b.Run("recent-by-hash", func(b *testing.B) { heights(b, n-1000, n, true) })
}

// millionBlocks builds an index of 10^6 small blocks, without its recent part, once for all benchmarks.
var millionBlocks = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(os.TempDir(), "zsidecar-bench-million")
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	s, err := Open(dir+".new", Options{MinFree: -1})
	if err != nil {
		return "", err
	}
	forge, encoder := chaintest.NewBuilder(), chain.NewEncoder(chain.EncoderOptions{})
	var a assembler
	var block chain.Block
	var raw []byte
	for h := range chain.Height(1_000_000) {
		raw = forge.Small(raw[:0], h, block.ID.Hash, 1)
		if err := encoder.Encode(&block, h, raw); err != nil {
			return "", err
		}
		a.add(&block, chain.TreeSizes{})
		if a.full(&s.o) || h == 999_999 {
			if err := s.connectSegments([]sealedSegment{a.sealed()}); err != nil {
				return "", err
			}
			a.reset()
		}
	}
	if err := s.Close(); err != nil {
		return "", err
	}
	return dir, os.Rename(dir+".new", dir)
})

// BenchmarkOpen opens an index of 10^6 small blocks. It is kept in the folder for temporary files for the next run.
func BenchmarkOpen(b *testing.B) {
	dir, err := millionBlocks()
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%s: %d bytes allocated", dir, allocatedBytes(dir))
	var opened time.Duration
	for b.Loop() {
		start := time.Now()
		s := benchOpen(b, dir, Options{})
		opened += time.Since(start)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(opened.Seconds()*1000/float64(b.N), "open-ms")
}
