package lightwallet

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// Ping tells how many calls of itself were running when it came, itself included, and when it left, itself left out, after a sleep of
// the requested length. It lets anybody occupy the server, so that it is switched off unless the operator allows it.
func (s *service) Ping(ctx context.Context, req *walletrpc.Duration) (*walletrpc.PingResponse, error) {
	if !s.ping {
		return nil, &refusal{codes.FailedPrecondition, "Ping is switched off: the operator may allow it with --ping-very-insecure"}
	}
	entry := s.counters.pings.Add(1)
	err := sleep(ctx, req.IntervalUs)
	exit := s.counters.pings.Add(-1)
	if err != nil {
		return nil, err
	}
	return &walletrpc.PingResponse{Entry: entry, Exit: exit}, nil
}

// sleep waits for so many microseconds, maxPing at most, unless the call ends before.
func sleep(ctx context.Context, microseconds int64) error {
	if microseconds <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Duration(min(microseconds, maxPing.Microseconds())) * time.Microsecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
