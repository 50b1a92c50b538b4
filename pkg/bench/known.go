package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// known is the first answer of a target to a question: what it answers later has to be the same bytes.
type known struct {
	Answer
	digests []uint64 // of the messages in canonical form; nil when there are none, or they were only counted so far
	looked  bool     // at every message
}

// answered is a question with an answer that came whole and right as far as the client looked.
type answered struct {
	question *question
	answer   Answer
}

// verifyAtOnce is how many questions are on their way at once while answers are looked at.
const verifyAtOnce = 8

// verify asks a target each question that it was not asked before, looks at every message, and compares with the answers of the targets
// that were asked earlier. It fails with the first thing that is wrong.
func (r *run) verify(ctx context.Context, scenario, name string, t *target, questions []*question) error {
	offered := slices.ContainsFunc(questions, func(q *question) bool { return t.known[q.key] != nil })
	pending := slices.DeleteFunc(slices.Clone(questions), func(q *question) bool { return t.known[q.key] != nil })
	for part := range slices.Chunk(pending, verifyAtOnce) {
		got, errs := make([]*known, len(part)), make([]error, len(part))
		var asking sync.WaitGroup
		for i, q := range part {
			asking.Go(func() { got[i], errs[i] = r.look(ctx, t, q) })
		}
		asking.Wait()
		for i, q := range part {
			switch err := errs[i]; {
			case status.Code(err) == codes.Unimplemented:
				return q.failed(err, offered)
			case err != nil:
				return err
			}
			offered = true
			if err := r.compare(ctx, scenario, name, t, q, got[i]); err != nil {
				return err
			}
			t.known[q.key] = got[i]
		}
	}
	return nil
}

// look asks once and looks at every message.
func (r *run) look(ctx context.Context, t *target, q *question) (*known, error) {
	k := &known{looked: true}
	check := q.checker()
	var err error
	k.Answer, err = decodingClient{t.conn}.ask(ctx, q, func(m proto.Message) error {
		if err := check(m); err != nil {
			return err
		}
		canonical(q.method.name, m)
		k.digests = append(k.digests, digest(r.seed, m))
		return nil
	})
	if err != nil {
		return nil, q.failed(err, k.Messages > 0)
	}
	if err := q.checkCount(k.Answer); err != nil || q.confirm == nil {
		return k, err
	}
	return k, q.confirm(ctx, t)
}

// checkCount says whether as many messages came as have to.
func (q *question) checkCount(a Answer) error {
	if q.count >= 0 && a.Messages != q.count {
		return fmt.Errorf("%v: %d messages came with OK, want %d", q, a.Messages, q.count)
	}
	return nil
}

// learn keeps the answers of a round to questions that were never asked before, and compares them with those of the other targets.
func (r *run) learn(ctx context.Context, scenario, name string, t *target, answers []answered) error {
	for _, a := range answers {
		q := a.question
		if t.known[q.key] != nil { // it came twice in the round
			if err := r.expect(ctx, t, q, a.answer); err != nil {
				return err
			}
			continue
		}
		k := &known{Answer: a.answer}
		t.known[q.key] = k
		if err := r.compare(ctx, scenario, name, t, q, k); err != nil {
			delete(t.known, q.key) // nobody is held against it
			return err
		}
	}
	return nil
}

// lookAgain asks for the messages of an answer that were only counted.
func (r *run) lookAgain(ctx context.Context, t *target, q *question, k *known) error {
	if k.looked {
		return nil
	}
	again, err := r.look(ctx, t, q)
	if err != nil {
		return err
	}
	if again.Sum != k.Sum || again.Bytes != k.Bytes {
		return r.expect(ctx, t, q, again.Answer)
	}
	*k = *again
	return nil
}

