package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// differences names what differs between the circumstances of two runs.
func differences(old, now *bench.Result) []string {
	all := []string{}
	add := func(what string, a, b any) {
		if a != b {
			all = append(all, fmt.Sprintf("%s: %s → %s", what, shown(a), shown(b)))
		}
	}
	add("processor", old.Machine.CPU, now.Machine.CPU)
	add("cores", old.Machine.Cores, now.Machine.Cores)
	add("memory, bytes", old.Machine.Memory, now.Machine.Memory)
	add("system", old.Machine.System, now.Machine.System)
	add("measured by", old.Machine.Tool, now.Machine.Tool)
	add("command", old.Command, now.Command)
	for _, b := range now.Targets {
		a, ok := targetOf(old, b.Name)
		if !ok {
			all = append(all, fmt.Sprintf("target %s is new: %s", Plain(b.Name), shown(b.Server)))
			continue
		}
		name := Plain(b.Name)
		add(name+", server", a.Server, b.Server)
		add(name+", node", a.Node, b.Node)
		add(name+", chain", a.Chain, b.Chain)
		add(name+", tip", a.Height, b.Height)
		add(name+", TLS", a.TLS, b.TLS)
	}
	for _, a := range old.Targets {
		if _, ok := targetOf(now, a.Name); !ok {
			all = append(all, fmt.Sprintf("target %s is gone: %s", Plain(a.Name), shown(a.Server)))
		}
	}
	return all
}

// shown gives a value for people; nothing is called so.
func shown(v any) string {
	if text := Plain(fmt.Sprint(v)); text != "" {
		return text
	}
	return "nothing"
}

func targetNames(r *bench.Result) string {
	names := make([]string, len(r.Targets))
	for i, t := range r.Targets {
		names[i] = Plain(t.Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// WriteMarkdown writes the comparison: faults and differences first, a table per scenario, and what the verdicts are worth.
func (c *Comparison) WriteMarkdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# Benchmark of %s against %s\n", c.NewStarted, c.OldStarted)
	if c.OldFaults+c.NewFaults > 0 {
		fmt.Fprintf(b, "\n**FAULTS: %d in the old result, %d in the new one.** %s\n", c.OldFaults, c.NewFaults, faultWarning)
	}
	list(b, "Not the same on both sides, and perhaps the cause:", c.Differences)
	var scenario string
	var t table
	flush := func() {
		if len(t) > 0 {
			fmt.Fprintf(b, "\n## %s\n\n", safe(scenario))
			writeTable(b, t)
		}
	}
	for _, r := range c.Rows {
		if t == nil || r.Scenario != scenario {
			flush()
			scenario, t = r.Scenario, table{c.heads()}
		}
		t = append(t, c.cells(r))
	}
	flush()
	fmt.Fprintf(b, "\n%s\n", c.Summary())
	list(b, "Only in the old result:", c.OnlyOld)
	list(b, "Only in the new result:", c.OnlyNew)
	return b.Flush()
}

func list(b *bufio.Writer, title string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n\n", title)
	for _, item := range items {
		fmt.Fprintf(b, "- %s\n", safe(item))
	}
}

func (c *Comparison) heads() []string {
	heads := []string{"case", "target", "metric", "old", "new", "new/old"}
	if c.Reference != "" {
		heads = append(heads, "by "+c.Reference)
	}
	return append(heads, "verdict")
}

func (c *Comparison) cells(r Row) []string {
	s, _ := scaleOf(r.Metric)
	cells := []string{
		setting{r.Scenario, r.Case, r.Client, r.Clients}.String(), r.Target, s.name,
		spread(bench.Stat(r.Old), s), spread(bench.Stat(r.New), s), r.Ratio.String(),
	}
	if c.Reference != "" {
		cells = append(cells, r.Normalised.String())
	}
	return append(cells, string(r.Verdict))
}

// String gives the ratio with its spread; nothing for nil.
func (r *Ratio) String() string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%s× (%s–%s)", digits(r.Median), digits(r.Low), digits(r.High))
}

// Judged is how many rows are called better, worse or noise.
func (c *Comparison) Judged() (n int) {
	for _, r := range c.Rows {
		if r.Verdict == Better || r.Verdict == Worse || r.Verdict == Noise {
			n++
		}
	}
	return n
}

// Summary counts the verdicts in a sentence, and says what they are worth.
func (c *Comparison) Summary() string {
	n := map[Verdict]int{}
	for _, r := range c.Rows {
		n[r.Verdict]++
	}
	text := fmt.Sprintf("%d rows: %d better, %d worse, %d noise", len(c.Rows), n[Better], n[Worse], n[Noise])
	if n[TooFew] > 0 {
		text += fmt.Sprintf(", %d of too few rounds to tell (it takes four a side)", n[TooFew])
	}
	if n[OfReference] > 0 {
		text += fmt.Sprintf(", %d of the reference", n[OfReference])
	}
	if n[Faulty] > 0 {
		text += fmt.Sprintf(", %d of a target that answered wrongly in that scenario", n[Faulty])
	}
	text += "."
	if judged := c.Judged(); judged > 0 {
		text += fmt.Sprintf(" Noise is what overlaps: some round of one side lies within the rounds of the other. "+
			"If nothing had changed at all, some %s of the %d judged rows would be called better or worse by chance.", digits(c.ByChance), judged)
	}
	return text
}
