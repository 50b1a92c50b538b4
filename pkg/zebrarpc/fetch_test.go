package zebrarpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// fetched is what an iteration gave.
type fetched struct {
	ids []chain.BlockID
	err error
}

// drain reads an iteration to its end; step runs after each block.
func drain(c *Client, ctx context.Context, from, to chain.Height, class Class, step func(chain.Fetched)) (got fetched) {
	for b, err := range c.Blocks(ctx, from, to, class) {
		if err != nil {
			got.err = err
			continue // anything after an error would be a mistake, and shows
		}
		got.ids = append(got.ids, b.ID)
		if step != nil {
			step(b)
		}
	}
	return got
}

// order returns the ids of a range in its order.
func (b *blockHex) order(from, to int) []chain.BlockID {
	if from <= to {
		return b.ids[from : to+1]
	}
	down := slices.Clone(b.ids[to : from+1])
	slices.Reverse(down)
	return down
}

func TestBlocksContent(t *testing.T) {
	t.Parallel()
	bc := newChain(t, 20, zebratest.Mixed)
	c := nodeClient(t, Options{}, zebratest.NewNode(bc, zebratest.NodeOptions{}))
	encoder := chain.NewEncoder(chain.EncoderOptions{})
	h := chain.Height(20)
	got := drain(c, t.Context(), 20, 0, Range, func(f chain.Fetched) {
		raw, err := bc.Raw(h)
		if err != nil {
			t.Fatal(err)
		}
		var want chain.Block
		if err := encoder.Encode(&want, h, raw); err != nil {
			t.Fatal(err)
		}
		if f.ID != want.ID || f.Prev != want.Prev || f.Time != want.Time || f.RawSize != len(raw) || f.TxCount != want.TxCount || f.Added != want.Added ||
			!bytes.Equal(f.Shielded, want.Shielded) || !bytes.Equal(f.Transparent, want.Transparent) {
			t.Errorf("block %d differs from its own encoding", h)
		}
		h--
	})
	if got.err != nil || len(got.ids) != 21 {
		t.Errorf("%d blocks, %v", len(got.ids), got.err)
	}
}

func TestBlocksOrder(t *testing.T) {
	t.Parallel()
	blocks := newBlockHex(300, chaintest.Small)
	for _, test := range []struct{ from, to int }{{0, 299}, {299, 0}, {5, 5}, {7, 8}, {8, 7}, {100, 250}, {250, 100}} {
		for _, class := range []Class{Range, Build} {
			t.Run(fmt.Sprintf("%d-%d-%d", test.from, test.to, class), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
						time.Sleep(rand.N(100 * time.Millisecond))
						return blocks.answer(q)
					})
					got := drain(c, t.Context(), chain.Height(test.from), chain.Height(test.to), class, nil)
					if got.err != nil || !slices.Equal(got.ids, blocks.order(test.from, test.to)) {
						t.Errorf("%d blocks, %v", len(got.ids), got.err)
					}
					if s := c.Stats(); s.ReadAhead != 0 || s.InFlight != 0 {
						t.Errorf("left over: %+v", s)
					}
				})
			})
		}
	}
}

func TestBlocksInFlight(t *testing.T) {
	t.Parallel()
	blocks := newBlockHex(200, chaintest.Small)
	for _, limit := range []int{1, 16, 48} {
		synctest.Test(t, func(t *testing.T) {
			var now, most int
			var mu sync.Mutex
			c := fakeClient(t, Options{InFlight: limit}, func(q question) (*http.Response, error) {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				now--
				mu.Unlock()
				return blocks.answer(q)
			})
			begin := time.Now()
			if got := drain(c, t.Context(), 0, 199, Build, nil); got.err != nil || len(got.ids) != 200 {
				t.Fatalf("%d blocks, %v", len(got.ids), got.err)
			}
			if most != limit {
				t.Errorf("%d requests in flight, want %d", most, limit)
			}
			if took, least := time.Since(begin), time.Duration((200+limit-1)/limit)*time.Millisecond; took != least {
				t.Errorf("took %v, want %v", took, least)
			}
		})
	}
}

