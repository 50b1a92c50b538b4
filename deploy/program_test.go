package deploy

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The program for the other architecture runs: its settings, and the demo, which builds an index and serves it. An emulator runs it.
func TestArm64(t *testing.T) {
	t.Parallel()
	emulator := tool(t, "qemu-aarch64-static")
	program := filepath.Join(t.TempDir(), "zsidecar")
	output(t, "image/build.sh", "arm64", program)
	if got := output(t, emulator, program, "--version"); !strings.HasPrefix(got, "zsidecar "+release(t)+",") || !strings.HasSuffix(got, " linux/arm64\n") {
		t.Errorf("--version: %s", got)
	}
	if got, want := output(t, emulator, program, "config", "check"), output(t, binary, "config", "check"); got != want {
		t.Errorf("config check:\n%s\nwant\n%s", got, want)
	}
	got := output(t, emulator, program, "demo", "--blocks", "2000", "--grpc", freeAddr(t), "--http", freeAddr(t))
	for _, want := range []string{"The index is complete: 2,001 blocks", "Byte for byte the same before the switch", "Stopped in order"} {
		if !strings.Contains(got, want) {
			t.Errorf("the demo does not say %q:\n%s", want, got)
		}
	}
}

// The list of what the program is made of has every module that is linked, and nearly every licence.
func TestSBOM(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sbom.json")
	output(t, "../scripts/sbom.sh", file, binary)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Format   string `json:"bomFormat"`
		Metadata struct {
			Component struct{ Name, Version string }
		}
		Components []struct {
			Name, Version string
			Evidence      struct{ Licenses []any }
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if c := list.Metadata.Component; list.Format != "CycloneDX" || c.Name != "github.com/zsidecar/zsidecar" || c.Version != "v"+release(t) {
		t.Errorf("the list is %s of %+v", list.Format, c)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	var linked, listed, silent []string
	for _, m := range info.Deps {
		linked = append(linked, m.Path+" "+m.Version)
	}
	for _, c := range list.Components {
		listed = append(listed, c.Name+" "+c.Version)
		if len(c.Evidence.Licenses) == 0 {
			silent = append(silent, c.Name)
		}
	}
	slices.Sort(linked)
	slices.Sort(listed)
	if !slices.Equal(linked, listed) || len(linked) == 0 {
		t.Errorf("linked are\n%q, listed are\n%q", linked, listed)
	}
	if len(silent) > len(listed)/10 {
		t.Errorf("no licence was found of %q", silent)
	}
}
