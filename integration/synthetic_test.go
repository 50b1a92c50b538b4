package integration

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain/chaintest/longchain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// synthetic is a simulated Zebra with a chain like the test network's, whose blocks are small, and the finished index of it: what is
// measured on it is zsidecar's own cost, beside that of making each block when it is asked for. All benchmarks of one run share it, and leave it complete.
type synthetic struct {
	long    *longchain.Chain
	node    *zebratest.Node
	dataDir string
}

// sharedSynthetic is made by the first benchmark that needs it; fixtureLock guards it.
var sharedSynthetic *synthetic

// syntheticBlocks is how many blocks the chain has.
func syntheticBlocks(tb testing.TB) int {
	tb.Helper()
	setting := os.Getenv("ZSIDECAR_BENCH_BLOCKS")
	if setting == "" {
		return 100_000
	}
	n, err := strconv.Atoi(setting)
	if err != nil || n < 20_000 || n > longchain.MaxBlocks {
		tb.Fatalf("ZSIDECAR_BENCH_BLOCKS is %q: want a number of blocks from 20000 to %d", setting, longchain.MaxBlocks)
	}
	return n
}

// syntheticNode starts the node, which lives until the test process ends.
func syntheticNode(tb testing.TB) *synthetic {
	tb.Helper()
	fixtureLock.Lock()
	defer fixtureLock.Unlock()
	if sharedSynthetic != nil {
		return sharedSynthetic
	}
	long, err := longchain.Open(tb.Context(), longchain.Options{Kind: longchain.TestnetLike, Blocks: syntheticBlocks(tb), Dir: programDir})
	if err != nil {
		tb.Fatal(err)
	}
	chain, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Test, Upgrades: long.Upgrades(), Base: long})
	if err != nil {
		tb.Fatal(err)
	}
	node := zebratest.NewNode(chain, zebratest.NodeOptions{CookieDir: programDir})
	if err := node.Start(); err != nil {
		tb.Fatal(err)
	}
	sharedSynthetic = &synthetic{long: long, node: node, dataDir: filepath.Join(programDir, "synthetic")}
	return sharedSynthetic
}

// stop ends the node. No benchmark may use it any more.
func (s *synthetic) stop() error { return errors.Join(s.node.Stop(), s.long.Close()) }

func (s *synthetic) tip() int { return int(s.node.Chain().Tip().Height) }

// extend gives the node a new block.
func (s *synthetic) extend(tb testing.TB) (height int) {
	tb.Helper()
	if err := s.node.Chain().Extend(1, zebratest.Like(s.long)); err != nil {
		tb.Fatal(err)
	}
	return s.tip()
}

// sidecar prepares a zsidecar beside the node. With "" for dataDir it has an empty folder of its own.
func (s *synthetic) sidecar(tb testing.TB, dataDir string) *sidecar {
	tb.Helper()
	c := newSidecar(tb, s.node.URL(), s.node.CookieFile(), defaultSegments)
	if dataDir != "" {
		c.dataDir = dataDir
		c.args = append(c.args, "--data-dir", dataDir)
	}
	return c
}

// serveSynthetic runs a zsidecar that has the whole synthetic chain in its index, and serves out of that.
func serveSynthetic(tb testing.TB) (*synthetic, *sidecar) {
	tb.Helper()
	s := syntheticNode(tb)
	c := s.sidecar(tb, s.dataDir)
	c.start()
	awaitAnswer(tb, c.wallet())
	c.awaitIndex(s.tip(), time.Duration(s.tip())*time.Millisecond) // a thousand blocks a second, should the machine be busy
	tb.Cleanup(func() {
		if c.proc.running() {
			c.stop() // before the next benchmark opens the index
		}
	})
	return s, c
}
