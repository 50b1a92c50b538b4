package lint

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

const (
	module = "github.com/zsidecar/zsidecar"

	// About 400 lines a file and 60 a function are the aim; a tenth more is no reason to tear something apart.
	maxFileLines     = 440
	maxFunctionLines = 66
)

// room is a part of the module: a folder and everything below it, unless a longer path is a room of its own.
type room struct {
	path string
	// inside are the rooms that it may import, besides its own packages.
	inside []string
}

// rooms hold the one-way rule: a room imports only what stands here. Tests may import more.
func rooms() []room {
	return []room{
		{"pkg/chain", nil},
		{"pkg/chain/chaintest", []string{"pkg/chain"}},
		{"pkg/zebrarpc", []string{"pkg/chain"}},
		{"pkg/zebrarpc/indexer", []string{"pkg/chain", "proto"}},
		{"pkg/zebrarpc/zebratest", []string{"pkg/chain", "pkg/chain/chaintest", "pkg/jsonrpc/envelope"}},
		{"pkg/index", []string{"pkg/chain"}},
		{"pkg/passthrough", []string{"pkg/chain", "pkg/zebrarpc"}},
		{"pkg/mempool", []string{"pkg/chain"}},
		{"pkg/lightwallet", []string{"pkg/chain", "proto"}},
		{"pkg/jsonrpc", []string{"pkg/chain", "pkg/passthrough", "pkg/jsonrpc/envelope"}},
		{"pkg/jsonrpc/envelope", nil},
		{"pkg/jsonrpc/jsonrpctest", []string{"pkg/jsonrpc/envelope"}},
		{"pkg/bench", []string{"pkg/chain", "proto"}},
		{"pkg/bench/report", []string{"pkg/bench"}},
		{"proto", nil},
		{"cmd/zsidecar", []string{"pkg/chain", "pkg/zebrarpc", "pkg/zebrarpc/indexer", "pkg/index", "pkg/passthrough", "pkg/mempool", "pkg/lightwallet", "pkg/jsonrpc", "pkg/bench", "pkg/bench/report", "proto", "cmd/zsidecar/internal/demo",
			"cmd/zsidecar/internal/benchchain"}},
		{"cmd/zsidecar/internal/benchchain", []string{"pkg/chain", "pkg/chain/chaintest", "pkg/zebrarpc/zebratest", "cmd/zsidecar"}},
		{"cmd/zsidecar/internal/demo", []string{
			"pkg/chain", "pkg/chain/chaintest", "pkg/zebrarpc/zebratest", "proto", "cmd/zsidecar"}},
		{"deploy", nil},
		{"integration", nil},
		{"internal", nil},
		{"scripts", nil},
	}
}

// outside says who may import a library, by the start of its path.
func outside() map[string][]string {
	return map[string][]string{
		"google.golang.org/grpc":                {"pkg/lightwallet", "pkg/zebrarpc/indexer", "pkg/bench", "proto", "cmd/zsidecar/internal/demo"},
		"google.golang.org/protobuf":            {"pkg/chain", "pkg/lightwallet", "pkg/bench", "proto", "cmd/zsidecar/internal/demo"},
		"github.com/dgraph-io/badger":           {"pkg/index"},
		"github.com/valyala/fastjson":           {"pkg/zebrarpc", "pkg/zebrarpc/zebratest"},
		"github.com/hashicorp/go-retryablehttp": {"pkg/zebrarpc"},
		"github.com/spf13":                      {"cmd/zsidecar"},
		"github.com/prometheus":                 {"cmd/zsidecar"},
		"github.com/pelletier":                  {"cmd/zsidecar"},
		"github.com/schollz":                    {"cmd/zsidecar"},
		"github.com/go-analyze":                 {"pkg/bench/report"},
	}
}

// chainLibraries is all that pkg/chain may import besides the standard library.
func chainLibraries() []string {
	return []string{"golang.org/x/crypto/blake2b", "google.golang.org/protobuf/encoding/protowire"}
}

// served is the package that `start` runs: what it imports, directly or not, holds no simulated node.
const served = "cmd/zsidecar/internal/sidecar"

// simulated are the packages that only the demo, bench chain and tests may reach.
func simulated() []string {
	return []string{"pkg/zebrarpc/zebratest", "pkg/chain/chaintest", "pkg/jsonrpc/jsonrpctest"}
}

// wallClock are the files that tell somebody the time of day.
func wallClock() []string {
	return []string{"cmd/zsidecar/internal/ops/metrics.go", "pkg/zebrarpc/zebratest/mempool.go"}
}

// roomOf returns the room of a folder, or false.
func roomOf(dir string) (room, bool) {
	var found room
	for _, r := range rooms() {
		if (dir == r.path || strings.HasPrefix(dir, r.path+"/")) && len(r.path) > len(found.path) {
			found = r
		}
	}
	return found, found.path != ""
}

