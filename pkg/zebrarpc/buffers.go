package zebrarpc

import (
	"math/bits"
	"sync"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// bufferClasses is one per power of two, up to the largest int.
const bufferClasses = 64

// buffers lends reply bodies, one pool per power of two so that a small body never occupies a large buffer. The zero value is ready.
type buffers struct{ pools [bufferClasses]sync.Pool }

// minBuffer is what the smallest buffer holds.
const minBuffer = 512

// get returns a buffer of length n.
func (p *buffers) get(n int) *[]byte {
	class := bits.Len(uint(max(n, minBuffer) - 1))
	if b, ok := p.pools[class].Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, 1<<class)
	return &b
}

// put takes a buffer back that get has lent. nil is ignored.
func (p *buffers) put(b *[]byte) {
	if b != nil {
		p.pools[bits.Len(uint(cap(*b)-1))].Put(b)
	}
}

// blocks lends the Blocks that an iteration fills, sorted like buffers by the length of the raw block, since that decides how far
// their slices grow.
type blocks struct{ pools [bufferClasses]sync.Pool }

func (p *blocks) get(rawSize int) *chain.Block {
	if b, ok := p.pools[bits.Len(uint(rawSize))].Get().(*chain.Block); ok {
		return b
	}
	return new(chain.Block)
}

func (p *blocks) put(b *chain.Block) { p.pools[bits.Len(uint(b.RawSize))].Put(b) }
