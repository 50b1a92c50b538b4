package integration

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// compareVariable is the environment variable that turns TestConformanceZebra on.
const compareVariable = "ZSIDECAR_COMPARE_ZEBRA"

// TestConformanceZebra lists where Zebra's own experimental wallet server differs from the table. It fails for no difference: they are
// judged in docs/protocol.md.
func TestConformanceZebra(t *testing.T) {
	if os.Getenv(compareVariable) != "1" {
		t.Skip(compareVariable + " is not 1")
	}
	addr := freeAddr(t)
	n := fixtureNode(t, fmt.Sprintf("lightwalletd_listen_addr = %q", addr))
	e := zebradFacts(t, n)
	e.position = passthrough
	e.wallet = dial(t, addr)
	if err := e.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	differ, count := 0, 0
	for _, r := range conformance() {
		if r.beside == simulated || r.method == subscribeIndexedTips {
			continue
		}
		count++
		if err := e.holdAnother(t.Context(), r); err != nil {
			differ++
			t.Logf("%s/%s: %.1500v", r.method, r.name, err)
		}
	}
	t.Logf("%d of %d rows differ", differ, count)
}

// holdAnother is hold for a server that may not answer a row at all. Rows that start a second server of ours do not ask it anything.
func (e *env) holdAnother(ctx context.Context, r row) error {
	if r.name == firstFollower {
		return nil
	}
	return e.hold(ctx, r)
}
