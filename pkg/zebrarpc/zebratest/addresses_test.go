package zebratest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// addressQuestions ask the three address methods everything that they distinguish.
func addressQuestions() []question {
	const paid, other = transparentAddress, "t27eWDgjFYJGVXmzrXeVjnb5J3uXDM9xH9v"
	list := []question{
		call("getaddressbalance", `{"address_strings":"`+paid+`"}`), call("getaddressbalance", `{"request":"`+paid+`"}`),
		call("getaddresstxids", `{"request":"`+paid+`"}`), call("getaddressutxos", `{"request":{"addresses":["`+paid+`"]}}`),
	}
	tooMany := `{"addresses":["` + strings.Join(slices.Repeat([]string{paid}, maxAddresses+1), `","`) + `"]}`
	for _, method := range []string{"getaddressbalance", "getaddresstxids", "getaddressutxos"} {
		for _, param := range []string{
			`"` + paid + `"`, `"` + other + `"`, `{"addresses":["` + paid + `"]}`, `{"addresses":["` + other + `","` + paid + `"]}`,
			`{"addresses":["` + paid + `","` + paid + `"]}`, `{"addresses":[]}`, `5`, `null`, `true`, `[]`, `["` + paid + `"]`,
			`{}`, `{"addresses":null}`, `{"addresses":5}`, `{"addresses":[5]}`, `{"Addresses":["` + paid + `"]}`, `{"address":"` + paid + `"}`,
			`""`, `"x"`, `"` + paid[:34] + `X"`, `{"addresses":["` + paid + `","x"]}`,
			`"t1VmmGiyjVNeCjxDZzg7vZmd99WyzVby9yC"`, `"tex1s2rt77ggv6q989lr49rkgzmh5slsksa9khdgte"`, tooMany,
		} {
			list = append(list, call(method, `[`+param+`]`))
		}
		list = append(list, call(method, ``), call(method, `[]`), call(method, `5`), call(method, `{"addresses":["`+paid+`"]}`))
	}
	more := func(method, members string) {
		list = append(list, call(method, `[{"addresses":["`+paid+`","`+other+`"],`+members+`}]`))
	}
	for _, members := range []string{
		`"start":2,"end":3`, `"start":3,"end":3`, `"start":40,"end":0`, `"start":40`, `"end":2`, `"start":0,"end":0`, `"start":5,"end":2`,
		`"start":99999,"end":99999`, `"start":99999,"end":5`, `"start":99999`, `"start":1,"end":4294967295`, `"start":4294967296`,
		`"start":-1`, `"start":"2"`, `"start":1.5`, `"start":null,"end":null`, `"start":2,"end":3,"more":1`, `"Start":40`,
	} {
		more("getaddresstxids", members)
	}
	for _, members := range []string{
		`"chainInfo":true`, `"chainInfo":false,"startHeight":40`, `"chainInfo":1`, `"chainInfo":null`, `"chaininfo":true,"startHeight":41`,
		`"startHeight":41`, `"startHeight":99999,"chainInfo":true`, `"startHeight":18446744073709551615`, `"startHeight":18446744073709551616`,
		`"startHeight":-1`, `"startHeight":null`, `"startHeight":"2"`, `"maxEntries":0,"startHeight":41`, `"maxEntries":1`,
		`"maxEntries":3,"startHeight":5,"chainInfo":true`, `"maxEntries":100000,"startHeight":41`, `"maxEntries":100001`,
		`"maxEntries":4294967296`, `"maxEntries":null`,
	} {
		more("getaddressutxos", members)
	}
	return list
}

// TestSpentOutputs is what the comparison with a real node has no transactions for.
func TestSpentOutputs(t *testing.T) {
	t.Parallel()
	to := chain.TransparentAddress{Hash: [20]byte{5}}
	c, err := NewChain(ChainOptions{Network: Test})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Extend(4, Paying(to, 2)); err != nil {
		t.Fatal(err)
	}
	n := NewNode(c, NodeOptions{MaxAddressResults: 8})
	start(t, n)
	ask := func(into any, method, members string) {
		t.Helper()
		endpoint{url: n.URL()}.result(t, into, method, fmt.Sprintf(`[{"addresses":["%s"]%s}]`, to.String(chain.TestNetwork), members))
	}
	var balance struct{ Balance, Received int }
	// 4 coinbases of 14, 3 spends that take 7 and pay 3.
	if ask(&balance, "getaddressbalance", ""); balance.Balance != 4*14-3*4 || balance.Received != 4*14+3*3 {
		t.Errorf("balance %+v", balance)
	}
	var ids []string
	if ask(&ids, "getaddresstxids", ""); len(ids) != 7 || slices.Compact(slices.Sorted(slices.Values(ids)))[0] == "" {
		t.Errorf("%d transactions: %v", len(ids), ids)
	}
	if ask(&ids, "getaddresstxids", `,"start":2,"end":2`); len(ids) != 2 {
		t.Errorf("%d transactions at height 2: %v", len(ids), ids)
	}
	var utxos []utxoObject
	ask(&utxos, "getaddressutxos", `,"maxEntries":8`)
	var heights []int
	for _, u := range utxos {
		heights = append(heights, int(u.Height))
	}
	if want := []int{1, 2, 2, 3, 3, 4, 4, 4}; !slices.Equal(heights, want) || utxos[0].OutputIndex != 1 || utxos[2].Satoshis != 3 {
		t.Errorf("outputs %+v", utxos)
	}

	// One more than the limit.
	if err := c.Extend(1, Paying(to, 2)); err != nil {
		t.Fatal(err)
	}
	for method, message := range map[string]string{
		"getaddresstxids": "more than 8 transactions match; narrow the height range",
		"getaddressutxos": "more than 8 unspent outputs match; page with startHeight and maxEntries",
	} {
		a := endpoint{url: n.URL()}.ask(t, call(method, `["`+to.String(chain.TestNetwork)+`"]`))
		var reply struct{ Error Error }
		if err := json.Unmarshal(a.body, &reply); err != nil || reply.Error != (Error{-8, message}) {
			t.Errorf("%s: %s", method, a.body)
		}
	}

	// A reorg takes the outputs with it.
	if err := c.Reorg(5, 1, Small); err != nil {
		t.Fatal(err)
	}
	if ask(&balance, "getaddressbalance", ""); balance.Balance != 0 || balance.Received != 0 {
		t.Errorf("after the reorg: %+v", balance)
	}
}
