package report

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// names lists a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(in("old.json"), []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("old.json", in("r.json")); err != nil {
		t.Fatal(err)
	}
	f := Files{JSON: in("r.json"), CSV: in("r.csv"), Markdown: in("r.md"), HTML: in("r.html"), SVG: in("svg")}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); got != "old.json r.json svg" {
		t.Errorf("the check left %q", got)
	}
	if old, _ := os.ReadFile(in("old.json")); string(old) != "old" {
		t.Errorf("the check wrote %q", old)
	}
	if err := f.Write(sample()); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); got != "old.json r.csv r.html r.json r.md svg" {
		t.Errorf("written: %q", got)
	}
	if info, err := os.Lstat(in("r.json")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
	file, err := os.Open(in("old.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := ReadJSON(file); err != nil {
		t.Error(err)
	}
	if n := len(strings.Fields(names(t, in("svg")))); n != 4 {
		t.Errorf("%d plots", n)
	}
}

func TestFilesKeepWhatWas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := Files{JSON: filepath.Join(dir, "r.json"), CSV: filepath.Join(dir, "r.csv")}
	if err := os.WriteFile(f.JSON, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := sample()
	r.Measurements[0].Rounds[0][bench.P50] = math.NaN()
	if err := f.Write(r); err == nil || !strings.Contains(err.Error(), f.JSON) {
		t.Errorf("%v does not name %s", err, f.JSON)
	}
	if got, err := os.ReadFile(f.JSON); err != nil || string(got) != "old" {
		t.Errorf("%q, %v", got, err)
	}
	if got := names(t, dir); got != "r.csv r.json" {
		t.Errorf("written: %q", got)
	}
}

func TestFilesCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		f    Files
		want string
	}{
		"missing folder":     {Files{JSON: filepath.Join(dir, "no", "r.json")}, "--json: create " + filepath.Join(dir, "no", "r.json") + ": no such file"},
		"a folder":           {Files{CSV: dir}, "is a folder: name a file"},
		"folder to be":       {Files{HTML: dir + "/new/"}, "names no file"},
		"file for a folder":  {Files{SVG: file}, "--svg: "},
		"below a file":       {Files{SVG: filepath.Join(file, "x")}, "--svg: "},
		"twice":              {Files{JSON: file, HTML: dir + "/../" + filepath.Base(dir) + "/file"}, "--json and --html name the same file"},
		"twice, not yet":     {Files{CSV: filepath.Join(dir, "n"), Markdown: dir + "/./n"}, "--csv and --markdown name the same file"},
		"file and folder":    {Files{HTML: filepath.Join(dir, "n"), SVG: dir + "/./n"}, "--html and --svg name the same path"},
		"two wrong":          {Files{JSON: dir, CSV: dir}, "\n--csv: "},
		"nothing":            {Files{}, ""},
		"twice into nothing": {Files{JSON: os.DevNull, CSV: os.DevNull}, ""},
	} {
		err := c.f.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := (Files{HTML: dir + "/./file"}).Check(file); err == nil || !strings.Contains(err.Error(), "--html: "+dir+"/./file is the result that is drawn") {
		t.Errorf("over the result: %v", err)
	}
	if err := (Files{HTML: os.DevNull}).Check(os.DevNull, file); err != nil {
		t.Errorf("from nothing into nothing: %v", err)
	}
	if err := (Files{JSON: os.DevNull}).Write(sample()); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s was replaced: %v", os.DevNull, err)
	}
	if got := names(t, dir); got != "file" {
		t.Errorf("left behind: %q", got)
	}
}
