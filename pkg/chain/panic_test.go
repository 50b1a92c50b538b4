package chain

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	cause := errors.New("a cause")
	if err := Guard(func() error { return cause }); err != cause {
		t.Errorf("got %v", err)
	}
	if err := Guard(func() error { return nil }); err != nil {
		t.Errorf("got %v", err)
	}
	var none []int
	err := Guard(func() error { return errors.New(string(rune(none[3]))) })
	var bug *Panic
	if !errors.As(err, &bug) || !strings.Contains(err.Error(), "index out of range [3]") || !bytes.Contains(bug.Stack, []byte("TestGuard")) {
		t.Errorf("got %v", err)
	}
}
