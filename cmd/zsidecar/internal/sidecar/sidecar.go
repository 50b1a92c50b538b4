// Package sidecar wires the program that `start` runs: the client of Zebra, the index and its builder, the wallet server, and the HTTP
// port. The demo runs the same wiring beside a simulated Zebra.
//
// New listens, so that a port that is taken is known at once and wallets can connect before Zebra has answered. Run owns every
// goroutine: one errgroup, ended in order by the context.
package sidecar

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/ops"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/progress"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/sockets"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/index"
	"github.com/zsidecar/zsidecar/pkg/lightwallet"
	"github.com/zsidecar/zsidecar/pkg/mempool"
	"github.com/zsidecar/zsidecar/pkg/passthrough"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/indexer"
)

// Limits of the stop, ten seconds in all with what the index needs to end its commit.
const (
	drainLimit = 5 * time.Second // for the wallets' requests
	httpLimit  = time.Second     // for the operator's
)

// Options are the parameters of New.
type Options struct {
	Config    config.Config
	Build     ops.Build
	BuildDate string
	Log       *slog.Logger
	// ConfirmDeep is index.BuilderOptions.ConfirmDeep.
	ConfirmDeep time.Duration
	Screen      *progress.Screen // where the progress bar goes; nil: log lines
	Zaino       bool             // the program was started as zainod: the log says how it is as Zaino's does
}

// Sidecar is the wired program.
type Sidecar struct {
	Options
	client   *zebrarpc.Client
	joined   *passthrough.Joined
	mempool  *mempool.Pool
	tips     *indexer.Stream // nil: the tip is polled only
	wallets  *lightwallet.Server
	registry *prometheus.Registry
	tls      *certificate        // of the gRPC port; nil: plain text
	ports    []*sockets.Listener // the open ones
	grpc     net.Listener
	http     net.Listener // nil: no HTTP port
	pprof    net.Listener // nil: no port for profiles
	json     *jsonServer  // nil: no JSON-RPC

	store    atomic.Pointer[index.Store] // nil until it is open
	opened   chan struct{}               // closed when it is
	noRoom   atomic.Pointer[error]       // why it could not be opened on a full disk, nil if it could at once
	builder  atomic.Pointer[index.Builder]
	missing  atomic.Pointer[[]ops.MissingMethod] // of the node; nil until it was asked
	beat     atomic.Pointer[time.Time]           // when the status loop last ran
	stopping atomic.Bool
}

// ZebraOptions are the settings of a client of Zebra. The caller adds a logger.
func ZebraOptions(c config.Config) zebrarpc.Options {
	return zebrarpc.Options{
		URL:      c.Zebra,
		Auth:     zebrarpc.Auth{User: c.ZebraUser, Password: string(c.ZebraPassword), CookieFile: c.ZebraCookie},
		InFlight: c.InFlight,
	}
}

// New wires everything and listens. Whoever gets a Sidecar calls Run, which closes it.
func New(o Options) (*Sidecar, error) {
	c := o.Config
	var certificate *certificate
	var tlsConfig *tls.Config
	if c.TLSCert != "" {
		var err error
		if certificate, err = newCertificate(c.TLSCert, c.TLSKey, o.Log); err != nil {
			return nil, err
		}
		tlsConfig = certificate.config()
	}
	zebra := ZebraOptions(c)
	zebra.Logger = o.Log
	client, err := zebrarpc.New(zebra)
	if err != nil {
		return nil, err
	}
	s := &Sidecar{Options: o, client: client, tls: certificate, opened: make(chan struct{})}
	s.joined = passthrough.NewJoined(passthrough.New(source{client}))
	s.mempool = mempool.New(client, mempool.Options{Tip: s.servedTip, Logger: o.Log})
	if c.ZebraIndexer != "" {
		s.tips = indexer.New(indexer.Options{Addr: c.ZebraIndexer, Tip: client.Hint, Logger: o.Log})
	}
	s.registry = ops.NewRegistry(o.Build, s.readings)
	if s.wallets, err = lightwallet.New(lightwallet.Options{
		Source: s.joined, Node: client, Mempool: s.mempool,
		Version: o.Build.Version, GitCommit: o.Build.Commit, BuildDate: o.BuildDate,
		ChainName: c.ChainName, DonationAddress: c.DonationAddress, GetBlockPools: getBlockPools(c.GetBlockPools),
		MaxUnaryReply: c.MaxUnaryReplyBytes, Ping: c.Ping, TLS: tlsConfig,
		NodeAway: func() bool { return client.Tip().Err != nil },
		Observe:  ops.NewRequests(s.registry).Observe, Logger: o.Log,
	}); err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		s.drain()
		return nil, err
	}
	return s, nil
}

// File descriptors that clients leave: 48 for Zebra and some for the index, and where wallets have taken all of theirs, some for the operator.
const (
	spareOfWallets  = 128
	spareOfOperator = 96
)

