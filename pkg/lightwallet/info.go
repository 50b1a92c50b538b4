package lightwallet

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// What GetLightdInfo says of this server whatever the chain. Wallets compare the protocol version literally.
const (
	vendor          = "zsidecar"
	protocolVersion = "v0.5.0"
)

// saplingUpgrade is the name of the upgrade in getblockchaininfo "upgrades" whose height wallets ask for.
const saplingUpgrade = "Sapling"

// GetLightdInfo describes the server, the view's tip, and the node.
func (s *service) GetLightdInfo(ctx context.Context, _ *walletrpc.Empty) (*walletrpc.LightdInfo, error) {
	view, err := s.source.View(ctx)
	if err != nil {
		return nil, err
	}
	tip, err := view.Tip()
	view.Close()
	if err != nil {
		return nil, err
	}
	node, err := s.node.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the node about itself: %w", err)
	}
	branch, err := branchAt(node, tip.Height)
	if err != nil {
		return nil, err
	}
	info := &walletrpc.LightdInfo{
		Version:                    s.version,
		Vendor:                     vendor,
		TaddrSupport:               true,
		ChainName:                  node.Chain,
		SaplingActivationHeight:    activation(node, saplingUpgrade),
		ConsensusBranchId:          branchIDHex(branch),
		BlockHeight:                uint64(tip.Height),
		GitCommit:                  s.gitCommit,
		Branch:                     s.gitBranch,
		BuildDate:                  s.buildDate,
		BuildUser:                  s.buildUser,
		EstimatedHeight:            uint64(max(node.EstimatedHeight, tip.Height)),
		ZcashdBuild:                node.Build,
		ZcashdSubversion:           node.Subversion,
		DonationAddress:            s.donationAddress,
		LightwalletProtocolVersion: protocolVersion,
	}
	if s.chainName != "" {
		info.ChainName = s.chainName
	}
	if next := pending(node, tip.Height); next != nil {
		info.UpgradeName, info.UpgradeHeight = next.Name, uint64(next.Height)
	}
	return info, nil
}

// branchAt is the consensus branch id in force at height h: 0 only before the first upgrade. The node names that of its own tip,
// which may be another block than ours for a moment.
func branchAt(node chain.NodeInfo, h chain.Height) (uint32, error) {
	id, reached := uint32(0), false
	for _, u := range node.Upgrades {
		if u.Height <= h {
			id, reached = u.BranchID, true
		}
	}
	if node.Tip.Height == h || len(node.Upgrades) == 0 {
		id = node.BranchID
	}
	if reached && id == 0 {
		return 0, fmt.Errorf("the node names no branch id for height %d: %w", h, chain.ErrUnavailable)
	}
	return id, nil
}

// activation is the height of the named upgrade, 0 when the node does not list it.
func activation(node chain.NodeInfo, name string) uint64 {
	for _, u := range node.Upgrades {
		if u.Name == name {
			return uint64(u.Height)
		}
	}
	return 0
}

// pending is the lowest upgrade that is still to come, nil when none is known.
func pending(node chain.NodeInfo, tip chain.Height) *chain.Upgrade {
	var next *chain.Upgrade
	for i := range node.Upgrades {
		u := &node.Upgrades[i]
		if u.Pending && u.Height > tip && (next == nil || u.Height < next.Height) {
			next = u
		}
	}
	return next
}

// nodeInfo asks the node about itself, one call at a time, and keeps the answer, or the failure, for nodeInfoFresh. Once the node has
// answered, its last answer stands in for it whenever it is away.
type nodeInfo struct {
	node   Node
	last   atomic.Pointer[nodeAnswer] // nil until the node was asked
	asking chan struct{}              // holds one element while a call asks
}

// nodeAnswer is what came of asking, and when. It does not change.
type nodeAnswer struct {
	info chain.NodeInfo
	err  error
	at   time.Time
}

func newNodeInfo(node Node) *nodeInfo { return &nodeInfo{node: node, asking: make(chan struct{}, 1)} }

func (n *nodeInfo) get(ctx context.Context) (chain.NodeInfo, error) {
	if a := n.last.Load(); a.fresh() {
		return a.info, a.err
	}
	select {
	case n.asking <- struct{}{}:
		defer func() { <-n.asking }()
	case <-ctx.Done():
		return chain.NodeInfo{}, ctx.Err()
	}
	last := n.last.Load()
	if last.fresh() { // somebody else has asked while we waited
		return last.info, last.err
	}
	known := last != nil && last.err == nil
	info, err := n.ask(ctx, known)
	switch {
	case err != nil && ctx.Err() != nil: // says nothing of the node
		return chain.NodeInfo{}, ctx.Err()
	case err != nil && known:
		info, err = last.info, nil
	}
	n.last.Store(&nodeAnswer{info, err, time.Now()})
	return info, err
}

// ask waits less long when there is something else to answer with.
func (n *nodeInfo) ask(ctx context.Context, haveOlder bool) (chain.NodeInfo, error) {
	if haveOlder {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, nodeInfoPatience)
		defer cancel()
	}
	return n.node.NodeInfo(ctx)
}

func (a *nodeAnswer) fresh() bool { return a != nil && time.Since(a.at) < nodeInfoFresh }
