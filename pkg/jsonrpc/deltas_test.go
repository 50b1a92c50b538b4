package jsonrpc_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc/jsonrpctest"
	"github.com/zsidecar/zsidecar/pkg/passthrough"
)

const deltaHash = "00000000000000000000000000000000000000000000000000000000000000aa"

// deltaBlock is a block of verbosity 3 with HEIGHT, PREVIOUS and TX left open. Members that nobody wants are of every kind.
const deltaBlock = `{"hash":"` + deltaHash + `","confirmations":7,"size":1632,"height":HEIGHT,"version":4,"merkleroot":"mr","new":[{"tx":[1]}],` +
	`"nTx":2,"tx":TX,"time":1010,"nonce":"n","solution":"s","bits":"200f0f0f","difficulty":1.10,"trees":{},"previousblockhash":"PREVIOUS","nextblockhash":"next"}`

const deltaTxs = `[
	{"hex":"00","txid":"t0","vin":[{"coinbase":"51","sequence":1}],"vout":[
		{"value":6.25,"valueZat":625000000,"n":0,"scriptPubKey":{"type":"pubkeyhash","addresses":["tmA"]}},
		{"value":0.0,"valueZat":0,"n":1,"scriptPubKey":{"type":"nulldata"}},
		{"value":1e-8,"valueZat":1,"n":2,"scriptPubKey":{"type":"pubkey","addresses":["tmPK"]}},
		{"value":1e-8,"valueZat":1,"n":3,"scriptPubKey":{"type":"multisig","addresses":["tm1","tm2"]}}]},
	{"txid":"t1","vin":[
		{"txid":"p0","vout":3,"prevout":{"generated":true,"height":1,"value":20999999.99999999,"scriptPubKey":{"type":"scripthash","addresses":["t2B"]}}},
		{"txid":"p1","vout":0,"prevout":{"generated":false,"height":2,"value":1e-8,"scriptPubKey":{"type":"nonstandard"}}}],"vout":[]}]`

// deltaNode answers getblock with the text, and getblockheader with the times of the parents.
func deltaNode(t *testing.T, block func() io.Reader, times map[string]int) askFunc {
	return func(_ context.Context, method string, params []byte, costly bool) (*passthrough.Answer, error) {
		switch method {
		case "getblock":
			if string(params) != `["`+deltaHash+`",3]` || !costly {
				t.Errorf("asked %s %s, costly %v", method, params, costly)
			}
			return &passthrough.Answer{Size: -1, Body: io.NopCloser(block())}, nil
		case "getblockheader":
			name := strings.Trim(string(params), `[]"`)
			time, known := times[name]
			if !known {
				return &passthrough.Answer{Failed: true, Code: -5, Size: 2, Body: io.NopCloser(strings.NewReader("{}"))}, nil
			}
			var height int
			_, _ = fmt.Sscanf(name, "h%d", &height)
			text := fmt.Sprintf(`{"height":%d,"time":%d,"previousblockhash":"h%d"}`, height, time, height-1)
			return &passthrough.Answer{Size: int64(len(text)), Body: io.NopCloser(strings.NewReader(text))}, nil
		}
		t.Errorf("asked %s", method)
		return nil, chain.ErrUnavailable
	}
}