func TestFirstBlockDoesNotWait(t *testing.T) {
	t.Parallel()
	blocks := newBlockHex(100, chaintest.Small)
	synctest.Test(t, func(t *testing.T) {
		c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
			if q.height() > 10 {
				q.sleep(time.Hour)
			}
			q.sleep(time.Millisecond)
			return blocks.answer(q)
		})
		begin := time.Now()
		for b, err := range c.Blocks(t.Context(), 10, 99, Range) {
			if err != nil || b.ID != blocks.ids[10] || b.NextReady {
				t.Errorf("%v %v, next ready %v", b.ID, err, b.NextReady)
			}
			break
		}
		if took := time.Since(begin); took != time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestNextReady(t *testing.T) {
	t.Parallel()
	blocks := newBlockHex(4, chaintest.Small)
	synctest.Test(t, func(t *testing.T) {
		c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
			if q.height() == 2 {
				time.Sleep(time.Second)
			}
			return blocks.answer(q)
		})
		var got []bool
		for b, err := range c.Blocks(t.Context(), 0, 3, Range) {
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // all that can arrive has
			got = append(got, b.NextReady)
		}
		// 0 was yielded the moment it came, so 1 may or may not have been there. 2 is late, and by then 3 waits. Nothing follows 3.
		if want := []bool{false, true, false}; !slices.Equal(got[1:], want) {
			t.Errorf("next ready after block 0: %v, want %v", got[1:], want)
		}
	})
}

func TestBlocksEndsCleanly(t *testing.T) {
	t.Parallel()
	blocks := newBlockHex(500, chaintest.Small)
	slow := func(q question) (*http.Response, error) {
		q.sleep(rand.N(10 * time.Millisecond))
		return blocks.answer(q)
	}
	t.Run("early break", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := fakeClient(t, Options{}, slow)
			n := 0
			for _, err := range c.Blocks(t.Context(), 0, 499, Range) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n == 50 {
					break
				}
			}
			if s := c.Stats(); s.InFlight != 0 || s.ReadAhead != 0 || s.Waiting != 0 {
				t.Errorf("left over: %+v", s)
			}
		})
	})
	t.Run("context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := fakeClient(t, Options{}, slow)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			got := drain(c, ctx, 0, 499, Build, nil)
			if !errors.Is(got.err, context.DeadlineExceeded) || errors.Is(got.err, chain.ErrUnavailable) || len(got.ids) == 0 || len(got.ids) == 500 {
				t.Errorf("%d blocks, %v", len(got.ids), got.err)
			}
			if want := "getblock heights 0 to 499 from " + fakeURL + ": context deadline exceeded"; got.err.Error() != want {
				t.Errorf("got %q, want %q", got.err, want)
			}
			if s := c.Stats(); s.InFlight != 0 || s.ReadAhead != 0 || s.Waiting != 0 {
				t.Errorf("left over: %+v", s)
			}
		})
	})
}

// A passing error at one height is repeated there, while the others flow on and nothing is fetched twice.
func TestBlocksRepeatsOneHeight(t *testing.T) {
	t.Parallel()
	blocks := newBlockHex(200, chaintest.Small)
	synctest.Test(t, func(t *testing.T) {
		asked := make([]atomic.Int32, 200)
		c := fakeClient(t, Options{InFlight: 4}, func(q question) (*http.Response, error) {
			if n := asked[q.height()].Add(1); q.height() == 20 && n <= 6 {
				return nil, syscall.ECONNREFUSED
			}
			time.Sleep(time.Millisecond)
			return blocks.answer(q)
		})
		got := drain(c, t.Context(), 0, 199, Range, func(b chain.Fetched) {
			if b.ID.Height == 20 {
				synctest.Wait()
				if n := asked[199].Load(); n != 1 {
					t.Errorf("block 199 was asked for %d times while 20 was missing", n)
				}
			}
		})
		if got.err != nil || !slices.Equal(got.ids, blocks.ids) {
			t.Errorf("%d blocks, %v", len(got.ids), got.err)
		}
		for h := range asked {
			if n, want := asked[h].Load(), int32(1); n != want && h != 20 || h == 20 && n != 7 {
				t.Errorf("block %d was asked for %d times", h, n)
			}
		}
	})
}

// A worker that waits to try again keeps nobody else from asking.
func TestPauseHoldsNoPermit(t *testing.T) {
	t.Parallel()
	blocks := newBlockHex(60, chaintest.Small)
	for name, fail := range map[string]func(question) (*http.Response, error){
		"refused":    func(question) (*http.Response, error) { return nil, syscall.ECONNREFUSED },
		"warming up": func(q question) (*http.Response, error) { return q.failure(-28, "Loading") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var up atomic.Bool
				c := fakeClient(t, Options{InFlight: 1}, func(q question) (*http.Response, error) {
					if q.height() == 3 && !up.Load() {
						return fail(q)
					}
					return blocks.answer(q)
				})
				begin := time.Now()
				n := 0
				for _, err := range c.Blocks(t.Context(), 0, 59, Build) {
					if err != nil {
						t.Fatal(err)
					}
					if n++; n == 3 {
						synctest.Wait()
						if s := c.Stats(); s.InFlight != 0 || time.Since(begin) != 0 {
							t.Errorf("%d in flight after %v", s.InFlight, time.Since(begin))
						}
						if got := drain(c, t.Context(), 10, 40, Range, nil); got.err != nil || len(got.ids) != 31 || time.Since(begin) != 0 {
							t.Errorf("beside the pause: %d blocks after %v, %v", len(got.ids), time.Since(begin), got.err)
						}
						up.Store(true)
					}
				}
			})
		})
	}
}

