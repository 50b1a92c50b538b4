package lightwallet

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// turns limits what costs the node's processor: costlyAtOnce pieces of work at one time, costlyPerClient of them for one client. A piece
// of work is what the node does for one answer, or for one part of a stream: never the sending, so that readers who stop reading hold
// no turn. Whoever has none within costlyWait is told to come back.
//
// Clients take turns within their own share first, in the order in which they came, and then in the common one: one who floods stands
// in the common queue costlyPerClient times.
type turns struct {
	all chan struct{}

	mu      sync.Mutex
	clients map[netip.Prefix]*share
}

// share is one client's part, kept while somebody uses it.
type share struct {
	slots chan struct{}
	users int // guarded by turns.mu
}

func newTurns() *turns {
	return &turns{all: make(chan struct{}, costlyAtOnce), clients: make(map[netip.Prefix]*share)}
}

// costly runs what costs the node's processor when it is its turn.
func costly[T any](ctx context.Context, t *turns, work func() (T, error)) (T, error) {
	done, err := t.take(ctx)
	if err != nil {
		var none T
		return none, err
	}
	defer done()
	return work()
}

// costlyParts makes each step of an iteration a piece of work of its own; the turn is given back while its part is being sent.
func costlyParts[T any](ctx context.Context, t *turns, parts iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		done, err := t.take(ctx)
		if err != nil {
			yield(none, err)
			return
		}
		defer func() { done() }()
		for part, err := range parts {
			done()
			done = func() {}
			if !yield(part, err) || err != nil {
				return
			}
			if done, err = t.take(ctx); err != nil {
				done = func() {}
				yield(none, err)
				return
			}
		}
	}
}

// forBlocks returns the context in which blocks are read: whoever has to ask the node for some takes turns before the first one comes, and
// the rest is shared among clients.
func (s *service) forBlocks(ctx context.Context) context.Context {
	return chain.WithClient(chain.WithTurn(ctx, s.blocks.take), clientOf(ctx))
}

// take waits for a turn. done must be called once when err is nil.
func (t *turns) take(ctx context.Context) (done func(), err error) {
	client := clientOf(ctx)
	own := t.enter(client)
	defer func() {
		if err != nil {
			t.leave(client, own)
		}
	}()
	var timer *time.Timer
	for _, slots := range []chan struct{}{own.slots, t.all} {
		select {
		case slots <- struct{}{}:
			continue
		default:
		}
		if timer == nil {
			timer = time.NewTimer(costlyWait)
			defer timer.Stop()
		}
		select {
		case slots <- struct{}{}:
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case <-timer.C:
			err = fmt.Errorf("no turn within %v: %w", costlyWait, chain.ErrBusy)
		}
		if slots == t.all {
			<-own.slots
		}
		return nil, err
	}
	return func() {
		<-t.all
		<-own.slots
		t.leave(client, own)
	}, nil
}

func (t *turns) enter(client netip.Prefix) *share {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.clients[client]
	if own == nil {
		own = &share{slots: make(chan struct{}, costlyPerClient)}
		t.clients[client] = own
	}
	own.users++
	return own
}

func (t *turns) leave(client netip.Prefix, own *share) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(t.clients, client)
	}
}

// clientOf tells clients apart by their address; those of IPv6 by the 64 bits that are given to one customer. Connections that have
// none, and all clients behind one proxy, count as one.
func clientOf(ctx context.Context) netip.Prefix {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return netip.Prefix{}
	}
	tcp, ok := p.Addr.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	client, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return client
}
