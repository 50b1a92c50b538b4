package sidecar

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/ops"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/progress"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/index"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
)

// openAgain is the pause between two attempts to open the index without room for it.
const openAgain = time.Second

// IndexOptions are the settings of an index, whatever is done with it. The caller adds a logger.
func IndexOptions(c config.Config) index.Options {
	minFree := int64(c.MinFreeBytes)
	if minFree == 0 {
		minFree = -1 // none; 0 would mean the default
	}
	return index.Options{SealDepth: chain.Height(c.SealDepth), SegmentBlocks: c.SegmentBlocks, MinFree: minFree, Network: c.Network}
}

// openIndex opens the index; without room on the disk, or for open files, it waits, while wallets are answered from Zebra. It returns nil
// when ctx ends first.
func (s *Sidecar) openIndex(ctx context.Context) (*index.Store, error) {
	o := IndexOptions(s.Config)
	o.Logger = s.Log
	for {
		store, err := index.Open(s.Config.DataDir, o)
		if !index.NoRoom(err) {
			return store, err
		}
		if s.noRoom.Swap(&err) == nil {
			s.Log.Warn("the index waits to be opened", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(openAgain):
		}
	}
}

// buildIndex opens the index, brings it into the joined source, and grows it until ctx ends. The store is closed by Sidecar.close, when
// nobody reads it any more.
func (s *Sidecar) buildIndex(ctx context.Context) error {
	store, err := s.openIndex(ctx)
	if store == nil {
		return err
	}
	if info, ok := store.NodeInfo(); ok {
		s.wallets.Remember(info)
	}
	s.store.Store(store)
	s.joined.SetIndex(indexed{store, s.client})
	close(s.opened)
	builder := index.NewBuilder(store, node{s.client}, index.BuilderOptions{ConfirmDeep: s.ConfirmDeep, Logger: s.Log.With("zebra", s.client.URL())})
	s.builder.Store(builder)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return builder.Run(ctx) })
	g.Go(func() error { return refuseOtherNetwork(ctx, builder) })
	return g.Wait()
}

// refuseOtherNetwork fails when the index turns out to be another network's as soon as the node answers: nothing could be right then.
// Once the two have agreed it looks no more, since a node that is replaced later is to be waited for.
func refuseOtherNetwork(ctx context.Context, builder *index.Builder) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		switch p := builder.Progress(); {
		case errors.Is(p.Err, index.ErrOtherNetwork):
			return p.Err
		case p.State == index.StateBuilding, p.State == index.StateFollowing, p.State == index.StatePaused:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// indexFacts are what is known of the index now.
func (s *Sidecar) indexFacts() ops.IndexFacts {
	f := ops.IndexFacts{On: !s.Config.NoIndex}
	store, builder := s.store.Load(), s.builder.Load()
	if store == nil || builder == nil {
		if err := s.noRoom.Load(); err != nil {
			f.Paused, f.Err = true, *err
		}
		return f
	}
	f.Open, f.Complete, f.Apart = true, store.Complete(), store.Apart()
	f.Tip, f.HasTip = store.Tip()
	p := builder.Progress()
	f.Paused, f.Stopped, f.Err = p.State == index.StatePaused, p.State == index.StateStopped, p.Err
	f.Pruned = f.Stopped && errors.As(p.Err, new(*index.PrunedError))
	return f
}

// progress is what the bar or the log lines show.
func (s *Sidecar) progress() progress.State {
	builder := s.builder.Load()
	if builder == nil {
		return progress.State{}
	}
	p := builder.Progress()
	return progress.State{
		Height:    uint64(max(p.Blocks, 1) - 1),
		Target:    uint64(p.Target),
		PerSecond: p.BlocksPerSecond,
		Building:  p.Target > 0 && !s.store.Load().Complete() && p.Blocks <= p.Target,
	}
}

// indexed is the index as the joined source sees it.
type indexed struct {
	*index.Store
	client *zebrarpc.Client
}

// Apart implements passthrough.Indexed: a node that is refused has another chain, whether the builder has seen that or not.
func (x indexed) Apart() error {
	if err := x.Store.Apart(); err != nil {
		return err
	}
	return x.client.Refused()
}

// node is Zebra as the index's builder sees it.
type node struct{ *zebrarpc.Client }

// Tip implements index.Node.
func (n node) Tip() (chain.BlockID, error) {
	state := n.Client.Tip()
	switch {
	case state.Up():
		return state.ID, nil
	case state.Err == nil:
		return chain.BlockID{}, fmt.Errorf("zebra has not answered yet: %w", chain.ErrUnavailable)
	}
	return chain.BlockID{}, state.Err
}

// Blocks implements index.Node.
func (n node) Blocks(ctx context.Context, from, to chain.Height) iter.Seq2[chain.Fetched, error] {
	return n.Client.Blocks(ctx, from, to, zebrarpc.Build)
}
