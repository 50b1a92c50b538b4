package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables of the operator guide")

const (
	tablesBegin = "<!-- keys: made by go test ./cmd/zsidecar/internal/config -update -->\n"
	tablesEnd   = "<!-- keys end -->\n"
)

// The operator guide's tables are the ones of this package.
func TestOperatorGuide(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "docs", "operator.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tablesBegin)
	old, after, ok2 := strings.Cut(rest, tablesEnd)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", path, tablesBegin, tablesEnd)
	}
	want := "\n" + Markdown() + "\n"
	if old == want {
		return
	}
	if !*update {
		t.Fatalf("the tables in %s are not those of Keys and ClassicKeys: run go test ./cmd/zsidecar/internal/config -update", path)
	}
	if err := os.WriteFile(path, []byte(before+tablesBegin+want+tablesEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
