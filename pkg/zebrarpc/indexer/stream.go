package indexer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/zebraindexer"
)

const (
	// Between two tries the pause doubles from the first to the last. A stream that lasted for steady begins anew.
	firstPause = time.Second
	lastPause  = 30 * time.Second
	steady     = time.Minute

	// beginLimit is how long the server may take to accept the stream; Zebra does so at once.
	beginLimit = 10 * time.Second

	// A server that does not answer a ping for pingLimit is gone, as after a power cut. Zebra lets its clients ping.
	pingEvery = 30 * time.Second
	pingLimit = 10 * time.Second

	// leastGap is the time between two messages: a tip changes every 25 seconds, and several times in a row in a reorganization.
	leastGap = 10 * time.Millisecond

	// maxMessage bounds a message, in bytes; one has about 40.
	maxMessage = 1 << 10
)

// Options of a Stream. Addr and Tip are required.
type Options struct {
	Addr   string              // host:port of Zebra's rpc.indexer_listen_addr
	Tip    func(chain.BlockID) // called with each tip that the stream names, in Run's goroutine, which it must not hold up
	Logger *slog.Logger        // nil: nothing is logged
}

// Stream is the connection to one Zebra.
type Stream struct {
	options  Options
	running  atomic.Bool // the server has accepted the stream
	messages atomic.Uint64
	breaks   atomic.Uint64
	extra    []grpc.DialOption // of tests
}

// Stats are counters since the stream was made.
type Stats struct {
	Running  bool   // the stream is there now
	Messages uint64 // tips that it named
	Breaks   uint64 // how often it ended, or could not be had
}

// New does no input or output.
func New(o Options) *Stream {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = o.Logger.With("zebra_indexer", o.Addr)
	return &Stream{options: o}
}

// Stats returns the counters. They are read one after the other, not as one snapshot.
func (s *Stream) Stats() Stats {
	return Stats{s.running.Load(), s.messages.Load(), s.breaks.Load()}
}

// Run listens until ctx ends, and then returns nil. Nothing else ends it.
func (s *Stream) Run(ctx context.Context) error {
	pause, told := firstPause, false
	for {
		begin := time.Now()
		ran, err := s.listen(ctx)
		if ctx.Err() != nil {
			return nil
		}
		s.breaks.Add(1)
		if ran || !told {
			s.options.Logger.Warn("zebra's tip stream cannot be used: new blocks are found by polling", "err", err)
			told = true
		}
		if time.Since(begin) >= steady {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
		pause = min(2*pause, lastPause)
	}
}

// listen is one try. It tells whether the server accepted the stream, and why that ended.
func (s *Stream) listen(parent context.Context) (ran bool, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	conn, err := s.dial()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	late := time.AfterFunc(beginLimit, func() { cancel(fmt.Errorf("the stream did not begin within %v", beginLimit)) })
	defer late.Stop()
	stream, err := zebraindexer.NewIndexerClient(conn).ChainTipChange(ctx, &zebraindexer.Empty{})
	if err == nil {
		// Without headers there is nothing but the status, which Recv returns.
		if header, headerErr := stream.Header(); headerErr == nil && header != nil && late.Stop() {
			ran = true
			s.running.Store(true)
			defer s.running.Store(false)
			s.options.Logger.Info("zebra's tip stream runs: new blocks are found at once")
		}
		err = s.receive(ctx, stream)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return ran, explain(err)
}

// receive passes on what the stream names until it ends.
func (s *Stream) receive(ctx context.Context, stream zebraindexer.Indexer_ChainTipChangeClient) error {
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		id, err := blockOf(message)
		if err != nil {
			return err
		}
		s.messages.Add(1)
		s.options.Tip(id)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(leastGap):
		}
	}
}

// blockOf turns the display order of the message around.
func blockOf(m *zebraindexer.BlockHashAndHeight) (id chain.BlockID, err error) {
	if len(m.Hash) != len(id.Hash) || chain.Height(m.Height) > chain.MaxHeight {
		return id, fmt.Errorf("it names a block with a hash of %d bytes at height %d; is this the address of rpc.indexer_listen_addr?", len(m.Hash), m.Height)
	}
	id.Height = chain.Height(m.Height)
	copy(id.Hash[:], m.Hash)
	slices.Reverse(id.Hash[:])
	return id, nil
}

// dial prepares a connection that is not tried again by itself: Run does that.
func (s *Stream) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+s.options.Addr, append(s.extra,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(), // as for JSON-RPC
		grpc.WithDisableServiceConfig(),
		grpc.WithUserAgent("zsidecar"),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: beginLimit}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingLimit}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	)...)
}

// explain makes the error of a stream readable.
func explain(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the server ended it")
	}
	if st, ok := status.FromError(err); ok {
		return fmt.Errorf("%s: %s", st.Code(), st.Message())
	}
	return err
}
