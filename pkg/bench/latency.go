package bench

import (
	"context"
	"time"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// latencyCases asks each method many times, one call after the other, with one client.
func latencyCases(r *run) []testCase {
	return []testCase{{name: "GetLatestBlock", client: Decoding, measure: func(ctx context.Context, t *target) (round, error) {
		wallet := walletrpc.NewCompactTxStreamerClient(t.conn)
		var got round
		for begin := time.Now(); got.calls < int64(r.options.Calls) && time.Since(begin) < r.options.RoundTime; got.calls++ {
			asked := time.Now()
			if _, err := wallet.GetLatestBlock(ctx, &walletrpc.ChainSpec{}); err != nil {
				return got, err
			}
			got.times = append(got.times, time.Since(asked))
		}
		return got, nil
	}}}
}
