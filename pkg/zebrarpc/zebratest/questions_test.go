package zebratest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/jsonrpc/envelope"
)

// transportQuestions are about HTTP: methods, content types, credentials, sizes.
func transportQuestions() []question {
	ok := call("getblockcount", "").body
	var list []question
	for _, contentType := range []string{
		"", "text/plain", "text/plain; charset=utf-8", "text/html", "application/json", "Application/JSON", "application/json;charset=utf-8",
		"application/json; charset=utf-8", "application/json;  charset=utf-8", "application/json; charset=latin1", "application/json;",
		"application/json-rpc", "application/json-rpc; charset=UTF-8", "application/jsonrequest", "application/x-www-form-urlencoded",
	} {
		list = append(list, question{verb: http.MethodPost, contentType: contentType, body: ok})
	}
	for _, verb := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		list = append(list, question{verb: verb, contentType: "application/json", body: ok})
	}
	for _, auth := range []func(string) string{
		func(string) string { return "" },
		func(string) string { return "Basic" },
		func(string) string { return "Basic !" },
		func(string) string { return basic("__cookie__:wrong") },
		func(string) string { return basic("no colon") },
		func(c string) string { return basic("somebody" + strings.TrimPrefix(c, "__cookie__")) },
		func(c string) string { return basic(c + ":more") },
		func(c string) string { return strings.Replace(basic(c), "Basic", "Bearer", 1) },
		func(c string) string { return strings.Replace(basic(c), " ", "   ", 1) },
	} {
		list = append(list, question{verb: http.MethodPost, contentType: "application/json", body: ok, auth: auth})
	}
	// Even a request that is refused for another reason needs the credentials.
	list = append(list, question{verb: http.MethodGet, auth: func(string) string { return "" }})
	for _, text := range []string{
		"", " ", "x", "null", "5", `"x"`, "  " + ok, "\n\t\r\f" + ok, strings.Repeat(" ", 127) + ok, strings.Repeat(" ", 128) + ok,
		ok + strings.Repeat(" ", envelope.MaxBody-len(ok)), ok + strings.Repeat(" ", envelope.MaxBody+1-len(ok)),
	} {
		list = append(list, body(text))
	}
	return list
}

// versionQuestions are about the envelope: versions of JSON-RPC, ids, batches, broken JSON.
func versionQuestions() []question {
	list := []question{
		body(`{`), body(`{}`), body(`{"jsonrpc":"2.0"`), body(`{"jsonrpc":"2.0","id":1,"method":"getblockcount"} x`),
		body(`{"jsonrpc":"2.0","id":7}`), body(`{"jsonrpc":"2.0","id":7,"method":5}`), body(`{"jsonrpc":"2.0","id":7,"method":null}`),
		body(`{"jsonrpc":"2.0","method":"getblockcount"}`), body(`{"jsonrpc":"2.0","method":"nosuchmethod"}`),
		body(`{"jsonrpc":"2.0","id":1,"method":"getblockcount","more":true}`), body(`{"jsonrpc":"2.0","id":1,"METHOD":"getblockcount"}`),
		body(`[]`), body(`[`), body(`[1]`), body(`[null]`), body(`[{}]`), body(`[{"id":3}]`),
	}
	for _, version := range []string{``, `"jsonrpc":null,`, `"jsonrpc":"1.0",`, `"jsonrpc":"1.1",`, `"jsonrpc":"2.0",`, `"jsonrpc":2.0,`} {
		for _, params := range []string{``, `,"params":null`, `,"params":[]`} {
			for _, id := range []string{``, `"id":1,`, `"id":null,`} {
				list = append(list, body(`{`+version+id+`"method":"getblockcount"`+params+`}`))
			}
		}
		list = append(list,
			body(`{`+version+`"id":"a","method":"nosuchmethod","params":[]}`),
			body(`{`+version+`"id":"a","method":"getblock","params":["99999",0]}`),
			body(`{`+version+`"id":"a","method":"getblock","params":[5]}`))
	}
	for _, id := range []string{`0`, `-1`, `1.5`, `1e3`, `18446744073709551615`, `18446744073709551616`, `"x"`, `"a\"b<é"`, `""`, `true`, `[1]`, `{"a":1}`} {
		list = append(list,
			body(`{"jsonrpc":"2.0","id":`+id+`,"method":"getblockcount"}`),
			body(`{"id":`+id+`,"method":"getblockcount","params":[]}`),
			body(`{"jsonrpc":"2.0","id":`+id+`}`))
	}
	one := call("getblockcount", "").body
	for _, batch := range [][]string{
		{one}, {one, one}, {one, `{"jsonrpc":"2.0","method":"getblockcount"}`}, {`{"jsonrpc":"2.0","method":"getblockcount"}`},
		{one, `5`, `{"id":4,"method":"getblockcount","params":[]}`, `{"jsonrpc":"1.0","id":4,"method":"getblockcount","params":[]}`},
		{call("nosuchmethod", "").body, call("getblock", `["1",9]`).body},
	} {
		list = append(list, body("["+strings.Join(batch, ",")+"]"))
	}
	return list
}

const (
	unknownHash = "00000000000000000000000000000000000000000000000000000000000000ff"
	notHex      = "00000000000000000000000000000000000000000000000000000000000000fg"
)

