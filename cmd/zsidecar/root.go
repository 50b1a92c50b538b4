package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
)

// Exit codes. The check command gives 1 and 2 meanings of its own.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// program is the command line and what it stands in.
type program struct {
	env            []string // as os.Environ gives it
	cacheDir       string   // the user's cache folder; empty: there is none
	stdout, stderr io.Writer
}

// codedError carries an exit code. Its error may be nil when everything was said already.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return fmt.Sprint(e.err) }
func (e *codedError) Unwrap() error { return e.err }

// usage marks an error as the caller's, with a pointer to the help of the command.
func usage(cmd *cobra.Command, err error) error {
	return &codedError{exitUsage, fmt.Errorf("%w\nsee %s --help", err, cmd.CommandPath())}
}

// run executes one command line and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.rootCommand()
	root.SetArgs(args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := root.ExecuteContext(ctx)
	var coded *codedError
	switch {
	case err == nil:
		return exitOK
	case !errors.As(err, &coded):
		coded = &codedError{exitError, err}
	}
	if coded.err != nil {
		fmt.Fprintln(p.stderr, "zsidecar:", coded.err)
	}
	return coded.code
}

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "zsidecar",
		Short: "Serves Zcash light wallets beside a Zebra node",
		Long: "zsidecar stands beside a Zebra node and serves light wallets (gRPC CompactTxStreamer): from the first second by asking\n" +
			"Zebra, and from its own index as soon as that is built.",
		Version:       version().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(cmd, fmt.Errorf("unknown command %q", args[0]))
			}
			return usage(cmd, errors.New("no command given: start, demo, check or version"))
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().BoolP("version", "V", false, "print the version")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, err) })
	root.AddCommand(p.startCommand(), p.demoCommand(), p.checkCommand(), p.versionCommand())
	return root
}

// noArgs refuses arguments that are no flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(cmd, fmt.Errorf("unexpected argument %q", args[0]))
	}
	return nil
}

// load reads the settings for a command. Wrong flags are usage errors.
func (p *program) load(cmd *cobra.Command, file string, env []string) (config.Config, []string, error) {
	if file == "" {
		for _, entry := range env {
			if value, ok := strings.CutPrefix(entry, config.EnvFile+"="); ok {
				file = value
			}
		}
	}
	cfg, warnings, err := config.Load(config.Sources{File: file, Env: env, Flags: cmd.Flags(), CacheDir: p.cacheDir})
	if err != nil && onlyFlags(err) {
		return cfg, nil, usage(cmd, err)
	}
	return cfg, warnings, err
}

// onlyFlags tells whether every joined error is about a flag.
func onlyFlags(err error) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return false
	}
	for _, e := range joined.Unwrap() {
		var value *config.ValueError
		if !errors.As(e, &value) || value.Layer != config.FromFlag {
			return false
		}
	}
	return true
}

// configFlag adds --config.
func configFlag(flags *pflag.FlagSet, file *string) {
	flags.StringVarP(file, "config", "c", "", "TOML `FILE` of settings, ours under [zsidecar] or Zaino's classic ones")
}
