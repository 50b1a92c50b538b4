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

// nodeInfo asks the node about itself, one call at a time, and keeps what came of it for nodeInfoFresh. Once the node has answered, its
// last answer stands in for it whenever it is away; until then that of an earlier run of the program does, if there is one.
type nodeInfo struct {
	node   Node
	tried  atomic.Pointer[nodeAttempt]    // nil until the node was asked
	known  atomic.Pointer[chain.NodeInfo] // the last answer; nil until there is one
	asking chan struct{}                  // holds one element while a call asks
}

// nodeAttempt says how asking ended, and when. It does not change.
type nodeAttempt struct {
	err error
	at  time.Time
}

func (a *nodeAttempt) fresh() bool { return a != nil && time.Since(a.at) < nodeInfoFresh }

func newNodeInfo(node Node) *nodeInfo { return &nodeInfo{node: node, asking: make(chan struct{}, 1)} }

// errNoInfo ends waiting for the node, whoever asked it.
var errNoInfo = fmt.Errorf("it has not told of itself in time: %w", chain.ErrUnavailable)

// get returns what the node says of itself now, or has said last.
func (n *nodeInfo) get(ctx context.Context) (chain.NodeInfo, error) {
	if a := n.tried.Load(); a.fresh() {
		return n.best(a.err)
	}
	patience := nodeInfoLimit
	if n.known.Load() != nil {
		patience = nodeInfoPatience
	}
	bounded, cancel := context.WithTimeoutCause(ctx, patience, errNoInfo)
	defer cancel()
	err := n.try(bounded)
	if err != nil && ctx.Err() != nil {
		return chain.NodeInfo{}, ctx.Err()
	}
	return n.best(err)
}

// try asks the node, unless somebody else has, and notes how that ended. That the caller has left says nothing of the node.
func (n *nodeInfo) try(ctx context.Context) error {
	select {
	case n.asking <- struct{}{}:
		defer func() { <-n.asking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if a := n.tried.Load(); a.fresh() { // somebody else has asked while we waited
		return a.err
	}
	info, err := n.node.NodeInfo(ctx)
	switch {
	case err == nil:
		n.known.Store(&info)
	case ctx.Err() != nil:
		if err = context.Cause(ctx); err != errNoInfo {
			return err
		}
	}
	n.tried.Store(&nodeAttempt{err, time.Now()})
	return err
}

// best returns the last answer there is, or the error.
func (n *nodeInfo) best(err error) (chain.NodeInfo, error) {
	if info := n.known.Load(); info != nil {
		return *info, nil
	}
	return chain.NodeInfo{}, err
}

// lasting is get for what does not change while a chain is the same, its name and its genesis block: the node is not asked twice.
func (n *nodeInfo) lasting(ctx context.Context) (chain.NodeInfo, error) {
	if info := n.known.Load(); info != nil {
		return *info, nil
	}
	return n.get(ctx)
}
