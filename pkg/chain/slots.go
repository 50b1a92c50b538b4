package chain

import (
	"context"
	"fmt"
	"time"
)

// Slots lets as many in at one time as its capacity says, in the order in which they came. It is made with make.
type Slots chan struct{}

// Take waits for a slot for at most limit, after which it returns an error that matches ErrBusy. Whoever gets one calls Give.
func (s Slots) Take(ctx context.Context, limit time.Duration) error {
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("no turn among %d within %v: %w", cap(s), limit, ErrBusy)
	}
}

// Give gives a slot back.
func (s Slots) Give() { <-s }
