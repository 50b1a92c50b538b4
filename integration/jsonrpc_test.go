package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc/jsonrpctest"
)

// withJSONRPC turns the JSON-RPC server on, with a cookie, and returns it as a client needs it.
func (c *sidecar) withJSONRPC() jsonrpctest.Server {
	c.tb.Helper()
	addr, dir := servertest.FreeAddr(c.tb), c.tb.TempDir()
	c.args = append(c.args, "--json-rpc", addr, "--json-rpc-cookie-dir", dir)
	return jsonrpctest.Server{URL: "http://" + addr, CookieFile: filepath.Join(dir, ".cookie")}
}

func (n *node) jsonRPC() jsonrpctest.Server {
	return jsonrpctest.Server{URL: n.url(), CookieFile: n.cookie()}
}

// jsonRPCFacts are what the questions are about: every kind of block and transaction of the fixture chain, and a mempool with two
// transactions.
func jsonRPCFacts(t *testing.T, n *node) jsonrpctest.Facts {
	t.Helper()
	wallet := &spender{node: n, next: 500}
	wallet.send()
	wallet.send()
	tip, _ := n.tip()
	f := jsonrpctest.Facts{
		Tip: tip, Mempool: wallet.pending, Addresses: []string{anyoneCanSpend, keyHash},
		Others: []string{
			saplingOnly, orchardOnly, "t1Hsc1LR8yKnbbe3twRp88p6vFfC5t7DLbs", "t3Vz22vK5z2LcKEdg16Yv4FFneEL1zg9ojd",
			"tex1s2rt77ggv6q989lr49rkgzmh5slsksa9khdgte", keyHash[:len(keyHash)-1] + "W",
			"ztqox67WsYh9R7PXSj4tHSzCTBdX9dd8mHTdmMrVsF2L9Ev8zAHuy8fMPuTiZKmp8oV3scMr6t6uyCwVmZDN8U3hnbTPkHh",
		},
	}
	var tex string
	n.call(&tex, "z_converttex", keyHash)
	f.Others = append(f.Others, tex)
	for _, h := range []int{0, 1, 2, 3, 5, 9, 19, 20, 21, 22, 40, 44, 150, 151, 1002, 2483, 2484, tip - 1, tip} {
		block := zebraBlock(n, h)
		f.Blocks = append(f.Blocks, jsonrpctest.Block{Height: h, Hash: n.hashAt(h)})
		for _, tx := range block.Tx {
			f.Txids = append(f.Txids, tx.TxID)
		}
	}
	return f
}

// relayedMethods are all that Zebra has too.
func relayedMethods() []string {
	return slices.DeleteFunc(jsonrpc.Methods(), func(method string) bool {
		return slices.Contains([]string{"getaddressdeltas", "getblockdeltas", "getchaintips", "getspentinfo", "gettxoutsetinfo"}, method)
	})
}

// TestJSONRPCAsZebra asks Zebra and zsidecar the same questions, right, wrong and strange, and compares the answers to the byte.
func TestJSONRPCAsZebra(t *testing.T) {
	t.Parallel()
	n := fixtureNode(t, "")
	f := jsonRPCFacts(t, n)
	for _, s := range []setup{passthrough, defaultSegments} {
		t.Run(s.name, func(t *testing.T) {
			c := newSidecar(t, n.url(), n.cookie(), s)
			ours := c.withJSONRPC()
			c.start()
			awaitAnswer(t, c.wallet())
			if !s.noIndex {
				c.awaitIndex(f.Tip, time.Minute)
			}
			compare := func(name string, questions []jsonrpctest.Question) {
				t.Run(name, func(t *testing.T) {
					t.Logf("%d questions", len(questions))
					for _, q := range questions {
						if err := jsonrpctest.Compare(t.Context(), n.jsonRPC(), ours, q); err != nil {
							t.Error(err)
						}
					}
				})
			}
			single := map[string][]jsonrpctest.Question{
				"blocks": jsonrpctest.Blocks(f), "transactions": jsonrpctest.Transactions(f), "addresses": jsonrpctest.AddressCalls(f),
				"node": jsonrpctest.Node(), "wrong": jsonrpctest.Wrong(relayedMethods()),
			}
			for name, questions := range single {
				compare(name, questions)
				compare(name+" in batches", batches(questions))
			}
			compare("transport", jsonrpctest.Transport())
			compare("versions", jsonrpctest.Versions())
			compare("broken", jsonrpctest.Broken())
			testJSONRPCOwn(t, n, ours, f)
		})
	}
}

