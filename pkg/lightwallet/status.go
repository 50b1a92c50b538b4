package lightwallet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Texts of answers that do not depend on the request. Details of our own side (addresses of the node, errors of the store) are for
// the log and never sent.
const (
	textInternal    = "internal error"
	textUnavailable = "the node that knows the answer cannot be asked at present, try again later"
	textApart       = "the node behind this server follows another chain than the one served here, which its operator has to settle: use another server meanwhile"
	textReorged     = "the best chain changed while the answer was being sent, ask again"
	textTooMany     = "one block has more results than the node gives in one answer"
	textBusy        = "too many expensive requests are waiting, try again later"
	textNotFound    = "not found"
	textAboveTip    = "the height is above the tip"
)

// refusal is an error that is meant for the client's eyes, text and all.
type refusal struct {
	code codes.Code
	text string
}

func (r *refusal) Error() string { return r.text }

func invalidArgument(format string, args ...any) error {
	return &refusal{codes.InvalidArgument, fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &refusal{codes.NotFound, fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) error {
	return &refusal{codes.ResourceExhausted, fmt.Sprintf(format, args...)}
}

// errClientGone marks an error of the transport: nobody is there to read an answer.
var errClientGone = errors.New("the client is gone")

// statusOf is the one place where errors become status codes. ctx is the call's own: a deadline that passed inside an error counts as
// the client's only when it is ctx's.
func statusOf(ctx context.Context, err error) *status.Status {
	var (
		own        *refusal
		above      *chain.AboveTipError
		unreadable *chain.UnreadableError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return status.New(own.code, own.text)
	case ctx.Err() != nil:
		return endOfCall(ctx)
	case errors.Is(err, errClientGone):
		return status.New(codes.Canceled, errClientGone.Error())
	case errors.As(err, &above):
		return status.New(codes.OutOfRange, above.Error())
	case errors.Is(err, chain.ErrAboveTip):
		return status.New(codes.OutOfRange, textAboveTip)
	case errors.Is(err, chain.ErrNotFound):
		return status.New(codes.NotFound, textNotFound)
	case errors.Is(err, chain.ErrReorged):
		return status.New(codes.Aborted, textReorged)
	case errors.Is(err, chain.ErrTooMany):
		return status.New(codes.ResourceExhausted, textTooMany)
	case errors.Is(err, chain.ErrBusy):
		return busyStatus()
	case errors.Is(err, chain.ErrApart):
		return status.New(codes.Unavailable, textApart)
	case errors.Is(err, chain.ErrUnavailable),
		errors.Is(err, chain.ErrNode),                                              // nonsense from the node is no answer, and no bug of ours
		errors.As(err, &unreadable),                                                // whoever could answer in the store's place did not
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled): // ours, not the client's: somebody was too slow
		return status.New(codes.Unavailable, textUnavailable)
	}
	// What grpc-go's own services and its answer for missing methods return. Wrapped ones come from elsewhere and are no answer.
	if s, ok := err.(interface{ GRPCStatus() *status.Status }); ok && s.GRPCStatus().Code() != codes.Unknown {
		return s.GRPCStatus()
	}
	return status.New(codes.Internal, textInternal)
}

// endOfCall tells why a call's context is done. At the deadline grpc-go cancels the stream, which may come before the context's own timer.
func endOfCall(ctx context.Context) *status.Status {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return status.FromContextError(context.DeadlineExceeded)
	}
	return status.FromContextError(ctx.Err())
}

// busyStatus tells clients when to come back (google.rpc.RetryInfo).
func busyStatus() *status.Status {
	st := status.New(codes.ResourceExhausted, textBusy)
	detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retryDelay)})
	if err != nil {
		return st
	}
	return detailed
}
