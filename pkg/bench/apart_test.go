package bench

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// readersVariable makes the test program what Options.Readers names.
const readersVariable = "ZSIDECAR_TEST_READERS"

// apartOptions measures a probe beside readers in a process of their own.
func apartOptions(t *testing.T, addr string, command ...string) Options {
	t.Helper()
	o := quick(TargetOptions{Name: "one", Address: addr})
	o.Scenarios, o.Rounds, o.Readers = []string{"stalled"}, 1, command
	return o
}

// TestReadersApart has the readers at full speed in a process of their own, which is gone when the run is over.
func TestReadersApart(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	result := mustRun(t, apartOptions(t, startServer(t, nil), "/usr/bin/env", readersVariable+"=1", self))
	if len(result.Faults) > 0 || len(result.Measurements) != 4 {
		t.Errorf("%d measurements, faults: %+v", len(result.Measurements), result.Faults)
	}
}

// TestReadersApartFail has a process that does not read: that is a fault with its own words.
func TestReadersApartFail(t *testing.T) {
	t.Parallel()
	addr := startServer(t, nil)
	for _, tt := range []struct {
		script, want string
	}{
		{"echo broken >&2; exit 3", "exit status 3: broken"},
		{"echo reading; echo broken later >&2; exit 4", "exit status 4: broken later"},
	} {
		result := mustRun(t, apartOptions(t, addr, "/bin/sh", "-c", tt.script))
		if len(result.Faults) != 1 || !strings.Contains(result.Faults[0].Text, tt.want) {
			t.Errorf("%q: faults: %+v", tt.script, result.Faults)
		}
	}
}

// TestReadApart runs the readers in this process: they end when the input does, and refuse what they cannot read.
func TestReadApart(t *testing.T) {
	t.Parallel()
	addr := startServer(t, nil)
	in, first := io.Pipe()
	defer first.Close()
	started := onceWritten{c: make(chan string, 1)}
	done := make(chan error, 1)
	go func() { done <- ReadApart(t.Context(), []string{addr, "3", "1", "200"}, in, started) }()
	if line := <-started.c; line != readersReady+"\n" {
		t.Errorf("it says %q", line)
	}
	first.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	var input *InputError
	for _, args := range [][]string{nil, {addr, "0", "1", "2"}, {addr, "x", "1", "2"}, {addr, "1", "3", "2"}} {
		if err := ReadApart(t.Context(), args, strings.NewReader(""), io.Discard); !errors.As(err, &input) {
			t.Errorf("%q: %v", args, err)
		}
	}
	in, last := io.Pipe()
	defer last.Close()
	if err := ReadApart(t.Context(), []string{addr, "1", "1", "100000"}, in, io.Discard); err == nil || !strings.Contains(err.Error(), "OutOfRange") {
		t.Errorf("a range above the tip: %v", err)
	}
}

// onceWritten passes on what is written first.
type onceWritten struct{ c chan string }

func (w onceWritten) Write(p []byte) (int, error) {
	w.c <- string(bytes.Clone(p))
	return len(p), nil
}