func TestBlocksPatience(t *testing.T) {
	t.Parallel()
	blocks := newBlockHex(100, chaintest.Small)
	run := func(t *testing.T, class Class, outage, give time.Duration) (got fetched, took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
				time.Sleep(time.Millisecond)
				if q.height() >= 50 && time.Since(begin) < outage {
					return nil, syscall.ECONNREFUSED
				}
				return blocks.answer(q)
			})
			ctx, cancel := context.WithTimeout(t.Context(), give)
			defer cancel()
			got = drain(c, ctx, 0, 99, class, nil)
			took = time.Since(begin)
		})
		return got, took
	}
	t.Run("range, short outage", func(t *testing.T) {
		if got, took := run(t, Range, 8*time.Second, time.Hour); got.err != nil || len(got.ids) != 100 || took > 10*time.Second {
			t.Errorf("%d blocks in %v, %v", len(got.ids), took, got.err)
		}
	})
	t.Run("range, long outage", func(t *testing.T) {
		got, took := run(t, Range, time.Minute, time.Hour)
		if len(got.ids) != 50 || took < 10*time.Second || took > 12*time.Second {
			t.Errorf("%d blocks in %v", len(got.ids), took)
		}
		wantError(t, got.err, Passing, "getblock height 50 from "+fakeURL+": connection refused", chain.ErrUnavailable)
	})
	t.Run("build, long outage", func(t *testing.T) {
		if got, took := run(t, Build, time.Minute, time.Hour); got.err != nil || len(got.ids) != 100 || took > 62*time.Second {
			t.Errorf("%d blocks in %v, %v", len(got.ids), took, got.err)
		}
	})
	t.Run("build, until its context ends", func(t *testing.T) {
		if got, took := run(t, Build, time.Hour, time.Minute); !errors.Is(got.err, context.DeadlineExceeded) || len(got.ids) != 50 || took != time.Minute {
			t.Errorf("%d blocks in %v, %v", len(got.ids), took, got.err)
		}
	})
}

// Errors that repeating does not help come after every block before them, and nothing follows.
func TestBlocksErrorEndsInOrder(t *testing.T) {
	t.Parallel()
	bc := newChain(t, 60, zebratest.Small)
	at := zebratest.AtHeight(40)
	raw, err := bc.Raw(40)
	if err != nil {
		t.Fatal(err)
	}
	right := chain.TxID(raw[36:68])
	wrong := chain.TxID(zebratest.FlipMerkleRoot(raw)[36:68])
	for _, test := range []struct {
		name  string
		fault zebratest.Fault
		class ErrorClass
		text  string
		is    error
	}{
		{"above the tip", zebratest.Fault{}, Answerable, "getblock height 61 from URL: code -8: Block not found: above the tip", chain.ErrAboveTip},
		{"refused", zebratest.Fault{Where: at, Error: &zebratest.Error{Code: -20, Message: "Database is corrupt"}}, Answerable,
			"getblock height 40 from URL: code -20: Database is corrupt", nil},
		{"merkle root", zebratest.Fault{Where: at, Raw: zebratest.FlipMerkleRoot}, Fatal,
			"getblock height 40, hash " + chaintest.BlockHash(raw).String() + " from URL: block 40: merkle root mismatch: the header says " +
				wrong.String() + ", the transactions give " + right.String() + "; " + hintBlock, chain.ErrMerkleRoot},
		{"no block", zebratest.Fault{Where: at, Result: `"0400"`}, Fatal,
			"getblock height 40 from URL: block 40: block header at byte 0: 140 bytes needed, 2 left; " + hintBlock, nil},
		{"not hex", zebratest.Fault{Where: at, Result: `"zz"`}, Fatal,
			"getblock height 40 from URL: the result is not a string of hex digits: encoding/hex: invalid byte: U+007A 'z'; " + hintReply, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			node := zebratest.NewNode(bc, zebratest.NodeOptions{})
			c := nodeClient(t, Options{}, node)
			last := 60
			if test.fault.Where != nil {
				node.Fault(test.fault)
				last = 39
			}
			got := drain(c, t.Context(), 0, 70, Build, nil)
			if len(got.ids) != last+1 || got.ids[last].Height != chain.Height(last) {
				t.Errorf("%d blocks, want %d", len(got.ids), last+1)
			}
			if test.is != nil && !errors.Is(got.err, test.is) {
				t.Errorf("does not match %v", test.is)
			}
			wantError(t, got.err, test.class, replaceURL(test.text, c), test.is)
		})
	}
}

