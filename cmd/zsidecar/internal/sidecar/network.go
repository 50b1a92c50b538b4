package sidecar

import (
	"context"
	"fmt"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
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
