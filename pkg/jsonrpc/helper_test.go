package jsonrpc_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc/jsonrpctest"
	"github.com/zsidecar/zsidecar/pkg/passthrough"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// pair is a simulated node and a server beside it.
type pair struct {
	node   *zebratest.Node
	client *zebrarpc.Client
	server *jsonrpc.Server
	ours   jsonrpctest.Server
	calls  chan jsonrpc.Call
}

func (p *pair) zebra() jsonrpctest.Server {
	return jsonrpctest.Server{URL: p.node.URL(), CookieFile: p.node.CookieFile()}
}

// newPair starts both, on a chain with blocks of every kind, and waits until the server knows the tip.
func newPair(t *testing.T, change func(*jsonrpc.Options)) *pair {
	t.Helper()
	c, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Regtest})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Extend(20, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	p := &pair{node: zebratest.NewNode(c, zebratest.NodeOptions{CookieDir: t.TempDir()}), calls: make(chan jsonrpc.Call, 10_000)}
	if err := p.node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.node.Stop() })
	p.client, err = zebrarpc.New(zebrarpc.Options{URL: p.node.URL(), Auth: zebrarpc.Auth{CookieFile: p.node.CookieFile()}, PollIdle: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var source chain.Source = passthrough.NewJoined(passthrough.New(p.client))
	o := jsonrpc.Options{Source: source, Node: passthrough.NewRelay(p.client), Observe: func(c jsonrpc.Call) { p.calls <- c }, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	if p.server, err = jsonrpc.New(o); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.ours.URL = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() { _ = p.client.Watch(ctx) })
	wait.Go(func() {
		if err := p.server.Serve(l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		p.server.Stop(stop)
		cancel()
		wait.Wait()
		p.client.Close()
	})
	await(t, "the server knows the node's tip", func() bool { return p.client.Tip().Up() })
	return p
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 30 s in vain until %s", what)
		}
	}
}

// ask puts a question and returns the answer.
func (p *pair) ask(t *testing.T, q jsonrpctest.Question) jsonrpctest.Answer {
	t.Helper()
	a, err := p.ours.Ask(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// body is the answer to a question in short.
func (p *pair) body(t *testing.T, q jsonrpctest.Question) string {
	t.Helper()
	return string(p.ask(t, q).Body)
}
