package zebrarpc

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// processors shares a node's cores evenly among the requests that are at it, as the kernel does with Zebra's threads. It works in a
// bubble, where no other program disturbs.
type processors struct {
	cores float64
	mu    sync.Mutex
	busy  int
}

const quantum = 50 * time.Microsecond

// work takes so much processor time.
func (p *processors) work(q question, cost time.Duration) {
	p.mu.Lock()
	p.busy++
	p.mu.Unlock()
	for left := float64(cost); left > 0 && q.ctx.Err() == nil; {
		time.Sleep(quantum)
		p.mu.Lock()
		left -= float64(quantum) * min(1, p.cores/float64(p.busy))
		p.mu.Unlock()
	}
	p.mu.Lock()
	p.busy--
	p.mu.Unlock()
}

// TestSingleQuestionsBesideBuild: what a wallet waits for a transaction while the index is built, against an idle node. The node has two
// cores, and large blocks cost it 45 ms each. The build must not lose much by it either.
func TestSingleQuestionsBesideBuild(t *testing.T) {
	t.Parallel()
	const (
		costOfQuestion = 500 * time.Microsecond
		cores          = 2
	)
	for _, tt := range []struct {
		name   string
		cost   time.Duration // of a block
		blocks int
		ratio  float64 // of the 99th percentile to that of an idle node, at most
	}{
		{"small", 150 * time.Microsecond, 5_000, 3},
		{"dense", 45 * time.Millisecond, 60, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				blocks := newBlockHex(tt.blocks, chaintest.Small)
				node := &processors{cores: cores}
				c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
					if q.method == "getblock" {
						node.work(q, tt.cost)
						return blocks.answer(q)
					}
					node.work(q, costOfQuestion)
					return q.result(`"` + chain.Hash{9}.String() + `"`)
				})
				var building atomic.Bool
				ask := func(while func() bool) (took []time.Duration) {
					for while() {
						begin := time.Now()
						if _, err := c.BlockHash(t.Context(), 1); err != nil {
							t.Error(err)
						}
						took = append(took, time.Since(begin))
						time.Sleep(10 * time.Millisecond)
					}
					slices.Sort(took)
					return took
				}
				left := 100
				idle := ask(func() bool { left--; return left > 0 })
				done := make(chan time.Duration)
				building.Store(true)
				go func() {
					begin := time.Now()
					if got := drain(c, t.Context(), 0, chain.Height(tt.blocks-1), Build, nil); got.err != nil {
						t.Error(got.err)
					}
					building.Store(false)
					done <- time.Since(begin)
				}()
				busy := ask(building.Load)
				build := <-done
				p := func(took []time.Duration, percent int) time.Duration { return took[len(took)*percent/100] }
				t.Logf("idle %v; beside the build p50 %v, p99 %v, max %v of %d; the build took %v, %v alone",
					p(idle, 99), p(busy, 50), p(busy, 99), busy[len(busy)-1], len(busy), build, time.Duration(tt.blocks)*tt.cost/cores)
				if ratio := float64(p(busy, 99)) / float64(p(idle, 99)); ratio > tt.ratio {
					t.Errorf("a question takes %.1f times as long as at an idle node, want %v at most", ratio, tt.ratio)
				}
			})
		})
	}
}
