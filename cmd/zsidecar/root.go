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
	name           string   // under which it was started; zainod makes it behave as Zaino's program does
	file           string   // the file of settings that the command line names
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
		fmt.Fprintln(p.stderr, p.errorLine(coded.err))
	}
	return coded.code
}

// errorLine is what the user reads last.
func (p *program) errorLine(err error) string {
	if p.zaino() {
		return "Error: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return "zsidecar: " + err.Error()
}

func (p *program) rootCommand() *cobra.Command {
	start := p.startCommand()
	root := &cobra.Command{
		Use:   p.commandName(),
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
			if p.file != "" {
				start.SetContext(cmd.Context()) // Cobra gives it to the command of the line alone
				return start.RunE(start, nil)
			}
			return usage(cmd, errors.New("no command given: start, demo, check, bench, config, generate-config or version"))
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().BoolP("version", "V", false, "print the version")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, err) })
	root.AddCommand(start, p.demoCommand(), p.checkCommand(), p.benchCommand(), p.configCommand(), p.generateConfigCommand(), p.versionCommand())
	if p.zaino() {
		p.zainoFlags(root)
	}
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
func (p *program) load(cmd *cobra.Command, src config.Sources) (config.Config, []string, error) {
	cfg, warnings, err := config.Load(src)
	if err != nil && onlyFlags(err) {
		return cfg, nil, usage(cmd, err)
	}
	return cfg, warnings, err
}

// sources are the places that the settings of a command come from.
func (p *program) sources(cmd *cobra.Command) config.Sources {
	return config.Sources{File: p.configFile(), Zaino: p.zaino(), Env: p.env, Flags: cmd.Flags(), CacheDir: p.cacheDir}
}

// configFile is the file that was named, else the one of the environment, else Zaino's default one if the name asks for it.
func (p *program) configFile() string {
	if p.file != "" {
		return p.file
	}
	if file := lookup(p.env, config.EnvFile); file != "" {
		return file
	}
	if p.zaino() {
		return firstFile(zainoFiles(p.env))
	}
	return ""
}

// lookup returns a variable of the environment, the last one when there are several.
func lookup(env []string, name string) (value string) {
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
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
func (p *program) configFlag(flags *pflag.FlagSet) {
	flags.StringVarP(&p.file, "config", "c", "", "TOML `FILE` of settings, ours under [zsidecar] or Zaino's classic ones")
}
