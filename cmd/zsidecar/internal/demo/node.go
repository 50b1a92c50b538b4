package demo

import (
	"fmt"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// buildTime is about how long the simulated node makes the index build last when nobody else asks it. The demo's wallet reads the whole
// chain at the same time, which takes half of the node, so that the build lasts some ten seconds and can be watched.
const buildTime = 4 * time.Second

// kind is what the demo's chain is made of: nearly all small blocks, every fiftieth with transactions of all versions and pools, and two
// dense ones, as on a real chain.
func kind(b *chaintest.Builder, dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
	switch {
	case h == 1000:
		return b.DenseV4(dst, h, prev, seed)
	case h == 1500:
		return b.DenseV6(dst, h, prev, seed)
	case h%50 == 7:
		return b.Mixed(dst, h, prev, seed)
	}
	return b.Small(dst, h, prev, seed)
}

// startNode starts a node with a chain of the given number of blocks above genesis.
func startNode(blocks int) (*zebratest.Node, error) {
	c, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Regtest})
	if err != nil {
		return nil, err
	}
	if err := c.Extend(blocks, kind); err != nil {
		return nil, fmt.Errorf("make the chain: %w", err)
	}
	n := zebratest.NewNode(c, zebratest.NodeOptions{})
	return n, n.Start()
}

// slowDown delays every block, as a node does that has to read and serialize it. The returned function ends it.
func slowDown(n *zebratest.Node, blocks int) (remove func()) {
	// The builder keeps 16 requests in flight while it is alone.
	const inFlight = 16
	return n.Fault(zebratest.Fault{Method: "getblock", Delay: buildTime * inFlight / time.Duration(blocks)})
}
