package passthrough

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
)

// fakeAsker answers when it is let.
type fakeAsker struct {
	mu     sync.Mutex
	asked  []zebrarpc.Question
	let    chan struct{} // nil: at once
	answer func() *zebrarpc.Answer
}

func (f *fakeAsker) Relay(ctx context.Context, q zebrarpc.Question) (*zebrarpc.Answer, error) {
	f.mu.Lock()
	f.asked = append(f.asked, q)
	f.mu.Unlock()
	if f.let != nil {
		select {
		case <-f.let:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return f.answer(), nil
}

func textAnswer(text string) func() *zebrarpc.Answer {
	return func() *zebrarpc.Answer {
		return &zebrarpc.Answer{Size: int64(len(text)), Body: io.NopCloser(strings.NewReader(text))}
	}
}

func TestRelayAnswers(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"empty": 0, "short": 10, "just short": relayAhead - 1, "just long": relayAhead, "long": 10 * relayAhead} {
		text := strings.Repeat("x", size)
		f := &fakeAsker{answer: textAnswer(text)}
		a, err := NewRelay(f).Ask(t.Context(), "getblock", []byte(`["1"]`), true)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(a.Body)
		if err != nil || string(got) != text || a.Size != int64(size) || a.Failed {
			t.Errorf("%s: %d bytes, size %d, %v", name, len(got), a.Size, err)
		}
		a.Body.Close()
		if q := f.asked[0]; q.Method != "getblock" || string(q.Params) != `["1"]` || q.Limit != costlyLimit {
			t.Errorf("%s: asked %+v", name, q)
		}
	}
	f := &fakeAsker{answer: func() *zebrarpc.Answer {
		return &zebrarpc.Answer{Failed: true, Code: -8, NullID: true, Size: -1, Body: io.NopCloser(strings.NewReader(`{"code":-8}`))}
	}}
	if a, err := NewRelay(f).Ask(t.Context(), "x", nil, false); err != nil || !a.Failed || a.Code != -8 || !a.NullID || a.Size != 11 || f.asked[0].Limit != cheapLimit {
		t.Errorf("a failure: %+v, %v", a, err)
	}
	f = &fakeAsker{answer: func() *zebrarpc.Answer {
		return &zebrarpc.Answer{Size: 10, Body: io.NopCloser(io.MultiReader(strings.NewReader("123"), iotest.ErrReader(io.ErrUnexpectedEOF)))}
	}}
	if _, err := NewRelay(f).Ask(t.Context(), "x", nil, false); !errors.Is(err, chain.ErrUnavailable) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %v", err)
	}
}

// Eight questions are at Zebra at one time, four of them costly ones; whoever gets no turn is told so after ten seconds.
func TestRelayTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeAsker{let: make(chan struct{}), answer: textAnswer("1")}
		r := NewRelay(f)
		ask := func(costly bool) chan error {
			result := make(chan error, 1)
			go func() {
				_, err := r.Ask(t.Context(), "m", nil, costly)
				result <- err
			}()
			synctest.Wait()
			return result
		}
		var first []chan error
		for range costlyAtOnce {
			first = append(first, ask(true))
		}
		late := ask(true)
		if len(f.asked) != costlyAtOnce {
			t.Fatalf("%d costly questions are at Zebra", len(f.asked))
		}
		for range relayAtOnce - costlyAtOnce {
			first = append(first, ask(false))
		}
		lateToo := ask(false)
		if len(f.asked) != relayAtOnce {
			t.Fatalf("%d questions are at Zebra", len(f.asked))
		}
		begin := time.Now()
		for _, result := range []chan error{late, lateToo} {
			if err := <-result; !errors.Is(err, chain.ErrBusy) || time.Since(begin) != relayWait {
				t.Errorf("without a turn: %v after %v", err, time.Since(begin))
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := r.Ask(ctx, "m", nil, true)
			left <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("left while waiting: %v", err)
		}
		close(f.let)
		for _, result := range first {
			if err := <-result; err != nil {
				t.Error(err)
			}
		}
		for range 2 * relayAtOnce { // every turn is back
			if err := <-ask(true); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A reader who stops occupies no turn; so many long answers may be unread, and a short one is Zebra's no more.
func TestRelayLongAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeAsker{answer: textAnswer(strings.Repeat("x", 2*relayAhead))}
		r := NewRelay(f)
		var unread []*Answer
		for range longAnswers {
			a, err := r.Ask(t.Context(), "m", nil, true)
			if err != nil {
				t.Fatal(err)
			}
			unread = append(unread, a)
		}
		if _, err := r.Ask(t.Context(), "m", nil, true); !errors.Is(err, chain.ErrBusy) {
			t.Errorf("one more long answer: %v", err)
		}
		f.answer = textAnswer("short")
		if _, err := r.Ask(t.Context(), "m", nil, true); err != nil {
			t.Errorf("a short answer beside unread long ones: %v", err)
		}
		f.answer = textAnswer(strings.Repeat("x", 2*relayAhead))
		unread[0].Body.Close()
		unread[0].Body.Close()
		if _, err := r.Ask(t.Context(), "m", nil, true); err != nil {
			t.Errorf("a long answer after another was closed: %v", err)
		}
	})
}