// check returns every broken rule, as "file: what".
func check(files []source) []string {
	var broken []string
	for _, f := range files {
		if f.test {
			continue
		}
		broken = append(broken, checkImports(f)...)
		broken = append(broken, checkCode(f)...)
	}
	broken = append(broken, checkServed(files)...)
	broken = append(broken, checkLeaks(files)...)
	slices.Sort(broken)
	return slices.Compact(broken)
}

func checkImports(f source) (broken []string) {
	from, ok := roomOf(f.dir)
	if !ok {
		return []string{fmt.Sprintf("%s: is in no room of internal/lint/rules_test.go", f.path)}
	}
	for _, path := range f.imports {
		if inside, own := strings.CutPrefix(path, module+"/"); own {
			to, known := roomOf(inside)
			if !known || to.path != from.path && !slices.Contains(from.inside, to.path) {
				broken = append(broken, fmt.Sprintf("%s: %s may not import %s", f.path, from.path, inside))
			}
			continue
		}
		for prefix, allowed := range outside() {
			if strings.HasPrefix(path, prefix) && !slices.Contains(allowed, from.path) {
				broken = append(broken, fmt.Sprintf("%s: %s may not import %s", f.path, from.path, path))
			}
		}
		if from.path == "pkg/chain" && strings.Contains(strings.SplitN(path, "/", 2)[0], ".") && !slices.Contains(chainLibraries(), path) {
			broken = append(broken, fmt.Sprintf("%s: pkg/chain may not import %s", f.path, path))
		}
	}
	return broken
}

// checkServed follows the imports of what start runs.
func checkServed(files []source) (broken []string) {
	imports := make(map[string][]string)
	for _, f := range files {
		if f.test {
			continue
		}
		for _, path := range f.imports {
			if inside, own := strings.CutPrefix(path, module+"/"); own {
				imports[f.dir] = append(imports[f.dir], inside)
			}
		}
	}
	reached := map[string]bool{served: true}
	for queue := []string{served}; len(queue) > 0; queue = queue[1:] {
		for _, next := range imports[queue[0]] {
			if slices.Contains(simulated(), next) {
				broken = append(broken, fmt.Sprintf("%s: reaches %s, which start may not", queue[0], next))
			}
			if !reached[next] {
				reached[next] = true
				queue = append(queue, next)
			}
		}
	}
	return broken
}

// checkLeaks finds the folders whose tests do not look for goroutines that they left running.
func checkLeaks(files []source) (broken []string) {
	looks := make(map[string]bool)
	for _, f := range files {
		if strings.HasSuffix(f.path, "_test.go") {
			looks[f.dir] = looks[f.dir] || slices.Contains(f.imports, "go.uber.org/goleak")
		}
	}
	for dir, ok := range looks {
		if !ok {
			broken = append(broken, dir+": has tests, and a TestMain without goleak or none")
		}
	}
	return broken
}

func checkCode(f source) (broken []string) {
	if f.generated {
		return nil
	}
	if f.lines > maxFileLines {
		broken = append(broken, fmt.Sprintf("%s: has %d lines, more than %d", f.path, f.lines, maxFileLines))
	}
	for _, decl := range f.ast.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if fn.Name.Name == "init" && fn.Recv == nil {
			broken = append(broken, fmt.Sprintf("%s: has an init function", f.path))
		}
		if n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1; n > maxFunctionLines {
			broken = append(broken, fmt.Sprintf("%s: %s has %d lines, more than %d", f.path, fn.Name.Name, n, maxFunctionLines))
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if call, ok := n.(*ast.SelectorExpr); ok {
			if why := forbiddenCall(f, call); why != "" {
				broken = append(broken, f.path+": "+why)
			}
		}
		return true
	})
	return broken
}

// forbiddenCall knows the calls that have one place.
func forbiddenCall(f source, sel *ast.SelectorExpr) string {
	switch sel.Sel.Name {
	case "Unix", "UnixMilli", "UnixMicro", "UnixNano":
		if !slices.Contains(wallClock(), f.path) {
			return sel.Sel.Name + ": a time as a number jumps with the clock on the wall: keep the time.Time, whose differences do not"
		}
	}
	pkg, ok := sel.X.(*ast.Ident)
	if !ok || pkg.Obj != nil { // Obj is set for a local name
		return ""
	}
	call := pkg.Name + "." + sel.Sel.Name
	switch call {
	case "os.Exit", "log.Fatal", "log.Fatalf", "log.Fatalln", "log.Panic", "log.Panicf":
		if !strings.HasSuffix(f.path, "/main.go") {
			return call + " outside of main.go"
		}
	case "grpc.NewServer":
		if !strings.HasPrefix(f.dir, "pkg/lightwallet") {
			return call + " outside of pkg/lightwallet"
		}
	case "slog.SetDefault", "prometheus.MustRegister", "prometheus.DefaultRegisterer":
		return call + ": a package-level variable of somebody else is changed or read"
	}
	return ""
}
