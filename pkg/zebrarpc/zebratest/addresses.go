package zebratest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Limits of Zebra's address methods.
const (
	maxAddresses      = 10_000
	maxAddressResults = 100_000
)

var (
	errBadAddress = &rpcError{Code: -5, Message: "parse error: invalid Bech32 encoding"}
	errTexAddress = &rpcError{Code: -5, Message: "TEX addresses are not supported by the address index, " +
		"use the transparent P2PKH address they were derived from"}
	errManyAddresses = &rpcError{Code: -8, Message: fmt.Sprintf("too many addresses: the limit is %d", maxAddresses)}
)

// addressQuery is the one parameter of the address methods: a string, or an object, which may have unknown members.
type addressQuery struct {
	Addresses []string
	// getaddresstxids
	Start, End *uint32
	// getaddressutxos
	ChainInfo   optional[bool]
	StartHeight optional[uint64]
	MaxEntries  optional[uint32]
}

// optional is a member that may be left out but not null.
type optional[T any] struct{ value T }

// UnmarshalJSON refuses null.
func (o *optional[T]) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return fmt.Errorf("null is no value")
	}
	return json.Unmarshal(text, &o.value)
}

// addressQuery reads the parameter; kind is the Rust type's name in the one error that Zebra has for whatever does not fit.
func (p *params) addressQuery(name, kind string) (q addressQuery) {
	raw, ok := p.required(name)
	if !ok {
		return q
	}
	fits := raw[0] == '"' || raw[0] == '{'
	if isString(raw) {
		q.Addresses = make([]string, 1)
		fits = json.Unmarshal(raw, &q.Addresses[0]) == nil
	} else if fits {
		fits = decodeExact(raw, &q) && q.Addresses != nil
	}
	if !fits {
		p.err = invalidParams("data did not match any variant of untagged enum DGetAddress" + kind + "Request")
	}
	return q
}

// decodeExact decodes an object whose member names count in their case, as everywhere but in encoding/json.
func decodeExact(raw json.RawMessage, q *addressQuery) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return false
	}
	for name, into := range map[string]any{
		"addresses": &q.Addresses, "start": &q.Start, "end": &q.End,
		"chainInfo": &q.ChainInfo, "startHeight": &q.StartHeight, "maxEntries": &q.MaxEntries,
	} {
		if text, ok := members[name]; ok && json.Unmarshal(text, into) != nil {
			return false
		}
	}
	return true
}

// parse returns the addresses as a set. As in Zebra, those of any network are taken.
func (q addressQuery) parse() (map[chain.TransparentAddress]bool, *rpcError) {
	if len(q.Addresses) > maxAddresses {
		return nil, errManyAddresses
	}
	set := make(map[chain.TransparentAddress]bool)
	for _, text := range q.Addresses {
		a, err := chain.ParseTransparent(chain.RegtestNetwork, text)
		if err != nil {
			a, err = chain.ParseTransparent(chain.MainNetwork, text)
		}
		switch {
		case err != nil:
			return nil, errBadAddress
		case strings.HasPrefix(strings.ToLower(text), "tex"):
			return nil, errTexAddress
		}
		set[a] = true
	}
	return set, nil
}

func (n *Node) getAddressBalance(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	q := p.addressQuery("address_strings", "Balance")
	if p.err != nil {
		return dst, p.err
	}
	addresses, rerr := q.parse()
	if rerr != nil {
		return dst, rerr
	}
	index, err := c.chain.transparentIndex()
	if err != nil {
		return appendObject(dst, nil, err)
	}
	result := struct {
		Balance  int64 `json:"balance"`
		Received int64 `json:"received"`
	}{}
	for _, o := range index.outputs {
		if !addresses[o.address] {
			continue
		}
		result.Received += o.value
		if !o.spent {
			result.Balance += o.value
		}
	}
	return appendObject(dst, result, nil)
}

func (n *Node) getAddressTxids(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	q := p.addressQuery("request", "TxIds")
	if p.err != nil {
		return dst, p.err
	}
	from, to, rerr := clampRange(q.Start, q.End, c.chain.Tip().Height)
	if rerr != nil {
		return dst, rerr
	}
	addresses, rerr := q.parse()
	if rerr != nil {
		return dst, rerr
	}
	index, err := c.chain.transparentIndex()
	if err != nil {
		return appendObject(dst, nil, err)
	}
	ids := []string{}
	for _, tx := range index.transactions {
		if tx.height >= from && tx.height <= to && tx.touches(addresses) {
			ids = append(ids, tx.id.String())
		}
	}
	if limit := n.addressResults(); len(ids) > limit {
		return dst, &rpcError{Code: -8, Message: fmt.Sprintf("more than %d transactions match; narrow the height range", limit)}
	}
	return appendObject(dst, ids, nil)
}

// clampRange is how Zebra reads a range: an end of 0 is the tip, and what lies above the tip becomes the tip.
func clampRange(start, end *uint32, tip chain.Height) (from, to chain.Height, err *rpcError) {
	to = tip
	if start != nil {
		from = min(chain.Height(*start), tip)
	}
	if end != nil && *end != 0 {
		to = min(chain.Height(*end), tip)
	}
	if from > to {
		err = &rpcError{Code: -1, Message: fmt.Sprintf("start Height(%d) must be less than or equal to end Height(%d)", from, to)}
	}
	return from, to, err
}

type utxoObject struct {
	Address     string       `json:"address"`
	TxID        string       `json:"txid"`
	OutputIndex uint32       `json:"outputIndex"`
	Script      string       `json:"script"`
	Satoshis    int64        `json:"satoshis"`
	Height      chain.Height `json:"height"`
}

func (n *Node) getAddressUtxos(dst []byte, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	q := p.addressQuery("request", "Utxos")
	if p.err != nil {
		return dst, p.err
	}
	addresses, rerr := q.parse()
	if rerr != nil {
		return dst, rerr
	}
	limit, most := n.addressResults(), int(q.MaxEntries.value)
	if most > limit {
		return dst, &rpcError{Code: -8, Message: fmt.Sprintf("maxEntries must be at most %d", limit)}
	}
	index, err := c.chain.transparentIndex()
	if err != nil {
		return appendObject(dst, nil, err)
	}
	utxos := []utxoObject{}
	for _, o := range index.outputs {
		if o.spent || !addresses[o.address] || uint64(o.height) < q.StartHeight.value {
			continue
		}
		if most > 0 && len(utxos) == most {
			break
		}
		utxos = append(utxos, o.object(c.chain.network))
	}
	if len(utxos) > limit {
		return dst, &rpcError{Code: -8, Message: fmt.Sprintf("more than %d unspent outputs match; page with startHeight and maxEntries", limit)}
	}
	if !q.ChainInfo.value {
		return appendObject(dst, utxos, nil)
	}
	return appendObject(dst, struct {
		Utxos  []utxoObject `json:"utxos"`
		Hash   string       `json:"hash"`
		Height chain.Height `json:"height"`
	}{utxos, index.tip.Hash.String(), index.tip.Height}, nil)
}

func (n *Node) addressResults() int {
	if n.opts.MaxAddressResults > 0 {
		return n.opts.MaxAddressResults
	}
	return maxAddressResults
}
