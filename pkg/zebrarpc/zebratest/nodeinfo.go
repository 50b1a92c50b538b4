package zebratest

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// constants are the answers that depend on nothing that a Node knows, as a node alone on its network gives them.
func constants() map[string]string {
	return map[string]string{
		"getdeprecationinfo": `{}`,
		"getdifficulty":      difficulty,
		"getpeerinfo":        `[]`,
		"getstandardfee":     `{"standard_fee":1000,"version":0}`,
		"ping":               `null`,
	}
}

// solutionRate stands for getnetworksolps, which needs the blocks' work.
const solutionRate = 34

type networkInfo struct {
	Version         int             `json:"version"`
	Subversion      string          `json:"subversion"`
	ProtocolVersion int             `json:"protocolversion"`
	LocalServices   string          `json:"localservices"`
	TimeOffset      int             `json:"timeoffset"`
	Connections     int             `json:"connections"`
	Networks        []reachable     `json:"networks"`
	RelayFee        json.RawMessage `json:"relayfee"`
	LocalAddresses  []string        `json:"localaddresses"`
	Warnings        string          `json:"warnings"`
}

type reachable struct {
	Name      string `json:"name"`
	Limited   bool   `json:"limited"`
	Reachable bool   `json:"reachable"`
	Proxy     string `json:"proxy"`
	Randomize bool   `json:"proxy_randomize_credentials"`
}

func (n *Node) appendNetworkInfo(dst []byte) []byte {
	info := networkInfo{
		Version: 7_000_000, Subversion: n.opts.Subversion, ProtocolVersion: 170_190, LocalServices: "0000000000000001",
		Networks:       []reachable{{Name: "ipv4", Reachable: true}, {Name: "ipv6", Reachable: true}, {Name: "onion"}},
		LocalAddresses: []string{}, RelayFee: json.RawMessage("1e-6"),
	}
	dst, _ = appendObject(dst, info, nil) // nothing in it can fail to encode
	return dst
}

type mempoolInfo struct {
	Size  int `json:"size"`
	Bytes int `json:"bytes"`
	Usage int `json:"usage"` // not modelled: the bytes
}

func (n *Node) getMempoolInfo(dst []byte, c Call) ([]byte, *rpcError) {
	n.pool.mu.Lock()
	defer n.pool.mu.Unlock()
	err := n.pool.settle(c.chain)
	info := mempoolInfo{Size: len(n.pool.txs)}
	for _, tx := range n.pool.txs {
		info.Bytes += len(tx.raw)
	}
	info.Usage = info.Bytes
	return appendObject(dst, info, err)
}

type miningInfo struct {
	Blocks       chain.Height `json:"blocks"`
	Size         int          `json:"currentblocksize"`
	Transactions int          `json:"currentblocktx"` // without the coinbase
	SolutionRate int          `json:"networksolps"`
	HashRate     int          `json:"networkhashps"`
	Chain        string       `json:"chain"`
	Testnet      bool         `json:"testnet"`
}

func (n *Node) getMiningInfo(dst []byte, w *workshop, c Call) ([]byte, *rpcError) {
	tip := c.chain.Tip()
	info := miningInfo{Blocks: tip.Height, SolutionRate: solutionRate, HashRate: solutionRate, Chain: c.chain.network.name(), Testnet: c.chain.network != Main}
	f, err := c.chain.find(tip.Height)
	if err == nil {
		raw := f.raw(w)
		var ids []string
		ids, err = transactionIDs(tip.Height, raw)
		info.Size, info.Transactions = len(raw), len(ids)-1
	}
	return appendObject(dst, info, err)
}

func (n *Node) getNetworkSolPS(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	p.optionalInteger("num_blocks", "i32", math.MinInt32, math.MaxInt32)
	p.optionalInteger("height", "i32", math.MinInt32, math.MaxInt32)
	if p.err != nil {
		return dst, p.err
	}
	return strconv.AppendInt(dst, solutionRate, 10), nil
}

// getBlockSubsidy knows no schedule: every block pays the same.
func (n *Node) getBlockSubsidy(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	p.optionalInteger("height", "u32", 0, math.MaxUint32)
	if p.err != nil {
		return dst, p.err
	}
	return append(dst, `{"miner":6.25,"founders":0.0,"fundingstreamstotal":0.0,"lockboxtotal":0.0,"totalblocksubsidy":6.25}`...), nil
}

// addressNetwork is the network whose addresses a chain's node takes.
func (n Network) addressNetwork() chain.Network {
	switch n {
	case Main:
		return chain.MainNetwork
	case Test:
		return chain.TestNetwork
	}
	return chain.RegtestNetwork
}

// validity is validateaddress's answer.
type validity struct {
	Valid    bool   `json:"isvalid"`
	Address  string `json:"address,omitempty"`
	IsScript *bool  `json:"isscript,omitempty"`
}

// validateAddress knows transparent addresses, and those of ZIP 320, which are transparent too.
func (n *Node) validateAddress(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	text := p.text("address")
	if p.err != nil {
		return dst, p.err
	}
	var v validity
	if a, err := chain.ParseTransparent(c.chain.network.addressNetwork(), text); err == nil {
		v = validity{Valid: true, Address: text, IsScript: &a.Script}
	}
	return appendObject(dst, v, nil)
}
