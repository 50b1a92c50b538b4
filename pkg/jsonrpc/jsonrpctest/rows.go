package jsonrpctest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/zsidecar/zsidecar/pkg/jsonrpc/envelope"
)

// Facts are what the questions are about: blocks and transactions of the chain that both servers have.
type Facts struct {
	Tip       int
	Blocks    []Block // some
	Txids     []string
	Addresses []string // transparent
	Others    []string // addresses of other kinds, valid or not
	Mempool   []string // txids
}

// Block is a block of the best chain.
type Block struct {
	Height int
	Hash   string
}

// unknown is no block and no transaction.
const (
	unknown = "00000000000000000000000000000000000000000000000000000000000000ff"
	notHex  = "00000000000000000000000000000000000000000000000000000000000000fg"
)

// Transport has questions about HTTP.
func Transport() []Question {
	ok := Call("getblockcount", "").Body
	var list []Question
	for _, contentType := range []string{
		"", "text/plain", "text/plain; charset=utf-8", "text/html", "application/json", "Application/JSON", "application/json;charset=utf-8",
		"application/json; charset=utf-8", "application/json;  charset=utf-8", "application/json; charset=latin1", "application/json;",
		"application/json-rpc", "application/json-rpc; charset=UTF-8", "application/jsonrequest", "application/x-www-form-urlencoded",
	} {
		list = append(list, Question{Verb: http.MethodPost, ContentType: contentType, Body: ok})
	}
	for _, verb := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch} {
		list = append(list, Question{Verb: verb, ContentType: "application/json", Body: ok})
	}
	for _, text := range []string{
		"", " ", "x", "null", "5", `"x"`, "  " + ok, "\n\t\r\f" + ok, strings.Repeat(" ", 127) + ok, strings.Repeat(" ", 128) + ok,
		ok + strings.Repeat(" ", envelope.MaxBody-len(ok)), "\ufeff" + ok,
	} {
		list = append(list, Body(text))
	}
	return list
}

// Versions has questions about the envelope: versions of JSON-RPC, ids, batches, broken JSON.
func Versions() []Question {
	list := []Question{
		Body(`{`), Body(`{}`), Body(`{"jsonrpc":"2.0"`), Body(`{"jsonrpc":"2.0","id":1,"method":"getblockcount"} x`),
		Body(`{"jsonrpc":"2.0","id":7}`), Body(`{"jsonrpc":"2.0","id":7,"method":5}`), Body(`{"jsonrpc":"2.0","id":7,"method":null}`),
		Body(`{"jsonrpc":"2.0","method":"getblockcount"}`), Body(`{"jsonrpc":"2.0","method":"nosuchmethod"}`),
		Body(`{"jsonrpc":"2.0","id":1,"method":"getblockcount","more":true}`), Body(`{"jsonrpc":"2.0","id":1,"METHOD":"getblockcount"}`),
		Body(`{"jsonrpc":"2.0","id":1,"method":"getbl\u006fckcount"}`), Body(`{"jsonrpc":"2.0","id":1,"method":"getblock\u0000count"}`),
		Body(`[]`), Body(`[`), Body(`[1]`), Body(`[null]`), Body(`[{}]`), Body(`[{"id":3}]`), Body(`[[]]`), Body(`[` + Call("getblockcount", "").Body + `] x`),
	}
	for _, version := range []string{``, `"jsonrpc":null,`, `"jsonrpc":"1.0",`, `"jsonrpc":"1.1",`, `"jsonrpc":"2.0",`, `"jsonrpc":2.0,`} {
		for _, params := range []string{``, `,"params":null`, `,"params":[]`} {
			for _, id := range []string{``, `"id":1,`, `"id":null,`} {
				list = append(list, Body(`{`+version+id+`"method":"getdifficulty"`+params+`}`))
			}
		}
		for _, call := range []string{
			`"method":"nosuchmethod","params":[]`, `"method":"getblock","params":["99999",0]`, `"method":"getblock","params":[5]`,
			`"method":"getblock","params":["1"]`, `"method":"getblock","params":{"hash_or_height":"1"}`, `"method":"getblockhash","params":[1]`,
			`"method":"getblockhash","params":[99999]`,
		} {
			list = append(list, Body(`{`+version+`"id":"a",`+call+`}`))
		}
	}
	for _, id := range []string{
		`0`, `-1`, `-0`, `1.5`, `1e3`, `18446744073709551615`, `18446744073709551616`, `"x"`, `"a\"b<é"`, `""`, `true`, `[1]`, `{"a":1}`,
		`"\u0041\u00e9\u2028\ud83d\ude00\/\b\f\n\r\t\u0001\u007f\\"`, `"\ud800"`,
	} {
		list = append(list,
			Body(`{"jsonrpc":"2.0","id":`+id+`,"method":"getdifficulty"}`),
			Body(`{"id":`+id+`,"method":"getdifficulty","params":[]}`),
			Body(`{"jsonrpc":"2.0","id":`+id+`}`))
	}
	one := Call("getdifficulty", "").Body
	for _, batch := range [][]string{
		{one}, {one, one}, {one, `{"jsonrpc":"2.0","method":"getblockcount"}`}, {`{"jsonrpc":"2.0","method":"getblockcount"}`},
		{one, `5`, `{"id":4,"method":"getblockcount","params":[]}`, `{"jsonrpc":"1.0","id":4,"method":"getblockcount","params":[]}`},
		{Call("nosuchmethod", "").Body, Call("getblock", `["1",9]`).Body, Call("getblock", `["1",0]`).Body, Call("getblockhash", `[1]`).Body},
		{`{"jsonrpc":"2.0","id":"x","method":"getblockhash","params":["1"]}`, `{"jsonrpc":"2.0","id":null,"method":"getblockcount"}`},
	} {
		list = append(list, Body("["+strings.Join(batch, ",")+"]"))
	}
	return list
}

