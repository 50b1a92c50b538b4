package sidecar

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// without starts a program without an index beside the node, which has to answer each block itself.
func without(t *testing.T, n *zebratest.Node) *Sidecar {
	t.Helper()
	startNode(t, n)
	s, _ := run(t, settings(t, func(c *config.Config) { c.Zebra, c.NoIndex, c.HTTP = n.URL(), true, "" }))
	await(t, "the tip is known, and which methods the node has", func() bool { return s.client.Tip().Up() && s.missing.Load() != nil })
	return s
}

// One client that asks for many blocks, or for the start of many ranges, has four of them read at one time: others get theirs.
func TestFloodOfBlocks(t *testing.T) {
	const blocks, perClient, hang = 200, 4, 20
	for name, ask := range map[string]func(context.Context, walletrpc.CompactTxStreamerClient, uint64) error{
		"blocks": func(ctx context.Context, client walletrpc.CompactTxStreamerClient, h uint64) error {
			_, err := client.GetBlock(ctx, &walletrpc.BlockID{Height: h})
			return err
		},
		"ranges": func(ctx context.Context, client walletrpc.CompactTxStreamerClient, h uint64) error {
			stream, err := client.GetBlockRange(ctx, &walletrpc.BlockRange{Start: &walletrpc.BlockID{Height: h}, End: &walletrpc.BlockID{Height: h + 1}})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, blocks, zebratest.NodeOptions{})
			s := without(t, n)
			n.ResetCounts()
			n.Fault(zebratest.Fault{Method: "getblock", Where: zebratest.InRange(hang, blocks), Hang: true})
			ctx, cancel := context.WithCancel(t.Context())
			client := connect(t, s)
			var wait sync.WaitGroup
			for h := uint64(hang); h < blocks; h++ {
				wait.Go(func() { _ = ask(ctx, client, h) }) // until cancel
			}
			asked := func() int { return n.Requests("getblock") }
			await(t, "the flood is at zebra", func() bool { return asked() >= perClient })
			time.Sleep(300 * time.Millisecond)
			if got, most := asked(), 3*perClient; got > most { // the block, that after it, and the tree sizes
				t.Errorf("%d questions of one client are at zebra at one time, want at most %d", got, most)
			}
			other := connectFrom(t, s, "127.0.0.2")
			short, end := context.WithTimeout(t.Context(), 5*time.Second) // the flood lasts longer
			defer end()
			if _, err := other.GetBlock(short, &walletrpc.BlockID{Height: hang / 2}); err != nil {
				t.Errorf("another client's block: %v", err)
			}
			cancel()
			wait.Wait()
		})
	}
}

// A client that reads a hundred ranges leaves half of what Zebra can do to one that reads one: else that would get a hundredth.
func TestFloodOfRanges(t *testing.T) {
	n := newNode(t, floodBlocks, zebratest.NodeOptions{})
	n.Fault(zebratest.Fault{Method: "getblock", Delay: slowBlock})
	s := without(t, n)
	other := connectFrom(t, s, "127.0.0.2")
	alone := readRange(t, other)
	ctx, cancel := context.WithCancel(t.Context())
	client := connect(t, s)
	var wait sync.WaitGroup
	var running inFlight
	for range 100 {
		wait.Go(func() {
			for ctx.Err() == nil {
				stream, err := client.GetBlockRange(ctx, &walletrpc.BlockRange{Start: &walletrpc.BlockID{Height: 1}, End: &walletrpc.BlockID{Height: floodBlocks}})
				for first := true; err == nil; first = false {
					if _, err = stream.Recv(); first {
						running.now.Add(1)
					}
				}
			}
		})
	}
	await(t, "all ranges of the flood have begun", func() bool { return running.now.Load() >= 100 })
	took := readRange(t, other)
	t.Logf("a range of %d blocks took %v in the flood, %v alone", floodBlocks, took, alone)
	if took > 20*alone {
		t.Error("that is no half of what Zebra can do")
	}
	cancel()
	wait.Wait()
}
