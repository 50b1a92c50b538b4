package sidecar

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// treeClient connects a wallet for the length of a test.
func treeClient(t *testing.T, s *Sidecar) walletrpc.CompactTxStreamerClient {
	t.Helper()
	conn, err := grpc.NewClient(s.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return walletrpc.NewCompactTxStreamerClient(conn)
}

// eachPosition runs a test beside a node with 60 blocks of every kind: without an index, and with a complete one.
func eachPosition(t *testing.T, test func(t *testing.T, noIndex bool, n *zebratest.Node, client walletrpc.CompactTxStreamerClient)) {
	for name, noIndex := range map[string]bool{"no index": true, "complete": false} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, 0, zebratest.NodeOptions{})
			if err := n.Chain().Extend(60, zebratest.Mixed); err != nil {
				t.Fatal(err)
			}
			startNode(t, n)
			s, end := run(t, settings(t, func(c *config.Config) { c.Zebra, c.NoIndex, c.SealDepth, c.SegmentBlocks = n.URL(), noIndex, 10, 4 }))
			await(t, "ready", func() bool { h := s.Health(); return h.Ready && (noIndex || h.Index.State == "complete") })
			test(t, noIndex, n, treeClient(t, s))
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
}

func requireTree(t *testing.T, client walletrpc.CompactTxStreamerClient, n *zebratest.Node, h chain.Height) {
	t.Helper()
	got, err := client.GetTreeState(t.Context(), &walletrpc.BlockID{Height: uint64(h)})
	if err != nil {
		t.Errorf("trees of block %d: %v", h, err)
		return
	}
	hash, _ := n.Chain().Hash(h)
	want, _ := n.Chain().Sizes(h)
	state := chain.TreeState{Sapling: got.SaplingTree, Orchard: got.OrchardTree, Ironwood: got.IronwoodTree}
	if sizes, err := state.Sizes(); err != nil || sizes != want || got.Hash != hash.String() || got.Height != uint64(h) || got.Network != "test" {
		t.Errorf("trees of block %d: %v, with %+v leaves; want %s with %+v", h, got, sizes, hash, want)
	}
}

// A node that answers all else, but not what is asked about trees, or wrongly: UNAVAILABLE, nothing is kept of it, and it heals.
func TestTreesFromASickNode(t *testing.T) {
	eachPosition(t, func(t *testing.T, noIndex bool, n *zebratest.Node, client walletrpc.CompactTxStreamerClient) {
		cut := func(text string) func([]byte) []byte {
			return func(body []byte) []byte { return []byte(strings.Replace(string(body), text, "", 1)) }
		}
		h := chain.Height(10)
		for name, fault := range map[string]zebratest.Fault{
			"closed":           {Drop: true},
			"an error page":    {Status: 502},
			"busy":             {Status: 429},
			"a page":           {Status: 200},
			"nothing":          {Body: zebratest.Empty},
			"cut off":          {CutOff: true},
			"another id":       {WrongID: true},
			"another type":     {Result: `[]`},
			"null":             {Result: `null`},
			"no member":        {Result: `{}`},
			"warming up":       {Error: &zebratest.Error{Code: -28, Message: "Loading block index..."}},
			"no such method":   {Error: &zebratest.Error{Code: -32601, Message: "Method not found"}},
			"an unknown error": {Error: &zebratest.Error{Code: -1, Message: "something broke"}},
			"half a tree":      {Body: cut(strings.Repeat("00", 20))},
			"no tree":          {Body: cut(`"finalState"`)},
		} {
			h++ // another block for each, so that none is kept
			fault.Method = "z_gettreestate"
			heal := n.Fault(fault)
			start := time.Now()
			got, err := client.GetTreeState(t.Context(), &walletrpc.BlockID{Height: uint64(h)})
			if status.Code(err) != codes.Unavailable || time.Since(start) > 5*time.Second {
				t.Errorf("%s: %v, %v after %v", name, got, err, time.Since(start))
			}
			heal()
			requireTree(t, client, n, h)

			if fault.Body != nil && name != "nothing" {
				continue
			}
			fault.Method = "z_getsubtreesbyindex"
			heal = n.Fault(fault)
			want := codes.OK // the index knows by the sizes of the trees that there is no root
			if noIndex {
				want = codes.Unavailable
			}
			if err := readRoots(t.Context(), client); status.Code(err) != want {
				t.Errorf("%s: subtree roots: %v, want %v", name, err, want)
			}
			heal()
			if err := readRoots(t.Context(), client); err != nil {
				t.Errorf("%s: subtree roots afterwards: %v", name, err)
			}
		}
	})
}

func readRoots(ctx context.Context, client walletrpc.CompactTxStreamerClient) error {
	stream, err := client.GetSubtreeRoots(ctx, &walletrpc.GetSubtreeRootsArg{})
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Trees of a block that has left the chain are no longer found, whatever was kept of them, and those of its height are the new block's.
func TestTreesAfterReorg(t *testing.T) {
	eachPosition(t, func(t *testing.T, _ bool, n *zebratest.Node, client walletrpc.CompactTxStreamerClient) {
		for h := chain.Height(1); h <= 60; h++ {
			requireTree(t, client, n, h)
		}
		orphan, err := n.Chain().Hash(58)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Chain().Reorg(5, 7, zebratest.Mixed); err != nil {
			t.Fatal(err)
		}
		await(t, "the new tip", func() bool {
			got, err := client.GetLatestTreeState(t.Context(), &walletrpc.Empty{})
			return err == nil && got.Hash == n.Chain().Tip().Hash.String()
		})
		for h := chain.Height(1); h <= 62; h++ {
			requireTree(t, client, n, h)
		}
		if got, err := client.GetTreeState(t.Context(), &walletrpc.BlockID{Hash: orphan[:]}); status.Code(err) != codes.NotFound {
			t.Errorf("trees of an orphan: %v, %v", got, err)
		}
	})
}
