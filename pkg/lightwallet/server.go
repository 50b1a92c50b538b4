package lightwallet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/indexrpc"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// Node answers what only the node knows.
type Node interface {
	AddressNode
	// NodeInfo asks the node about itself and its chain. ErrUnavailable when it cannot be asked.
	NodeInfo(ctx context.Context) (chain.NodeInfo, error)

	Transactions
}

// Options say what a Server serves. Source, Node and Mempool are required.
type Options struct {
	Source  chain.Source
	Node    Node
	Mempool Mempool

	// What GetLightdInfo tells of this build.
	Version, GitCommit, GitBranch, BuildDate, BuildUser string
	// ChainName replaces the node's word for its chain when not empty.
	ChainName string
	// DonationAddress is passed on to wallets; empty when there is none.
	DonationAddress string

	// GetBlockPools are the pools of GetBlock, which has no filter. The zero value means chain.AllPools, with every transaction kept;
	// chain.ShieldedPools drops transactions without a shielded part.
	GetBlockPools chain.Pools

	// MaxUnaryReply is the size in bytes up to which GetAddressUtxos answers. 0 means 64 MiB.
	MaxUnaryReply int
	// TLS is the server's side of TLS; nil serves plain text. Its certificate may change from one connection to the next.
	TLS *tls.Config
	// Ping allows the method Ping, with which anybody can occupy the server.
	Ping bool

	// NodeAway tells whether the node is known not to answer: a queue for it is UNAVAILABLE then, and not a crowd. Nil means never.
	NodeAway func() bool

	// Observe is called at the end of every RPC, on the RPC's goroutine; nil when nobody is interested.
	Observe func(Call)
	// Logger; nil means slog.Default().
	Logger *slog.Logger
}

// Server is the gRPC server for guarded. Its methods are safe for concurrent use.
type Server struct {
	grpc     *grpc.Server
	health   *health.Server
	counters *counters
	guard    *guard
	node     *nodeInfo
	log      *slog.Logger
	framed   bool
	stopping context.CancelFunc // ends the streams that have no end of their own
}

// service has the methods of the protocol that are built; the embedded type answers UNIMPLEMENTED for the others.
type service struct {
	walletrpc.UnimplementedCompactTxStreamerServer

	source       chain.Source
	node         *nodeInfo
	transactions Transactions
	sends        *turns // of transactions: verifying one takes the node up to seconds
	lookups      *turns // of transactions: quick, so that they do not stand behind addresses
	blocks       *turns // at the start of ranges that the index does not have
	trees        *turns // of blocks, for which the node reads the whole block; those that are kept wait for none
	mempool      Mempool
	counters     *counters
	runs         chain.BufferPool // for runs of compact transactions
	stopping     context.Context  // of the Server, done when it stops

	version, gitCommit, gitBranch, buildDate, buildUser string

	chainName, donationAddress string

	getBlockPools chain.Pools
	fallback      bool // send one message at a time

	addresses     *addressReader
	turns         *turns
	maxUnaryReply int
	ping          bool
}

// New returns a Server that is not serving yet: its health service says NOT_SERVING until SetServing. It fails when an option is
// missing or makes no sense. Whoever gets a Server calls Stop, also when it never served: goroutines wait for calls until then.
func New(o Options) (*Server, error) { return newServer(o, !probeFraming()) }

func newServer(o Options, fallback bool) (*Server, error) {
	if o.Source == nil || o.Node == nil || o.Mempool == nil {
		return nil, errors.New("a wallet server needs a Source, a Node and a Mempool")
	}
	switch o.GetBlockPools {
	case 0:
		o.GetBlockPools = chain.AllPools
	case chain.AllPools, chain.ShieldedPools:
	default:
		return nil, fmt.Errorf("the pools of GetBlock are all or the shielded ones, not %#b", uint8(o.GetBlockPools))
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MaxUnaryReply == 0 {
		o.MaxUnaryReply = defaultUnaryReply
	}
	c := &counters{}
	node := newNodeInfo(o.Node)
	stopping, stop := context.WithCancel(context.Background())
	s := &Server{
		grpc:     grpc.NewServer(serverOptions(minClientPing, o.TLS)...),
		health:   health.NewServer(),
		counters: c,
		guard:    &guard{counters: c, observe: o.Observe, nodeAway: o.NodeAway, log: o.Logger},
		node:     node,
		log:      o.Logger,
		framed:   !fallback,
		stopping: stop,
	}
	guarded := registrar{s.grpc, s.guard}
	guarded.RegisterService(walletService(), &service{
		source: o.Source, node: node, transactions: o.Node, sends: newTurns(), lookups: newTurns(), blocks: newTurns(), trees: newTurns(), mempool: o.Mempool, counters: c, stopping: stopping,
		version: o.Version, gitCommit: o.GitCommit, gitBranch: o.GitBranch, buildDate: o.BuildDate, buildUser: o.BuildUser,
		chainName: o.ChainName, donationAddress: o.DonationAddress,
		getBlockPools: o.GetBlockPools, fallback: fallback,
		addresses: &addressReader{node: o.Node, info: node}, turns: newTurns(), maxUnaryReply: o.MaxUnaryReply, ping: o.Ping,
	})
	guarded.RegisterService(&indexrpc.IndexedTipService_ServiceDesc, &tipService{source: o.Source, stopping: stopping})
	healthpb.RegisterHealthServer(guarded, s.health)
	reflection.Register(guarded)
	s.SetServing(false)
	return s, nil
}

func serverOptions(minPing time.Duration, secure *tls.Config) []grpc.ServerOption {
	handshake := newSniffer()
	if secure != nil {
		handshake = credentials.NewTLS(secure)
	}
	return []grpc.ServerOption{
		grpc.Creds(handshake),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(maxSendTransactionRequest),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxConcurrentStreams),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connectionWindow),
		grpc.WriteBufferSize(writeBufferSize),
		grpc.ReadBufferSize(readBufferSize),
		grpc.NumStreamWorkers(callWorkers),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: serverPing, Timeout: serverPingTimeout}),
		grpc.WaitForHandlers(true), // the views of handlers must be closed before their source is
	}
}

