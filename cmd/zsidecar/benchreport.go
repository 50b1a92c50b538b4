package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zsidecar/zsidecar/pkg/bench/report"
)

// reportFlags adds the flags that name the reports of a result.
func reportFlags(flags *pflag.FlagSet, f *report.Files) {
	flags.StringVar(&f.CSV, "csv", "", "write medians and spreads to this `FILE`")
	flags.StringVar(&f.Markdown, "markdown", "", "write tables to this `FILE`")
	flags.StringVar(&f.SVG, "svg", "", "draw plots into this folder `DIR`")
	flags.StringVar(&f.HTML, "html", "", "write tables and plots to this `FILE`, which needs no other")
}

func (p *program) benchReportCommand() *cobra.Command {
	var f report.Files
	cmd := &cobra.Command{
		Use:   "report RESULT",
		Short: "Draw the reports of a result of bench run again",
		Long: "Draw the file RESULT that bench run --json wrote, as the flags say; without any, print its Markdown.\n\n" +
			"It ends with 0, with 1 when a report cannot be written, or with 2 when the flags are wrong or RESULT cannot be read.",
		Example: "  zsidecar bench report before.json --html before.html",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(cmd, fmt.Errorf("%d files given: name one RESULT", len(args)))
			}
			return nil
		},
	}
	reportFlags(cmd.Flags(), &f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := readResult(args[0])
		if err != nil {
			return &codedError{exitUsage, err}
		}
		if err := f.Check(args[0]); err != nil {
			return usage(cmd, err)
		}
		if f == (report.Files{}) {
			return report.WriteMarkdown(p.stdout, r)
		}
		return f.Write(r)
	}
	return cmd
}
