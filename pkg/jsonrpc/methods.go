package jsonrpc

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/passthrough"
)

// method says who answers a JSON-RPC method.
type method struct {
	// answer makes the answer here; nil: Zebra does. An answer of nil without an error leaves this call to Zebra.
	answer func(s *Server, ctx context.Context, params json.RawMessage) (*passthrough.Answer, error)
	// costly: it may take Zebra long, or much of its processor, so that few are asked at one time.
	costly bool
}

// Methods returns the names of all methods, in their order.
func Methods() []string { return slices.Sorted(maps.Keys(methods())) }

// methods is the table of all methods. What is not in it is unknown; Zebra's control and mining methods must never be.
func methods() map[string]method {
	relayed, costly := method{}, method{costly: true}
	return map[string]method{
		// Answered here, as far as the index goes.
		"getbestblockhash":          {answer: (*Server).getBestBlockHash},
		"getbestblockheightandhash": {answer: (*Server).getBestBlockHeightAndHash},
		"getblockcount":             {answer: (*Server).getBlockCount},
		"getblockhash":              {answer: (*Server).getBlockHash},
		"getblockdeltas":            {answer: (*Server).getBlockDeltas}, // of Zebra's getblock; Zebra has no such method
		"getchaintips":              {answer: (*Server).getChainTips},   // Zebra has no such method

		// Zebra has no such methods either, and there is no index of transparent addresses and outputs yet.
		"getaddressdeltas": {answer: missing("getaddressdeltas needs an index of transparent addresses")},
		"getspentinfo":     {answer: missing("getspentinfo needs an index of spent outputs")},
		"gettxoutsetinfo":  {answer: missing("gettxoutsetinfo needs an index of unspent outputs")},

		// Relayed.
		"getaddressbalance":      costly,
		"getaddresstxids":        costly,
		"getaddressutxos":        costly,
		"getblock":               costly,
		"getblockchaininfo":      relayed,
		"getblockheader":         relayed,
		"getblocksubsidy":        relayed,
		"getdeprecationinfo":     relayed,
		"getdifficulty":          relayed,
		"getinfo":                relayed,
		"getmempoolinfo":         relayed,
		"getmininginfo":          costly, // it reads the blocks of a window, as the next two do
		"getnetworkhashps":       costly,
		"getnetworksolps":        costly,
		"getnetworkinfo":         relayed,
		"getpeerinfo":            relayed,
		"getrawmempool":          costly,
		"getrawtransaction":      relayed,
		"getstandardfee":         relayed,
		"gettxout":               relayed,
		"ping":                   relayed,
		"rpc.discover":           relayed,
		"sendrawtransaction":     costly, // Zebra verifies it before it answers
		"validateaddress":        relayed,
		"z_converttex":           relayed,
		"z_getsubtreesbyindex":   costly,
		"z_gettreestate":         costly, // it reads the whole block
		"z_listunifiedreceivers": relayed,
		"z_validateaddress":      relayed,
	}
}
