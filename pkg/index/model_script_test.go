package index

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// step is one step of a model script. Its numbers mean what the step makes of them, modulo what there is at that moment: so a script goes
// on making sense when steps are taken out of it.
type step struct {
	op   string
	a, b uint32
}

func (s step) String() string {
	switch {
	case s.b > 0:
		return fmt.Sprintf("%s %d %d", s.op, s.a, s.b)
	case s.a > 0:
		return fmt.Sprintf("%s %d", s.op, s.a)
	}
	return s.op
}

// script is what the model test runs. Its text, as of String, is what the flag -model.script takes.
type script []step

func (s script) String() string {
	words := make([]string, len(s))
	for i, st := range s {
		words[i] = st.String()
	}
	return strings.Join(words, "; ")
}

func parseScript(text string) (script, error) {
	var s script
	for line := range strings.SplitSeq(text, ";") {
		words := strings.Fields(line)
		if len(words) < 1 || len(words) > 3 || modelSteps()[words[0]].run == nil {
			return nil, fmt.Errorf("%q is no step of a script", line)
		}
		st := step{op: words[0]}
		for i, word := range words[1:] {
			n, err := strconv.ParseUint(word, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			*[]*uint32{&st.a, &st.b}[i] = uint32(n)
		}
		s = append(s, st)
	}
	return s, nil
}

// randomScript draws n steps. Small numbers are as likely as large ones, since the edges are where things go wrong.
func randomScript(seed uint64, n int) script {
	rng := rand.New(rand.NewPCG(seed, 0))
	var names []string // each as often as its weight says
	for name, st := range modelSteps() {
		names = append(names, slices.Repeat([]string{name}, st.weight)...)
	}
	slices.Sort(names)
	number := func() uint32 { return rng.Uint32N(1 << (1 + rng.UintN(12))) }
	s := make(script, n)
	for i := range s {
		s[i] = step{names[rng.IntN(len(names))], number(), number()}
	}
	return s
}

// shrink returns a script that still fails, from which no step can be taken and whose numbers are small. It tries for limit at most.
func shrink(s script, fails func(script) bool, limit time.Duration) script {
	deadline := time.Now().Add(limit)
	try := func(candidate script) bool {
		if len(candidate) == 0 || time.Now().After(deadline) || !fails(candidate) {
			return false
		}
		s = candidate
		return true
	}
	// Delta debugging: take out ever smaller parts, the largest first.
	for size := len(s) / 2; size > 0; {
		smaller := false
		for i := len(s) - size; i >= 0; i -= size {
			if try(slices.Delete(slices.Clone(s), i, i+size)) {
				smaller = true
				i = min(i, len(s))
			}
		}
		if size = min(size/2, len(s)/2); size == 0 && smaller && len(s) > 1 {
			size = 1
		}
	}
	for i := range s {
		for _, number := range []func(*step) *uint32{func(st *step) *uint32 { return &st.a }, func(st *step) *uint32 { return &st.b }} {
			for bit := uint32(1) << 31; bit > 0; bit /= 2 {
				if *number(&s[i]) >= bit {
					candidate := slices.Clone(s)
					*number(&candidate[i]) -= bit
					try(candidate)
				}
			}
		}
	}
	return s
}

func TestScriptText(t *testing.T) {
	t.Parallel()
	s := randomScript(7, 200)
	got, err := parseScript(s.String())
	if err != nil || !slices.Equal(got, s) {
		t.Errorf("%v, %v, want %v", got, err, s)
	}
	for _, text := range []string{"", "jump;", "nothing 1", "jump x", "jump 1 2 3", "jump -1"} {
		if s, err := parseScript(text); err == nil {
			t.Errorf("%q is %v", text, s)
		}
	}
	if slices.Equal(s, randomScript(8, 200)) || !slices.Equal(s, randomScript(7, 200)) {
		t.Error("a script is not the seed's own")
	}
}

// TestShrink hides a few steps that fail together in a long script.
func TestShrink(t *testing.T) {
	t.Parallel()
	tries := 0
	fails := func(s script) bool { // "fork 3" or larger, later "crash", after that "restart" with an odd number
		tries++
		state := 0
		for _, st := range s {
			switch {
			case state == 0 && st.op == "fork" && st.a >= 3, state == 1 && st.op == "crash", state == 2 && st.op == "restart" && st.b%2 == 1:
				state++
			}
		}
		return state == 3
	}
	for seed := range uint64(20) {
		s := randomScript(seed, 2000)
		if !fails(s) {
			t.Fatalf("seed %d does not fail", seed)
		}
		tries = 0
		if got := shrink(s, fails, time.Minute).String(); got != "fork 3; crash; restart 0 1" {
			t.Errorf("seed %d: %s", seed, got)
		}
		if tries > 2000 {
			t.Errorf("seed %d took %d tries", seed, tries)
		}
	}
	if s := randomScript(1, 50); !slices.Equal(shrink(s, fails, 0), s) {
		t.Error("out of time, it shrank all the same")
	}
}
