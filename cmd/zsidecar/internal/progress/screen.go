package progress

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Screen is a terminal with a bar in its last line. It is safe for concurrent use.
type Screen struct {
	width func() int // columns; 0: not known

	mu  sync.Mutex // guards what follows, and keeps writes to the terminal apart
	out io.Writer
	bar string // what the last line shows; empty: nothing
}

// NewScreen returns the Screen of a terminal. Width is asked before each drawing, since a window may be resized.
func NewScreen(out io.Writer, width func() int) *Screen { return &Screen{out: out, width: width} }

// Writer returns a writer for a stream of lines that ends on the same terminal. Each Write must end in a line break.
func (s *Screen) Writer(w io.Writer) io.Writer { return lineWriter{s, w} }

type lineWriter struct {
	screen *Screen
	w      io.Writer
}

func (l lineWriter) Write(p []byte) (int, error) {
	s := l.screen
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar == "" {
		return l.w.Write(p)
	}
	io.WriteString(s.out, clearLine)
	n, err := l.w.Write(p)
	io.WriteString(s.out, s.bar)
	return n, err
}

// clearLine goes to the line's start and empties it.
const clearLine = "\r\x1b[2K"

func (s *Screen) show(state State) { s.put(state.bar()) }

// Steps shows a bar of so many steps, of which some are done, with a text behind it, until Hide or the next call.
func (s *Screen) Steps(done, total int, text string) {
	s.put(drawn(uint64(max(done, 0)), uint64(max(total, 0)), fmt.Sprintf("%d/%d, %s", done, total, text)))
}

func (s *Screen) put(bar string) {
	bar = truncate(bar, s.width()-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bar = bar
	io.WriteString(s.out, clearLine+bar)
}

// Hide takes the bar away.
func (s *Screen) Hide() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != "" {
		io.WriteString(s.out, clearLine)
		s.bar = ""
	}
}

// truncate cuts to the terminal's width, since a line that wraps cannot be taken back.
func truncate(s string, columns int) string {
	if r := []rune(s); columns > 0 && len(r) > columns {
		return string(r[:columns])
	}
	return s
}

// bar draws the state in one line.
func (s State) bar() string {
	return drawn(s.Height, s.Target, fmt.Sprintf("%s/%s, %s blocks/s, %s left", Group(s.Height), Group(s.Target), Group(uint64(s.PerSecond)), s.eta()))
}

// drawn is a bar in one line.
func drawn(done, total uint64, text string) string {
	var b bytes.Buffer
	bar := progressbar.NewOptions64(int64(max(total, 1)),
		progressbar.OptionSetWriter(&b),
		progressbar.OptionSetWidth(30),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetRenderBlankState(false),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionSetDescription(text),
	)
	// A buffer takes every write; and a bar that is full draws itself no more, so the last block is left for the end.
	if h := min(done, max(total, 1)-1); h > 0 {
		_ = bar.Set64(int64(h))
	} else {
		_ = bar.RenderBlank()
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

// percent is rounded down, so that 100 means all.
func (s State) percent() string {
	return fmt.Sprintf("%.1f", float64(1000*min(s.Height, s.Target)/max(s.Target, 1))/10)
}

// eta is the time left at the present speed.
func (s State) eta() string {
	if s.PerSecond < 0.01 || s.Target < s.Height {
		return "?"
	}
	left := time.Duration(float64(s.Target-s.Height) / s.PerSecond * float64(time.Second))
	return left.Round(time.Second).String()
}

// Group writes a number with a comma every three digits.
func Group(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
