package zebratest

import (
	"strings"
	"testing"
)

// TestPrune: below the height there are hashes, headers and tree sizes, but neither bytes nor trees.
func TestPrune(t *testing.T) {
	t.Parallel()
	n := NewNode(newChain(t, 20, Small), NodeOptions{})
	n.Prune(10)
	for question, want := range map[string]string{
		`"getblock","params":["0",0]`:          `"result":"`,
		`"getblock","params":["1",0]`:          `{"code":-8,"message":"Block not found"}`,
		`"getblock","params":["9",0]`:          `{"code":-8,"message":"Block not found"}`,
		`"getblock","params":["10",0]`:         `"result":"`,
		`"getblock","params":["9",1]`:          `"trees"`,
		`"getblockheader","params":["9",true]`: `"confirmations":12`,
		`"getblockhash","params":[9]`:          `"result":"`,
		`"z_gettreestate","params":["9"]`:      `{"code":-8,"message":"the requested block is not in the main chain"}`,
		`"z_gettreestate","params":["10"]`:     `"finalState"`,
	} {
		if got := post(n, `{"jsonrpc":"2.0","id":1,"method":`+question+`}`).Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: %.200s, want %s", question, got, want)
		}
	}
}
