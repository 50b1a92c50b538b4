package lightwallet

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

func withPing(o *Options, _ *bool) { o.Ping = true }

func TestPingIsOff(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(1)})
	_, err := s.dial(t).Ping(t.Context(), &walletrpc.Duration{IntervalUs: 1})
	requireStatus(t, err, codes.FailedPrecondition, "Ping is switched off: the operator may allow it with --ping-very-insecure")
}

func TestPing(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(1)}, withPing)
	client := s.dial(t)
	for _, us := range []int64{0, 1, 20_000, -5, math.MinInt64} {
		begin := time.Now()
		got, err := client.Ping(t.Context(), &walletrpc.Duration{IntervalUs: us})
		if err != nil || got.Entry != 1 || got.Exit != 0 || time.Since(begin) < time.Duration(us)*time.Microsecond && us > 0 {
			t.Errorf("%d us: %v, %v after %v", us, got, err, time.Since(begin))
		}
	}
	// One that sleeps is seen by those that come and go meanwhile.
	ctx, cancel := context.WithCancel(t.Context())
	var sleeper sync.WaitGroup
	sleeper.Go(func() {
		_, err := client.Ping(ctx, &walletrpc.Duration{IntervalUs: math.MaxInt64})
		requireStatus(t, err, codes.Canceled, "context canceled")
	})
	eventually(t, "the sleeper is there", func() bool { return s.Stats().Calls == 1 })
	if got, err := client.Ping(t.Context(), &walletrpc.Duration{}); err != nil || got.Entry != 2 || got.Exit != 1 {
		t.Errorf("beside a sleeper: %v, %v", got, err)
	}
	cancel()
	sleeper.Wait()
	eventually(t, "the sleeper is gone", func() bool { return s.Stats().Calls == 0 })
	if got, err := client.Ping(t.Context(), &walletrpc.Duration{}); err != nil || got.Entry != 1 || got.Exit != 0 {
		t.Errorf("after the sleeper: %v, %v", got, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	// The text is grpc-go's, and depends on whose clock is first.
	if _, err := client.Ping(ctx, &walletrpc.Duration{IntervalUs: 1_000_000}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a sleep beyond the deadline: %v", err)
	}
}

func TestPingIsCapped(t *testing.T) {
	t.Parallel()
	for _, us := range []int64{10_000_000, 10_000_001, math.MaxInt64} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			if err := sleep(t.Context(), us); err != nil || time.Since(begin) != 10*time.Second {
				t.Errorf("%d us: %v after %v", us, err, time.Since(begin))
			}
		})
	}
}
