package integration

import (
	"os/exec"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// TestEveryBlock reads every block through every method and pool filter, in both directions, and wants the bytes that follow from
// Zebra's own replies: the same whether Zebra or the index answers.
func TestEveryBlock(t *testing.T) {
	t.Parallel()
	n := fixtureNode(t, "")
	tip, _ := n.tip()
	full := expectChain(t, n, 0, tip)
	requirePools(t, full)
	for _, s := range []setup{passthrough, smallSegments, defaultSegments} {
		t.Run(s.name, func(t *testing.T) {
			c := newSidecar(t, n.url(), n.cookie(), s)
			c.start()
			w := c.wallet()
			awaitAnswer(t, w)
			if !s.noIndex {
				c.awaitIndex(tip, time.Minute)
			}
			fromZebra := c.served("zebra")
			requireUnary(t, w, full)
			requireRanges(t, w, full)
			if c.served("zebra") > fromZebra && !s.noIndex {
				t.Errorf("zebra answered %v blocks although the index was complete", c.served("zebra")-fromZebra)
			}
			c.stop()
			if !s.noIndex {
				requireClean(t, c, "--all", "--zebra", n.url(), "--zebra-cookie", n.cookie())
			}
		})
	}
}

func requireUnary(t *testing.T, w *wallet, full []*walletrpc.CompactBlock) {
	t.Helper()
	for _, q := range []query{{method: getBlock}, {method: getBlockNullifiers}} {
		for height, block := range full {
			want := encode(t, q.cut(block))
			requireBlock(t, w, q.method, 0, block.Hash, want)
			if height > 0 { // height 0 stands for no height
				requireBlock(t, w, q.method, height, nil, want)
			}
		}
	}
}

func requireBlock(t *testing.T, w *wallet, method string, height int, hash, want []byte) {
	t.Helper()
	got, err := w.readBlock(t.Context(), method, height, hash...)
	if err != nil {
		t.Fatalf("%s of height %d, hash %x: %v", method, height, hash, err)
	}
	if err := sameBlock(got, want); err != nil {
		t.Fatalf("%s of height %d, hash %x: %v", method, height, hash, err)
	}
}

func requireRanges(t *testing.T, w *wallet, full []*walletrpc.CompactBlock) {
	t.Helper()
	tip := len(full) - 1
	for _, q := range rangeQueries() {
		want := q.encoded(t, full)
		for _, ends := range [][2]int{{0, tip}, {tip, 0}, {tip, tip}, {0, 0}, {44, 43}, {tip - 1200, tip - 3}} {
			if err := w.requireRange(t.Context(), q, ends[0], ends[1], want); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// requireClean runs the program's own check over the index of a stopped zsidecar.
func requireClean(t *testing.T, c *sidecar, args ...string) {
	t.Helper()
	if out, err := exec.Command(program(t), append([]string{"check", "--data-dir", c.dataDir}, args...)...).CombinedOutput(); err != nil {
		t.Errorf("zsidecar check: %v\n%s", err, out)
	}
}
