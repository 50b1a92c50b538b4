package integration

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// countingClient is the counting client of `zsidecar bench`, as the benchmarks here use it.
type countingClient struct{ *bench.CountingClient }

func newCountingClient(tb testing.TB, addr string) *countingClient {
	tb.Helper()
	c, err := dialCounting(addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

func dialCounting(addr string) (*countingClient, error) {
	client, err := bench.DialCounting(context.Background(), addr, nil)
	return &countingClient{client}, err
}

// fetch reads the range from..to, which has to come whole.
func (c *countingClient) fetch(q query, from, to int) error {
	request, err := proto.Marshal(q.blockRange(from, to))
	if err != nil {
		return err
	}
	got, err := c.Ask(q.method, request)
	if err != nil {
		return fmt.Errorf("%v %d to %d: %w", q, from, to, err)
	}
	if want := int64(max(from, to) - min(from, to) + 1); got.Messages != want {
		return fmt.Errorf("%v %d to %d: %d whole blocks came, want %d", q, from, to, got.Messages, want)
	}
	return nil
}
