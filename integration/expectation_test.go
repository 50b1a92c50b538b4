package integration

import (
	"fmt"
	"testing"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// TestExpectation holds the expectation, which all other tests compare with, against Zebra's own experimental wallet server.
func TestExpectation(t *testing.T) {
	t.Parallel()
	addr := servertest.FreeAddr(t)
	n := fixtureNode(t, fmt.Sprintf("lightwalletd_listen_addr = %q", addr))
	tip, _ := n.tip()
	full := expectChain(t, n, 0, tip)
	requirePools(t, full)
	w := dial(t, addr)
	// Not the nullifier range: Zebra leaves out transactions whose only Sapling parts are outputs, the wallet protocol as we serve it keeps their index and txid.
	q := query{method: getBlockRange}
	want := q.encoded(t, full)
	for _, ends := range [][2]int{{1, tip}, {tip, 1}} {
		if err := w.requireRange(t.Context(), q, ends[0], ends[1], want); err != nil {
			t.Error(err)
		}
	}
}

// requirePools fails unless the sealed part of the fixture chain, with any SealDepth, and the part near its tip show every pool.
func requirePools(t *testing.T, full []*walletrpc.CompactBlock) {
	t.Helper()
	const sealed, recent = 1500, 2400
	for name, part := range map[string][]*walletrpc.CompactBlock{"sealed": full[:sealed], "recent": full[recent:]} {
		var inputs, sapling, orchard, ironwood int
		for _, block := range part {
			for _, tx := range block.Vtx {
				inputs += len(tx.Vin)
				sapling += len(tx.Outputs)
				orchard += len(tx.Actions)
				ironwood += len(tx.IronwoodActions)
			}
		}
		if inputs == 0 || sapling == 0 || ironwood == 0 || (name == "sealed" && orchard == 0) {
			t.Errorf("%s part of the fixture chain: %d transparent inputs, %d Sapling outputs, %d Orchard and %d Ironwood actions",
				name, inputs, sapling, orchard, ironwood)
		}
	}
}
