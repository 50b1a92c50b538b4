package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/progress"
	"github.com/zsidecar/zsidecar/pkg/index"
)

// Exit codes of check besides exitOK.
const (
	exitProblems = 1
	exitNoCheck  = 2
)

func (p *program) checkCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Verify an index that no process has open",
		Long: "Verify every row of the index in DIR, or in --data-dir: checksums, links between blocks, tree sizes. It changes nothing.\n\n" +
			"It ends with 0 when everything is right, 1 when something is wrong (it says what, where, and what to do), 2 when it could\n" +
			"not look: no index, in use by another process, another format, wrong arguments.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(cmd, fmt.Errorf("unexpected argument %q", args[1]))
			}
			return nil
		},
	}
	p.configFlag(cmd.Flags())
	config.AddFlags(cmd.Flags(), p.cacheDir, "data_dir")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && cmd.Flags().Changed("data-dir") {
			return usage(cmd, errors.New("give either DIR or --data-dir, not both"))
		}
		dir, err := p.checkedDir(cmd, args)
		if err != nil {
			return &codedError{exitNoCheck, err}
		}
		p.limitMemory(slog.New(slog.DiscardHandler))
		report, err := index.Check(cmd.Context(), dir, index.CheckOptions{Progress: p.checkProgress()})
		if err != nil {
			return &codedError{exitNoCheck, err}
		}
		if err := printReport(p.stdout, report, asJSON); err != nil {
			return &codedError{exitNoCheck, err}
		}
		if len(report.Problems) > 0 {
			return &codedError{exitProblems, nil}
		}
		return nil
	}
	return cmd
}

// checkedDir is the argument, or the setting data_dir.
func (p *program) checkedDir(cmd *cobra.Command, args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	cfg, _, err := p.load(cmd, p.sources(cmd))
	return cfg.DataDir, err
}

// checkProgress shows a line in place on a terminal, nothing elsewhere.
func (p *program) checkProgress() func(done, total int64) {
	if terminalScreen(p.stderr) == nil {
		return nil
	}
	return func(done, total int64) {
		end := ""
		if done == total {
			end = "\r\x1b[2K"
		}
		fmt.Fprintf(p.stderr, "\r%s of %s blocks%s", progress.Group(uint64(done)), progress.Group(uint64(total)), end)
	}
}

func printReport(w io.Writer, r index.Report, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	number := func(n int64) string { return progress.Group(uint64(n)) }
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "index\t%s, format %d\n", r.Dir, r.Format)
	fmt.Fprintf(t, "network\t%s\n", network(r))
	if r.Height < 0 {
		fmt.Fprintf(t, "tip\tnone: the index is empty\n")
	} else {
		fmt.Fprintf(t, "tip\t%s (%s), %s\n", number(r.Height), r.Tip, completeness(r.Complete))
	}
	fmt.Fprintf(t, "blocks\t%s sealed in %s segments, %s recent\n", number(r.SealedBlocks), number(int64(r.Segments)), number(r.RecentBlocks))
	fmt.Fprintf(t, "bytes\t%s of blocks, %s of transparent parts, %s on the disk\n", number(r.FrameBytes), number(r.ColumnBytes), number(r.DiskBytes))
	if r.TreeStates+r.SubtreeRoots > 0 {
		fmt.Fprintf(t, "kept\t%s tree states, %s subtree roots\n", number(int64(r.TreeStates)), number(int64(r.SubtreeRoots)))
	}
	if r.UnnamedRows > 0 {
		fmt.Fprintf(t, "left over\t%d rows that the next start deletes\n", r.UnnamedRows)
	}
	if r.Recovered {
		fmt.Fprintf(t, "note\tit had not been closed: its log was replayed, as at a start\n")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, problem := range r.Problems {
		if _, err := fmt.Fprintf(w, "WRONG  %s\n", problem); err != nil {
			return err
		}
	}
	verdict := "everything is right"
	if n := len(r.Problems); n > 0 {
		verdict = fmt.Sprintf("%d problems", n)
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}

func network(r index.Report) string {
	if r.Network == "" {
		return "genesis " + r.Genesis
	}
	return r.Network + ", genesis " + r.Genesis
}

func completeness(complete bool) string {
	if complete {
		return "complete"
	}
	return "not complete: it was still being built"
}