// batches puts the questions of version 2.0 into arrays of 50. Two numbers are left out that Zebra spells anew in single requests, as we
// send all: the error names another place in the text then.
func batches(questions []jsonrpctest.Question) (list []jsonrpctest.Question) {
	for part := range slices.Chunk(questions, 50) {
		var bodies, changing []string
		unordered := false
		for i, q := range part {
			if strings.HasPrefix(q.Body, `{"jsonrpc":"2.0"`) && len(q.Body) < 10_000 && !strings.Contains(q.Body, "18446744073709551616") && !strings.Contains(q.Body, "[-0]") {
				bodies = append(bodies, strings.Replace(q.Body, `"id":1,`, fmt.Sprintf(`"id":%d,`, i), 1))
				changing, unordered = append(changing, q.Changing...), unordered || q.Unordered
			}
		}
		q := jsonrpctest.Body("[" + strings.Join(bodies, ",") + "]")
		q.Changing, q.Unordered = changing, unordered
		list = append(list, q)
	}
	return list
}

// askJSON asks for a result or error, and fails when the answer is not of HTTP status 200.
func askJSON(t *testing.T, s jsonrpctest.Server, method, params string) string {
	t.Helper()
	a, err := s.Ask(t.Context(), jsonrpctest.Call(method, params))
	if err != nil || a.Status != 200 {
		t.Fatalf("%s %s: %+v, %v", method, params, a, err)
	}
	return strings.TrimPrefix(string(a.Body), `{"jsonrpc":"2.0","id":1,`)
}

