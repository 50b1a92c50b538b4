package sidecar

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/index"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// A node that turns out to be another network's, while the program runs: no tip is named, nothing of its chain is served, wallets are told
// why, and what the index has goes on, also when that node goes away again: the program is not ready. With the right node it is as before.
func TestNodeOfAnotherNetwork(t *testing.T) {
	to := chain.TransparentAddress{Hash: [20]byte{7}}
	n := newNode(t, 50, zebratest.NodeOptions{})
	startNode(t, n)
	right := n.Chain()
	wrong, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Regtest})
	if err != nil {
		t.Fatal(err)
	}
	if err := wrong.Extend(80, zebratest.Paying(to, 2)); err != nil {
		t.Fatal(err)
	}
	s, _ := run(t, settings(t, func(c *config.Config) { c.Zebra = n.URL() }))
	complete := func() bool { return s.Health().Ready && s.Health().Index.State == "complete" }
	await(t, "complete", complete)
	client := treeClient(t, s)
	addresses := &walletrpc.AddressList{Addresses: []string{to.String(chain.TestNetwork)}}
	if balance, err := client.GetTaddressBalance(t.Context(), addresses); err != nil || balance.ValueZat != 0 {
		t.Fatalf("balance %v, %v", balance, err)
	}

	n.SetChain(wrong)
	apart := func(err error) bool {
		return status.Code(err) == codes.Unavailable && strings.Contains(status.Convert(err).Message(), "another chain")
	}
	await(t, "no tip is named, and why", func() bool {
		_, err := client.GetLatestBlock(t.Context(), &walletrpc.ChainSpec{})
		return apart(err)
	})
	if _, err := client.GetLightdInfo(t.Context(), &walletrpc.Empty{}); !apart(err) {
		t.Errorf("GetLightdInfo: %v", err)
	}
	if balance, err := client.GetTaddressBalance(t.Context(), addresses); !apart(err) {
		t.Errorf("the balance of another network: %v, %v", balance, err)
	}
	hash, err := right.Hash(20)
	if err != nil {
		t.Fatal(err)
	}
	if block, err := client.GetBlock(t.Context(), &walletrpc.BlockID{Height: 20}); err != nil || chain.Hash(block.Hash) != hash {
		t.Errorf("a block of the index: %v, %v", block, err)
	}
	if block, err := client.GetBlock(t.Context(), &walletrpc.BlockID{Height: 70}); !apart(err) {
		t.Errorf("a block of the other chain: %v, %v", block, err)
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	await(t, "the builder waits for the node", func() bool {
		h := s.Health()
		return h.Index.Error != "" && !strings.Contains(h.Index.Error, "another network")
	})
	if h := s.Health(); h.Ready || !strings.Contains(strings.Join(h.Reasons, "\n"), "another network") {
		t.Errorf("ready %v, reasons %q, while no tip is named", h.Ready, h.Reasons)
	}

	n.SetChain(right)
	startNode(t, n)
	if err := right.Extend(1, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	await(t, "the right node is back", func() bool {
		id, err := client.GetLatestBlock(t.Context(), &walletrpc.ChainSpec{})
		return complete() && err == nil && id.Height == 51
	})
}

// A node whose chain leaves the index among its sealed blocks, and that goes away before it is followed: no tip is named, and the program
// says that it is not ready.
func TestDeepReorgOfANodeThatLeaves(t *testing.T) {
	n := newNode(t, 60, zebratest.NodeOptions{})
	startNode(t, n)
	s, _ := run(t, settings(t, func(c *config.Config) { c.Zebra, c.SealDepth, c.SegmentBlocks = n.URL(), 5, 4 }))
	await(t, "complete", func() bool { return s.Health().Ready && s.Health().Index.State == "complete" })
	if err := n.Chain().Reorg(30, 31, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	await(t, "the two are apart", func() bool { return s.store.Load().Apart() != nil })
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	await(t, "the builder waits for the node", func() bool {
		err := s.builder.Load().Progress().Err
		return s.Health().Node.Error != "" && err != nil && !errors.Is(err, index.ErrDeepReorg)
	})
	if h := s.Health(); h.Ready || !strings.Contains(strings.Join(h.Reasons, "\n"), "wallets get no tip") {
		t.Errorf("ready %v, reasons %q, while no tip is named", h.Ready, h.Reasons)
	}
}
