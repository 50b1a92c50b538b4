package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// benchRun measures and says what came out while it goes on.
func (p *program) benchRun(cmd *cobra.Command, o bench.Options) error {
	show := &benchScreen{out: p.stdout}
	o.Show = show.event
	result, err := bench.Run(cmd.Context(), o)
	if result == nil {
		return err
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(p.stderr, "interrupted: what follows was measured until then")
		err = nil
	}
	if n := len(result.Faults); n > 0 && err == nil {
		return fmt.Errorf("%d faults: a wrong answer counts for nothing, however fast it came", n)
	}
	return err
}

// benchScreen shows a run.
type benchScreen struct {
	out io.Writer
}

func (s *benchScreen) event(e bench.Event) {
	switch {
	case e.Fault != nil:
		fmt.Fprintf(s.out, "FAULT %s, %s, %s: %s\n", e.Fault.Scenario, e.Fault.Case, e.Fault.Target, e.Fault.Text)
	case e.Note != nil:
		fmt.Fprintf(s.out, "note: %s, %s: %s\n", e.Note.Scenario, e.Note.Case, e.Note.Text)
	default:
		for _, m := range e.Finished {
			fmt.Fprintln(s.out, benchLine(m))
		}
	}
}

// benchLine is one measurement in one line.
func benchLine(m bench.Measurement) string {
	line := fmt.Sprintf("%-11s %-28s %-8s %-12s", m.Scenario, m.Case, m.Client, m.Target)
	if m.Unsupported != "" {
		return line + " does not offer it: " + m.Unsupported
	}
	var parts []string
	for _, metric := range []bench.Metric{bench.P50, bench.P99} {
		if s, ok := m.Stat(metric); ok {
			parts = append(parts, fmt.Sprintf("%s %v", metric, time.Duration(s.Median*float64(time.Second)).Round(time.Microsecond)))
		}
	}
	return line + " " + strings.Join(parts, ", ")
}