// registrar puts the guard around every service.
type registrar struct {
	*grpc.Server
	guard *guard
}

func (r registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	r.Server.RegisterService(r.guard.service(desc), impl)
}

// walletService is the generated description, except that the methods which answer with finished bytes hand them on as they are.
func walletService() *grpc.ServiceDesc {
	desc := walletrpc.CompactTxStreamer_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		switch m := &desc.Methods[i]; m.MethodName {
		case "GetBlock":
			m.Handler = rawHandler((*service).getBlock)
		case "GetBlockNullifiers":
			m.Handler = rawHandler((*service).getBlockNullifiers)
		case "GetAddressUtxos":
			m.Handler = rawHandler((*service).getAddressUtxos)
		}
	}
	return &desc
}

func rawHandler[R any](get func(*service, context.Context, *R) (*rawMessage, error)) grpc.MethodHandler {
	return func(srv any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		req := new(R)
		if err := receive(req); err != nil {
			return nil, err
		}
		return get(srv.(*service), ctx, req)
	}
}

// newWriter makes the writer of a stream, and says so when it has to send one message at a time.
func (s *service) newWriter(stream grpc.ServerStream) *frameWriter {
	w := newFrameWriter(stream, s.fallback)
	if !w.framed() {
		s.counters.fallbackStreams.Add(1)
	}
	return w
}

// Serve answers connections of lis until Stop, and closes lis. It may be called for several listeners. It returns nil after Stop.
func (s *Server) Serve(lis net.Listener) error {
	if s.framed {
		s.log.Info("serving wallets", "addr", lis.Addr().String(), "framed", true)
	} else {
		s.log.Warn("serving wallets, ranges one message at a time: this grpc-go does not take runs of frames", "addr", lis.Addr().String(), "framed", false)
	}
	if err := s.grpc.Serve(lis); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC on %s: %w", lis.Addr(), err)
	}
	return nil
}

// SetServing tells clients of grpc.health.v1 whether to come here, for the server as a whole and for the wallet service. It has no
// effect on what is answered, and none after Stop.
func (s *Server) SetServing(serving bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		status = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
	s.health.SetServingStatus(walletrpc.CompactTxStreamer_ServiceDesc.ServiceName, status)
}

// AskNode asks the node about itself, as GetLightdInfo does, and keeps the answer: should the node go away before a wallet has asked,
// GetLightdInfo still has something to say, and addresses are told from those of other networks. It returns the last answer there is,
// and fails as Node.NodeInfo does when there is none.
func (s *Server) AskNode(ctx context.Context) (chain.NodeInfo, error) { return s.node.get(ctx) }

// Remember brings in what AskNode returned in an earlier run of the program, which counts until the node answers.
func (s *Server) Remember(info chain.NodeInfo) { s.node.known.CompareAndSwap(nil, &info) }

// Stop says NOT_SERVING, takes no new calls, waits for those in progress, and cuts them off when ctx ends. When it returns, no
// handler runs.
func (s *Server) Stop(ctx context.Context) {
	s.health.Shutdown()
	s.stopping()
	cutOff := context.AfterFunc(ctx, s.grpc.Stop)
	defer cutOff()
	s.grpc.GracefulStop()
}

// Stats counts what was done so far. It is cheap and may be called often.
func (s *Server) Stats() Stats {
	return Stats{
		Framed:          s.framed,
		FallbackStreams: s.counters.fallbackStreams.Load(),
		BlocksServed:    [2]uint64{s.counters.blocks[chain.FromIndex].Load(), s.counters.blocks[chain.FromZebra].Load()},
		Panics:          s.counters.panics.Load(),
		Calls:           s.counters.calls.Load(),
		Streams:         s.counters.streams.Load(),
	}
}
