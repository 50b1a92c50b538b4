package passthrough

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
)

// What relayed questions may take of Zebra. They share its 100 permits, and its processor, with the wallets and with the build.
const (
	relayAtOnce  = 8 // that Zebra works on
	costlyAtOnce = 4 // of them, those that may take it long
	relayWait    = 10 * time.Second

	// Answers beyond relayAhead are passed on while they are read: so many at one time, since Zebra keeps what is not read yet.
	relayAhead  = 64 << 10
	longAnswers = 16

	cheapLimit  = 30 * time.Second // until the answer begins
	costlyLimit = 2 * time.Minute
)

// Asker is what Relay asks; *zebrarpc.Client implements it.
type Asker interface {
	Relay(ctx context.Context, q zebrarpc.Question) (*zebrarpc.Answer, error)
}

// Relay passes JSON-RPC questions on to Zebra, and Zebra's answers back as they are, to the byte. Which methods may be asked is decided
// before. It is safe for concurrent use.
type Relay struct {
	zebra               Asker
	turns, costly, long chain.Slots
}

// NewRelay returns a Relay to the given node.
func NewRelay(zebra Asker) *Relay {
	return &Relay{
		zebra: zebra,
		turns: make(chain.Slots, relayAtOnce), costly: make(chain.Slots, costlyAtOnce), long: make(chain.Slots, longAnswers),
	}
}

// Answer is what was said to a question. Whoever gets one closes its Body, which holds one of Zebra's answers open.
type Answer = zebrarpc.Answer

// Ask puts a question to Zebra when it is its turn, and returns the answer when that has begun. Params are JSON, nil for none. Errors
// match chain.ErrBusy when no turn came in time, and chain.ErrUnavailable when Zebra cannot be asked.
func (r *Relay) Ask(ctx context.Context, method string, params []byte, costly bool) (*Answer, error) {
	q := zebrarpc.Question{Method: method, Params: params, Limit: cheapLimit}
	if costly {
		q.Limit = costlyLimit
	}
	done, err := r.take(ctx, costly)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	answer, err := r.zebra.Relay(ctx, q)
	done() // Zebra's work is done when the answer begins
	if err != nil {
		return nil, err
	}
	return r.begin(ctx, method, answer)
}

// take waits for a turn, for a costly question after one among its like.
func (r *Relay) take(ctx context.Context, costly bool) (done func(), err error) {
	if costly {
		if err := r.costly.Take(ctx, relayWait); err != nil {
			return nil, err
		}
	}
	if err := r.turns.Take(ctx, relayWait); err != nil {
		if costly {
			r.costly.Give()
		}
		return nil, err
	}
	return func() {
		r.turns.Give()
		if costly {
			r.costly.Give()
		}
	}, nil
}

// begin reads a short answer to its end, so that a slow reader keeps nothing of Zebra's, and finds room for a long one.
func (r *Relay) begin(ctx context.Context, method string, answer *zebrarpc.Answer) (*Answer, error) {
	head, err := io.ReadAll(io.LimitReader(answer.Body, relayAhead))
	if err != nil {
		answer.Body.Close()
		return nil, fmt.Errorf("%s: the answer was cut off after %d bytes: %w: %w", method, len(head), err, chain.ErrUnavailable)
	}
	if len(head) < relayAhead {
		answer.Body.Close()
		answer.Size, answer.Body = int64(len(head)), io.NopCloser(bytes.NewReader(head))
		return answer, nil
	}
	if err := r.long.Take(ctx, relayWait); err != nil {
		answer.Body.Close()
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	answer.Body = &longBody{io.MultiReader(bytes.NewReader(head), answer.Body), answer.Body, sync.OnceFunc(r.long.Give)}
	return answer, nil
}

// longBody is an answer's beginning and the rest.
type longBody struct {
	io.Reader
	rest io.Closer
	done func()
}

func (b *longBody) Close() error {
	defer b.done()
	return b.rest.Close()
}
