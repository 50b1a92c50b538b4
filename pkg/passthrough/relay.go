package passthrough

import (
	"bytes"
	"context"
	"fmt"
	"io"
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
	turns, costly, long chan struct{}
}

// NewRelay returns a Relay to the given node.
func NewRelay(zebra Asker) *Relay {
	return &Relay{
		zebra: zebra,
		turns: make(chan struct{}, relayAtOnce), costly: make(chan struct{}, costlyAtOnce), long: make(chan struct{}, longAnswers),
	}
}

// Answer is what Zebra said. Whoever gets one closes it.
type Answer struct {
	Failed bool      // Body is the error object; else it is the result
	Code   int       // of the error object
	Size   int64     // of Body in bytes; -1 when that shows at its end only
	NullID bool      // Zebra could not read the request: the reply has no id
	Body   io.Reader // ends with io.EOF; any other error means that the rest is missing
	close  func()
}

// Close ends the reading of an answer, complete or not. It may be called again.
func (a *Answer) Close() {
	if a.close != nil {
		a.close()
		a.close = nil
	}
}

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
		if err := wait(ctx, r.costly); err != nil {
			return nil, err
		}
	}
	if err := wait(ctx, r.turns); err != nil {
		if costly {
			<-r.costly
		}
		return nil, err
	}
	return func() {
		<-r.turns
		if costly {
			<-r.costly
		}
	}, nil
}

// wait takes one of the slots.
func wait(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(relayWait)
	defer timer.Stop()
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("no turn within %v: %w", relayWait, chain.ErrBusy)
	}
}

// begin reads a short answer to its end, so that a slow reader keeps nothing of Zebra's, and finds room for a long one.
func (r *Relay) begin(ctx context.Context, method string, answer *zebrarpc.Answer) (*Answer, error) {
	head, err := io.ReadAll(io.LimitReader(answer.Body, relayAhead))
	if err != nil {
		answer.Close()
		return nil, fmt.Errorf("%s: the answer was cut off after %d bytes: %w: %w", method, len(head), err, chain.ErrUnavailable)
	}
	a := &Answer{Failed: answer.Failed, Code: answer.Code, NullID: answer.NullID, Size: int64(len(head)), Body: bytes.NewReader(head)}
	if len(head) < relayAhead {
		answer.Close()
		return a, nil
	}
	if err := wait(ctx, r.long); err != nil {
		answer.Close()
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	a.Size, a.Body = answer.Size, io.MultiReader(a.Body, answer.Body)
	a.close = func() {
		answer.Close()
		<-r.long
	}
	return a, nil
}
