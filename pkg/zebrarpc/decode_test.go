package zebrarpc

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/valyala/fastjson"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

func TestUnhex(t *testing.T) {
	t.Parallel()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, digits := range []string{"", hex.EncodeToString(all), strings.ToUpper(hex.EncodeToString(all)), "aB0f", "0123456789AbCdEf", "0123456789AbCdEfFf"} {
		want, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := unhex([]byte(digits)); err != nil || string(got) != string(want) {
			t.Errorf("%q: %x, %v", digits, got, err)
		}
	}
	if _, err := unhex([]byte("abc")); err == nil || err.Error() != " from : the result is not a string of hex digits: encoding/hex: odd length hex string; "+hintReply {
		t.Errorf("odd: %v", err)
	}
	for c := range 256 {
		ok := strings.IndexByte("0123456789abcdefABCDEF", byte(c)) >= 0
		for i := range 14 { // in a whole word, and in what is left after it
			s := []byte("0123456789abcd")
			s[i] = byte(c)
			if _, err := unhex(s); ok != (err == nil) {
				t.Errorf("%q: %v", s, err)
			}
		}
	}
}

// The order and spacing of the members are the node's choice.
func TestRawResult(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":7,"result":"0a0b"}`,
		`{"jsonrpc":"2.0","result":"0A0B","id":7}`,
		`{"id":7,"result":"0a0b","jsonrpc":"2.0","error":null}`,
		` { "id" : 7 , "result" : "0a0b" , "jsonrpc" : "2.0" } ` + "\n",
		`{"jsonrpc":"2.0","id":7,"other":"` + strings.Repeat("x", 200) + `","result":"0a0b"}`,
		`{"jsonrpc":"2.0","id":7,"result":"\u0030a0b"}`,
	} {
		got, err := rawResult(new(fastjson.Parser), []byte(body), 7)
		if strings.Contains(body, `\u`) {
			if err == nil { // hex needs no escapes: Zebra sends none
				t.Errorf("%s: %x", body, got)
			}
		} else if err != nil || string(got) != "\x0a\x0b" {
			t.Errorf("%s: %x, %v", body, got, err)
		}
	}
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":8,"result":"0a0b"}`:                                   "its id is 8, not 7",
		`{"jsonrpc":"2.0","id":7,"result":"0a0b"`:                                    "not valid JSON",
		`{"jsonrpc":"2.0","id":7,"result":"0a0b`:                                     "not valid JSON",
		`{"jsonrpc":"2.0","id":7,"result":{}}`:                                       "the result is {}, not a string of hex digits",
		`{"jsonrpc":"2.0","id":7,"result":null}`:                                     "the result is null, not a string of hex digits",
		`{"jsonrpc":"2.0","id":7,"result":"0a0"}`:                                    "odd length hex string",
		`{"jsonrpc":"2.0","id":7,"result":"0g"}`:                                     "not a string of hex digits",
		`{"jsonrpc":"2.0","id":7,"error":{"code":-8,"message":"\"result\":\"00\""}}`: `code -8: "result":"00"`,
	} {
		if got, err := rawResult(new(fastjson.Parser), []byte(body), 7); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %x, %v; want %q", body, got, err, want)
		}
	}
}