// testJSONRPCOwn asks for what Zebra has no method for, and for what must not get to it.
func testJSONRPCOwn(t *testing.T, n *node, ours jsonrpctest.Server, f jsonrpctest.Facts) {
	t.Helper()
	_, hash := n.tip()
	if got, want := askJSON(t, ours, "getchaintips", "[]"),
		fmt.Sprintf(`"result":[{"height":%d,"hash":"%s","branchlen":0,"status":"active"}]}`, f.Tip, hash); got != want {
		t.Errorf("getchaintips: %s, want %s", got, want)
	}
	for _, method := range []string{"getaddressdeltas", "getspentinfo", "gettxoutsetinfo"} {
		if got := askJSON(t, ours, method, "[]"); !strings.HasPrefix(got, `"error":{"code":-1,"message":"`+method+` needs an index`) {
			t.Errorf("%s: %s", method, got)
		}
	}
	for _, method := range []string{
		"stop", "generate", "generatetoaddress", "invalidateblock", "reconsiderblock", "addnode", "submitblock", "getblocktemplate",
	} {
		for _, params := range []string{"", "[]", `["` + hash + `"]`, "[1]"} {
			if got := askJSON(t, ours, method, params); got != `"error":{"code":-32601,"message":"Method not found"}}` {
				t.Errorf("%s %s: %s", method, params, got)
			}
		}
	}
	if height, now := n.tip(); height != f.Tip || now != hash {
		t.Errorf("the node's tip is %d (%s) after that", height, now)
	}
	for _, b := range f.Blocks {
		checkDeltas(t, n, ours, b)
	}
	wrong := ours
	wrong.CookieFile = filepath.Join(t.TempDir(), "cookie")
	if err := os.WriteFile(wrong.CookieFile, []byte("__cookie__:wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range []jsonrpctest.Server{wrong, {URL: ours.URL}} {
		if a, err := s.Ask(t.Context(), jsonrpctest.Call("getblockcount", "")); err != nil || a.Status != 401 {
			t.Errorf("without the cookie: %+v, %v", a, err)
		}
	}
}

// checkDeltas compares getblockdeltas with what Zebra's getblock says of the block and of the transactions that it spends.
func checkDeltas(t *testing.T, n *node, ours jsonrpctest.Server, b jsonrpctest.Block) {
	t.Helper()
	type script struct {
		Type      string
		Addresses []string
	}
	type transaction struct {
		TxID string
		Vin  []struct {
			Coinbase, TxID string
			Vout           int
		}
		Vout []struct {
			ValueZat     int64
			ScriptPubKey script
		}
	}
	var block struct {
		Confirmations, Size, Height, Version, Time int64
		MerkleRoot, Nonce, Bits                    string
		Difficulty                                 float64
		PreviousBlockHash, NextBlockHash           string
		Tx                                         []transaction
	}
	n.call(&block, "getblock", b.Hash, 2)
	address := func(s script) string {
		if s.Type == "pubkeyhash" || s.Type == "scripthash" {
			return fmt.Sprintf(`"address":%q,`, s.Addresses[0])
		}
		return ""
	}
	var deltas []string
	for i, tx := range block.Tx {
		var inputs, outputs []string
		for j, in := range tx.Vin {
			if in.TxID == "" {
				continue
			}
			var spent transaction
			n.call(&spent, "getrawtransaction", in.TxID, 1)
			out := spent.Vout[in.Vout]
			inputs = append(inputs, fmt.Sprintf(`{%s"satoshis":%d,"index":%d,"prevtxid":%q,"prevout":%d}`,
				address(out.ScriptPubKey), -out.ValueZat, j, in.TxID, in.Vout))
		}
		for j, out := range tx.Vout {
			outputs = append(outputs, fmt.Sprintf(`{%s"satoshis":%d,"index":%d}`, address(out.ScriptPubKey), out.ValueZat, j))
		}
		deltas = append(deltas, fmt.Sprintf(`{"txid":%q,"index":%d,"inputs":[%s],"outputs":[%s]}`,
			tx.TxID, i, strings.Join(inputs, ","), strings.Join(outputs, ",")))
	}
	var times []int64
	for h := max(0, b.Height-10); h <= b.Height; h++ {
		var header struct{ Time int64 }
		n.call(&header, "getblockheader", fmt.Sprint(h))
		times = append(times, header.Time)
	}
	slices.Sort(times)
	difficulty, err := json.Marshal(block.Difficulty)
	if err != nil {
		t.Fatal(err)
	}
	links := ""
	if b.Height > 0 {
		links += fmt.Sprintf(`,"previousblockhash":%q`, block.PreviousBlockHash)
	}
	if block.NextBlockHash != "" {
		links += fmt.Sprintf(`,"nextblockhash":%q`, block.NextBlockHash)
	}
	got := askJSON(t, ours, "getblockdeltas", fmt.Sprintf(`[%q]`, b.Hash))
	got = strings.Replace(got, `"difficulty":1.0`, `"difficulty":1`, 1)
	want := fmt.Sprintf(`"result":{"hash":%q,"confirmations":%d,"size":%d,"height":%d,"version":%d,"merkleroot":%q,"deltas":[%s],`+
		`"time":%d,"mediantime":%d,"nonce":%q,"bits":%q,"difficulty":%s%s}}`,
		b.Hash, block.Confirmations, block.Size, block.Height, block.Version, block.MerkleRoot, strings.Join(deltas, ","),
		block.Time, times[len(times)/2], block.Nonce, block.Bits, difficulty, links)
	if got != want {
		t.Errorf("getblockdeltas of block %d:\n%.2000s\nwant\n%.2000s", b.Height, got, want)
	}
}
