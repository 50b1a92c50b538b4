package integration

import (
	"fmt"
	"testing"

	"github.com/zsidecar/zsidecar/internal/servertest"
)

// compareVariable is the environment variable that turns listDifferences on.
const compareVariable = "ZSIDECAR_COMPARE_ZEBRA"

// listDifferences lists where Zebra's own experimental wallet server differs from the table. It fails for no difference: they are
// judged in docs/protocol.md.
func listDifferences(t *testing.T) {
	addr := servertest.FreeAddr(t)
	n := fixtureNode(t, fmt.Sprintf("lightwalletd_listen_addr = %q", addr))
	e := signedFacts(t, n)
	e.position = passthrough
	e.wallet = dial(t, addr)
	if err := e.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	differ, count := 0, 0
	for _, r := range conformance() {
		if r.oursAlone() || r.method == subscribeIndexedTips { // which is no method of the protocol
			continue
		}
		count++
		if err := e.holdWithin(t.Context(), rowLimit, r); err != nil {
			differ++
			t.Logf("%s/%s: %.600v", r.method, r.name, err)
		}
	}
	t.Logf("%d of %d rows differ", differ, count)
}

// oursAlone: the row runs beside a simulated node alone, or needs another server of ours.
func (r row) oursAlone() bool { return r.beside == simulated || r.name == firstFollower }
