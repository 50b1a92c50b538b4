package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/ops"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/progress"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/sidecar"
)

const startExample = `  # beside a Zebra on this machine, with its cookie
  zsidecar start --zebra-cookie ~/.cache/zebra/.cookie

  # for wallets of the whole network, a TLS proxy in front
  zsidecar start --zebra http://10.0.0.2:8232 --zebra-cookie /run/zebra/.cookie --grpc 0.0.0.0:9067 --data-dir /var/lib/zsidecar

  # answers from Zebra alone, nothing on disk
  zsidecar start --no-index`

func (p *program) startCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Serve wallets beside a Zebra node",
		Long: "Serve wallets beside a Zebra node until SIGINT or SIGTERM. It listens at once and answers as soon as Zebra does: from Zebra\n" +
			"first, and from the index in --data-dir as far as that is built.\n\n" +
			"Every flag is also a key of the TOML file (under [zsidecar], with _ for -) and of the environment (ZSIDECAR_GRPC and so\n" +
			"on). A flag is stronger than the environment, the environment is stronger than the file.\n\n" +
			"It ends with 0 after a signal, 1 when it cannot start or go on, 2 when the flags are wrong.",
		Example: startExample,
		Args:    noArgs,
	}
	p.configFlag(cmd.Flags())
	config.AddFlags(cmd.Flags(), p.cacheDir)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, warnings, err := p.load(cmd, p.sources(cmd))
		if err != nil {
			return err
		}
		log, screen := p.logging(cfg, p.startLog())
		for _, w := range warnings {
			log.Warn(w)
		}
		p.limitMemory(log)
		options := p.sidecarOptions(cfg, log, screen)
		s, err := sidecar.New(options)
		if err != nil {
			return err
		}
		mentionZaino(log, cfg)
		folder := cfg.DataDir
		if cfg.NoIndex {
			folder = "none"
		}
		log.Info("zsidecar starts", "version", options.Build.Version, "commit", options.Build.Commit, "zebra", cfg.Zebra, "data_dir", folder)
		return s.Run(cmd.Context())
	}
	return cmd
}

func (p *program) sidecarOptions(cfg config.Config, log *slog.Logger, screen *progress.Screen) sidecar.Options {
	v := version()
	return sidecar.Options{
		Config: cfg, Build: ops.Build{Version: v.version, Commit: v.commit, Go: v.goVer}, BuildDate: v.date,
		Log: log, Screen: screen, Zaino: p.zaino(),
	}
}

// logging returns the logger, and the screen when the log goes to a terminal: then lines and the progress bar share it.
func (p *program) logging(cfg config.Config, out io.Writer) (*slog.Logger, *progress.Screen) {
	screen := terminalScreen(out)
	if screen != nil {
		out = screen.Writer(out)
	}
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, options)), screen
	}
	return slog.New(slog.NewTextHandler(out, options)), screen
}

// terminalScreen returns the screen of a terminal, nil for anything else.
func terminalScreen(w io.Writer) *progress.Screen {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return progress.NewScreen(f, func() int {
		width, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 80
		}
		return width
	})
}
