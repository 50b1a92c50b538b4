package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/progress"
	"github.com/zsidecar/zsidecar/pkg/index"
)

// printReport prints what check found, for people or as JSON.
func printReport(w io.Writer, r index.Report, asJSON bool) error {
	if asJSON {
		return printJSON(w, r)
	}
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
	if r.Node != nil {
		fmt.Fprintf(t, "node\t%s\n", comparison(r.Node))
	}
	if r.Repair != nil {
		fmt.Fprintf(t, "repaired\t%s\n", repaired(r.Repair))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Repair != nil {
		for _, failure := range r.Repair.Failures {
			fmt.Fprintf(w, "NOT REPAIRED  %s\n", failure)
		}
	}
	for _, problem := range r.Problems {
		if _, err := fmt.Fprintf(w, "WRONG  %s\n", problem); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, verdict(r))
	return err
}

// printJSON prints what a command found for programs.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func verdict(r index.Report) string {
	switch n := len(r.Problems); {
	case n == 1:
		return "1 problem"
	case n > 1:
		return fmt.Sprintf("%d problems", n)
	case r.Node != nil && r.Node.Err != nil:
		return "the index by itself is right, but it could not be compared with the node"
	case r.Repair != nil:
		return "everything is right now"
	}
	return "everything is right"
}

func comparison(n *index.Comparison) string {
	parts := []string{number(n.Blocks) + " blocks compared"}
	if n.Seed != 0 {
		parts[0] += fmt.Sprintf(" (seed %d)", n.Seed)
	}
	if n.AboveTip > 0 {
		parts = append(parts, number(n.AboveTip)+" are above its tip: it is behind")
	}
	if n.Left > 0 {
		parts = append(parts, fmt.Sprintf("the last %s blocks have left its best chain: the next start follows it", number(n.Left)))
	}
	if n.Error != "" {
		parts = append(parts, "no more: "+n.Error)
	}
	return strings.Join(parts, "; ")
}

func repaired(r *index.Repaired) string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{r.Segments, "segments fetched again"}, {r.Recent, "recent blocks fetched again"}, {r.Dropped, "rows deleted"}} {
		if part.n > 0 {
			parts = append(parts, number(int64(part.n))+" "+part.what)
		}
	}
	if len(r.Meta) > 0 {
		parts = append(parts, strings.Join(r.Meta, " and ")+" written again")
	}
	if r.CutTo != nil {
		parts = append(parts, fmt.Sprintf("the index goes back to its first %s blocks, and the next start builds on from there", number(*r.CutTo)))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}

func number(n int64) string { return progress.Group(uint64(n)) }

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
