package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/sidecar"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/index"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
)

// Exit codes of check besides exitOK.
const (
	exitProblems = 1
	exitNoCheck  = 2
)

const checkExample = `  # everything that can be seen without a node
  zsidecar check /var/lib/zsidecar

  # and a hundred blocks beside those of Zebra
  zsidecar check /var/lib/zsidecar --zebra http://127.0.0.1:8232 --zebra-cookie /var/lib/zebra/.cookie

  # fetch what is damaged again
  zsidecar check --repair --config /etc/zsidecar.toml`

// defaultSample is how many blocks of random heights are compared with the node's.
const defaultSample = 100

// checkFlags are those of check alone.
type checkFlags struct {
	json, repair, all bool
	sample            int
	seed              uint64
}

func (p *program) checkCommand() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Verify, and repair, an index that no process has open",
		Long: "Verify every row of the index in DIR, or in --data-dir: checksums, links between blocks, notes counted against tree sizes,\n" +
			"transparent parts. It changes nothing, unless --repair is given.\n\n" +
			"With --zebra, --sample, --seed or --all it compares blocks with Zebra's as well: hash, all bytes, tree sizes. A sample has random\n" +
			"heights and the edges of the index; --all asks for every block.\n\n" +
			"With --repair it fetches what is wrong, and just that, from Zebra (the one of the settings when no --zebra is given), deletes\n" +
			"what nothing needs, and verifies everything again. What cannot be repaired in place is cut off, and the next start builds on\n" +
			"from there. It may be stopped at any time and run again.\n\n" +
			"It ends with 0 when everything is right or has been repaired, 1 when something is wrong (it says what, where, and what to\n" +
			"do), 2 when it could not look or compare: no index, in use by another process, another format, Zebra away, wrong arguments.",
		Example: checkExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(cmd, fmt.Errorf("unexpected argument %q", args[1]))
			}
			return nil
		},
	}
	flags := cmd.Flags()
	p.configFlag(flags)
	config.AddFlags(flags, p.cacheDir, "data_dir", "zebra", "zebra_cookie", "zebra_user", "zebra_password_file", "log_format")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
	flags.BoolVar(&f.repair, "repair", false, "fetch what is wrong from Zebra again")
	flags.IntVar(&f.sample, "sample", defaultSample, "blocks of random heights that are compared with Zebra's")
	flags.BoolVar(&f.all, "all", false, "compare every block with Zebra's")
	flags.Uint64Var(&f.seed, "seed", 0, "choose the same random heights as another run did; 0: others each time")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && flags.Changed("data-dir") {
			return usage(cmd, errors.New("give either DIR or --data-dir, not both"))
		}
		if f.sample < 0 {
			return usage(cmd, fmt.Errorf("flag --sample = %d: must not be negative", f.sample))
		}
		if len(args) == 1 {
			if err := flags.Set("data-dir", args[0]); err != nil {
				return err
			}
		}
		return p.check(cmd, f)
	}
	return cmd
}

// check runs the command and turns what it found into an exit code.
func (p *program) check(cmd *cobra.Command, f checkFlags) error {
	cfg, _, err := p.load(cmd, p.sources(cmd))
	if err != nil {
		return &codedError{exitNoCheck, err}
	}
	p.limitMemory(slog.New(slog.DiscardHandler))
	report, err := p.look(cmd, cfg, f)
	if errors.Is(err, index.ErrLocked) && cfg.HTTP != "" {
		err = fmt.Errorf("%w; or ask it to look itself: curl -X POST http://%s/check", err, cfg.HTTP)
	}
	if err != nil {
		return &codedError{exitNoCheck, err}
	}
	if err := printReport(p.stdout, report, f.json); err != nil {
		return &codedError{exitNoCheck, err}
	}
	switch {
	case len(report.Problems) > 0:
		return &codedError{exitProblems, nil}
	case report.Node != nil && report.Node.Err != nil:
		return &codedError{exitNoCheck, nil}
	}
	return nil
}

// look checks or repairs.
func (p *program) look(cmd *cobra.Command, cfg config.Config, f checkFlags) (index.Report, error) {
	compare := f.all || cmd.Flags().Changed("zebra") || cmd.Flags().Changed("sample") || f.seed != 0
	log, screen := p.logging(cfg, p.stderr)
	o := index.CheckOptions{Sample: f.sample, All: f.all, Seed: cmp.Or(f.seed, 1+rand.Uint64N(1<<32))}
	var node index.BestChain
	if compare || f.repair {
		client, err := zebrarpc.New(sidecar.ZebraOptions(cfg))
		if err != nil {
			return index.Report{}, err
		}
		defer client.Close()
		node = bestChain{client}
		if compare {
			o.Compare = node
		}
	}
	note, stop := showProgress(cmd.Context(), log, screen, "checking the index")
	defer stop()
	o.Progress = note
	if !f.repair {
		return index.Check(cmd.Context(), cfg.DataDir, o)
	}
	return index.Repair(cmd.Context(), cfg.DataDir, node, sidecar.IndexOptions(cfg), o)
}

// bestChain is Zebra as check sees it: it gives up after ten seconds without an answer.
type bestChain struct{ *zebrarpc.Client }

// Blocks implements index.BestChain.
func (b bestChain) Blocks(ctx context.Context, from, to chain.Height) iter.Seq2[chain.Fetched, error] {
	return b.Client.Blocks(ctx, from, to, zebrarpc.Range)
}
