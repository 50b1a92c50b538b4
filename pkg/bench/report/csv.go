package report

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// WriteCSV writes one row per fault, then one per case, target and metric: the median of the rounds, the lowest and the highest, in the
// metric's own unit (seconds, bytes, per second) with all digits. The first row names the columns. A case that a target does not offer has
// the metric "unsupported" and the target's word in the last column; a fault has the metric "fault", a note
// "note". A name that a spreadsheet would take for a formula has an apostrophe before it.
func WriteCSV(w io.Writer, r *bench.Result) error {
	c := csv.NewWriter(w)
	c.Write([]string{"scenario", "case", "client", "clients", "length", "target", "metric", "median", "low", "high", "rounds", "text"})
	for _, f := range r.Faults {
		c.Write(textRow(f, "fault"))
	}
	for i := range r.Measurements {
		m := &r.Measurements[i]
		length := ""
		if m.Length > 0 {
			length = strconv.FormatUint(m.Length, 10)
		}
		head := []string{cell(m.Scenario), cell(m.Case), string(m.Client), strconv.Itoa(m.Clients), length, cell(m.Target)}
		if m.Unsupported != "" {
			c.Write(append(head, "unsupported", "", "", "", "", "it says: "+Plain(m.Unsupported)))
		}
		for _, s := range scales() {
			if v, ok := m.Stat(s.metric); ok {
				c.Write(append(head[:6:6], string(s.metric), exact(v.Median), exact(v.Low), exact(v.High), strconv.Itoa(v.Rounds), ""))
			}
		}
	}
	for _, n := range r.Notes {
		c.Write(textRow(n, "note"))
	}
	c.Flush()
	return c.Error()
}

// textRow is the row of a fault or a note. Its text never begins as the formula of a spreadsheet does.
func textRow(f bench.Fault, kind string) []string {
	return []string{cell(f.Scenario), cell(f.Case), "", "", "", cell(f.Target), kind, "", "", "", "", kind + ": " + Plain(f.Text)}
}

// cell is a name that no spreadsheet takes for a formula.
func cell(name string) string {
	name = Plain(name)
	if strings.TrimLeft(name, "=+-@") != name {
		return "'" + name
	}
	return name
}

func exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
