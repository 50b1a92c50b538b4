package lightwallet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// from is the context of a call from an address.
func from(ctx context.Context, addr string) context.Context {
	return peer.NewContext(ctx, &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))})
}

// crowd does n pieces of work of a second each for every client at the same time.
func crowd(t *testing.T, turns *turns, n int, clients ...string) (most int64, refused map[string]int) {
	t.Helper()
	var (
		running, highest atomic.Int64
		wait             sync.WaitGroup
		mu               sync.Mutex
	)
	refused = make(map[string]int)
	for _, client := range clients {
		ctx := from(t.Context(), client)
		for range n {
			wait.Go(func() {
				_, err := costly(ctx, turns, func() (int, error) {
					now := running.Add(1)
					mu.Lock()
					highest.Store(max(highest.Load(), now))
					mu.Unlock()
					time.Sleep(time.Second)
					running.Add(-1)
					return 0, nil
				})
				if err != nil {
					if !errors.Is(err, chain.ErrBusy) {
						t.Error(err)
					}
					mu.Lock()
					refused[client]++
					mu.Unlock()
				}
			})
		}
	}
	wait.Wait()
	return highest.Load(), refused
}

func TestTurns(t *testing.T) {
	t.Parallel()
	const one, two, three = "192.0.2.1:1000", "192.0.2.2:1000", "192.0.2.3:1000"
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		begin := time.Now()
		if most, refused := crowd(t, turns, 1, one); most != 1 || len(refused) != 0 || time.Since(begin) != time.Second {
			t.Errorf("alone: %d at a time, refused %v, in %v", most, refused, time.Since(begin))
		}
		// One client has its share, and keeps no one else from theirs.
		if most, refused := crowd(t, turns, 20, one); most != costlyPerClient || len(refused) != 0 {
			t.Errorf("one client: %d at a time, refused %v", most, refused)
		}
		if most, refused := crowd(t, turns, 10, one, two, three); most != costlyAtOnce || len(refused) != 0 {
			t.Errorf("three clients: %d at a time, refused %v", most, refused)
		}
		// A flood is told to come back after costlyWait.
		begin = time.Now()
		if _, refused := crowd(t, turns, 100, one); refused[one] < 100-11*costlyPerClient || refused[one] > 100-10*costlyPerClient {
			t.Errorf("%d of a flood of 100 were refused", refused[one])
		}
		if took := time.Since(begin); took > costlyWait+time.Second {
			t.Errorf("the flood took %v", took)
		}
		if n := len(turns.clients); n != 0 || len(turns.all) != 0 {
			t.Errorf("%d clients and %d turns are left", n, len(turns.all))
		}
	})
}

// A client that floods does not keep another one waiting.
func TestTurnsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		done := make(chan struct{})
		go func() {
			defer close(done)
			crowd(t, turns, 200, "192.0.2.1:1000")
		}()
		synctest.Wait()
		begin := time.Now()
		if _, refused := crowd(t, turns, costlyPerClient, "192.0.2.2:1000"); len(refused) != 0 || time.Since(begin) != time.Second {
			t.Errorf("the other client: refused %v, in %v", refused, time.Since(begin))
		}
		<-done
	})
}

func TestTurnEndsWithCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		held := make(chan struct{})
		for range costlyPerClient {
			go func() {
				_, _ = costly(t.Context(), turns, func() (int, error) { <-held; return 0, nil })
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := costly(ctx, turns, func() (int, error) { return 0, nil }); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		close(held)
		synctest.Wait()
		if _, err := costly(t.Context(), turns, func() (int, error) { return 0, errFake }); !errors.Is(err, errFake) {
			t.Errorf("the work's own error: %v", err)
		}
		if len(turns.clients) != 0 || len(turns.all) != 0 {
			t.Errorf("%d clients and %d turns are left", len(turns.clients), len(turns.all))
		}
	})
}

