package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/progress"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/sidecar"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

const (
	// DefaultBlocks above genesis make a build that can be watched and is soon over.
	DefaultBlocks = 25_000
	// MinBlocks leave something to seal, and the dense blocks in it.
	MinBlocks = 2_000
	// MaxBlocks are as many as a slow machine builds before the demo loses its patience.
	MaxBlocks = 200_000
	// LogLevel hides what the demo tells in its own words.
	LogLevel = slog.LevelWarn

	limit = 2 * time.Minute // for the whole of it: a machine that is too slow for this shows nothing
)

// Options are the parameters of Run.
type Options struct {
	Out    io.Writer
	Live   bool // a progress bar is shown, so that no lines about progress are needed
	Stay   bool // leave the server up until ctx ends
	Blocks int  // of the chain, above genesis; MinBlocks to MaxBlocks
	// New wires the program beside the node at a URL, with its index in a folder.
	New func(zebraURL, dataDir string) (*sidecar.Sidecar, error)
}

// Run shows everything once. It returns nil when all of it was as it should be.
func Run(ctx context.Context, o Options) (err error) {
	dir, err := os.MkdirTemp("", "zsidecar-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := demo{Options: o}
	d.say("A simulated Zebra makes a chain of %s synthetic blocks in the real format.", count(o.Blocks))
	if d.node, err = startNode(o.Blocks); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.node.Stop()) }()
	d.began = time.Now()
	if d.sidecar, err = o.New(d.node.URL(), dir); err != nil {
		return err
	}
	return d.run(ctx)
}

type demo struct {
	Options
	node    *zebratest.Node
	sidecar *sidecar.Sidecar
	wallet  *wallet
	began   time.Time // when zsidecar was started
}

// run runs the sidecar beside the script.
func (d *demo) run(ctx context.Context) error {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	var stopAsked time.Time
	g, serving := errgroup.WithContext(serving)
	g.Go(func() error { return d.sidecar.Run(serving) })
	g.Go(func() error {
		defer stop()
		defer func() { stopAsked = time.Now() }()
		if err := d.script(serving); err != nil {
			return err
		}
		if d.Stay {
			d.invite()
			<-serving.Done()
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		if ctx.Err() != nil { // every error that follows a signal comes from it
			return errors.New("interrupted before the end")
		}
		return err
	}
	d.say("Stopped in order in %s, and removed the index.", since(stopAsked))
	return nil
}

// script is the show itself.
func (d *demo) script(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demo is not over after %s", limit))
	defer cancel()
	if d.wallet, err = dial(d.sidecar.GRPCAddr()); err != nil {
		return err
	}
	defer d.wallet.conn.Close()
	restore := slowDown(d.node, d.Blocks)
	defer restore()

	d.say("zsidecar listens on %s (gRPC)%s.", d.sidecar.GRPCAddr(), d.andHTTP())
	tip, err := d.wallet.firstTip(ctx)
	if err != nil {
		return err
	}
	d.say("First answer %s after the start, through Zebra: the tip is %s.", since(d.began), tip)
	if err := d.build(ctx, tip); err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return cause
		}
		return err
	}
	restore()
	return d.follow(ctx)
}

