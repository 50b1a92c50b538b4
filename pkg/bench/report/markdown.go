package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// WriteMarkdown writes the faults, what was measured on what, and one table per scenario with the targets as columns. A cell has the median
// of the rounds and, in brackets, the lowest and the highest; behind it, but for the first target, the median over the first target's.
// Metrics that follow from others are left to JSON and CSV.
func WriteMarkdown(w io.Writer, r *bench.Result) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# Benchmark of %s\n", r.Started.UTC().Format("2 January 2006, 15:04 UTC"))
	markdownFaults(b, r)
	fmt.Fprintf(b, "\n%s\n\n", safe(machine(r)))
	if r.Command != "" {
		fmt.Fprintf(b, "    %s\n\n", Plain(r.Command))
	}
	writeTable(b, targetTable(r))
	all := groups(r)
	for _, name := range scenarios(all) {
		fmt.Fprintf(b, "\n## %s\n\n", safe(name))
		writeTable(b, scenarioTable(r, all, name))
	}
	if len(all) == 0 {
		fmt.Fprintln(b, "\nNothing was measured.")
	}
	if len(r.Notes) > 0 {
		fmt.Fprint(b, "\n## Notes\n\n")
		writeTable(b, textTable("note", r.Notes))
	}
	return b.Flush()
}

func markdownFaults(b *bufio.Writer, r *bench.Result) {
	if len(r.Faults) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n**%s**\n\n", faultTitle(r), faultWarning)
	writeTable(b, textTable("fault", r.Faults))
}

const faultWarning = "Answers were wrong or calls failed. The figures of a target that has a fault mean nothing."

func faultTitle(r *bench.Result) string {
	if len(r.Faults) == 1 {
		return "1 FAULT"
	}
	return fmt.Sprintf("%d FAULTS", len(r.Faults))
}

// machine says in a line what the run was made on.
func machine(r *bench.Result) string {
	m := r.Machine
	return fmt.Sprintf("%s, %d cores, %s GiB of memory, %s; measured by %s in %s s.",
		Plain(m.CPU), m.Cores, digits(float64(m.Memory)/(1<<30)), Plain(m.System), Plain(m.Tool), digits(r.Seconds))
}

// table is rows of cells; the first row names the columns. Cells are plain text, not yet safe for a document.
type table [][]string

func textTable(what string, faults []bench.Fault) table {
	t := table{{"target", "scenario", "case", what}}
	for _, f := range faults {
		target := f.Target
		if target == "" {
			target = "all"
		}
		t = append(t, []string{target, f.Scenario, f.Case, f.Text})
	}
	return t
}

func targetTable(r *bench.Result) table {
	t := table{{"target", "server", "node", "chain", "tip", "address"}}
	for _, target := range r.Targets {
		address := target.Address
		if target.TLS {
			address += ", TLS"
		}
		t = append(t, []string{target.Name, target.Server, target.Node, target.Chain, fmt.Sprint(target.Height), address})
	}
	return t
}

// scenarioTable has a row per case and metric, and a column per target that took part in the scenario.
func scenarioTable(r *bench.Result, all []*group, scenario string) table {
	var targets []string
	for _, target := range r.Targets {
		if slices.ContainsFunc(all, func(g *group) bool { return g.scenario == scenario && g.of[target.Name] != nil }) {
			targets = append(targets, target.Name)
		}
	}
	t := table{append([]string{"case", "metric"}, targets...)}
	for _, g := range all {
		if g.scenario != scenario {
			continue
		}
		label := g.String()
		row := func(metric string, cells []string) {
			t = append(t, append([]string{label, metric}, cells...))
			label = ""
		}
		for _, s := range scales() {
			if cells, ok := cellsOf(g, targets, s); ok {
				row(s.name, cells)
			}
		}
		if cells, ok := unsupported(g, targets); ok {
			row("not offered", cells)
		}
	}
	return t
}

// cellsOf gives what each target did in one metric, or false when none has it.
func cellsOf(g *group, targets []string, s scale) (cells []string, found bool) {
	var base float64
	for i, target := range targets {
		cell := ""
		if m := g.of[target]; m != nil && telling(m, s.metric) {
			if v, ok := m.Stat(s.metric); ok {
				found = true
				cell = spread(v, s)
				if i == 0 {
					base = v.Median
				} else if base > 0 {
					cell += ", " + digits(v.Median/base) + "×"
				}
			}
		}
		cells = append(cells, cell)
	}
	return cells, found
}

// spread is a median with the lowest and the highest round, when there are several.
func spread(v bench.Stat, s scale) string {
	if v.Rounds < 2 {
		return s.show(v.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", s.show(v.Median), s.show(v.Low), s.show(v.High))
}

func unsupported(g *group, targets []string) (cells []string, found bool) {
	for _, target := range targets {
		cell := ""
		if m := g.of[target]; m != nil && m.Unsupported != "" {
			cell, found = m.Unsupported, true
		}
		cells = append(cells, cell)
	}
	return cells, found
}

// writeTable writes a table whose columns stand below each other as plain text, too.
func writeTable(w io.Writer, t table) {
	widths := make([]int, len(t[0]))
	lines := make([][]string, len(t))
	for i, row := range t {
		for j, cell := range row {
			cell = safe(cell)
			lines[i] = append(lines[i], cell)
			widths[j] = max(widths[j], utf8.RuneCountInString(cell))
		}
	}
	for i, row := range lines {
		for j, cell := range row {
			fmt.Fprintf(w, "| %s%s ", cell, strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell)))
		}
		fmt.Fprintln(w, "|")
		if i == 0 {
			for _, width := range widths {
				fmt.Fprintf(w, "|%s", strings.Repeat("-", width+2))
			}
			fmt.Fprintln(w, "|")
		}
	}
}

// safe makes text plain, and its Markdown and HTML literal.
func safe(text string) string {
	return strings.NewReplacer("\\", "\\\\", "|", "\\|", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]", "#", "\\#",
		"<", "&lt;", ">", "&gt;", "&", "&amp;").Replace(Plain(text))
}