// A stream has its turn while the node works, not while its reader reads.
func TestTurnsOfStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		numbers := func(yield func(int, error) bool) {
			for i := range 3 {
				if len(turns.all) != 1 {
					t.Errorf("%d turns while part %d is read", len(turns.all), i)
				}
				if !yield(i, nil) {
					return
				}
			}
			yield(0, errFake)
		}
		var got []int
		var end error
		for n, err := range costlyParts(t.Context(), turns, numbers) {
			if len(turns.all) != 0 {
				t.Errorf("%d turns while part %d is sent", len(turns.all), n)
			}
			got, end = append(got, n), err
		}
		if fmt.Sprint(got) != "[0 1 2 0]" || !errors.Is(end, errFake) {
			t.Errorf("%v, %v", got, end)
		}
		for range costlyParts(t.Context(), turns, numbers) {
			break
		}
		if len(turns.clients) != 0 || len(turns.all) != 0 {
			t.Errorf("%d clients and %d turns are left", len(turns.clients), len(turns.all))
		}
		// The next part has to wait its turn, and may wait in vain.
		next, stop := iter.Pull2(costlyParts(t.Context(), turns, numbers))
		defer stop()
		if n, err, ok := next(); n != 0 || err != nil || !ok {
			t.Fatal(n, err, ok)
		}
		held := make(chan struct{})
		for range costlyPerClient {
			go func() {
				_, _ = costly(t.Context(), turns, func() (int, error) { <-held; return 0, nil })
			}()
		}
		synctest.Wait()
		if _, err, ok := next(); !errors.Is(err, chain.ErrBusy) || !ok {
			t.Errorf("%v, %v", err, ok)
		}
		if _, _, ok := next(); ok {
			t.Error("there is more after the error")
		}
		close(held)
		synctest.Wait()
		if len(turns.clients) != 0 || len(turns.all) != 0 {
			t.Errorf("%d clients and %d turns are left", len(turns.clients), len(turns.all))
		}
	})
}

func TestClients(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1/32", "[::ffff:192.0.2.1]:80": "192.0.2.1/32", "[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80": "fe80::/64", "[::1]:5": "::/64",
	} {
		if got := clientOf(from(t.Context(), addr)).String(); got != want {
			t.Errorf("%s counts as %s, want %s", addr, got, want)
		}
	}
	for _, ctx := range []context.Context{t.Context(), peer.NewContext(t.Context(), &peer.Peer{Addr: &net.UnixAddr{Name: "x"}})} {
		if got := clientOf(ctx); got != (netip.Prefix{}) {
			t.Errorf("no address counts as %s", got)
		}
	}
}

// The answer of a full queue says when to come back. The server has 8 turns, so that the whole queue is held by two addresses' calls;
// here both are ours.
func TestBusyAnswer(t *testing.T) {
	t.Parallel()
	s := startOn(t, chain.TestNetwork)
	s.node.err = chain.ErrBusy
	_, err := s.dial(t).GetTaddressBalance(t.Context(), &walletrpc.AddressList{Addresses: []string{testAddress}})
	requireStatus(t, err, codes.ResourceExhausted, textBusy)
	st := status.Convert(err)
	if len(st.Details()) != 1 {
		t.Fatalf("details %v", st.Details())
	}
	if info, ok := st.Details()[0].(*errdetails.RetryInfo); !ok || info.RetryDelay.AsDuration() != retryDelay {
		t.Errorf("details %v", st.Details())
	}
}

// A flood of questions about addresses that the node answers slowly does not keep blocks waiting, and sends the node few at a time.
func TestFloodOfAddresses(t *testing.T) {
	t.Parallel()
	s := startOn(t, chain.TestNetwork)
	var running, most atomic.Int64
	s.node.fakeAddresses.wait = func(ctx context.Context) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var flood sync.WaitGroup
	client := s.dial(t)
	const calls = 100
	for range calls {
		flood.Go(func() {
			_, err := client.GetTaddressBalance(ctx, &walletrpc.AddressList{Addresses: []string{testAddress}})
			if status.Code(err) != codes.Canceled {
				t.Errorf("the flood: %v", err)
			}
		})
	}
	eventually(t, "all calls are there and the node is busy", func() bool {
		return s.Stats().Calls == calls && running.Load() == costlyPerClient
	})
	for range 50 {
		stream, err := s.dial(t).GetBlockRange(t.Context(), &walletrpc.BlockRange{Start: &walletrpc.BlockID{Height: 1}, End: &walletrpc.BlockID{Height: 100}})
		if err != nil {
			t.Fatal(err)
		}
		if blocks, err := readAll(stream); err != nil || len(blocks) != 100 {
			t.Fatalf("%d blocks, %v", len(blocks), err)
		}
	}
	cancel()
	flood.Wait()
	if most.Load() > costlyPerClient {
		t.Errorf("%d questions at the node at one time", most.Load())
	}
}

// A queue before a node that does not answer is no crowd.
func TestQueueWithoutNode(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	s := start(t, &fakeSource{blocks: fakeBlocks(tip + 1), before: failAt(0, fmt.Errorf("no turn: %w", chain.ErrBusy))}, func(o *Options, _ *bool) { o.NodeAway = away.Load })
	client := s.dial(t)
	ask := func() error {
		_, err := client.GetBlock(t.Context(), &walletrpc.BlockID{Height: 3})
		return err
	}
	requireStatus(t, ask(), codes.ResourceExhausted, textBusy)
	away.Store(true)
	requireStatus(t, ask(), codes.Unavailable, textUnavailable)
}