// Members of the wrong type, and missing ones, are named.
func TestWrongMembers(t *testing.T) {
	t.Parallel()
	hash := chain.Hash{}.String()
	ok := map[string]string{
		"getbestblockheightandhash": `{"height":1,"hash":[` + strings.Repeat("0,", 31) + `0]}`,
		"getblock":                  `{"hash":"` + hash + `","height":1,"trees":{"sapling":{"size":3},"ironwood":{"size":4294967295}}}`,
		"getblockheader":            `{"hash":"` + hash + `","confirmations":1,"height":1}`,
		"getblockchaininfo": `{"chain":"main","blocks":1,"estimatedheight":2,"bestblockhash":"` + hash + `","consensus":{"chaintip":"77190ad9"},
			"upgrades":{"77190ad9":{"name":"NU7","activationheight":1,"status":"active"}}}`,
		"getinfo":      `{"build":"b","subversion":"s"}`,
		"getblockhash": `"` + hash + `"`,
	}
	for _, test := range []struct{ method, old, new, want string }{
		{"getbestblockheightandhash", `"height":1,`, ``, "height is missing"},
		{"getbestblockheightandhash", `1`, `-1`, "height is -1, not an integer between 0 and 2147483647"},
		{"getbestblockheightandhash", `1`, `2147483648`, "height is 2147483648, not an integer between 0 and 2147483647"},
		{"getbestblockheightandhash", `1`, `1.5`, "height is 1.5, not an integer"},
		{"getbestblockheightandhash", `1`, `"1"`, `height is "1", not an integer`},
		{"getbestblockheightandhash", `0,`, `256,`, "hash[0] is 256, not a byte"},
		{"getbestblockheightandhash", `0,`, ``, "not 32 bytes"},
		{"getbestblockheightandhash", `0,`, `0,0,`, "not 32 bytes"},
		{"getbestblockheightandhash", `0,`, `"x",`, `hash[0] is "x", not a byte`},
		{"getblock", `"trees":`, `"leaves":`, "trees is missing"},
		{"getblock", `{"size":3}`, `3`, "trees.sapling: size is missing: its parent is 3, not an object"},
		{"getblock", `4294967295`, `4294967296`, "trees.ironwood: size is 4294967296, not an integer between 0 and 4294967295"},
		{"getblock", `"height":1`, `"height":2`, "the reply is about height 2"},
		{"getblock", hash, hash[2:], "hash: block hash"},
		{"getblockheader", hash, strings.Repeat("1", 64), "the reply is about block 1111"},
		{"getblockheader", `"confirmations":1`, `"confirmations":"1"`, `confirmations is "1", not an integer`},
		{"getblockheader", `"confirmations":1,`, ``, `confirmations is missing`},
		{"getblockchaininfo", `"main"`, `null`, "chain is null, not a string"},
		{"getblockchaininfo", `{"chaintip":"77190ad9"}`, `[]`, "consensus: chaintip is missing: its parent is [], not an object"},
		{"getblockchaininfo", `"chaintip":"77190ad9"`, `"chaintip":"7719"`, `consensus.chaintip: branch id "7719" is not 8 hex digits`},
		{"getblockchaininfo", `"77190ad9":{`, `"77190adx":{`, `upgrades: branch id "77190adx" is not 8 hex digits`},
		{"getblockchaininfo", `"NU7"`, `7`, "upgrades.77190ad9: name is 7, not a string"},
		{"getblockchaininfo", `"activationheight":1,`, ``, "upgrades.77190ad9: activationheight is missing"},
		{"getinfo", `"b"`, `{}`, "build is {}, not a string"},
		{"getinfo", `"s"`, `7`, "subversion is 7, not a string"},
		{"getblockhash", hash, hash[2:], "block hash"},
	} {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			spoiled := false
			c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
				result := ok[q.method]
				if spoiled && q.method == test.method {
					if !strings.Contains(result, test.old) {
						t.Fatalf("%s has no %s", result, test.old)
					}
					result = strings.Replace(result, test.old, test.new, 1)
				}
				return q.result(result)
			})
			ask := func() (err error) {
				switch test.method {
				case "getbestblockheightandhash":
					_, err = c.BestBlock(t.Context())
				case "getblock":
					_, _, err = c.TreeSizesAt(t.Context(), 1)
				case "getblockheader":
					_, err = c.HeightOf(t.Context(), chain.Hash{})
				case "getblockhash":
					_, err = c.BlockHash(t.Context(), 0)
				default:
					_, err = c.NodeInfo(t.Context())
				}
				return err
			}
			if err := ask(); err != nil {
				t.Fatalf("unspoiled: %v", err)
			}
			spoiled = true
			var e *Error
			if err := ask(); !errors.As(err, &e) || e.Class != Fatal || e.Method != test.method ||
				!strings.Contains(err.Error(), "the reply is wrong: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// FuzzDecodeReply checks that no reply makes any decoder panic, that errors are the package's own, and that a raw block comes out as
// it went in.
func FuzzDecodeReply(f *testing.F) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":7,"result":"0a0b"}`,
		`{"jsonrpc":"2.0","id":7,"error":{"code":-8,"message":"Block not found","data":"x"}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"height":1,"hash":[1,2,3]}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"hash":"00","height":1,"confirmations":-1,"trees":{"sapling":{"size":3}}}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"chain":"main","blocks":1,"upgrades":{"00000000":{"name":"x","activationheight":1,"status":"active"}}}}`,
		`{"jsonrpc":"2.0","id":null,"error":null}`, `[[[[`, ``, `{`, "<html>",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<16 {
			t.Skip("long inputs find nothing new")
		}
		p := new(fastjson.Parser)
		if v, err := parseReply(p, body, 7); err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Class < Passing || e.Class > Fatal {
				t.Fatalf("%T %v", err, err)
			}
		} else {
			_, _ = chainInfoOf(v)
			_, _ = treeSizesOf(v)
			_, _ = rawHashOf(v, "hash")
			_, _ = hashOf(v, "hash")
			_, _ = heightOf(v, "height")
			_ = text(v)
		}
		if raw, err := rawResult(p, append([]byte(nil), body...), 7); err == nil {
			again := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"result":"%x"}`, raw)
			if got, err := rawResult(p, again, 7); err != nil || string(got) != string(raw) {
				t.Fatalf("%x came out as %x, %v", raw, got, err)
			}
		}
		wrapped := fmt.Appendf(nil, `{"jsonrpc":"2.0","result":"%x","id":7}`, body)
		if got, err := rawResult(p, wrapped, 7); err != nil || string(got) != string(body) {
			t.Fatalf("%x came out as %x, %v", body, got, err)
		}
	})
}