// compare holds an answer against that of the first target that gave one.
func (r *run) compare(ctx context.Context, scenario, name string, t *target, q *question, k *known) error {
	if q.passing {
		return nil
	}
	for _, other := range r.targets {
		first := other.known[q.key]
		if first == nil || other == t {
			continue
		}
		if first.Sum == k.Sum && first.Bytes == k.Bytes {
			return nil
		}
		if err := errors.Join(r.lookAgain(ctx, t, q, k), r.lookAgain(ctx, other, q, first)); err != nil {
			return err
		}
		if slices.Equal(first.digests, k.digests) {
			r.note(Fault{Scenario: scenario, Case: name, Target: t.options.Name, Text: fmt.Sprintf(
				"%s: other bytes than those of %s, in fields that servers may fill as they like", q.method.name, other.options.Name)})
			return nil
		}
		switch moved, err := q.tipMoved(ctx, t, other); {
		case err != nil:
			return err
		case moved:
			r.note(Fault{Scenario: scenario, Case: name, Target: t.options.Name, Text: fmt.Sprintf(
				"%s: not compared with %s, which has another tip, or whose tip has moved", q.method.name, other.options.Name)})
			return nil
		}
		return r.describe(ctx, t, other, q, k, first)
	}
	return nil
}

// tipMoved tells whether the answer depends on the tip, and the targets name another one than each other, or than at the beginning. A tip
// that a target names and does not have is no excuse but an error.
func (q *question) tipMoved(ctx context.Context, targets ...*target) (moved bool, err error) {
	if !q.atTip {
		return false, nil
	}
	for _, t := range targets {
		tip, err := t.confirmedTip(ctx)
		if err != nil {
			return false, fmt.Errorf("the tip of %s: %w", t.options.Name, err)
		}
		moved = moved || tip != t.tipHash || tip != targets[0].tipHash
	}
	return moved, nil
}

// describe turns a difference between two targets into an error that names its place.
func (r *run) describe(ctx context.Context, t, other *target, q *question, got, want *known) error {
	at := 0
	for at < min(len(got.digests), len(want.digests)) && got.digests[at] == want.digests[at] {
		at++
	}
	text := fmt.Sprintf("%v: %d messages here and %d at %s", q, len(got.digests), len(want.digests), other.options.Name)
	if at < len(got.digests) && at < len(want.digests) {
		a, errA := t.message(ctx, q, at)
		b, errB := other.message(ctx, q, at)
		text = fmt.Sprintf("%v: message %d differs from that at %s", q, at, other.options.Name)
		if errA == nil && errB == nil {
			if d := difference(a, b); d != "" {
				text += ": " + d
			}
		}
	}
	return errors.New(text)
}

// message asks again and returns one message of the answer in canonical form.
func (t *target) message(ctx context.Context, q *question, at int) (found protoreflect.Message, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	n := 0
	_, err = decodingClient{t.conn}.ask(ctx, q, func(m proto.Message) error {
		if n == at {
			canonical(q.method.name, m)
			found = m.ProtoReflect()
			stop()
		}
		n++
		return nil
	})
	if found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("there is no message %d any more: %w", at, err)
}

// expect holds an answer that was counted against the one that was looked at.
func (r *run) expect(ctx context.Context, t *target, q *question, a Answer) error {
	if err := q.checkCount(a); err != nil || q.passing {
		return err
	}
	k := t.known[q.key]
	if k == nil || k.Sum == a.Sum && k.Bytes == a.Bytes {
		return nil
	}
	if moved, err := q.tipMoved(ctx, t); err != nil || moved {
		return err
	}
	return q.sameBytes(a, k.Answer)
}

// sameBytes says how an answer differs from an earlier one.
func (q *question) sameBytes(a, before Answer) error {
	if a.Sum == before.Sum && a.Bytes == before.Bytes {
		return nil
	}
	return fmt.Errorf("%v: %d messages of %d bytes, sum %08x, and before they were %d of %d bytes, sum %08x: the same question has to have the same answer",
		q, a.Messages, a.Bytes, a.Sum, before.Messages, before.Bytes, before.Sum)
}
