package sidecar

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// connectFrom connects as a client with another address of this machine, which has all of 127.0.0.0/8 on Linux alone.
func connectFrom(t *testing.T, s *Sidecar, ip string) walletrpc.CompactTxStreamerClient {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	conn, err := grpc.NewClient("passthrough:"+s.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return walletrpc.NewCompactTxStreamerClient(conn)
}

// One client that asks for the trees of many blocks, each of which Zebra reads as a whole, has four of them read at one time: others get
// theirs, and what else costs Zebra much. What is kept in memory waits for nobody.
func TestFloodOfTrees(t *testing.T) {
	const blocks, perClient = 64, 4
	to := chain.TransparentAddress{Hash: [20]byte{7}}
	n := newNode(t, blocks, zebratest.NodeOptions{})
	startNode(t, n)
	s, _ := run(t, settings(t, func(c *config.Config) { c.Zebra, c.NoIndex, c.HTTP = n.URL(), true, "" }))
	await(t, "the tip is known, and which methods the node has", func() bool { return s.client.Tip().Up() && s.missing.Load() != nil })
	client := connect(t, s)
	if _, err := client.GetLatestTreeState(t.Context(), &walletrpc.Empty{}); err != nil {
		t.Fatal(err)
	}
	n.ResetCounts()
	release := n.Fault(zebratest.Fault{Method: "z_gettreestate", Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for h := uint64(2); h < blocks; h++ {
		wait.Go(func() { _, _ = client.GetTreeState(ctx, &walletrpc.BlockID{Height: h}) }) // until cancel
	}
	asked := func() int { return n.Requests("z_gettreestate") }
	await(t, "the flood is at zebra", func() bool { return asked() >= perClient })
	time.Sleep(100 * time.Millisecond)
	if got := asked(); got != perClient {
		t.Errorf("%d trees of one client are being read at one time, want %d", got, perClient)
	}
	short, end := context.WithTimeout(t.Context(), 5*time.Second) // the flood lasts longer
	defer end()
	if _, err := client.GetLatestTreeState(short, &walletrpc.Empty{}); err != nil {
		t.Errorf("a tree that is kept: %v", err)
	}
	other := connectFrom(t, s, "127.0.0.2")
	if _, err := other.GetTaddressBalance(short, &walletrpc.AddressList{Addresses: []string{to.String(chain.TestNetwork)}}); err != nil {
		t.Errorf("another client's balance: %v", err)
	}
	release()
	// Not one of the flood's blocks, the answers for which this call would share.
	if _, err := other.GetTreeState(short, &walletrpc.BlockID{Height: 1}); err != nil {
		t.Errorf("another client's tree: %v", err)
	}
	cancel()
	wait.Wait()
}
