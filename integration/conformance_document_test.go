package integration

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/protocol.md, and docs/differences.md")

const (
	rowsBegin = "<!-- rows: made by go test ./integration -update -->\n"
	rowsEnd   = "<!-- rows end -->\n"
)

// TestProtocolDocument holds the tables in docs/protocol.md against the rows that the other tests run.
func TestProtocolDocument(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "docs", "protocol.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), rowsBegin)
	old, after, ok2 := strings.Cut(rest, rowsEnd)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", path, rowsBegin, rowsEnd)
	}
	want := "\n" + requestTables() + outageTable() + faultTable()
	if old == want {
		return
	}
	if !*update {
		t.Fatalf("the tables in %s are not those of the rows that are run: run go test ./integration -update", path)
	}
	if err := os.WriteFile(path, []byte(before+rowsBegin+want+rowsEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestConformanceNames: a row is found by its name.
func TestConformanceNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, r := range conformance() {
		name := r.method + "/" + r.name
		if seen[name] || r.name == "" || !slices.Contains(append(methodNames(), subscribeIndexedTips), r.method) {
			t.Errorf("the row %q is there twice, or of no method", name)
		}
		seen[name] = true
	}
}

// String is the one code, or both.
func (o outcome) String() string {
	if o.noIndex == o.indexed {
		return codeName(o.noIndex)
	}
	return codeName(o.noIndex) + " without an index, " + codeName(o.indexed) + " with it"
}

// requestTables are one table for each method.
func requestTables() string {
	var b strings.Builder
	rows := conformance()
	for _, method := range append(methodNames(), subscribeIndexedTips) {
		fmt.Fprintf(&b, "### %s\n\n| case | status | says | run beside |\n|---|---|---|---|\n", method)
		for _, r := range rows {
			if r.method == method {
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", cell(r.name), r.want, quotedCell(r.text), r.beside)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// outageTable is what becomes of every method while the node fails.
func outageTable() string {
	var b strings.Builder
	var names []string
	for _, m := range miseries() {
		if m.name != hung {
			names = append(names, m.name)
		}
	}
	fmt.Fprintf(&b, "### Zebra as a whole\n\nIn each of these ways: %s. In the last two columns it is hung, and the client's deadline is %v. "+
		"A restart of zsidecar while the node is gone changes nothing with a complete index.\n\n", strings.Join(names, ", "), hungDeadline)
	b.WriteString("| method | case | without an index | index complete | hung, without | hung, complete |\n|---|---|---|---|---|---|\n")
	for _, r := range outageRows() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", r.method, cell(r.name),
			codeName(r.want.noIndex), codeName(r.want.indexed), codeName(r.hung.noIndex), codeName(r.hung.indexed))
	}
	return b.String() + "\n"
}

// faultTable is what becomes of a method while the one call that it needs fails.
func faultTable() string {
	var b strings.Builder
	b.WriteString("### Single calls of Zebra\n\n")
	ways := make(map[string]string)
	for _, q := range questions() {
		var names []string
		for _, m := range faultsOf(q.asks) {
			names = append(names, m.name)
		}
		ways[q.asks] = strings.Join(names, ", ")
	}
	for _, asks := range slices.Sorted(maps.Keys(ways)) {
		fmt.Fprintf(&b, "- `%s`: %s\n", asks, ways[asks])
	}
	b.WriteString("\n| method | call | without an index | index complete |\n|---|---|---|---|\n")
	order := append(methodNames(), subscribeIndexedTips)
	list := slices.SortedStableFunc(slices.Values(questions()), func(a, b question) int {
		return slices.Index(order, a.method) - slices.Index(order, b.method)
	})
	for _, q := range list {
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", q.method, q.asks, codeName(q.want.noIndex), codeName(q.want.indexed))
	}
	return b.String() + "\nWhere the call hangs, UNAVAILABLE becomes DEADLINE_EXCEEDED for a client with an earlier deadline.\n\n"
}

// cell escapes what would end a cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func quotedCell(s string) string {
	if s == "" {
		return ""
	}
	return "`" + cell(s) + "`"
}

// codeName is the name of a code as the protocol's documents write it.
func codeName(c codes.Code) string {
	if c == codes.OK {
		return "OK"
	}
	var b strings.Builder
	for i, r := range c.String() {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}
