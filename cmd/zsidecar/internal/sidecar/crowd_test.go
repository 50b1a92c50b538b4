package sidecar

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// A thousand wallets that ask for the tip and for the server's description again and again cost Zebra ten questions a second at most,
// besides the look at its tip, which time alone brings about.
func TestCrowdAtTheTip(t *testing.T) {
	const (
		wallets  = 1000
		lasts    = 2 * time.Second
		asSecond = 10 // questions of Zebra in a second
		pollTip  = "getbestblockheightandhash"
	)
	for name, noIndex := range map[string]bool{"no index": true, "index": false} {
		t.Run(name, func(t *testing.T) {
			var polls, others atomic.Int64
			n := newNode(t, 20, zebratest.NodeOptions{Observe: func(c zebratest.Call) {
				if c.Method == pollTip {
					polls.Add(1)
				} else {
					others.Add(1)
				}
			}})
			startNode(t, n)
			s, _ := run(t, settings(t, func(c *config.Config) { c.Zebra, c.NoIndex, c.HTTP = n.URL(), noIndex, "" }))
			await(t, "all is served", func() bool { return s.client.Tip().Up() && (noIndex || s.Health().Index.State == "complete") })

			polls.Store(0)
			begin := time.Now()
			time.Sleep(lasts)
			alone := float64(polls.Load()) / time.Since(begin).Seconds()

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var answers atomic.Int64
			var wait sync.WaitGroup
			for range wallets {
				client := connect(t, s)
				wait.Go(func() {
					for ctx.Err() == nil {
						tip, err := client.GetLatestBlock(ctx, &walletrpc.ChainSpec{})
						if err == nil && tip.Height != 20 {
							t.Errorf("GetLatestBlock: height %d", tip.Height)
						}
						if err == nil {
							_, err = client.GetLightdInfo(ctx, &walletrpc.Empty{})
						}
						if err != nil && status.Code(err) != codes.Canceled {
							t.Error(err)
							return
						}
						answers.Add(2)
					}
				})
			}
			await(t, "everybody has had an answer, on average", func() bool { return answers.Load() > 2*wallets })
			polls.Store(0)
			others.Store(0)
			begin = time.Now()
			before := answers.Load()
			time.Sleep(lasts)
			await(t, "everybody has had another answer, on average", func() bool { return answers.Load()-before >= wallets })
			seconds := time.Since(begin).Seconds()
			got, looked, asked := answers.Load()-before, float64(polls.Load())/seconds, float64(others.Load())/seconds
			cancel()
			wait.Wait()
			t.Logf("%d answers in %.1f s; zebra was asked %.1f times a second, and for its tip %.1f times, %.1f times without wallets",
				got, seconds, asked, looked, alone)
			if asked > asSecond || asked+looked-alone > asSecond {
				t.Errorf("zebra was asked more often for them than %d times a second", asSecond)
			}
		})
	}
}
