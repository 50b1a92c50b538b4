package sidecar

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// TestPrunedNode: a node without the old blocks. The message names the first that it has, it is not asked without end, and what it has is
// answered.
func TestPrunedNode(t *testing.T) {
	n := newNode(t, 300, zebratest.NodeOptions{Build: "v1.3.0", Subversion: "/NoZebra:1.3.0/"})
	n.Prune(180)
	startNode(t, n)
	s, log, client := follow(t, n.URL(), unchanged)
	await(t, "the first block that there is", func() bool {
		return strings.Contains(strings.Join(s.Health().Reasons, ""), "does not have block 1, which the index needs next; the first block from there on that it has is 180")
	})
	expectReady := func() {
		t.Helper()
		code, text := get(t, s, "/readyz")
		if code != 200 {
			t.Errorf("/readyz: %d %s", code, text)
		}
		if _, text = get(t, s, "/healthz"); !strings.Contains(text, "that it has is 180") {
			t.Errorf("/healthz does not say why there is no index: %s", text)
		}
	}
	expectReady()
	expectRange(t, client, n.Chain(), 180, 300)
	_, err := client.GetBlock(t.Context(), &walletrpc.BlockID{Height: 179})
	expectCode(t, "a block that was pruned", err, codes.Unavailable)
	_, err = client.GetTreeState(t.Context(), &walletrpc.BlockID{Height: 179})
	expectCode(t, "trees that were pruned", err, codes.Unavailable)
	if _, err := client.GetTreeState(t.Context(), &walletrpc.BlockID{Height: 180}); err != nil {
		t.Errorf("trees that there are: %v", err)
	}
	asked := n.Requests("getblock")
	for range 5 {
		if err := n.Chain().Extend(1, zebratest.Small); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
	}
	if more := n.Requests("getblock") - asked; more > 0 {
		t.Errorf("%d more questions for blocks while nobody wants any", more)
	}
	expectReady()
	if log.count("level=ERROR") != 1 {
		t.Errorf("the log does not say so once:\n%s", log.buf.String())
	}
}

// TestMissingMethods: what the node does not know is named at the start, with what does not work, and so is that it has come.
func TestMissingMethods(t *testing.T) {
	n := newNode(t, 60, zebratest.NodeOptions{})
	heal := n.Fault(zebratest.Fault{Method: "z_gettreestate", Error: &zebratest.Error{Code: -32601, Message: "Method not found"}})
	startNode(t, n)
	s, log, _ := follow(t, n.URL(), unchanged)
	await(t, "the method is named", func() bool {
		_, text := get(t, s, "/healthz")
		return strings.Contains(text, `"method": "z_gettreestate",`) &&
			strings.Contains(text, `"without_it": "GetTreeState and GetLatestTreeState answer only what was kept"`)
	})
	if _, metrics := get(t, s, "/metrics"); !strings.Contains(metrics, "\nzsidecar_node_missing_methods 1\n") {
		t.Error("/metrics does not count it")
	}
	if !s.Health().Ready {
		t.Errorf("health: %+v", s.Health())
	}
	await(t, "the log names it", func() bool { return log.count("method=z_gettreestate") == 1 })
	heal()
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	await(t, "the outage is seen", func() bool { return s.Health().Node.Error != "" })
	startNode(t, n)
	await(t, "it has come", func() bool { return len(s.Health().Reasons) == 0 && log.count("every method that is needed") == 1 })
}
