package sidecar

import (
	"context"
	"fmt"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
)

// checkNetwork asks the node, as soon as it answers, whether it is on the network of the settings.
func (s *Sidecar) checkNetwork(ctx context.Context) error {
	for {
		changed := s.client.Changed()
		info, err := s.client.NodeInfo(ctx)
		if err == nil {
			return compareNetwork(s.Config.Network, s.client.URL(), networkOf(info))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-time.After(time.Second):
		}
	}
}

// watchNetwork sees to it that the node stays the one of the network that it was of first: at every change of the tip it is asked for its
// genesis block, and while that is another one nothing else is asked. A node that is swapped for one of another network would else tell
// wallets of the wrong chain.
func (s *Sidecar) watchNetwork(ctx context.Context) {
	var ours chain.Hash
	for {
		changed := s.client.Changed()
		var again <-chan time.Time
		if s.client.Tip().Up() {
			genesis, err := s.client.BlockHash(ctx, 0)
			switch {
			case err != nil:
				again = time.After(time.Second)
			case ours == chain.Hash{}:
				ours = genesis
			case genesis == ours && s.client.Refused() != nil:
				s.client.Refuse(nil)
				s.Log.Info("zebra is of our network again", "url", s.client.URL())
			case genesis != ours && s.client.Refused() == nil:
				err := fmt.Errorf("zebra at %s is of another network now: its genesis block is %s, not %s", s.client.URL(), genesis, ours)
				s.client.Refuse(err)
				s.Log.Error("zebra is refused", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-again:
		}
	}
}

// source is Zebra as wallets are told of it: while it is refused it counts as away.
type source struct{ *zebrarpc.Client }

// Tip implements passthrough.Node.
func (n source) Tip() zebrarpc.TipState {
	state := n.Client.Tip()
	if err := n.Refused(); err != nil {
		state.Err, state.Confirmed = fmt.Errorf("%w: %w", chain.ErrUnavailable, err), time.Time{}
	}
	return state
}

// networkOf names a node's network as the setting does; a chain that nobody knows keeps its name.
func networkOf(info chain.NodeInfo) string {
	n, err := chain.NetworkOf(info.Chain, info.Genesis)
	if err != nil {
		return info.Chain
	}
	return n.String()
}

func compareNetwork(want, url, got string) error {
	if want == got {
		return nil
	}
	return fmt.Errorf("zebra at %s is on the network %q, the setting network says %q: change the one or the other", url, got, want)
}
