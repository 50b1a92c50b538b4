package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/zsidecar/zsidecar/pkg/bench"
	"github.com/zsidecar/zsidecar/pkg/bench/report"
)

// benchRun measures, says what came out while it goes on, and writes the files.
func (p *program) benchRun(cmd *cobra.Command, o bench.Options, files report.Files) error {
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
		err = fmt.Errorf("%d faults: a wrong answer counts for nothing, however fast it came", n)
	}
	return errors.Join(err, files.Write(result))
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
			fmt.Fprintln(s.out, report.Line(m))
		}
	}
}
