package zebratest

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc/envelope"
)

// What is not modelled, as Zebra spells the numbers.
const (
	difficulty = "1.0"
	zeroAmount = "0.0"
)

// balance is a pool's value, which is not modelled and always zero.
type balance struct {
	ID            string          `json:"id,omitempty"`
	ChainValue    json.RawMessage `json:"chainValue"`
	ChainValueZat int64           `json:"chainValueZat"`
	Monitored     bool            `json:"monitored"`
	ValueDelta    json.RawMessage `json:"valueDelta,omitempty"`
	ValueDeltaZat *int64          `json:"valueDeltaZat,omitempty"`
}

func newBalance(id string, delta bool) balance {
	b := balance{ID: id, ChainValue: json.RawMessage(zeroAmount)}
	if delta {
		b.ValueDelta, b.ValueDeltaZat = json.RawMessage(zeroAmount), new(int64)
	}
	return b
}

// valuePools lists the pools in Zebra's order.
func valuePools(delta bool) []balance {
	var pools []balance
	for _, id := range []string{"transparent", "sprout", "sapling", "orchard", "lockbox", "ironwood"} {
		pools = append(pools, newBalance(id, delta))
	}
	return pools
}

type chainInfo struct {
	Chain                string          `json:"chain"`
	Blocks               chain.Height    `json:"blocks"`
	Headers              chain.Height    `json:"headers"`
	Difficulty           json.RawMessage `json:"difficulty"`
	VerificationProgress json.RawMessage `json:"verificationprogress"`
	ChainWork            int             `json:"chainwork"`
	Pruned               bool            `json:"pruned"`
	SizeOnDisk           int             `json:"size_on_disk"`
	Commitments          int             `json:"commitments"`
	BestBlockHash        string          `json:"bestblockhash"`
	EstimatedHeight      chain.Height    `json:"estimatedheight"`
	ChainSupply          balance         `json:"chainSupply"`
	ValuePools           []balance       `json:"valuePools"`
	Upgrades             upgradeMap      `json:"upgrades"`
	Consensus            consensus       `json:"consensus"`
}

type consensus struct {
	ChainTip  string `json:"chaintip"`
	NextBlock string `json:"nextblock"`
}

// upgradeMap is written as an object whose members are in height order.
type upgradeMap struct {
	list []chain.Upgrade
	tip  chain.Height
}

// MarshalJSON writes branch ids as eight hex digits.
func (m upgradeMap) MarshalJSON() ([]byte, error) {
	dst := []byte{'{'}
	for i, u := range m.list {
		if i > 0 {
			dst = append(dst, ',')
		}
		status := "active"
		if u.Height > m.tip {
			status = "pending"
		}
		dst = fmt.Appendf(dst, `"%08x":{"name":`, u.BranchID)
		dst = envelope.AppendString(dst, u.Name)
		dst = fmt.Appendf(dst, `,"activationheight":%d,"status":"%s"}`, u.Height, status)
	}
	return append(dst, '}'), nil
}

func (n *Node) appendChainInfo(dst []byte, c *Chain) []byte {
	tip := c.Tip()
	estimated := max(n.opts.EstimatedHeight, tip.Height)
	progress := 1.0
	if c.network != Regtest && estimated > 0 {
		progress = float64(tip.Height) / float64(estimated)
	}
	info := chainInfo{
		Chain: c.network.name(), Blocks: tip.Height, Headers: tip.Height, Difficulty: json.RawMessage(difficulty),
		VerificationProgress: appendFloat(nil, progress), BestBlockHash: tip.Hash.String(), EstimatedHeight: estimated,
		ChainSupply: newBalance("", false), ValuePools: valuePools(false),
		Upgrades: upgradeMap{c.upgrades, tip.Height},
		Consensus: consensus{
			ChainTip:  fmt.Sprintf("%08x", branchAt(c.upgrades, tip.Height)),
			NextBlock: fmt.Sprintf("%08x", branchAt(c.upgrades, tip.Height+1)),
		},
	}
	dst, _ = appendObject(dst, info, nil) // nothing in it can fail to encode
	return dst
}

type nodeInfo struct {
	Version         int             `json:"version"`
	Build           string          `json:"build"`
	Subversion      string          `json:"subversion"`
	ProtocolVersion int             `json:"protocolversion"`
	Blocks          chain.Height    `json:"blocks"`
	Connections     int             `json:"connections"`
	Difficulty      json.RawMessage `json:"difficulty"`
	Testnet         bool            `json:"testnet"`
	PayTxFee        json.RawMessage `json:"paytxfee"`
	RelayFee        json.RawMessage `json:"relayfee"`
	Errors          string          `json:"errors"`
	ErrorsTimestamp int64           `json:"errorstimestamp"`
}

func (n *Node) appendInfo(dst []byte, c *Chain) []byte {
	info := nodeInfo{
		Version: 7_000_000, Build: n.opts.Build, Subversion: n.opts.Subversion, ProtocolVersion: 170_190,
		Blocks: c.Tip().Height, Difficulty: json.RawMessage(difficulty), Testnet: c.network != Main,
		PayTxFee: json.RawMessage(zeroAmount), RelayFee: json.RawMessage("1e-6"), Errors: "no errors",
	}
	dst, _ = appendObject(dst, info, nil) // nothing in it can fail to encode
	return dst
}

// appendFloat writes a floating point number with a decimal point, as Zebra does.
func appendFloat(dst []byte, v float64) []byte {
	start := len(dst)
	dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
	for _, c := range dst[start:] {
		if c == '.' || c == 'e' {
			return dst
		}
	}
	return append(dst, ".0"...)
}
