package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/zsidecar/zsidecar/pkg/bench"
	"github.com/zsidecar/zsidecar/pkg/bench/report"
)

const benchCompareExample = `  # the same machine before and after a change
  zsidecar bench compare before.json after.json

  # two machines: everything relative to a server that both measured
  zsidecar bench compare laptop.json runner.json --reference zainod

  # in CI: fail when something became more than a tenth worse
  zsidecar bench compare before.json after.json --fail-over 1.1`

// benchCompareFlags are those of bench compare.
type benchCompareFlags struct {
	reference string
	failOver  float64
	json      bool
}

func (p *program) benchCompareCommand() *cobra.Command {
	var f benchCompareFlags
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare two results of bench run, and tell changes from noise",
		Long: "Compare the files OLD and NEW that bench run --json wrote: for every case, target and metric the ratio of the medians, with the\n" +
			"lowest and the highest that rounds of the two have to each other. It prints Markdown.\n\n" +
			"A change is what keeps all rounds of one side above all rounds of the other; when they overlap it is noise. It takes four rounds\n" +
			"a side to tell: with four, one row in 35 is called a change when nothing changed at all, with five one in 126.\n\n" +
			"With --reference every round is divided by the same round of that target first, and the verdict is about what comes out: so two\n" +
			"machines can be compared, and two runs between which the machine became busier. Machines, versions and commands that differ are\n" +
			"named.\n\n" +
			"It ends with 0, with 1 when NEW has faults or, with --fail-over, when something is worse by more than that or nothing can be\n" +
			"judged, or with 2 when the flags are wrong or a file cannot be read.",
		Example: benchCompareExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage(cmd, fmt.Errorf("%d files given: name OLD and NEW", len(args)))
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.reference, "reference", "", "the `TARGET` of both files that the others are divided by")
	flags.Float64Var(&f.failOver, "fail-over", 0, "end with 1 when a row is worse, and no noise, by more than this `FACTOR`; 0: never")
	flags.BoolVar(&f.json, "json", false, "print the comparison as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.failOver != 0 && !(f.failOver >= 1) {
			return usage(cmd, fmt.Errorf("flag --fail-over = %v: must be 1 or more, such as 1.1 for a tenth", f.failOver))
		}
		return p.benchCompare(args[0], args[1], f)
	}
	return cmd
}

// benchCompare prints what changed and turns it into an exit code.
func (p *program) benchCompare(oldFile, newFile string, f benchCompareFlags) error {
	old, err := readResult(oldFile)
	if err != nil {
		return &codedError{exitUsage, err}
	}
	now, err := readResult(newFile)
	if err != nil {
		return &codedError{exitUsage, err}
	}
	c, err := report.Compare(old, now, f.reference)
	if err != nil {
		return &codedError{exitUsage, fmt.Errorf("flag --reference: %w", err)}
	}
	if f.json {
		err = printJSON(p.stdout, c)
	} else {
		err = c.WriteMarkdown(p.stdout)
	}
	if err != nil {
		return err
	}
	var why []error
	if c.NewFaults > 0 {
		why = append(why, fmt.Errorf("%s has %d faults", newFile, c.NewFaults))
	}
	if f.failOver != 0 && c.Judged() == 0 { // or a check of every change would never fail
		why = append(why, errors.New("flag --fail-over: no row can be judged: the results need a target and cases in common, without faults and of four rounds"))
	}
	for _, r := range c.Rows {
		if f.failOver != 0 && r.Verdict == report.Worse && r.Factor() > f.failOver {
			why = append(why, fmt.Errorf("%s is %.3g times worse", r, r.Factor()))
		}
	}
	return errors.Join(why...)
}

// readResult reads a file that bench run --json wrote.
func readResult(path string) (*bench.Result, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := report.ReadJSON(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}
