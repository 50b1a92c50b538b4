package zebrarpc

import (
	"errors"
	"sync/atomic"
)

// Stats are a client's counters since it was made.
type Stats struct {
	Requests []RequestCount // of every method and outcome that occurred

	InFlight  int   // requests at Zebra now
	Waiting   int   // interactive calls and iterations of Blocks that wait for a permit now
	BulkLimit int   // requests of Blocks that may be at Zebra now: Options.InFlight, less after signs of overload
	ReadAhead int64 // bytes held or reserved for Blocks now

	BytesRead uint64 // of reply bodies
	Retries   uint64 // repeated requests
}

// RequestCount counts the questions of one method that ended in one way. Repetitions within one question are not counted here.
type RequestCount struct {
	Method  string // JSON-RPC method
	Outcome string // ok, passing, answerable, fatal or canceled
	Count   uint64
}

// Outcomes beside those of ErrorClass.
const (
	outcomeOK       = 0
	outcomeCanceled = int(Fatal) + 1
	outcomeCount    = outcomeCanceled + 1
)

func outcomeName(o int) string {
	switch o {
	case outcomeOK:
		return "ok"
	case outcomeCanceled:
		return "canceled"
	}
	return ErrorClass(o).String()
}

type counters struct {
	requests  [methodCount][outcomeCount]atomic.Uint64
	bytesRead atomic.Uint64
	retries   atomic.Uint64
}

func (s *counters) succeeded(m method) { s.requests[m][outcomeOK].Add(1) }

func (s *counters) failed(m method, err error) {
	outcome := outcomeCanceled
	var e *Error
	if errors.As(err, &e) {
		outcome = int(e.Class)
	}
	s.requests[m][outcome].Add(1)
}

// Stats returns the counters. They are read one after the other, not as one snapshot.
func (c *Client) Stats() Stats {
	s := Stats{BytesRead: c.stats.bytesRead.Load(), Retries: c.stats.retries.Load()}
	c.permits.fill(&s)
	for m := range c.stats.requests {
		for o := range c.stats.requests[m] {
			if n := c.stats.requests[m][o].Load(); n > 0 {
				s.Requests = append(s.Requests, RequestCount{method(m).String(), outcomeName(o), n})
			}
		}
	}
	return s
}
