package benchchain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/progress"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest/longchain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

const (
	// DefaultBlocks are enough to see what grows with a chain.
	DefaultBlocks = 1_000_000
	// DefaultListen is where zebrad listens on the test network.
	DefaultListen = "127.0.0.1:18232"

	MinBlocks = longchain.MinBlocks
	MaxBlocks = longchain.MaxBlocks
)

// Options are the parameters of Run.
type Options struct {
	Kind       string // the name of a longchain.Kind
	Blocks     int    // genesis included; MinBlocks to MaxBlocks
	Seed       uint64
	WithoutNU7 bool

	Dir    string // where the chain's file is kept; made if it is not there
	Listen string // an IP address of this machine alone, and a port
	Stats  bool   // print the figures, and serve nothing

	Out      io.Writer
	Progress func(done, total int64) // may be nil
	// Computed, when not nil, is called when the hashes are there, before anything is printed.
	Computed func()
}

// Check says what is wrong with the options of the command line.
func (o Options) Check() error {
	if _, err := longchain.ParseKind(o.Kind); err != nil {
		return fmt.Errorf("flag --kind: %w", err)
	}
	if o.Blocks < MinBlocks || o.Blocks > MaxBlocks {
		return fmt.Errorf("flag --blocks = %d: must be from %d to %d", o.Blocks, MinBlocks, MaxBlocks)
	}
	if o.Dir == "" {
		return errors.New("flag --cache is not set, and there is no folder for caches here")
	}
	addr, err := netip.ParseAddrPort(o.Listen)
	if err != nil {
		return fmt.Errorf("flag --listen = %q: must be an IP address and a port, such as %s", o.Listen, DefaultListen)
	}
	if !addr.Addr().IsLoopback() {
		return fmt.Errorf("flag --listen = %q: the simulated node has no password, and listens on addresses of this machine alone, such as %s",
			o.Listen, DefaultListen)
	}
	return nil
}

// Run opens the chain, prints its figures, and serves it until ctx ends.
func Run(ctx context.Context, o Options) (err error) {
	kind, err := longchain.ParseKind(o.Kind)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("flag --cache: %w", err)
	}
	long, err := longchain.Open(ctx, longchain.Options{
		Kind: kind, Blocks: o.Blocks, Seed: o.Seed, WithoutNU7: o.WithoutNU7, Dir: o.Dir,
		Progress: func(done, total int) {
			if o.Progress != nil {
				o.Progress(int64(done), int64(total))
			}
		},
	})
	if o.Computed != nil {
		o.Computed()
	}
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted while the chain's hashes were computed: nothing is kept of them, and the next start begins anew")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, long.Close()) }()
	if err := describe(o.Out, kind, long); err != nil || o.Stats {
		return err
	}
	// Zaino knows the activation heights of the other networks by heart, and starts on no other ones.
	c, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Regtest, Upgrades: long.Upgrades(), Base: long})
	if err != nil {
		return err
	}
	node := zebratest.NewNode(c, zebratest.NodeOptions{Listen: o.Listen})
	if err := node.Start(); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "Zebra's JSON-RPC is on %s until interrupted: zsidecar start --zebra %[1]s\n", node.URL())
	<-ctx.Done()
	return node.Stop()
}

// describe prints the figures of a chain.
func describe(out io.Writer, kind longchain.Kind, c *longchain.Chain) error {
	tip := chain.Height(c.Len() - 1)
	hash, sizes, err := c.At(tip)
	if err != nil {
		return err
	}
	file, err := os.Stat(c.Path())
	if err != nil {
		return err
	}
	s, count := c.Stats(), progress.Group
	fmt.Fprintf(out, "%s-like chain: %s blocks, %s of them with 1 to 2 MB of spam, %s transactions, %s bytes\n",
		kind, count(uint64(c.Len())), count(uint64(s.Dense)), count(s.Transactions), count(s.Bytes))
	fmt.Fprintf(out, "tree sizes: sapling %s, orchard %s, ironwood %s\n",
		count(uint64(sizes.Sapling)), count(uint64(sizes.Orchard)), count(uint64(sizes.Ironwood)))
	fmt.Fprint(out, "upgrades:")
	for _, u := range c.Upgrades() {
		fmt.Fprintf(out, " %s %d", u.Name, u.Height)
	}
	fmt.Fprintf(out, "\ntip: %s\n", chain.BlockID{Height: tip, Hash: hash})
	made := c.Made()
	if made == "" {
		made = "verified"
	}
	fmt.Fprintf(out, "hashes: %s, %s bytes, %s\n", c.Path(), count(uint64(file.Size())), made)
	return nil
}
