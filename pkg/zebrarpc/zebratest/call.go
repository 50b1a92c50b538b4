package zebratest

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc/envelope"
)

// rpcError is the error member of a reply.
type rpcError = envelope.Error

// Call is one JSON-RPC call that a Node was asked to execute.
type Call struct {
	Method string
	Params json.RawMessage // as sent; nil when there are none

	chain *Chain
}

// Height returns the height of the block that the call asks for, by height or by hash; false when it asks for no block of the chain.
func (c Call) Height() (chain.Height, bool) {
	p := newParams(c.Params)
	switch c.Method {
	case "getblock", "getblockheader", "z_gettreestate":
		ref, ok := parseRef(p.text(argBlock), c.chain.Tip().Height)
		if p.err != nil || !ok {
			return 0, false
		}
		h, err := c.chain.resolve(ref)
		return h, err == nil
	case "getblockhash":
		index := p.integer(argIndex, "i32", math.MinInt32, math.MaxInt32)
		h, err := fromIndex(index, c.chain.Tip().Height)
		return h, p.err == nil && err == nil
	}
	return 0, false
}

// The names of the arguments in Zebra's code; calls with an object for parameters use them.
const (
	argBlock     = "hash_or_height"
	argVerbosity = "verbosity"
	argVerbose   = "verbose"
	argIndex     = "index"
)

// call executes a call and appends its result to dst. w is for building blocks, f is the fault that the call met, or nil.
func (n *Node) call(dst []byte, w *workshop, c Call, f *Fault) ([]byte, *rpcError) {
	switch c.Method {
	case "getblock":
		return n.getBlock(dst, w, c, f)
	case "getblockheader":
		return n.getBlockHeader(dst, w, c)
	case "getblockhash":
		return n.getBlockHash(dst, c)
	case "getaddressbalance":
		return n.getAddressBalance(dst, c)
	case "getaddresstxids":
		return n.getAddressTxids(dst, c)
	case "getaddressutxos":
		return n.getAddressUtxos(dst, c)
	case "z_gettreestate":
		return n.getTreeState(dst, w, c, f)
	case "z_getsubtreesbyindex":
		return n.getSubtrees(dst, c)
	case "getrawmempool":
		return n.getRawMempool(dst, c)
	case "getrawtransaction":
		return n.getRawTransaction(dst, c)
	case "sendrawtransaction":
		return n.sendRawTransaction(dst, c)
	case "getbestblockhash":
		return appendQuoted(dst, c.chain.Tip().Hash.String()), nil
	case "getbestblockheightandhash":
		return appendHeightAndHash(dst, c.chain.Tip()), nil
	case "getblockcount":
		return strconv.AppendUint(dst, uint64(c.chain.Tip().Height), 10), nil
	case "getblockchaininfo":
		return n.appendChainInfo(dst, c.chain), nil
	case "getinfo":
		return n.appendInfo(dst, c.chain), nil
	}
	return n.callAboutNode(dst, w, c)
}

// callAboutNode executes calls that have little to do with the chain, or change it.
func (n *Node) callAboutNode(dst []byte, w *workshop, c Call) ([]byte, *rpcError) {
	switch c.Method {
	case "generate":
		return n.generate(dst, c)
	case "generatetoaddress":
		return n.generateToAddress(dst, c)
	case "invalidateblock":
		return n.invalidateBlock(dst, c)
	case "reconsiderblock":
		return n.reconsiderBlock(dst, c)
	case "getblocksubsidy":
		return n.getBlockSubsidy(dst, c)
	case "getmempoolinfo":
		return n.getMempoolInfo(dst, c)
	case "getmininginfo":
		return n.getMiningInfo(dst, w, c)
	case "getnetworkhashps", "getnetworksolps":
		return n.getNetworkSolPS(dst, c)
	case "getnetworkinfo":
		return n.appendNetworkInfo(dst), nil
	case "validateaddress":
		return n.validateAddress(dst, c)
	}
	if answer, known := constants()[c.Method]; known {
		return append(dst, answer...), nil
	}
	return dst, envelope.ErrUnknownMethod
}

func (n *Node) getBlockHash(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	index := p.integer(argIndex, "i32", math.MinInt32, math.MaxInt32)
	if p.err != nil {
		return dst, p.err
	}
	h, rerr := fromIndex(index, c.chain.Tip().Height)
	if rerr != nil {
		return dst, rerr
	}
	hash, err := c.chain.Hash(h)
	if err != nil { // the chain became shorter in between
		return dst, errBlockNotFound
	}
	return appendQuoted(dst, hash.String()), nil
}

// fromIndex turns getblockhash's index into a height; negative ones count from the tip, which is -1.
func fromIndex(index int64, tip chain.Height) (chain.Height, *rpcError) {
	if index < 0 {
		index += int64(tip) + 1
		if index < 0 {
			return 0, &rpcError{Code: -1, Message: "Provided negative index ends up with a negative height"}
		}
	}
	if index > int64(tip) {
		return 0, &rpcError{Code: -1, Message: "Provided index is greater than the current tip"}
	}
	return chain.Height(index), nil
}

// appendHeightAndHash writes the hash as Zebra does: an array of numbers in internal order.
func appendHeightAndHash(dst []byte, tip chain.BlockID) []byte {
	dst = strconv.AppendUint(append(dst, `{"height":`...), uint64(tip.Height), 10)
	dst = append(dst, `,"hash":[`...)
	for i, b := range tip.Hash {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(b), 10)
	}
	return append(dst, "]}"...)
}

// blockRef names a block by hash or by height.
type blockRef struct {
	hash   chain.Hash
	height chain.Height
	byHash bool
}

// parseRef reads getblock's first parameter: 64 hex digits are a hash, a decimal number up to MaxHeight is a height, and a negative
// number counts from the tip, which is -1. Zebra steps down before it adds the one, so that genesis cannot be named in this way.
func parseRef(s string, tip chain.Height) (blockRef, bool) {
	if len(s) == 2*len(chain.Hash{}) {
		if hash, err := chain.ParseHash(s); err == nil {
			return blockRef{hash: hash, byHash: true}, true
		}
	}
	h, err := strconv.ParseInt(s, 10, 64)
	if err != nil || h > int64(chain.MaxHeight) || h == 0 && s[0] == '-' {
		return blockRef{}, false
	}
	if h < 0 {
		if h += int64(tip); h < 0 {
			return blockRef{}, false
		}
		h++
	}
	return blockRef{height: chain.Height(h)}, true
}

// resolve returns the height of a block of the best chain.
func (c *Chain) resolve(ref blockRef) (chain.Height, error) {
	if ref.byHash {
		return c.HeightOf(ref.hash)
	}
	_, err := c.at(ref.height)
	return ref.height, err
}

// lookup finds the block that ref names.
func (c *Chain) lookup(ref blockRef) (found, error) {
	h, err := c.resolve(ref)
	if err != nil {
		return found{}, err
	}
	f, err := c.find(h)
	if err == nil && ref.byHash && f.Hash != ref.hash { // replaced in between
		err = errNoBlock
	}
	return f, err
}

func appendQuoted(dst []byte, s string) []byte { return append(append(append(dst, '"'), s...), '"') }
