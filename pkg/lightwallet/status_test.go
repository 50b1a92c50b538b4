package lightwallet

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

func TestStatusOf(t *testing.T) {
	t.Parallel()
	live := t.Context()
	gone, cancel := context.WithCancel(live)
	cancel()
	late, cancel := context.WithTimeout(live, -1)
	defer cancel()
	wrap := func(err error) error { return fmt.Errorf("ask http://user:secret@zebra: %w", err) }
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		code codes.Code
		text string
	}{
		{"bad input", live, invalidArgument("height %d", 5), codes.InvalidArgument, "height 5"},
		{"unknown", live, notFound("no block"), codes.NotFound, "no block"},
		{"over a cap", live, tooLarge("too long"), codes.ResourceExhausted, "too long"},
		{"unknown to the source", live, wrap(chain.ErrNotFound), codes.NotFound, textNotFound},
		{"above the tip", live, wrap(&chain.AboveTipError{Asked: 1 << 63, Tip: 7}), codes.OutOfRange, "height 9223372036854775808 is above the tip 7"},
		{"above the tip, no numbers", live, wrap(chain.ErrAboveTip), codes.OutOfRange, textAboveTip},
		{"reorg", live, wrap(chain.ErrReorged), codes.Aborted, textReorged},
		{"node away", live, wrap(chain.ErrUnavailable), codes.Unavailable, textUnavailable},
		{"node away, and why", live, fmt.Errorf("%w: %w", chain.ErrUnavailable, errFake), codes.Unavailable, textUnavailable},
		{"another chain", live, fmt.Errorf("%w: %w: %w", chain.ErrUnavailable, chain.ErrApart, errFake), codes.Unavailable, textApart},
		{"nonsense from the node", live, fmt.Errorf("%w: %w", chain.ErrNode, errFake), codes.Unavailable, textUnavailable},
		{"the node does not know", live, fmt.Errorf("%w: %w", chain.ErrNode, chain.ErrNotFound), codes.NotFound, textNotFound},
		{"a corrupt store", live, wrap(&chain.UnreadableError{First: 3, Last: 9, Err: errFake}), codes.Unavailable, textUnavailable},
		{"busy", live, wrap(chain.ErrBusy), codes.ResourceExhausted, textBusy},
		{"somebody else's deadline", live, wrap(context.DeadlineExceeded), codes.Unavailable, textUnavailable},
		{"somebody else's cancellation", live, wrap(context.Canceled), codes.Unavailable, textUnavailable},
		{"the client left", gone, wrap(chain.ErrUnavailable), codes.Canceled, "context canceled"},
		{"the client left, unknown error", gone, errFake, codes.Canceled, "context canceled"},
		{"the client's deadline", late, wrap(context.DeadlineExceeded), codes.DeadlineExceeded, "context deadline exceeded"},
		{"the transport", live, fmt.Errorf("%w: %w", errClientGone, errFake), codes.Canceled, "the client is gone"},
		{"grpc-go's own answer", live, status.Error(codes.Unimplemented, "no such method"), codes.Unimplemented, "no such method"},
		{"an answer from elsewhere", live, wrap(status.Error(codes.PermissionDenied, "zebra says no")), codes.Internal, textInternal},
		{"no code", live, status.Error(codes.Unknown, "?"), codes.Internal, textInternal},
		{"anything else", live, errFake, codes.Internal, textInternal},
	} {
		t.Run(c.name, func(t *testing.T) {
			if st := statusOf(c.ctx, c.err); st.Code() != c.code || st.Message() != c.text {
				t.Errorf("got  %v %q\nwant %v %q", st.Code(), st.Message(), c.code, c.text)
			}
		})
	}
	if st := statusOf(live, nil); st.Code() != codes.OK {
		t.Error(st)
	}
}

func TestBusyTellsWhenToRetry(t *testing.T) {
	t.Parallel()
	details := statusOf(t.Context(), chain.ErrBusy).Details()
	if len(details) != 1 {
		t.Fatal(details)
	}
	info, ok := details[0].(*errdetails.RetryInfo)
	if !ok || info.RetryDelay.AsDuration() != retryDelay {
		t.Error(details[0])
	}
}

func TestMissingOptions(t *testing.T) {
	t.Parallel()
	source, node, pool := &fakeSource{}, &fakeNode{}, newFakeMempool()
	for _, c := range []struct {
		o    Options
		text string
	}{
		{Options{Node: node, Mempool: pool}, "a wallet server needs a Source, a Node and a Mempool"},
		{Options{Source: source, Mempool: pool}, "a wallet server needs a Source, a Node and a Mempool"},
		{Options{Source: source, Node: node}, "a wallet server needs a Source, a Node and a Mempool"},
		{Options{Source: source, Node: node, Mempool: pool, GetBlockPools: chain.Pools(0).With(chain.Sapling)}, "the pools of GetBlock are all or the shielded ones, not 0b100"},
	} {
		if _, err := New(c.o); err == nil || err.Error() != c.text {
			t.Errorf("got %v, want %s", err, c.text)
		}
	}
	s, err := New(Options{Source: source, Node: node, Mempool: pool})
	if err != nil {
		t.Fatal(err)
	}
	s.Stop(t.Context())
	if !s.Stats().Framed {
		t.Error("New does not find the framed writer")
	}
}
