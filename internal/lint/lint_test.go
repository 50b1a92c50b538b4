package lint

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// source is one Go file of the module.
type source struct {
	path, dir string // with slashes, from the module's root
	test      bool   // a _test.go file, or one of the integration room, whose packages are tests only
	generated bool
	lines     int
	imports   []string
	ast       *ast.File
	fset      *token.FileSet
}

// load parses every Go file of the module.
func load(fsys fs.FS) ([]source, error) {
	var files []source
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			base := entry.Name()
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || name == "tools") {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		f, err := parse(fsys, name)
		if err == nil {
			files = append(files, f)
		}
		return err
	})
	return files, err
}

func parse(fsys fs.FS, name string) (source, error) {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return source{}, err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		return source{}, err
	}
	f := source{
		path: name, dir: path.Dir(name), ast: file, fset: fset,
		test:      strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "integration/"),
		generated: ast.IsGenerated(file),
		lines:     bytes.Count(text, []byte("\n")),
	}
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		f.imports = append(f.imports, p)
	}
	return f, nil
}

func TestHouseRules(t *testing.T) {
	t.Parallel()
	files, err := load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(files, func(f source) bool { return f.dir == served }) {
		t.Errorf("%s is not there: the rule about what start imports checks nothing", served)
	}
	for _, b := range check(files) {
		t.Error(b)
	}
}

// Each rule finds what breaks it, and nothing else.
func TestPlanted(t *testing.T) {
	t.Parallel()
	imports := func(paths ...string) string {
		text := "package p\n"
		for _, p := range paths {
			text += "import _ " + strconv.Quote(p) + "\n"
		}
		return text
	}
	tests := []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"allowed", map[string]string{
			"pkg/chain/a.go":                  imports("bytes", "golang.org/x/crypto/blake2b"),
			"pkg/zebrarpc/a.go":               imports(module+"/pkg/chain", "github.com/valyala/fastjson"),
			"pkg/index/a.go":                  imports(module+"/pkg/index/internal/x", "github.com/dgraph-io/badger/v4"),
			"pkg/index/a_test.go":             imports(module+"/pkg/zebrarpc/zebratest", "go.uber.org/goleak"),
			"pkg/index/b_test.go":             imports(),
			"cmd/zsidecar/main.go":            "package main\nimport \"os\"\nfunc main() { os.Exit(1) }\n",
			"cmd/zsidecar/internal/demo/a.go": imports(module+"/pkg/zebrarpc/zebratest", module+"/"+served, "google.golang.org/grpc"),
			served + "/a.go":                  imports(module+"/pkg/index", "github.com/prometheus/client_golang/prometheus"),
		}, nil},
		{"chain imports a library", map[string]string{"pkg/chain/a.go": imports("github.com/x/y")},
			[]string{"pkg/chain/a.go: pkg/chain may not import github.com/x/y"}},
		{"chain imports the index", map[string]string{"pkg/chain/a.go": imports(module + "/pkg/index")},
			[]string{"pkg/chain/a.go: pkg/chain may not import pkg/index"}},
		{"index knows Zebra", map[string]string{"pkg/index/a.go": imports(module + "/pkg/zebrarpc")},
			[]string{"pkg/index/a.go: pkg/index may not import pkg/zebrarpc"}},
		{"index knows gRPC", map[string]string{"pkg/index/a.go": imports("google.golang.org/grpc/codes")},
			[]string{"pkg/index/a.go: pkg/index may not import google.golang.org/grpc/codes"}},
		{"Badger elsewhere", map[string]string{"pkg/passthrough/a.go": imports("github.com/dgraph-io/badger/v4")},
			[]string{"pkg/passthrough/a.go: pkg/passthrough may not import github.com/dgraph-io/badger/v4"}},
		{"cobra in a package", map[string]string{"pkg/lightwallet/a.go": imports("github.com/spf13/cobra")},
			[]string{"pkg/lightwallet/a.go: pkg/lightwallet may not import github.com/spf13/cobra"}},
		{"a package imports cmd", map[string]string{"pkg/index/a.go": imports(module + "/cmd/zsidecar/internal/config")},
			[]string{"pkg/index/a.go: pkg/index may not import cmd/zsidecar/internal/config"}},
		{"zebrarpc imports its own simulation", map[string]string{"pkg/zebrarpc/a.go": imports(module + "/pkg/zebrarpc/zebratest")},
			[]string{"pkg/zebrarpc/a.go: pkg/zebrarpc may not import pkg/zebrarpc/zebratest"}},
		{"start reaches the simulation through the demo", map[string]string{
			served + "/a.go":                  imports(module + "/cmd/zsidecar/internal/demo"),
			"cmd/zsidecar/internal/demo/a.go": imports(module + "/pkg/zebrarpc/zebratest"),
		}, []string{"cmd/zsidecar/internal/demo: reaches pkg/zebrarpc/zebratest, which start may not"}},
		{"unknown room", map[string]string{"pkg/extra/a.go": imports("bytes")},
			[]string{"pkg/extra/a.go: is in no room of internal/lint/rules_test.go"}},
		{"init", map[string]string{"pkg/chain/a.go": "package p\nfunc init() {}\n"}, []string{"pkg/chain/a.go: has an init function"}},
		{"exit", map[string]string{"pkg/chain/a.go": "package p\nimport \"os\"\nfunc f() { os.Exit(1) }\n"},
			[]string{"pkg/chain/a.go: os.Exit outside of main.go"}},
		{"server", map[string]string{"cmd/zsidecar/internal/demo/a.go": "package p\nimport \"google.golang.org/grpc\"\nvar f = grpc.NewServer\n"},
			[]string{"cmd/zsidecar/internal/demo/a.go: grpc.NewServer outside of pkg/lightwallet"}},
		{"clock on the wall", map[string]string{"pkg/chain/a.go": "package p\nimport \"time\"\nvar t = time.Now().UnixNano()\n"},
			[]string{"pkg/chain/a.go: UnixNano: a time as a number jumps with the clock on the wall: keep the time.Time, whose differences do not"}},
		{"leaks", map[string]string{"pkg/chain/a_test.go": imports(), "pkg/chain/b_test.go": imports("testing")},
			[]string{"pkg/chain: has tests, and a TestMain without goleak or none"}},
		{"long file", map[string]string{"pkg/chain/a.go": "package p\n" + strings.Repeat("\n", maxFileLines)},
			[]string{"pkg/chain/a.go: has 441 lines, more than 440"}},
		{"long generated file", map[string]string{"proto/a.go": "// Code generated by x. DO NOT EDIT.\n\npackage p\n" + strings.Repeat("\n", maxFileLines)}, nil},
		{"long function", map[string]string{"pkg/chain/a.go": "package p\nfunc f() {" + strings.Repeat("\n", maxFunctionLines) + "}\n"},
			[]string{"pkg/chain/a.go: f has 67 lines, more than 66"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			planted := fstest.MapFS{}
			for name, text := range tt.files {
				planted[name] = &fstest.MapFile{Data: []byte(text)}
			}
			files, err := load(planted)
			if err != nil {
				t.Fatal(err)
			}
			if got := check(files); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}
