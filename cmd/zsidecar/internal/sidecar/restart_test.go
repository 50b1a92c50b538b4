package sidecar

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// After a restart without the node, a complete index answers with what the node has said of itself before, and without --chain-name.
func TestRestartWithoutNode(t *testing.T) {
	n := newNode(t, 50, zebratest.NodeOptions{Build: "v9", Subversion: "/Zebra:9/", EstimatedHeight: 777})
	startNode(t, n)
	cfg := settings(t, func(c *config.Config) { c.Zebra = n.URL() })
	s, end := run(t, cfg)
	complete := func() bool { return s.Health().Index.State == "complete" }
	await(t, "the index is complete", complete)
	for kept := false; !kept; _, kept = s.store.Load().NodeInfo() { // it goes along with a block that comes after it
		if err := n.Chain().Extend(1, zebratest.Small); err != nil {
			t.Fatal(err)
		}
		await(t, "the block is indexed", func() bool { tip, _ := s.store.Load().Tip(); return tip == n.Chain().Tip() && complete() })
	}
	client := treeClient(t, s)
	want, err := client.GetLightdInfo(t.Context(), &walletrpc.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	wantTrees, err := client.GetLatestTreeState(t.Context(), &walletrpc.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}

	s, _ = run(t, cfg)
	await(t, "the index is open", complete)
	client = treeClient(t, s)
	if got, err := client.GetLightdInfo(t.Context(), &walletrpc.Empty{}); err != nil || !proto.Equal(got, want) {
		t.Errorf("GetLightdInfo %v, %v; want %v", got, err, want)
	}
	if got, err := client.GetLatestTreeState(t.Context(), &walletrpc.Empty{}); err != nil || !proto.Equal(got, wantTrees) {
		t.Errorf("GetLatestTreeState %v, %v; want %v", got, err, wantTrees)
	}
	// Which addresses are the network's is known too: these are of main.
	const main = "t1VmmGiyjVNeCjxDZzg7vZmd99WyzVby9yC"
	if got, err := client.GetTaddressBalance(t.Context(), &walletrpc.AddressList{Addresses: []string{main}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("GetTaddressBalance of another network's address: %v, %v", got, err)
	}
}