// build shows the index build, and that nobody notices the switch.
func (d *demo) build(ctx context.Context, tip chain.BlockID) error {
	last := chain.Height(999)
	before, from, err := d.measured(ctx, tip.Height-last, tip.Height, true)
	if err != nil {
		return err
	}
	d.say("The newest %s blocks, while the index is being built: %s.", count(before.blocks), from)

	// One wallet reads the whole chain while the index grows under it.
	g, streamCtx := errgroup.WithContext(ctx)
	var through stream
	var throughFrom origins
	g.Go(func() (err error) {
		through, throughFrom, err = d.measured(streamCtx, 0, tip.Height, true)
		return err
	})
	g.Go(func() error { return d.awaitIndex(streamCtx) })
	if err := g.Wait(); err != nil {
		return err
	}
	d.say("Meanwhile one wallet read the whole chain: %s.", throughFrom)

	after, from, err := d.measured(ctx, tip.Height-last, tip.Height, true)
	if err != nil {
		return err
	}
	d.say("The newest %s blocks again: %s.", count(after.blocks), from)
	whole, _, err := d.measured(ctx, 0, tip.Height, true)
	if err != nil {
		return err
	}
	switch {
	case before.digest != after.digest:
		return fmt.Errorf("the blocks %d to %d are other bytes from the index than through Zebra", tip.Height-last, tip.Height)
	case through.digest != whole.digest || through.blocks != whole.blocks:
		return fmt.Errorf("the stream that ran meanwhile had other bytes than the index has")
	case from.zebra != 0:
		return fmt.Errorf("the index is complete, and still %d blocks came from Zebra", from.zebra)
	}
	d.say("Byte for byte the same before the switch, after it, and in the stream that ran meanwhile.")
	fast, from, err := d.measured(ctx, 0, tip.Height, false)
	if err != nil {
		return err
	}
	d.say("The whole chain from the index, into a client that only counts: %s, %.0f MB/s.", from, float64(fast.bytes)/1e6/fast.took.Seconds())
	return nil
}

// awaitIndex shows the build until the index is complete.
func (d *demo) awaitIndex(ctx context.Context) error {
	start, said := time.Now(), time.Now()
	for {
		s := d.sidecar.Health()
		if s.Index.State == "complete" {
			height := uint64(*s.Index.Height)
			d.say("The index is complete: %s blocks in %s, %s blocks/s (the node is slowed down so that it can be watched).",
				progress.Group(height+1), since(d.began), progress.Group(uint64(float64(height+1)/time.Since(d.began).Seconds())))
			return nil
		}
		if !d.Live && time.Since(said) >= 2*time.Second {
			said = time.Now()
			height := uint64(0)
			if s.Index.Height != nil {
				height = uint64(*s.Index.Height)
			}
			d.say("  building: height %s of %s after %s", progress.Group(height), count(d.Blocks), since(start))
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// follow shows a new block and a reorg.
func (d *demo) follow(ctx context.Context) error {
	c := d.node.Chain()
	if err := c.Extend(1, kind); err != nil {
		return err
	}
	took, err := d.awaitTip(ctx, c.Tip())
	if err != nil {
		return err
	}
	d.say("A new block: wallets see it %s after Zebra has it.", took)
	if err := c.Reorg(3, 4, kind); err != nil {
		return err
	}
	if took, err = d.awaitTip(ctx, c.Tip()); err != nil {
		return err
	}
	d.say("A reorg takes back 3 blocks and brings 4: wallets see the new tip after %s, %s.", took, c.Tip())
	read, from, err := d.measured(ctx, c.Tip().Height-9, c.Tip().Height, false)
	if err != nil {
		return err
	}
	if read.blocks != 10 || from.zebra != 0 {
		return fmt.Errorf("after the reorg the newest 10 blocks came as %s", from)
	}
	return nil
}

// awaitTip waits until wallets see the tip.
func (d *demo) awaitTip(ctx context.Context, want chain.BlockID) (time.Duration, error) {
	start := time.Now()
	for {
		got, err := d.wallet.tip(ctx)
		if err != nil {
			return 0, err
		}
		if got == want {
			return time.Since(start).Round(time.Millisecond), nil
		}
		if time.Since(start) > 10*time.Second {
			return 0, fmt.Errorf("wallets see the tip %s, and Zebra has had %s for %s", got, want, since(start))
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// invite says how to look around.
func (d *demo) invite() {
	addr := d.sidecar.GRPCAddr()
	d.say("\nThe server stays up; end it with Ctrl-C. Try:")
	d.say("  grpcurl -plaintext %s cash.z.wallet.sdk.rpc.CompactTxStreamer/GetLightdInfo", addr)
	d.say(`  grpcurl -plaintext -d '{"start":{"height":5},"end":{"height":9}}' %s cash.z.wallet.sdk.rpc.CompactTxStreamer/GetBlockRange`, addr)
	if http := d.sidecar.HTTPAddr(); http != "" {
		d.say("  curl http://%s/healthz http://%s/metrics", http, http)
	}
}
