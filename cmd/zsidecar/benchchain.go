package main

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/benchchain"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
)

const benchChainExample = `  # a million blocks like those of the test network, for any indexer that reads from Zebra
  zsidecar bench chain

  # a main network with all its eras, for an indexer that does not know NU7
  zsidecar bench chain --kind mainnet --blocks 100000 --without-nu7`

func (p *program) benchChainCommand() *cobra.Command {
	o := benchchain.Options{}
	cmd := &cobra.Command{
		Use:   "chain",
		Short: "Serve a large synthetic chain as Zebra does",
		Long: "Serve a chain that follows from its kind, its length and a seed over Zebra's JSON-RPC, until interrupted. Blocks are made when\n" +
			"they are asked for; their hashes are computed once, in some seconds per million, and kept in a file of 60 to 75 bytes a block.\n" +
			"Upgrades activate at fixed parts of the length whatever the kind, and the genesis block is the chain's own. The node names\n" +
			"the network \"test\", as one on regtest does: where an indexer wants a network, that is the one to give.\n" +
			"Links, Merkle roots, transaction ids and tree sizes are right and everything parses strictly, but nothing in it is signed or proved.\n\n" +
			"Kinds:\n" +
			"  testnet  99 of 100 blocks have a coinbase alone, of two outputs (55 %) or four (45 %)\n" +
			"  mainnet  transparent transactions, then the other pools as they came; a time of spam with blocks of 1 to 2 MB; after NU7 blocks\n" +
			"           every 25 seconds, some with 330 actions\n\n" +
			"It ends with 0, with 1 on an error, or with 2 when the flags are wrong.",
		Example: benchChainExample,
		Args:    noArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Kind, "kind", "testnet", "`KIND` of the chain: testnet or mainnet")
	flags.IntVar(&o.Blocks, "blocks", benchchain.DefaultBlocks, fmt.Sprintf("blocks with genesis, %d to %d", benchchain.MinBlocks, benchchain.MaxBlocks))
	flags.Uint64Var(&o.Seed, "seed", 1, "another seed gives another chain")
	flags.BoolVar(&o.WithoutNU7, "without-nu7", false, "let NU6.3 be the last upgrade")
	flags.StringVar(&o.Listen, "listen", benchchain.DefaultListen, "`ADDR` of the JSON-RPC, on this machine")
	flags.StringVar(&o.Dir, "cache", "", "`DIR` of the files with hashes; a folder in the user's cache when not given")
	flags.BoolVar(&o.Stats, "stats", false, "print the chain's figures, and serve nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if p.cacheDir != "" {
			o.Dir = cmp.Or(o.Dir, filepath.Join(p.cacheDir, "zsidecar-bench"))
		}
		if err := o.Check(); err != nil {
			return usage(cmd, err)
		}
		log, screen := p.logging(config.Config{}, p.stderr)
		o.Out = p.stdout
		note, stop := showProgress(cmd.Context(), log, screen, "computing the chain's hashes")
		defer stop()
		o.Progress, o.Computed = note, stop
		return benchchain.Run(cmd.Context(), o)
	}
	return cmd
}