func TestBlockDeltas(t *testing.T) {
	t.Parallel()
	const deltas = `[{"txid":"t0","index":0,"inputs":[],"outputs":[{"address":"tmA","satoshis":625000000,"index":0},{"satoshis":0,"index":1},` +
		`{"satoshis":1,"index":2},{"satoshis":1,"index":3}]},` +
		`{"txid":"t1","index":1,"inputs":[{"address":"t2B","satoshis":-2099999999999999,"index":0,"prevtxid":"p0","prevout":3},` +
		`{"satoshis":-1,"index":1,"prevtxid":"p1","prevout":0}],"outputs":[]}]`
	const head = `{"jsonrpc":"2.0","id":1,"result":{"hash":"` + deltaHash + `","confirmations":7,"size":1632,"height":%s,"version":4,"merkleroot":"mr",` +
		`"deltas":%s,"time":1010,"mediantime":%d,"nonce":"n","bits":"200f0f0f","difficulty":1.10%s,"nextblockhash":"next"}}`
	const failed = `{"jsonrpc":"2.0","id":1,"error":%s}`
	times := map[string]int{"h0": 1, "h1": 5, "h2": 3, "h3": 9, "h4": 2, "h5": 8, "h6": 4, "h7": 7, "h8": 6, "h9": 2000, "h10": 10, "h11": 3000}
	text := func(height, previous, txs string) string {
		return strings.NewReplacer("HEIGHT", height, "PREVIOUS", previous, "TX", txs).Replace(deltaBlock)
	}
	// Of height 12 the block and its ten parents count: 1010 and those of 2 to 11, sorted 2 3 4 6 7 8 9 10 1010 2000 3000.
	for name, test := range map[string]struct {
		block io.Reader
		want  string
	}{
		"whole": {strings.NewReader(text("12", "h11", deltaTxs)), fmt.Sprintf(head, "12", deltas, 8, `,"previousblockhash":"h11"`)},
		"one byte at a time": {iotest.OneByteReader(strings.NewReader(text("12", "h11", deltaTxs))),
			fmt.Sprintf(head, "12", deltas, 8, `,"previousblockhash":"h11"`)},
		"few parents":      {strings.NewReader(text("2", "h1", "[]")), fmt.Sprintf(head, "2", "[]", 5, `,"previousblockhash":"h1"`)},
		"genesis":          {strings.NewReader(text("0", strings.Repeat("0", 64), "[]")), fmt.Sprintf(head, "0", "[]", 1010, "")},
		"parent is gone":   {strings.NewReader(text("12", "h99", "[]")), fmt.Sprintf(failed, `{"code":-1,"message":"The best chain changed meanwhile, try again"}`)},
		"unknown spending": {strings.NewReader(text("2", "h1", `[{"txid":"t","vin":[{"txid":"p","vout":0}]}]`)), fmt.Sprintf(failed, `{"code":-32603,"message":"Spent information not available"}`)},
		"cut off":          {io.MultiReader(strings.NewReader(text("12", "h11", deltaTxs)[:900]), iotest.ErrReader(io.ErrUnexpectedEOF)), fmt.Sprintf(failed, `{"code":-28,"message":"Zebra does not answer at present, try again later"}`)},
		"too short":        {strings.NewReader(text("12", "h11", deltaTxs)[:900]), fmt.Sprintf(failed, `{"code":-28,"message":"Zebra does not answer at present, try again later"}`)},
		"no object":        {strings.NewReader(`"00"`), fmt.Sprintf(failed, `{"code":-32603,"message":"Zebra gave no usable answer: the log of zsidecar says why"}`)},
		"other types":      {strings.NewReader(text("12", "h11", `[{"txid":5}]`)), fmt.Sprintf(failed, `{"code":-32603,"message":"Zebra gave no usable answer: the log of zsidecar says why"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, withNode(deltaNode(t, func() io.Reader { return test.block }, times)))
			if got := p.body(t, jsonrpctest.Call("getblockdeltas", `["`+deltaHash+`"]`)); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
	p := newPair(t, withNode(func(context.Context, string, []byte, bool) (*passthrough.Answer, error) {
		const refusal = `{"code":-5,"message":"block height not in best chain"}`
		return &passthrough.Answer{Failed: true, Code: -5, Size: int64(len(refusal)), Body: io.NopCloser(strings.NewReader(refusal))}, nil
	}))
	if got := p.body(t, jsonrpctest.Call("getblockdeltas", `["`+deltaHash+`"]`)); got != fmt.Sprintf(failed, `{"code":-5,"message":"block height not in best chain"}`) {
		t.Errorf("a block that Zebra does not have: %s", got)
	}
	for _, params := range []string{"", "null", "[]", "{}", `["12"]`, "[12]", `["` + deltaHash + `","more"]`, `["` + deltaHash[1:] + `g"]`, `{"hash":"` + deltaHash + `"}`} {
		if got := p.body(t, jsonrpctest.Call("getblockdeltas", params)); !strings.Contains(got, `"error":{"code":-1,"data":"expected the hash of a block`) {
			t.Errorf("parameters %s: %s", params, got)
		}
	}
}
