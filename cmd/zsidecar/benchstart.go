package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// benchStartFlags are those of bench run about the servers that it starts, and the node behind them.
type benchStartFlags struct {
	starts, dirs, completes []string
	logs                    string
	buildTime               time.Duration
	node                    bench.NodeOptions
	mempool                 int
}

func (f *benchStartFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.starts, "start", nil, "start a target here, as `NAME=COMMAND`: one program with its arguments, as for the shell; {dir} "+
		"in it stands for the directory of --dir, of which each build then gets a new one of its own")
	flags.StringArrayVar(&f.dirs, "dir", nil, "where a target that is started here keeps its index, as `NAME=DIR`: empty or absent before a build")
	flags.StringArrayVar(&f.completes, "complete", nil, "an address that says 200 when the index of a target is complete, as `NAME=URL`, such as that of "+
		"zsidecar's /healthz; without one the index is complete when the target names the node's tip")
	flags.StringVar(&f.logs, "logs", "", "`FOLDER` for the output of targets that are started here; a temporary one when not given")
	flags.DurationVar(&f.buildTime, "build-time", bench.DefaultBuildTime, "how long a target that is started here may take until its index is complete")
	flags.StringVar(&f.node.URL, "zebra", "", "`URL` of the JSON-RPC server of the node behind the targets")
	flags.StringVar(&f.node.CookieFile, "zebra-cookie", "", "`FILE` of the node's cookie")
	flags.StringVar(&f.node.User, "zebra-user", "", "`USER` at the node, in place of a cookie")
	flags.StringVar(&f.node.PasswordFile, "zebra-password-file", "", "`FILE` with the password of that user")
	flags.IntVar(&f.mempool, "mempool", 0, "fill the mempool of a simulated node with `N` made-up transactions for the scenario mempool")
	flags.StringVar(&f.node.MineTo, "mine-to", "", "`ADDRESS` that blocks mined at the node pay; the node's own when not given")
}

// apply puts the flags into options whose targets are known.
func (f *benchStartFlags) apply(o *bench.Options) error {
	o.Node, o.Logs, o.BuildTime, o.Mempool = f.node, f.logs, f.buildTime, f.mempool
	if f.buildTime <= 0 || f.mempool < 0 {
		return errors.New("flag --build-time must be above 0, and --mempool not below")
	}
	starts := make(map[string]*bench.StartOptions)
	err := eachNamed("start", f.starts, func(name, command string) error {
		starts[name] = &bench.StartOptions{Command: command}
		return nil
	})
	ofStarted := func(flag string, values []string, set func(*bench.StartOptions, string)) error {
		return eachNamed(flag, values, func(name, value string) error {
			if starts[name] == nil {
				return fmt.Errorf("flag --%s names %q, and no --start does", flag, name)
			}
			set(starts[name], value)
			return nil
		})
	}
	err = errors.Join(err,
		ofStarted("dir", f.dirs, func(s *bench.StartOptions, v string) { s.Dir = v }),
		ofStarted("complete", f.completes, func(s *bench.StartOptions, v string) { s.Complete = v }))
	for i, t := range o.Targets {
		o.Targets[i].Start = starts[t.Name]
		delete(starts, t.Name)
	}
	for name := range starts {
		err = errors.Join(err, fmt.Errorf("flag --start names %q, and no --target is called so", name))
	}
	return err
}

// eachNamed reads the values NAME=VALUE of a flag, one for each name.
func eachNamed(flag string, values []string, use func(name, value string) error) error {
	seen := make(map[string]bool)
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" || value == "" {
			return fmt.Errorf("flag --%s = %q: must be NAME=VALUE", flag, v)
		}
		if seen[name] {
			return fmt.Errorf("flag --%s names %q twice", flag, name)
		}
		seen[name] = true
		if err := use(name, value); err != nil {
			return err
		}
	}
	return nil
}
