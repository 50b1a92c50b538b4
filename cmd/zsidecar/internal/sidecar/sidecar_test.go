package sidecar

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/ops"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settings are the defaults with free ports.
func settings(t *testing.T, change func(*config.Config)) config.Config {
	t.Helper()
	cfg, _, err := config.Load(config.Sources{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	cfg.GRPC, cfg.HTTP = "127.0.0.1:0", "127.0.0.1:0"
	change(&cfg)
	return cfg
}

// newNode makes a node that does not listen yet.
func newNode(t *testing.T, blocks int, o zebratest.NodeOptions) *zebratest.Node {
	t.Helper()
	c, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Test})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Extend(blocks, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	n := zebratest.NewNode(c, o)
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func startNode(t *testing.T, n *zebratest.Node) {
	t.Helper()
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
}

// run starts a sidecar; the returned function stops it and returns what Run did.
func run(t *testing.T, cfg config.Config) (*Sidecar, func() error) {
	t.Helper()
	return runWith(t, Options{Config: cfg, Build: ops.Build{Version: "1.2.3"}, Log: slog.New(slog.DiscardHandler)})
}

func runWith(t *testing.T, o Options) (*Sidecar, func() error) {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var result error
	done := false
	end := func() error {
		stop()
		if !done {
			result, done = <-ended, true
		}
		return result
	}
	t.Cleanup(func() { _ = end() })
	return s, end
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// serving asks the gRPC health service.
func serving(t *testing.T, s *Sidecar) bool {
	t.Helper()
	conn, err := grpc.NewClient(s.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reply, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return reply.Status == healthpb.HealthCheckResponse_SERVING
}

func get(t *testing.T, s *Sidecar, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + s.HTTPAddr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// From the start without a node to the complete index, and on when the node is gone: health, gRPC health and metrics agree all the way.
func TestRun(t *testing.T) {
	n := newNode(t, 1500, zebratest.NodeOptions{CookieDir: t.TempDir()})
	startNode(t, n) // for its address; it goes away again
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	s, end := run(t, settings(t, func(c *config.Config) { c.Zebra, c.ZebraCookie = n.URL(), n.CookieFile() }))

	await(t, "the failure to reach Zebra is told", func() bool { return s.Health().Node.Error != "" })
	if code, text := get(t, s, "/readyz"); code != 503 || !strings.HasPrefix(text, "zebra at "+n.URL()+" has not answered yet: ") {
		t.Errorf("without a node: /readyz %d %q", code, text)
	}
	if code, _ := get(t, s, "/livez"); code != 200 {
		t.Errorf("/livez: %d", code)
	}
	if serving(t, s) {
		t.Error("gRPC health says SERVING without a node")
	}

	startNode(t, n) // with a new cookie
	await(t, "complete", func() bool { return s.Health().Index.State == "complete" })
	await(t, "SERVING", func() bool { return serving(t, s) })
	if code, text := get(t, s, "/readyz"); code != 200 || text != "ok\n" {
		t.Errorf("complete: /readyz %d %q", code, text)
	}
	_, metrics := get(t, s, "/metrics")
	for _, line := range []string{
		"zsidecar_node_height 1500", "zsidecar_index_height 1500", "zsidecar_index_complete 1", "zsidecar_framed_writer 1",
		`zsidecar_build_info{commit="",go="",version="1.2.3"} 1`,
	} {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}

	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	await(t, "the outage is seen", func() bool { return s.Health().Node.Error != "" })
	if h := s.Health(); !h.Ready || h.Index.State != "complete" {
		t.Errorf("with a complete index an outage is no reason to go: %+v", h)
	}
	if err := end(); err != nil {
		t.Errorf("Run ended with %v", err)
	}
}

func TestWithoutIndex(t *testing.T) {
	n := newNode(t, 20, zebratest.NodeOptions{})
	startNode(t, n)
	cfg := settings(t, func(c *config.Config) { c.Zebra, c.NoIndex, c.HTTP = n.URL(), true, "" })
	s, end := run(t, cfg)
	await(t, "SERVING", func() bool { return serving(t, s) })
	if h := s.Health(); h.Index.State != "off" || s.HTTPAddr() != "" {
		t.Errorf("got %+v, HTTP at %q", h, s.HTTPAddr())
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(cfg.DataDir); !os.IsNotExist(err) {
		t.Errorf("the data folder: %v, want none", err)
	}
}

func TestOtherNetwork(t *testing.T) {
	n := newNode(t, 20, zebratest.NodeOptions{})
	startNode(t, n)
	s, err := New(Options{
		Config: settings(t, func(c *config.Config) { c.Zebra, c.Network = n.URL(), "main" }),
		Log:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "zebra at " + n.URL() + ` is on the network "test", the setting network says "main": change the one or the other`
	if err := s.Run(t.Context()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A data folder that cannot be used ends the program, with the reason.
func TestUnusableFolder(t *testing.T) {
	n := newNode(t, 20, zebratest.NodeOptions{})
	startNode(t, n)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Config: settings(t, func(c *config.Config) { c.Zebra, c.DataDir = n.URL(), file }), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("got %v", err)
	}
}

func TestNetworkOf(t *testing.T) {
	t.Parallel()
	regtest, err := chain.ParseHash("029f11d80ef9765602235e1bc9727e3eb6ba20839319f761fee920d63401e327")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		genesis chain.Hash
		want    string
	}{{"main", chain.Hash{1}, "main"}, {"test", chain.Hash{1}, "test"}, {"test", regtest, "regtest"}, {"somethingelse", regtest, "somethingelse"}} {
		if got := networkOf(chain.NodeInfo{Chain: tt.name, Genesis: tt.genesis}); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestExposed(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string]bool{"127.0.0.1": false, "::1": false, "10.1.2.3": false, "fd00::1": false, "0.0.0.0": true, "::": true, "192.0.2.1": true} {
		if got := exposed(fakeListener{addr: &net.TCPAddr{IP: net.ParseIP(ip)}}); got != want {
			t.Errorf("%s: got %v", ip, got)
		}
	}
}

type fakeListener struct {
	net.Listener
	addr net.Addr
}

func (f fakeListener) Addr() net.Addr { return f.addr }
