package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/progress"
	"github.com/zsidecar/zsidecar/pkg/bench"
	"github.com/zsidecar/zsidecar/pkg/bench/report"
)

// benchRun measures, says what came out while it goes on, and writes the files.
func (p *program) benchRun(cmd *cobra.Command, o bench.Options, files report.Files) error {
	show := &benchScreen{out: p.stdout, screen: terminalScreen(p.stderr), began: time.Now()}
	if show.screen != nil {
		show.out = show.screen.Writer(p.stdout)
	}
	o.Show = show.event
	if self, err := os.Executable(); err == nil {
		o.Readers = []string{self, "bench", benchReaders}
	}
	result, err := bench.Run(cmd.Context(), o)
	show.hide()
	var input *bench.InputError
	switch {
	case result == nil && errors.As(err, &input):
		return usage(cmd, err)
	case result == nil:
		return err
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(p.stderr, "interrupted: what was measured until then counts")
		err = nil
	}
	if n := len(result.Faults); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d faults: a wrong answer counts for nothing, however fast it came", n))
	}
	return errors.Join(err, files.Write(result))
}

// benchReaders is the command of readers in a process of their own.
const benchReaders = "readers"

// benchReadersCommand is what bench run starts, and nobody else.
func (p *program) benchReadersCommand() *cobra.Command {
	return &cobra.Command{
		Use:    benchReaders + " ADDR READERS FROM TO",
		Short:  "Read a range again and again, until the standard input ends",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := bench.ReadApart(cmd.Context(), args, os.Stdin, p.stdout)
			var input *bench.InputError
			if errors.As(err, &input) {
				return usage(cmd, err)
			}
			return err
		},
	}
}

// benchScreen shows a run: a line for what is finished, and on a terminal a bar with what is going on.
type benchScreen struct {
	out    io.Writer
	screen *progress.Screen // nil: no terminal
	began  time.Time
}

func (s *benchScreen) event(e bench.Event) {
	switch {
	case e.Fault != nil:
		fmt.Fprintf(s.out, "FAULT        %s: %s\n", place(e.Fault), report.Plain(e.Fault.Text))
	case e.Note != nil:
		fmt.Fprintf(s.out, "note         %s: %s\n", place(e.Note), report.Plain(e.Note.Text))
	default:
		for _, m := range e.Finished {
			fmt.Fprintln(s.out, report.Line(m))
		}
	}
	if s.screen != nil {
		s.screen.Steps(e.Done, e.Total, s.left(e)+e.Doing)
	}
}

func (s *benchScreen) hide() {
	if s.screen != nil {
		s.screen.Hide()
	}
}

// left guesses the time that the rest takes, empty while that would be nothing but a guess.
func (s *benchScreen) left(e bench.Event) string {
	if e.Done*20 < e.Total {
		return ""
	}
	took := time.Since(s.began)
	left := time.Duration(float64(took) / float64(max(e.Done, 1)) * float64(e.Total-e.Done))
	return "about " + left.Round(time.Second).String() + " left, "
}

// place is where a fault was found.
func place(f *bench.Fault) string {
	return strings.Join(slices.DeleteFunc([]string{f.Scenario, f.Case, f.Target}, func(s string) bool { return s == "" }), ", ")
}
