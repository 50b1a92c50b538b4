package report

import (
	_ "embed"
	"html/template"
	"io"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

//go:embed report.html
var page string

// section is a scenario of the page.
type section struct {
	Name  string
	Table table
	Plots []template.HTML
}

// WriteHTML writes everything of a result into one page that needs no other file and no network: faults, machine, versions, command, plots,
// tables.
func WriteHTML(w io.Writer, r *bench.Result) error {
	drawn, err := plots(r)
	if err != nil {
		return err
	}
	data := struct {
		Result           *bench.Result
		Started, Machine string
		FaultTitle, Warn string
		Faults, Notes    table
		Targets          table
		Sections         []section
	}{
		Result: r, Started: r.Started.UTC().Format("2 January 2006, 15:04 UTC"), Machine: machine(r),
		FaultTitle: faultTitle(r), Warn: faultWarning, Targets: targetTable(r),
	}
	if len(r.Faults) > 0 {
		data.Faults = textTable("fault", r.Faults)
	}
	if len(r.Notes) > 0 {
		data.Notes = textTable("note", r.Notes)
	}
	all := groups(r)
	for _, name := range scenarios(all) {
		data.Sections = append(data.Sections, section{Name: name, Table: scenarioTable(r, all, name)})
	}
	for _, p := range drawn {
		i := slices.IndexFunc(data.Sections, func(s section) bool { return s.Name == p.scenario })
		if i < 0 { // curves alone
			i = len(data.Sections)
			data.Sections = append(data.Sections, section{Name: p.scenario})
		}
		s := &data.Sections[i]
		s.Plots = append(s.Plots, template.HTML(p.svg)) // our own drawing, in which all text is escaped
	}
	t, err := template.New("report").Funcs(template.FuncMap{"plain": Plain}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, data)
}
