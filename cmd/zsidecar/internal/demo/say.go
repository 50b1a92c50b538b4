package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/progress"
	"github.com/zsidecar/zsidecar/pkg/chain"
)

func (d *demo) say(format string, args ...any) {
	// The terminal being gone is no reason to fail, and nobody is left to tell.
	_, _ = fmt.Fprintf(d.Out, format+"\n", args...)
}

func count[T int | uint64](n T) string { return progress.Group(uint64(n)) }

func since(t time.Time) time.Duration {
	d := time.Since(t)
	if d > time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

// andHTTP continues the sentence about the gRPC port.
func (d *demo) andHTTP() string {
	if addr := d.sidecar.HTTPAddr(); addr != "" {
		return fmt.Sprintf(" and %s (metrics, health)", addr)
	}
	return ""
}

// origins is where blocks came from, and how fast.
type origins struct {
	index, zebra uint64
	perSecond    uint64
}

func (o origins) String() string {
	from := ""
	switch {
	case o.index == 0:
		from = fmt.Sprintf("all %s through Zebra", count(o.zebra))
	case o.zebra == 0:
		from = fmt.Sprintf("all %s from the index", count(o.index))
	default:
		from = fmt.Sprintf("%s through Zebra and %s from the index", count(o.zebra), count(o.index))
	}
	return fmt.Sprintf("%s, %s blocks/s", from, count(o.perSecond))
}

// measured reads a range, and tells by the server's own counters who had the blocks. The demo is the only client.
func (d *demo) measured(ctx context.Context, from, to chain.Height, digest bool) (stream, origins, error) {
	before := d.sidecar.BlocksServed()
	s, err := d.wallet.readRange(ctx, from, to, digest)
	if err != nil {
		return s, origins{}, err
	}
	after := d.sidecar.BlocksServed()
	if want := uint64(to-from) + 1; s.blocks != want {
		return s, origins{}, fmt.Errorf("the range %d to %d ended well with %d of %d blocks", from, to, s.blocks, want)
	}
	return s, origins{
		index: after[chain.FromIndex] - before[chain.FromIndex], zebra: after[chain.FromZebra] - before[chain.FromZebra],
		perSecond: s.blocksPerSecond(),
	}, nil
}