func TestUnknownTransactionVersion(t *testing.T) {
	t.Parallel()
	raw := chaintest.Small(7, chain.Hash{1}, 1)
	raw[140+3+1344+1] = 9 // the version of the first transaction
	c := fakeClient(t, Options{}, func(q question) (*http.Response, error) { return q.result(fmt.Sprintf(`"%x"`, raw)) })
	got := drain(c, t.Context(), 7, 7, Range, nil)
	if !errors.Is(got.err, chain.ErrUnknownVersion) {
		t.Errorf("does not match: %v", got.err)
	}
	head, tail := "getblock height 7, hash "+chaintest.BlockHash(raw).String()+" from "+fakeURL+": block 7: ", "; "+hintVersion
	if text := got.err.Error(); !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) || !strings.Contains(text, " version 9") {
		t.Errorf("got %q", text)
	}
}

// A stalled reader stops its own read-ahead, at the window or at its bytes, and no one else's.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	small := newBlockHex(1, chaintest.Small)
	dense := newBlockHex(1, chaintest.DenseV4)
	endless := func(b *blockHex) transport {
		return func(q question) (*http.Response, error) { return q.result(b.quoted[0]) }
	}
	stall := func(t *testing.T, c *Client, class Class, readers int) (closeAll func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range readers {
			all.Go(func() {
				drain(c, ctx, 0, chain.MaxHeight, class, func(chain.Fetched) { <-ctx.Done() })
			})
		}
		synctest.Wait()
		return func() { cancel(); all.Wait() }
	}
	t.Run("small", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, class := range []Class{Range, Build} {
				c := fakeClient(t, Options{}, endless(small))
				end := stall(t, c, class, 1)
				if s := c.Stats(); s.Requests[0].Count != uint64(1+class.window()) || s.InFlight != 0 {
					t.Errorf("class %d: %+v, want %d requests", class, s, 1+class.window())
				}
				end()
			}
		})
	})
	t.Run("dense", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const readAhead = 8 << 20
			c := fakeClient(t, Options{ReadAhead: readAhead}, endless(dense))
			end := stall(t, c, Range, 12)
			s := c.Stats()
			// Each has its minimum and the block that it needs next; only the shared part is bounded by the option.
			if most := int64(readAhead/2 + 12*(minRangeShare+256<<10)); s.ReadAhead > most || s.ReadAhead < readAhead/4 {
				t.Errorf("%d bytes are held, want at most %d", s.ReadAhead, most)
			}
			if s.InFlight != 0 {
				t.Errorf("%d in flight", s.InFlight)
			}
			got := 0
			for _, err := range c.Blocks(t.Context(), 0, 39, Build) {
				if err != nil {
					t.Fatal(err)
				}
				got++
			}
			for _, err := range c.Blocks(t.Context(), 0, 39, Range) {
				if err != nil {
					t.Fatal(err)
				}
				got++
			}
			if got != 80 {
				t.Errorf("%d blocks beside the stalled ones", got)
			}
			end()
			if s := c.Stats(); s.ReadAhead != 0 || s.Waiting != 0 {
				t.Errorf("left over: %+v", s)
			}
		})
	})
}

// Every block may always be asked for when it is needed next, however small the read-ahead.
func TestReadAheadNeverDeadlocks(t *testing.T) {
	t.Parallel()
	blocks := newBlockHex(12, chaintest.DenseV4)
	synctest.Test(t, func(t *testing.T) {
		c := fakeClient(t, Options{ReadAhead: minReadAhead}, blocks.answer)
		var all sync.WaitGroup
		for _, class := range []Class{Range, Range, Build, Build} {
			all.Go(func() {
				if got := drain(c, t.Context(), 0, 11, class, nil); got.err != nil || len(got.ids) != 12 {
					t.Errorf("%d blocks, %v", len(got.ids), got.err)
				}
			})
		}
		all.Wait()
	})
}
