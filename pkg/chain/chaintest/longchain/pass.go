package longchain

import (
	"context"
	"encoding/binary"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// page is a stretch of blocks on its way through the pass. The workers fill all but the hashes, since only these need the block below.
type page struct {
	first   chain.Height
	headers []byte            // without their parents
	added   []chain.TreeSizes // by each block
	ids     []uint64          // entries of the transactions
	bytes   uint64            // of the blocks
	dense   uint32
	ready   chan struct{} // a token when the above is there
}

// fill builds the headers of n blocks.
func (p *page) fill(b *builder, n int) {
	p.headers, p.added, p.ids, p.bytes, p.dense = p.headers[:0], p.added[:0], p.ids[:0], 0, 0
	for i := range n {
		h := p.first + chain.Height(i)
		p.headers = b.header(p.headers, h, chain.Hash{}, 0)
		p.added = append(p.added, b.added)
		p.bytes += uint64(b.size)
		if b.dense {
			p.dense++
		}
		for _, id := range b.ids {
			p.ids = append(p.ids, entryOf(id[:], h))
		}
	}
}

// pass computes the hashes of all blocks, in order, and gives each page of them to write. The pages are filled by as many workers as there
// are processors, and used again, so that the memory does not depend on the length.
func pass(ctx context.Context, r *recipe, write func(p *page) error) error {
	workers := runtime.GOMAXPROCS(0)
	free := make(chan *page, 4*workers)
	for range cap(free) {
		free <- &page{ready: make(chan struct{}, 1)}
	}
	work, ordered := make(chan *page, cap(free)), make(chan *page, cap(free))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(work)
		defer close(ordered)
		for first := 0; first < r.blocks; first += pageBlocks {
			select {
			case p := <-free:
				p.first = chain.Height(first)
				work <- p // there is room for every page
				ordered <- p
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range workers {
		g.Go(func() error {
			b := newBuilder(r)
			for p := range work {
				p.fill(b, min(pageBlocks, r.blocks-int(p.first)))
				p.ready <- struct{}{}
			}
			return nil
		})
	}
	g.Go(func() error {
		for p := range ordered {
			<-p.ready
			if err := write(p); err != nil {
				return err
			}
			free <- p
		}
		return nil
	})
	return g.Wait()
}

// linker turns pages of headers into records.
type linker struct {
	prev  chain.Hash
	sizes chain.TreeSizes
}

// append appends the records of p's blocks to dst, and their entries to ids.
func (l *linker) append(dst []byte, ids []uint64, p *page) ([]byte, []uint64, error) {
	for i, added := range p.added {
		header := p.headers[i*chaintest.HeaderSize:][:chaintest.HeaderSize]
		copy(header[4:], l.prev[:])
		l.prev = chaintest.BlockHash(header)
		var err error
		if l.sizes, err = l.sizes.Plus(added); err != nil {
			return dst, ids, err
		}
		dst = append(dst, l.prev[:]...)
		for _, size := range []uint32{l.sizes.Sapling, l.sizes.Orchard, l.sizes.Ironwood} {
			dst = binary.LittleEndian.AppendUint32(dst, size)
		}
		ids = append(ids, entryOf(l.prev[:], p.first+chain.Height(i)))
	}
	return dst, ids, nil
}
