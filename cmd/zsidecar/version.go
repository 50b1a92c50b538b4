package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version that this source becomes.
const release = "0.1.0"

// buildVersion says what was built.
type buildVersion struct {
	version string
	commit  string // "unknown" when the build had no repository; "-dirty" at its end when there were changes
	date    string // of the commit, RFC 3339; empty when unknown
	goVer   string
}

// version reads what the Go toolchain noted in the binary.
func version() buildVersion {
	v := buildVersion{version: release, commit: "unknown", goVer: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	dirty := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.commit = s.Value
		case "vcs.time":
			v.date = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "-dirty"
			}
		}
	}
	v.commit += dirty
	return v
}

func (v buildVersion) String() string {
	return fmt.Sprintf("zsidecar %s, commit %s, %s %s/%s", v.version, v.commit, v.goVer, runtime.GOOS, runtime.GOARCH)
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go release",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.stdout, version())
			return err
		},
	}
}