// listen opens all ports, or none.
func (s *Sidecar) listen() (err error) {
	defer func() {
		if err != nil {
			for _, l := range s.ports {
				l.Close()
			}
		}
	}()
	port := func(addr, flag string, spare int) net.Listener {
		if addr == "" || err != nil {
			return nil
		}
		var l net.Listener
		if l, err = listen(addr, flag); err != nil {
			return nil
		}
		guarded := sockets.New(l, spare, s.Log)
		s.ports = append(s.ports, guarded)
		return guarded
	}
	s.grpc = port(s.Config.GRPC, "--grpc", spareOfWallets)
	s.http = port(s.Config.HTTP, "--http", spareOfOperator)
	s.pprof = port(s.Config.Pprof, "--pprof", spareOfOperator)
	jsonRPC := port(s.Config.JSONRPC, "--json-rpc", spareOfWallets)
	switch {
	case err != nil:
		return err
	case s.tls == nil && s.Config.StrictBind && exposed(s.grpc):
		return fmt.Errorf("%s may be reached by others and would speak plain text, which strict_bind forbids: "+
			"give a certificate (--tls-cert, --tls-key) or a private address (--grpc)", s.grpc.Addr())
	case jsonRPC == nil:
		return nil
	case s.Config.StrictBind && exposed(jsonRPC):
		return fmt.Errorf("%s may be reached by others and would speak plain text, which strict_bind forbids: "+
			"give a private address (--json-rpc)", jsonRPC.Addr())
	}
	s.json, err = s.newJSONServer(jsonRPC)
	return err
}

// servedTip is the tip that GetLatestBlock names.
func (s *Sidecar) servedTip(ctx context.Context) (chain.BlockID, error) {
	view, err := s.joined.View(ctx)
	if err != nil {
		return chain.BlockID{}, err
	}
	defer view.Close()
	return view.Tip()
}

func getBlockPools(setting string) chain.Pools {
	if setting == "shielded" {
		return chain.ShieldedPools
	}
	return chain.AllPools
}

func listen(addr, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w: stop the program that has the port, or choose another with %s", err, flag)
	case err != nil:
		return nil, fmt.Errorf("%w: choose an address of this machine with %s", err, flag)
	}
	return l, nil
}

// exposed tells whether a port may be reached from outside a private network.
func exposed(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && !a.IP.IsLoopback() && !a.IP.IsPrivate()
}

// GRPCAddr is where wallets are served.
func (s *Sidecar) GRPCAddr() string { return s.grpc.Addr().String() }

// HTTPAddr is where metrics and health are; empty when they are off.
func (s *Sidecar) HTTPAddr() string { return address(s.http) }

// PprofAddr is where profiles are; empty when they are off.
func (s *Sidecar) PprofAddr() string { return address(s.pprof) }

func address(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// Run serves until ctx ends, and then stops in order: health says NOT_SERVING, the wallets' requests get some seconds, the builder ends
// its commit, everything is closed. It returns nil then, and an error when something makes it impossible to go on.
func (s *Sidecar) Run(ctx context.Context) error {
	// Work outlives ctx: requests are still answered while the server drains.
	work, endWork := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()
	g, work := errgroup.WithContext(work)
	s.pulse()
	if s.tls == nil && exposed(s.grpc) {
		s.Log.Warn("wallets are served in plain text on an address that others may reach: give a certificate (--tls-cert), or put a proxy with TLS before it", "addr", s.GRPCAddr())
	}
	g.Go(func() error { return s.wallets.Serve(s.grpc) })
	if s.json != nil {
		g.Go(func() error { return s.json.serve(s) })
	}
	if s.http != nil {
		g.Go(func() error { return s.serveHTTP(work) })
	}
	if s.pprof != nil {
		g.Go(func() error { return s.servePprof(work) })
	}
	if s.tls != nil {
		g.Go(func() error { s.tls.follow(work); return nil })
	}
	g.Go(func() error { return s.client.Watch(work) })
	if s.tips != nil {
		g.Go(func() error { return s.tips.Run(work) })
	}
	g.Go(func() error { return s.mempool.Run(work) })
	g.Go(func() error { s.warnOfPublicNode(work); return nil })
	g.Go(func() error { s.watchStatus(work); return nil })
	g.Go(func() error { s.checkMethods(work); return nil })
	g.Go(func() error { s.watchNetwork(work); return nil })
	g.Go(func() error { s.keepNodeInfo(work); return nil })
	g.Go(func() error { return s.joined.Run(work) })
	if s.Config.Network != "" {
		g.Go(func() error { return s.checkNetwork(work) })
	}
	if s.Config.NoIndex {
		s.client.SetFollowing(true) // the builder would say when
	} else {
		g.Go(func() error { return s.buildIndex(work) })
		g.Go(func() error {
			progress.Report(work, progress.Options{Read: s.progress, Log: s.Log, Screen: s.Screen})
			return nil
		})
	}
	g.Go(func() error {
		select {
		case <-ctx.Done():
			s.Log.Info("stopping")
		case <-work.Done():
		}
		s.drain()
		endWork()
		return nil
	})
	err := g.Wait()
	return errors.Join(err, s.close())
}

// drain ends the requests of wallets and of JSON-RPC.
func (s *Sidecar) drain() {
	s.stopping.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	var wait sync.WaitGroup
	wait.Go(func() { s.json.stop(ctx) })
	s.wallets.Stop(ctx)
	wait.Wait()
}

// close is called when no goroutine of Run is left.
func (s *Sidecar) close() error {
	s.client.Close()
	err := s.json.close()
	if store := s.store.Load(); store != nil {
		if failed := store.Close(); failed != nil {
			err = errors.Join(err, fmt.Errorf("close the index: %w", failed))
		}
	}
	return err
}
