package integration

import (
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// TestQuietStream keeps a mempool stream open for two minutes in which nothing happens but the client's pings, every 15 s, and then
// wants it to work still.
func TestQuietStream(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes two minutes")
	}
	n := fixtureNode(t, "")
	coins := &spender{node: n, next: 300}
	c := newSidecar(t, n.url(), n.cookie(), passthrough)
	c.start()
	conn, err := grpc.NewClient(c.grpcAddr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 15 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	w := &wallet{conn}
	awaitAnswer(t, w)
	stream := followMempool(t, w)
	time.Sleep(2 * time.Minute)
	if !stream.open() {
		t.Fatalf("the stream ended: %v", <-stream.ended)
	}
	raw := coins.raw()
	requireAccepted(t, n, w, raw)
	stream.requireNext(t, raw)
	n.mine(1, keyHash)
	stream.requireEnd(t)
	if polls := c.metric("zsidecar_mempool_polls_total"); polls < 250 || polls > 330 {
		t.Errorf("Zebra's mempool was read %v times in two minutes, want every 400 ms", polls)
	}
}