// wrongQuestions have wrong or odd parameters.
func wrongQuestions() []question {
	list := []question{call("nosuchmethod", ""), call("getaddressdeltas", `[]`), call("GETBLOCK", `["1"]`), call("help", "")}
	for _, method := range []string{"getblock", "getblockheader"} {
		list = append(list, call(method, ""))
		for _, first := range []string{
			`5`, `-1`, `1.5`, `null`, `true`, `[1]`, `{"a":1}`, `""`, `"x"`, `" 1"`, `"1 "`, `"0x1"`, `"1.0"`, `"-"`, `"-0"`, `"--1"`,
			`"99999"`, `"-1"`, `"-2"`, `"-44"`, `"-45"`, `"-46"`, `"2147483646"`, `"2147483647"`, `"2147483648"`, `"4294967295"`, `"4294967296"`,
			`"18446744073709551616"`, `"-9223372036854775808"`, `"-9223372036854775809"`, `"` + unknownHash + `"`, `"` + notHex + `"`,
			`"` + unknownHash[1:] + `"`, `"` + unknownHash + `0"`, `"0` + unknownHash + `"`,
		} {
			list = append(list, call(method, `[`+first+`]`), call(method, `[`+first+`,0]`), call(method, `[`+first+`,false]`))
		}
		for _, second := range []string{
			`null`, `"1"`, `-1`, `4`, `255`, `256`, `1.5`, `18446744073709551615`, `true`, `"true"`, `[]`, `[1]`, `{}`,
		} {
			list = append(list, call(method, `["1",`+second+`]`), call(method, `["99999",`+second+`]`))
		}
		for _, params := range []string{
			`null`, `5`, `"1"`, `{}`, `true`, `{"hash_or_height":"99999"}`, `{"hashOrHeight":"99999"}`, `{"hash":"1"}`, `["1",null,1,"more"]`,
		} {
			list = append(list, call(method, params))
		}
	}
	for _, params := range []string{
		``, `[]`, `[99999]`, `[-1]`, `[-44]`, `[-45]`, `[2147483647]`, `[2147483648]`, `[-2147483648]`, `[-2147483649]`, `["1"]`, `[null]`, `[1.5]`,
		`[true]`, `[[1]]`, `{"index":1}`, `{"index":99999}`, `{}`, `[1,2,3]`, `5`,
	} {
		list = append(list, call("getblockhash", params))
	}
	return list
}

// positionQuestions ask where the chain is.
func positionQuestions() []question {
	var list []question
	for _, method := range []string{"getbestblockhash", "getbestblockheightandhash", "getblockcount", "getblockchaininfo", "getinfo"} {
		list = append(list, call(method, ""), call(method, `[]`), call(method, `["extra"]`), call(method, `{"a":1}`), call(method, `7`))
	}
	return list
}

// rightQuestions ask for everything that a chain has.
func rightQuestions(t *testing.T, c *Chain) []question {
	t.Helper()
	list := positionQuestions()
	for h := range c.Tip().Height + 1 {
		hash, err := c.Hash(h)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, call("getblockhash", fmt.Sprintf(`[%d]`, h)))
		list = append(list, blockQuestions(fmt.Sprint(h))...)
		list = append(list, blockQuestions(hash.String())...)
	}
	return append(list, blockQuestions("-2")...)
}

// blockQuestions ask for one block in every way.
func blockQuestions(ref string) []question {
	var list []question
	for _, more := range []string{"", ",0", ",1"} {
		list = append(list, call("getblock", `["`+ref+`"`+more+`]`))
	}
	for _, more := range []string{"", ",true", ",false"} {
		list = append(list, call("getblockheader", `["`+ref+`"`+more+`]`))
	}
	return append(list, call("getblock", `{"hash_or_height":"`+ref+`","verbosity":0}`), call("getblockheader", `{"hashOrHeight":"`+ref+`"}`))
}

// nodeQuestions ask what has little to do with the chain. How many solutions a second there are is not modelled, so that is asked for in
// an object, whose members may be compared by type.
func nodeQuestions() []question {
	var list []question
	for _, method := range []string{
		"getdeprecationinfo", "getdifficulty", "getpeerinfo", "getstandardfee", "ping", "getnetworkinfo", "getmempoolinfo", "getmininginfo",
	} {
		list = append(list, call(method, ""), call(method, `[]`), call(method, `["extra"]`), call(method, `{"a":1}`), call(method, `7`))
	}
	for _, method := range []string{"getblocksubsidy", "getnetworksolps", "getnetworkhashps"} {
		for _, params := range []string{`["1"]`, `[1.5]`, `[true]`, `[[1]]`, `[4294967296]`, `5`} {
			list = append(list, call(method, params))
		}
	}
	for _, params := range []string{``, `[]`, `[null]`, `[1]`, `{"height":1}`, `{}`} {
		list = append(list, call("getblocksubsidy", params))
	}
	list = append(list, call("getnetworksolps", `[1,"x"]`), call("getblocksubsidy", `[-1]`))
	const script, tex, main = "t2SRyAR26tXTnZHfpa3jPqeyYmxCbAZxUnh", "texregtest1vk37d06xel8t7kjvl6htu8js0y6fhkqjnerx00", "t1Hsc1LR8yKnbbe3twRp88p6vFfC5t7DLbs"
	for _, address := range []string{transparentAddress, script, tex, main, saplingAddress, orchardAddress, "", "x", transparentAddress + "x"} {
		list = append(list, call("validateaddress", `["`+address+`"]`))
	}
	for _, params := range []string{``, `[]`, `[null]`, `[5]`, `{"raw_address":"x"}`, `{"address":"x"}`} {
		list = append(list, call("validateaddress", params))
	}
	return list
}
