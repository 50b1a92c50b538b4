package lint

import (
	"go/ast"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// pages returns the documents: everything in docs/, and what stands at the root.
func pages(fsys fs.FS) ([]string, error) {
	found, err := fs.Glob(fsys, "*.md")
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(fsys, "docs", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(name, ".md") {
			found = append(found, name)
		}
		return err
	})
	return found, err
}

// checkDocs returns links that lead nowhere, and pages that the index of docs does not name.
func checkDocs(fsys fs.FS) ([]string, error) {
	all, err := pages(fsys)
	if err != nil {
		return nil, err
	}
	link := regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	linked := make(map[string]bool) // from the index
	var broken []string
	for _, page := range all {
		text, err := fs.ReadFile(fsys, page)
		if err != nil {
			return nil, err
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := path.Join(path.Dir(page), m[1])
			if _, err := fs.Stat(fsys, target); err != nil {
				broken = append(broken, page+": the link to "+m[1]+" leads nowhere")
			}
			if page == "docs/README.md" {
				linked[target] = true
			}
		}
	}
	for _, page := range all {
		if page != "docs/README.md" && !linked[page] {
			broken = append(broken, page+": docs/README.md does not name it")
		}
	}
	return broken, nil
}

// checkNamedTests returns the tests that a document names and that are not there. `pkg/index TestModel` is one of that folder; without a
// folder, one of any.
func checkNamedTests(fsys fs.FS) ([]string, error) {
	files, err := load(fsys)
	if err != nil {
		return nil, err
	}
	there := make(map[string]bool)
	for _, f := range files {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasSuffix(f.path, "_test.go") {
				there[fn.Name.Name], there[f.dir+" "+fn.Name.Name] = true, true
			}
		}
	}
	all, err := pages(fsys)
	if err != nil {
		return nil, err
	}
	named := regexp.MustCompile("(`[a-z/]+ )?\\b(Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]+")
	var broken []string
	for _, page := range all {
		text, err := fs.ReadFile(fsys, page)
		if err != nil {
			return nil, err
		}
		for _, name := range named.FindAllString(string(text), -1) {
			if name = strings.TrimPrefix(name, "`"); !there[name] {
				broken = append(broken, page+": there is no "+name)
			}
		}
	}
	return broken, nil
}

func TestDocs(t *testing.T) {
	t.Parallel()
	broken, err := checkDocs(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := checkNamedTests(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	broken = append(broken, tests...)
	for _, b := range broken {
		t.Error(b)
	}
}

func TestDocsPlanted(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	planted := fstest.MapFS{
		"README.md":        file("[a](docs/a.md#part) [web](https://example.org/x) [gone](docs/gone.md)"),
		"docs/README.md":   file("[a](a.md) [root](../README.md)"),
		"docs/a.md":        file("`pkg/a TestIs`, TestIs, `pkg/b TestIs`, `pkg/a FuzzGone`, BenchmarkGone, a Test of Fuzzing"),
		"docs/adr/0001.md": file(""),
		"pkg/a/a_test.go":  file("package a\nfunc TestIs() {}\n"),
		"pkg/b/b.go":       file("package b\nfunc FuzzGone() {}\n"),
	}
	got, err := checkDocs(planted)
	want := []string{
		"README.md: the link to docs/gone.md leads nowhere",
		"docs/adr/0001.md: docs/README.md does not name it",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	got, err = checkNamedTests(planted)
	want = []string{"docs/a.md: there is no pkg/b TestIs", "docs/a.md: there is no pkg/a FuzzGone", "docs/a.md: there is no BenchmarkGone"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
