package zebrarpc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/valyala/fastjson"
	"golang.org/x/sync/errgroup"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// NodeInfo returns what the node says of itself and of its chain (getblockchaininfo, getinfo, and the hash of block 0, asked side by side:
// a node that hangs is waited for once). A node without any block names genesis as its tip.
func (c *Client) NodeInfo(ctx context.Context) (chain.NodeInfo, error) {
	var (
		info, about chain.NodeInfo // of the chain, of the node
		genesis     chain.Hash
	)
	var g errgroup.Group
	g.Go(func() (err error) {
		info, err = ask(ctx, c, &query{method: getBlockchainInfo, limit: callLimit, tries: callTries}, chainInfoOf)
		return err
	})
	g.Go(func() (err error) {
		about, err = ask(ctx, c, &query{method: getInfo, limit: callLimit, tries: callTries}, aboutNodeOf)
		return err
	})
	g.Go(func() (err error) {
		genesis, err = c.BlockHash(ctx, 0)
		return err
	})
	if err := g.Wait(); err != nil {
		return chain.NodeInfo{}, err
	}
	info.Genesis, info.Build, info.Subversion = genesis, about.Build, about.Subversion
	return info, nil
}

// aboutNodeOf reads what getinfo says of the program.
func aboutNodeOf(v *fastjson.Value) (info chain.NodeInfo, err error) {
	if info.Build, err = stringOf(v, "build"); err != nil {
		return info, err
	}
	info.Subversion, err = stringOf(v, "subversion")
	return info, err
}

// chainInfoOf reads getblockchaininfo. Members that it does not know are ignored, and names of upgrades are passed on as they are.
func chainInfoOf(v *fastjson.Value) (info chain.NodeInfo, err error) {
	if info.Chain, err = stringOf(v, "chain"); err != nil {
		return info, err
	}
	if info.Tip.Height, err = heightOf(v, "blocks"); err != nil {
		return info, err
	}
	if info.Tip.Hash, err = hashOf(v, "bestblockhash"); err != nil {
		return info, err
	}
	if info.EstimatedHeight, err = heightOf(v, "estimatedheight"); err != nil {
		return info, err
	}
	consensus, err := member(v, "consensus")
	if err != nil {
		return info, err
	}
	branch, err := stringOf(consensus, "chaintip")
	if err != nil {
		return info, fmt.Errorf("consensus: %w", err)
	}
	if info.BranchID, err = parseBranchID(branch); err != nil {
		return info, fmt.Errorf("consensus.chaintip: %w", err)
	}
	info.Upgrades, err = upgradesOf(v)
	return info, err
}

func upgradesOf(v *fastjson.Value) ([]chain.Upgrade, error) {
	m, err := member(v, "upgrades")
	if err != nil {
		return nil, err
	}
	object, err := m.Object()
	if err != nil {
		return nil, fmt.Errorf("upgrades is %s, not an object", text(m))
	}
	var upgrades []chain.Upgrade
	object.Visit(func(key []byte, v *fastjson.Value) {
		if err != nil {
			return
		}
		var u chain.Upgrade
		if u, err = upgradeOf(string(key), v); err == nil {
			upgrades = append(upgrades, u)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(upgrades, func(a, b chain.Upgrade) int { return cmp.Compare(a.Height, b.Height) })
	return upgrades, nil
}

func upgradeOf(branch string, v *fastjson.Value) (u chain.Upgrade, err error) {
	if u.BranchID, err = parseBranchID(branch); err != nil {
		return u, fmt.Errorf("upgrades: %w", err)
	}
	if u.Name, err = stringOf(v, "name"); err != nil {
		return u, fmt.Errorf("upgrades.%s: %w", branch, err)
	}
	if u.Height, err = heightOf(v, "activationheight"); err != nil {
		return u, fmt.Errorf("upgrades.%s: %w", branch, err)
	}
	status, err := stringOf(v, "status")
	if err != nil {
		return u, fmt.Errorf("upgrades.%s: %w", branch, err)
	}
	u.Pending = status != "active"
	return u, nil
}

// parseBranchID reads a consensus branch id, 8 hex digits.
func parseBranchID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 16, 32)
	if err != nil || len(s) != 8 {
		return 0, fmt.Errorf("branch id %q is not 8 hex digits", s)
	}
	return uint32(n), nil
}
