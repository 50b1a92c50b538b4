package integration

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// slowVariable is the environment variable that gives tests of patience their full length, up to three minutes; scripts/nightly.sh sets it.
const slowVariable = "ZSIDECAR_SLOW"

// headerTime is the time for headers of a stream whose node has not answered yet: wallets give up after ten seconds.
const headerTime = time.Second

// TestConformanceHeaders: every stream sends its headers while the node is still thinking.
func TestConformanceHeaders(t *testing.T) {
	t.Parallel()
	n := newSimulatedNode(t, newSimulatedChain(t))
	e := &env{tb: t, position: passthrough, place: simulated, rpc: newRPCClient(hostOf(t, n.URL()), n.CookieFile()), sim: n, middle: 40}
	e.begin(n.URL(), n.CookieFile())
	e.prepare(t)
	// Not the polls of the tip, so that the node is up.
	for _, method := range []string{
		"getblock", "getblockheader", "getblockhash", "getrawmempool", "getrawtransaction", "z_getsubtreesbyindex", "getaddresstxids", "getaddressutxos",
	} {
		n.Fault(zebratest.Fault{Method: method, Hang: true})
	}
	for _, x := range everyMethod(e) {
		if !streamed(x.method) {
			continue
		}
		if err := e.headers(t.Context(), x.method, x.request); err != nil {
			t.Errorf("%s: %v", x.method, err)
		}
	}
}

func (e *env) headers(ctx context.Context, method string, request proto.Message) error {
	ctx, cancel := context.WithTimeout(ctx, headerTime)
	defer cancel()
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: method == getTaddressBalanceStream}
	s, err := e.conn.NewStream(ctx, desc, "/"+serviceName+"/"+method, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return err
	}
	if err := s.SendMsg(request); err != nil {
		return err
	}
	if !desc.ClientStreams {
		if err := s.CloseSend(); err != nil {
			return err
		}
	}
	if header, err := s.Header(); err != nil || header == nil {
		return fmt.Errorf("no headers within %v: %v", headerTime, err)
	}
	return nil
}

// slowly is the one when the environment wants the long form, else the other.
func slowly[T any](long, short T) T {
	if os.Getenv(slowVariable) == "1" {
		return long
	}
	return short
}

// TestConformancePatience runs what is mostly waiting, all of it at once.
func TestConformancePatience(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for name, test := range map[string]func(*testing.T){"hangs": testHangs, "quiet": testQuiet, "slow reader": testSlowReader} {
		all.Go(func() { t.Run(name, test) })
	}
	all.Wait()
}

// hangLimit is the longest time that a node is given for one answer, and some for the way of the error.
const hangLimit = 65 * time.Second

// testHangs: a node that hangs, and clients that wait. Every method says UNAVAILABLE in the end, and within its time. The
// short form leaves out the methods for which the node is given a minute.
func testHangs(t *testing.T) {
	n := newSimulatedNode(t, newSimulatedChain(t))
	var all sync.WaitGroup
	for _, s := range positions() {
		e := &env{tb: t, position: s, place: simulated, rpc: newRPCClient(hostOf(t, n.URL()), n.CookieFile()), sim: n, middle: 40}
		e.begin(n.URL(), n.CookieFile())
		e.prepare(t)
		all.Go(func() {
			e.awaitOutage(t)
			all.Go(func() { e.holdQueue(t) })
			for _, r := range outageRows() {
				if !waitsFor(r.method) {
					continue
				}
				all.Go(func() {
					begin := time.Now()
					if err := e.holdWithin(t.Context(), slowly(hangLimit, outageLimit), r.row); err != nil {
						t.Errorf("%s/%s/%s: %v after %v", s.name, r.method, r.name, err, time.Since(begin))
					}
				})
			}
		})
	}
	n.Fault(zebratest.Fault{Hang: true})
	all.Wait()
}

// holdQueue: a client who gets no turn because those before it wait for a node that hangs is not told that there are too many of them.
func (e *env) holdQueue(t *testing.T) {
	client := e.server.wallet()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 20)
	for range cap(ended) {
		go func() {
			ended <- client.call(ctx, getTaddressBalance, &walletrpc.AddressList{Addresses: []string{keyHash}}, new([]byte))
		}()
	}
	begin := time.Now()
	for range cap(ended) - 8 { // more than have a turn
		if err := <-ended; status.Code(err) != codes.Unavailable || time.Since(begin) > outageLimit {
			t.Errorf("%s: a client without a turn got %v after %v", e.position.name, err, time.Since(begin))
		}
	}
}

// waitsFor tells whether testHangs asks a method.
func waitsFor(method string) bool {
	return slowly(true, method != sendTransaction && !slices.Contains(sixMethods(), method))
}

// testQuiet: a mempool stream in which nothing happens stays open, in the long form for two minutes with a client that pings
// every 15 s.
func testQuiet(t *testing.T) {
	n := newSimulatedNode(t, newSimulatedChain(t))
	c := startConforming(t, n.URL(), n.CookieFile(), positions()[1])
	conn, err := grpc.NewClient(c.grpcAddr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 15 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w := &wallet{conn}
	awaitAnswer(t, w)
	awaitComplete(t, c)
	f := w.follow(t.Context())
	defer f.cancel()
	select {
	case err := <-f.ended:
		t.Fatalf("the stream ended: %v", err)
	case <-time.After(slowly(2*time.Minute, 5*time.Second)):
	}
	if err := n.Chain().Extend(1, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	if err := f.end(); err != nil {
		t.Error(err)
	}
}

// testSlowReader: who takes few blocks a second, in the long form one for three minutes, gets every block, and the end is OK.
func testSlowReader(t *testing.T) {
	c := newSimulatedChain(t)
	extend(t, c, 33, wideSapling) // more bytes than lie between the node and the reader
	extend(t, c, 150, zebratest.Small)
	n := newSimulatedNode(t, c)
	var both sync.WaitGroup
	for _, s := range positions() {
		both.Go(func() { t.Run(s.name, func(t *testing.T) { readSlowly(t, n, s) }) })
	}
	both.Wait()
}

func readSlowly(t *testing.T, n *zebratest.Node, s setup) {
	server := startConforming(t, n.URL(), n.CookieFile(), s)
	w := server.wallet()
	awaitAnswer(t, w)
	if !s.noIndex {
		awaitComplete(t, server)
	}
	stream, err := w.client().GetBlockRange(t.Context(), heightRange(1, 180))
	if err != nil {
		t.Fatal(err)
	}
	for height := uint64(1); height <= 180; height++ {
		block, err := stream.Recv()
		if err != nil || block.Height != height {
			t.Fatalf("block %d, %v, want %d", block.GetHeight(), err, height)
		}
		time.Sleep(slowly(time.Second, 20*time.Millisecond))
	}
	if _, err := stream.Recv(); err != io.EOF {
		requireCode(t, "the end", err, codes.OK)
	}
}