// Broken has JSON that one parser may take and another may not.
func Broken() []Question {
	var list []Question
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"getblockcount"}`, `{"jsonrpc":"2.0","id":1,"method":"getblockcount","method":"getblockhash"}`,
		`{"jsonrpc":"2.0","id":1,"method":"getblockhash","params":[1],"params":[2]}`, `{"jsonrpc":"1.0","jsonrpc":"2.0","id":1,"method":"getblockcount"}`,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"getblockcount\xff\"}", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"getblock\",\"params\":[\"1\xff\"]}",
		"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"getblockcount\"}", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"getblockcount\",\"x\":\"\xff\"}",
		`{"jsonrpc":"2.0","id":1,"method":"getblock","params":["\ud800"]}`, `{"jsonrpc":"2.0","id":1,"method":"getblock","params":[1e999]}`,
		`{"jsonrpc":"2.0","id":1,"method":"getblockhash","params":[1e999]}`, `{"jsonrpc":"2.0","id":1,"method":"getblockcount","params":[1e999]}`,
		`{"jsonrpc":"2.0","id":1,"method":"getblockhash","params":[01]}`, `{"jsonrpc":"2.0","id":1,"method":"getblockhash","params":[1,]}`,
		`{"jsonrpc":"2.0","id":1,"method":"getblockcount","params":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
		`{"jsonrpc":"2.0","id":1,"method":"getblock","params":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
		`{"jsonrpc":"2.0","id":1,"method":"getblockcount","x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"getdifficulty"}`, `{"id":1,"id":2,"method":"getdifficulty","params":[]}`,
		`{"jsonrpc":"2.0","id":1,"method":"getdifficulty","params":[],"params":[]}`, `{"jsonrpc":"2.0","id":1,"meth\u006fd":"getdifficulty"}`,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"getdifficulty\",\"params\":[\"\xff\"]}",
		`{"jsonrpc":"2.0","id":"\ud800","method":"getdifficulty"}`, `{"jsonrpc":"2.0","id":1e999,"method":"getdifficulty"}`,
		`{"id":1,"method":"getdifficulty","params":["\ud800"]}`, `{"id":1,"method":"getdifficulty","params":[1e999]}`,
		`{"id":1,"method":"getdifficulty","params":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
		`{"id":1,"method":"getdifficulty","params":` + strings.Repeat("[", 126) + strings.Repeat("]", 126) + `}`,
		`{"id":1,"method":"getdifficulty","params":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `}`,
		`{"id":1,"method":"getdifficulty","params":["[{\"\\",-1.5e3]}`, `{"jsonrpc":"1.0","id":"\ud800","method":"getdifficulty","params":[]}`,
	} {
		list = append(list, Body(text), Body("["+text+"]"))
	}
	return list
}

// odd are parameters that no method wants.
func odd() []string {
	return []string{``, `null`, `[]`, `{}`, `5`, `"x"`, `true`, `[null]`, `[true]`, `[1.5]`, `[-1]`, `[[1]]`, `[{"a":1}]`, `["x"]`, `[""]`, `{"a":1}`,
		`[99999999999]`, `[18446744073709551616]`, `[1,2,3,4,5]`, `["` + unknown + `"]`, `["` + notHex + `"]`, `["` + unknown + `0"]`}
}

// Wrong puts odd parameters to every one of the methods.
func Wrong(methods []string) []Question {
	var list []Question
	for _, method := range methods {
		for _, params := range odd() {
			list = append(list, with(Call(method, params), method))
		}
	}
	return list
}

// with adds the members that change in a method's answer.
func with(q Question, method string) Question {
	q.Changing = map[string][]string{
		"getblockchaininfo": {"estimatedheight", "size_on_disk"},
		"getinfo":           {"errors", "errorstimestamp"},
		"getpeerinfo":       {"pingtime", "pingwait", "lastrecv"},
		"getrawmempool":     {"time"},
	}[method]
	q.Unordered = method == "getrawmempool"
	return q
}

// Blocks ask for blocks, by height and hash, in every way.
func Blocks(f Facts) []Question {
	var list []Question
	refs := []string{"99999", "-1", "-2", fmt.Sprint(-f.Tip - 1), fmt.Sprint(-f.Tip - 2), "2147483647", "2147483648", "-0", " 1", "0x1", unknown}
	for _, b := range f.Blocks {
		refs = append(refs, fmt.Sprint(b.Height), b.Hash)
	}
	for _, ref := range refs {
		for _, more := range []string{"", ",null", ",0", ",1", ",2", ",3", ",4", ",256", ",true", `,"1"`, ",1,2"} {
			list = append(list, Call("getblock", `["`+ref+`"`+more+`]`))
		}
		for _, more := range []string{"", ",true", ",false", ",1", ",null"} {
			list = append(list, Call("getblockheader", `["`+ref+`"`+more+`]`))
		}
		list = append(list, Call("z_gettreestate", `["`+ref+`"]`), Call("getblock", `{"hashOrHeight":"`+ref+`","verbosity":2}`))
	}
	for _, index := range []int{0, 1, f.Tip, f.Tip + 1, -1, -2, -f.Tip - 1, -f.Tip - 2, 1<<31 - 1, 1 << 31, -1 << 31, -1<<31 - 1} {
		list = append(list, Call("getblockhash", fmt.Sprintf(`[%d]`, index)), Call("getblockhash", fmt.Sprintf(`[%d,"more"]`, index)),
			Call("getblockhash", fmt.Sprintf(`{"index":%d}`, index)), Call("getblocksubsidy", fmt.Sprintf(`[%d]`, index)))
	}
	for _, text := range []string{`[-0]`, `[1.0]`, `[1e0]`, `[ 1 ]`, "[\n1]"} {
		list = append(list, Call("getblockhash", text))
	}
	for _, pool := range []string{"sapling", "orchard", "ironwood", "sprout", "SAPLING"} {
		list = append(list, Call("z_getsubtreesbyindex", `["`+pool+`",0]`), Call("z_getsubtreesbyindex", `["`+pool+`",0,1]`),
			Call("z_getsubtreesbyindex", `["`+pool+`",65536]`), Call("z_getsubtreesbyindex", `["`+pool+`",-1]`))
	}
	return list
}

// Transactions ask for transactions and outputs.
func Transactions(f Facts) []Question {
	var list []Question
	for _, id := range append(append([]string{unknown, "00", "0", "xy"}, f.Txids...), f.Mempool...) {
		for _, more := range []string{"", ",0", ",1", ",2", ",null", ",true", `,1,"` + f.Blocks[0].Hash + `"`, `,0,"` + unknown + `"`, `,1,"x"`} {
			list = append(list, Call("getrawtransaction", `["`+id+`"`+more+`]`))
		}
		for _, more := range []string{"", ",0", ",0,false", ",0,true", ",1", ",-1", ",99"} {
			list = append(list, Call("gettxout", `["`+id+`"`+more+`]`))
		}
	}
	for _, params := range []string{`["00"]`, `["0"]`, `["xy"]`, `[""]`, `["` + strings.Repeat("00", 100_000) + `"]`, `["0400008085202f89"]`, `["00",true]`} {
		list = append(list, Call("sendrawtransaction", params))
	}
	for _, params := range []string{``, `[]`, `[false]`, `[true]`, `[null]`, `[1]`} {
		list = append(list, with(Call("getrawmempool", params), "getrawmempool"))
	}
	return list
}

// AddressCalls ask about addresses of every kind.
func AddressCalls(f Facts) []Question {
	var list []Question
	for _, method := range []string{"getaddressbalance", "getaddresstxids", "getaddressutxos"} {
		for _, address := range append(append([]string{"", "x"}, f.Addresses...), f.Others...) {
			list = append(list, Call(method, `["`+address+`"]`), Call(method, `[{"addresses":["`+address+`"]}]`))
		}
		if len(f.Addresses) == 0 {
			continue
		}
		object := `{"addresses":["` + strings.Join(f.Addresses, `","`) + `"]`
		for _, more := range []string{``, `,"start":1,"end":3`, `,"start":3,"end":1`, `,"start":0,"end":0`, `,"end":99999`, `,"start":-1`, `,"chainInfo":true`,
			`,"chaininfo":true`, `,"startHeight":2,"maxEntries":1`, `,"maxEntries":100001`, `,"more":[1]`} {
			list = append(list, Call(method, `[`+object+more+`}]`))
		}
		list = append(list, Call(method, object+`}`))
	}
	for _, method := range []string{"validateaddress", "z_validateaddress", "z_listunifiedreceivers", "z_converttex"} {
		for _, address := range append(append([]string{"", "x"}, f.Addresses...), f.Others...) {
			list = append(list, Call(method, `["`+address+`"]`))
		}
	}
	return list
}

// Node asks the node about itself, and for windows of blocks.
func Node() []Question {
	var list []Question
	for _, method := range []string{"getinfo", "getblockchaininfo", "getnetworkinfo", "getpeerinfo", "getmininginfo", "getmempoolinfo", "getdifficulty",
		"getdeprecationinfo", "getstandardfee", "ping", "getblockcount", "getbestblockhash", "getbestblockheightandhash"} {
		for _, params := range []string{``, `[]`, `["extra"]`, `{"a":1}`, `7`} {
			list = append(list, with(Call(method, params), method))
		}
		q := with(Body(`{"id":"curltext","method":"`+method+`","params":[]}`), method)
		q.ContentType = "text/plain"
		list = append(list, q)
	}
	for _, method := range []string{"getnetworksolps", "getnetworkhashps"} {
		for _, params := range []string{``, `[]`, `[120]`, `[120,-1]`, `[0]`, `[-1]`, `[1,1]`, `[1,99999]`, `[2147483648]`, `["1"]`} {
			list = append(list, Call(method, params))
		}
	}
	return list
}
