package deploy

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The program for the other architecture runs: it says what it is, reads its settings, makes an index, listens, and ends in order. An
// emulator runs it, so that nothing here may be in a hurry.
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
	data, httpAddr := filepath.Join(t.TempDir(), "data"), freeAddr(t)
	server := run(t, time.Minute, map[string]string{"HOME": t.TempDir()}, emulator, program, "start", "--data-dir", data,
		"--grpc", freeAddr(t), "--http", httpAddr, "--zebra", "http://"+freeAddr(t))
	await(t, "it lives", time.Minute, func() bool { return status(t, httpAddr, "/livez") == 200 })
	await(t, "it waits for Zebra", time.Minute, func() bool { return strings.Contains(server.out.String(), "zebra cannot be asked") })
	await(t, "it makes an index", time.Minute, func() bool { _, err := os.Stat(filepath.Join(data, "MANIFEST")); return err == nil })
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
