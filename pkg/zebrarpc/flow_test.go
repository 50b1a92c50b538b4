package zebrarpc

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// When a block cannot be had, whoever waits for one behind it goes home, and those before it go on.
func TestErrorDismissesWhatFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(newPermits(4, DefaultReadAhead), Build, nil, 100)
		workers := make([]*flowWaiter, 4)
		for i := range workers {
			workers[i] = newFlowWaiter()
			if got, ok := f.begin(workers[i]); !ok || got != i {
				t.Fatalf("worker %d got block %d, %v", i, got, ok)
			}
		}
		bad := &Error{Class: Answerable}
		f.release(workers[0], nil)
		f.release(workers[3], nil)
		filler := newFlow(f.permits, Build, nil, 2) // takes the two permits
		for range 2 {
			if _, ok := filler.begin(newFlowWaiter()); !ok {
				t.Fatal("no permit for the filler")
			}
		}
		answers := make(chan [2]int, 3)
		retry := func(i int) {
			ok := 0
			if f.again(workers[i], i) {
				ok = 1
			}
			answers <- [2]int{i, ok}
		}
		go retry(0)
		go retry(3)
		synctest.Wait()
		if n := len(f.retrying); n != 2 {
			t.Fatalf("%d wait to try again", n)
		}
		if _, ok := f.deliver(workers[2], 2, nil, bad); ok {
			t.Error("a worker got another block after the last")
		}
		got := [][2]int{<-answers, <-answers}
		slices.SortFunc(got, func(a, b [2]int) int { return a[0] - b[0] })
		if want := [][2]int{{0, 1}, {3, 0}}; !slices.Equal(got, want) {
			t.Errorf("answers %v, want %v", got, want)
		}
		if f.end != 3 {
			t.Errorf("the iteration ends at %d", f.end)
		}
		if _, ok := f.deliver(workers[1], 1, nil, bad); ok || f.end != 2 {
			t.Errorf("an earlier error: the iteration ends at %d, %v", f.end, ok)
		}
		if f.again(workers[2], 2) {
			t.Error("a block behind the error may be asked for again")
		}
	})
}

func TestEstimateFollowsBodies(t *testing.T) {
	t.Parallel()
	p := newPermits(4, DefaultReadAhead)
	p.observe(1 << 20)
	if p.estimate != 1<<20 {
		t.Errorf("after a large body: %d", p.estimate)
	}
	for range 32 {
		p.observe(1000)
	}
	if p.estimate > 1<<19 || p.estimate < 1<<17 {
		t.Errorf("after 32 small bodies: %d", p.estimate)
	}
	for range 1000 {
		p.observe(1000)
	}
	if p.estimate > 1100 || p.estimate < 1000 {
		t.Errorf("after 1000 small bodies: %d", p.estimate)
	}
}

// A longer body than expected is reserved for as soon as it is known; what is held follows the block once it is encoded.
func TestReservations(t *testing.T) {
	t.Parallel()
	p := newPermits(4, DefaultReadAhead)
	f := newFlow(p, Range, nil, 10)
	w := newFlowWaiter()
	held := func(want int64) {
		t.Helper()
		if f.held != want || p.held[Range] != want || p.held[Build] != 0 {
			t.Errorf("held %d, in all %v; want %d", f.held, p.held, want)
		}
	}
	i, ok := f.begin(w)
	if !ok {
		t.Fatal("no permit")
	}
	held(4 << 10)
	f.expect(w, 100)
	held(4 << 10)
	f.expect(w, 1<<20)
	held(1 << 20)
	f.close()
	f.deliver(w, i, &chain.Block{Shielded: make([]byte, 10, 64), Transparent: make([]byte, 10, 36)}, nil)
	held(100)
	if left := f.remove(); len(left) != 1 {
		t.Errorf("%d blocks are left", len(left))
	}
	held(0)
}

// Many iterations of both classes at once, with faults and readers of all kinds: each gets its own blocks in order, and nothing is
// left over.
func TestManyIterations(t *testing.T) {
	t.Parallel()
	blocks := newBlockHex(400, chaintest.Small)
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			rng := rand.New(rand.NewPCG(seed, 1))
			draw := func(n int) int { mu.Lock(); defer mu.Unlock(); return rng.IntN(n) }
			c := fakeClient(t, Options{ReadAhead: minReadAhead}, func(q question) (*http.Response, error) {
				q.sleep(time.Duration(draw(20)) * time.Millisecond)
				switch draw(40) {
				case 0:
					return nil, syscall.ECONNREFUSED
				case 1:
					return page(429, ""), nil
				case 2:
					return nil, io.EOF
				case 3:
					return q.failure(-28, "Loading")
				}
				return blocks.answer(q)
			})
			creds, err := c.auth.get()
			if err != nil {
				t.Fatal(err)
			}
			creds.accepted.Store(true) // so that two hang-ups in a row are no refusal
			var all sync.WaitGroup
			for n := range 24 {
				from, to, leave := draw(400), draw(450), draw(3) == 0
				if from == to {
					to++ // a single block of Range is no flow
				}
				slow := draw(4) == 0
				all.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					readOne(ctx, t, c, blocks, from, to, Class(n%2), func(read int) bool {
						if slow {
							time.Sleep(50 * time.Millisecond)
						}
						if leave && read == 30 && n%3 == 0 {
							cancel()
						}
						return !leave || read != 30
					})
				})
			}
			all.Wait()
			if s := c.Stats(); s.InFlight != 0 || s.Waiting != 0 || s.ReadAhead != 0 {
				t.Errorf("seed %d: left over: %+v", seed, s)
			}
			if n := len(c.permits.flows[Range]) + len(c.permits.flows[Build]); n != 0 {
				t.Errorf("seed %d: %d flows are left", seed, n)
			}
		})
	}
}

// readOne reads a range until step says no, and checks every block and the end.
func readOne(ctx context.Context, t *testing.T, c *Client, blocks *blockHex, from, to int, class Class, step func(read int) bool) {
	last := min(to, len(blocks.ids)-1)
	want := blocks.order(from, last)
	read := 0
	for b, err := range c.Blocks(ctx, chain.Height(from), chain.Height(to), class) {
		if err != nil {
			if above := from <= to && to > last && read == len(want); !errors.Is(err, chain.ErrAboveTip) || !above {
				t.Errorf("%d to %d, after %d blocks: %v", from, to, read, err)
			}
			return
		}
		if read >= len(want) || b.ID != want[read] {
			t.Errorf("%d to %d: block %d is %v", from, to, read, b.ID)
			return
		}
		if read++; !step(read) {
			return
		}
	}
	if read != len(want) {
		t.Errorf("%d to %d: %d blocks, want %d", from, to, read, len(want))
	}
}
