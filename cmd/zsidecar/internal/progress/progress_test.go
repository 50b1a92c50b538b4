package progress

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// climb is a build of 1,000 blocks/s that begins at height 500 of 30,500.
func climb() func() State {
	began := time.Now()
	return func() State {
		h := 500 + uint64(time.Since(began).Milliseconds())
		return State{Height: min(h, 30_500), Target: 30_500, Building: h < 30_500, PerSecond: 1000}
	}
}

func plainLog(b *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func TestLogLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		Report(ctx, Options{Read: climb(), Log: plainLog(&out)})
		const want = `msg="building the index" height=700 target=30500
msg="building the index" height=10700 target=30500 blocks_per_s=1000 percent=35.0 eta=20s
msg="building the index" height=20700 target=30500 blocks_per_s=1000 percent=67.8 eta=10s
msg="the index reached the tip" height=30500 blocks=29800 took=29.8s blocks_per_s=1000
`
		if got := out.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

// A build that stands still, since it waits or has stopped, has no more lines until it goes on.
func TestStandstill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		read := func() State {
			s := State{Height: 500, Target: 1000, Building: true}
			if time.Since(began) > 59*time.Minute+55*time.Second {
				s.Height = 501
			}
			return s
		}
		Report(ctx, Options{Read: read, Log: plainLog(&out)})
		const want = `msg="building the index" height=500 target=1000
msg="building the index" height=501 target=1000 blocks_per_s=0 percent=50.1 eta=?
`
		if got := out.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

// What is not the build has lines of its own, and neither a first nor a last one.
func TestOtherWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		Report(ctx, Options{Read: climb(), Log: plainLog(&out), What: "checking the index"})
		const want = `msg="checking the index" height=10700 target=30500 blocks_per_s=1000 percent=35.0 eta=20s
msg="checking the index" height=20700 target=30500 blocks_per_s=1000 percent=67.8 eta=10s
`
		if got := out.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

// Nothing is said while there is nothing to build.
func TestQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		Report(ctx, Options{Read: func() State { return State{Height: 7, Target: 7} }, Log: plainLog(&out)})
		if out.Len() > 0 {
			t.Errorf("got %s", out.String())
		}
	})
}

// terminal plays a terminal that knows line breaks, returns and "empty this line".
func terminal(stream string) (lines []string) {
	line := ""
	for len(stream) > 0 {
		switch {
		case strings.HasPrefix(stream, clearLine):
			line, stream = "", stream[len(clearLine):]
		case stream[0] == '\n':
			lines, line, stream = append(lines, line), "", stream[1:]
		default:
			line, stream = line+stream[:1], stream[1:]
		}
	}
	return append(lines, line)
}

// Log lines that come while the bar is shown stay whole, and the bar is in the last line until the build ends.
func TestBarAndLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		screen := NewScreen(&out, func() int { return 100 })
		shown := func() string { // the next step writes without waiting for us
			screen.mu.Lock()
			defer screen.mu.Unlock()
			return out.String()
		}
		log := slog.New(slog.NewTextHandler(screen.Writer(&out), &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); Report(ctx, Options{Read: climb(), Log: log, Screen: screen}) }()
		time.Sleep(15*time.Second + time.Millisecond)
		log.Warn("something else")
		synctest.Wait()
		lines := terminal(shown())
		want := []string{
			`level=INFO msg="building the index" height=700 target=30500`,
			`level=WARN msg="something else"`,
			`50% |███████████████               |  15,500/30,500, 1,000 blocks/s, 15s left`,
		}
		if fmt.Sprintf("%q", lines) != fmt.Sprintf("%q", want) {
			t.Errorf("got  %q\nwant %q", lines, want)
		}
		time.Sleep(20 * time.Second)
		cancel()
		<-done
		lines = terminal(shown())
		if last := lines[len(lines)-1]; last != "" {
			t.Errorf("the bar is left behind: %q", last)
		}
		if line := lines[2]; line != `level=INFO msg="the index reached the tip" height=30500 blocks=29800 took=29.8s blocks_per_s=1000` {
			t.Errorf("got %q", line)
		}
	})
}

func TestDrawing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		s    State
		want string
	}{
		{State{0, 0, true, 0}, "0% |                              |  0/0, 0 blocks/s, ? left"},
		{State{99_999, 100_000, true, 0}, "99% |█████████████████████████████ |  99,999/100,000, 0 blocks/s, ? left"},
		{State{100_001, 100_000, true, 5}, "99% |█████████████████████████████ |  100,001/100,000, 5 blocks/s, ? left"},
		{State{0, 3_600_000, true, 1000}, "0% |                              |  0/3,600,000, 1,000 blocks/s, 1h0m0s left"},
	} {
		if got := tt.s.bar(); got != tt.want {
			t.Errorf("%+v: got  %q\nwant %q", tt.s, got, tt.want)
		}
	}
	if got := truncate("äöü", 2); got != "äö" {
		t.Errorf("got %q", got)
	}
}

// Steps of any work are shown in the same way, and lines that come meanwhile stay whole.
func TestSteps(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	screen := NewScreen(&out, func() int { return 60 })
	screen.Steps(0, 40, "latency, GetBlock: ours")
	screen.Steps(10, 40, "latency, GetBlock: theirs")
	fmt.Fprintln(screen.Writer(&out), "a line")
	want := []string{"a line", "25% |███████                       |  10/40, latency, GetBl"}
	if lines := terminal(out.String()); fmt.Sprintf("%q", lines) != fmt.Sprintf("%q", want) {
		t.Errorf("got  %q\nwant %q", lines, want)
	}
	screen.Hide()
	if lines := terminal(out.String()); lines[len(lines)-1] != "" {
		t.Errorf("the bar is left behind: %q", lines)
	}
}

func TestGroup(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Group(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
