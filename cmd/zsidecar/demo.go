package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/demo"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/sidecar"
)

func (p *program) demoCommand() *cobra.Command {
	var (
		stay   bool
		blocks int
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole thing in half a minute, without a node",
		Long: "Start a simulated Zebra with synthetic blocks in the real format, and beside it exactly what `start` runs. It shows answers\n" +
			"through Zebra from the first moment, the index being built, the switch to it with the same bytes, the speed of a served\n" +
			"range, a new block and a reorg; every number is measured. The index is in a temporary folder that is removed at the end.\n\n" +
			"It ends with 0, with 1 when anything was not as it should be, different bytes before and after the switch above all, or with 2\n" +
			"when the flags are wrong.",
		Args: noArgs,
	}
	config.AddFlags(cmd.Flags(), p.cacheDir, "grpc", "http", "log_level", "log_format")
	cmd.Flags().BoolVar(&stay, "stay", false, "leave the server up at the end, until interrupted")
	cmd.Flags().IntVar(&blocks, "blocks", demo.DefaultBlocks, fmt.Sprintf("blocks of the simulated chain, %d to %d", demo.MinBlocks, demo.MaxBlocks))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if blocks < demo.MinBlocks || blocks > demo.MaxBlocks {
			return usage(cmd, fmt.Errorf("flag --blocks = %d: must be from %d to %d", blocks, demo.MinBlocks, demo.MaxBlocks))
		}
		// A node's address or cookie in the environment must not lead the demo astray, so that is not read.
		cfg, _, err := p.load(cmd, config.Sources{Flags: cmd.Flags(), CacheDir: p.cacheDir})
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("log-level") {
			cfg.LogLevel = demo.LogLevel
		}
		log, screen := p.logging(cfg, p.stderr)
		out := p.stdout
		if screen != nil {
			out = screen.Writer(p.stdout)
		}
		return demo.Run(cmd.Context(), demo.Options{
			Out: out, Live: screen != nil, Stay: stay, Blocks: blocks,
			New: func(zebra, dataDir string) (*sidecar.Sidecar, error) {
				cfg.Zebra, cfg.DataDir = zebra, dataDir
				return sidecar.New(p.sidecarOptions(cfg, log, screen))
			},
		})
	}
	return cmd
}
