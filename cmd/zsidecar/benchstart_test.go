package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// TestBenchStartFlags puts the flags about servers that are started to the targets that they name.
func TestBenchStartFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string // an error; "" means none
	}{
		{[]string{"--start", "a=x -c y=z", "--dir", "a=/d", "--complete", "a=http://h/?q=1", "--zebra", "http://n"}, ""},
		{[]string{"--start", "c=x"}, `flag --start names "c", and no --target is called so`},
		{[]string{"--dir", "a=/d"}, `flag --dir names "a", and no --start does`},
		{[]string{"--start", "a=x", "--complete", "b=u"}, `flag --complete names "b", and no --start does`},
		{[]string{"--start", "a"}, `flag --start = "a": must be NAME=VALUE`},
		{[]string{"--start", "=x"}, `flag --start = "=x": must be NAME=VALUE`},
		{[]string{"--start", "a=x", "--start", "b=y", "--start", "a=z"}, `flag --start names "a" twice`},
		{[]string{"--start", "a=x", "--dir", "a=/d", "--dir", "a=/e"}, `flag --dir names "a" twice`},
		{[]string{"--start", "a=x", "--complete", "a=u", "--complete", "a=u"}, `flag --complete names "a" twice`},
		{[]string{"--build-time", "0s"}, "flag --build-time must be above 0"},
		{[]string{"--mempool", "-1"}, "--mempool not below"},
	} {
		var f benchStartFlags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.add(flags)
		if err := flags.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		o := bench.Options{Targets: []bench.TargetOptions{{Name: "a"}, {Name: "b"}}}
		err := f.apply(&o)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q: %v, want %s", tt.args, err, tt.want)
			}
			continue
		}
		want := &bench.StartOptions{Command: "x -c y=z", Dir: "/d", Complete: "http://h/?q=1"}
		if err != nil || !reflect.DeepEqual(o.Targets[0].Start, want) || o.Targets[1].Start != nil || o.Node.URL != "http://n" {
			t.Errorf("%q: %+v, %v, want %+v for a", tt.args, o, err, want)
		}
	}
}
