package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/jsonrpc/jsonrpctest"
)

// pythonJSON is what jsonrpc_client.py prints.
type pythonJSON struct {
	Count            int
	Best             string
	Hashes           []string
	Long             []int
	Notification     any
	Missing, Unknown rpcError
	Refused          int
}

// TestJSONRPCClients asks with two clients that share no code with Go: Python's standard library, and curl in the words of zcash-cli.
func TestJSONRPCClients(t *testing.T) {
	t.Parallel()
	python := pythonPath(t)
	n := fixtureNode(t, "")
	tip, hash := n.tip()
	c := newSidecar(t, n.url(), n.cookie(), defaultSegments)
	ours := c.withJSONRPC()
	c.start()
	c.awaitIndex(tip, time.Minute)
	t.Run("python", func(t *testing.T) {
		out, err := exec.Command(python, "jsonrpc_client.py", ours.URL, ours.CookieFile, strconv.Itoa(tip)).Output()
		if err != nil {
			t.Fatalf("jsonrpc_client.py: %v\n%s", err, err.(*exec.ExitError).Stderr)
		}
		var got pythonJSON
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%v: %.300s", err, out)
		}
		want := pythonJSON{
			Count: tip, Best: hash, Missing: rpcError{-8, "block height not in best chain"}, Unknown: rpcError{-32601, "Method not found"}, Refused: 401,
		}
		for h := range tip + 1 {
			want.Hashes = append(want.Hashes, n.hashAt(h))
		}
		for h := range 200 {
			want.Long = append(want.Long, h)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %.2000s", out)
		}
	})
	t.Run("curl", func(t *testing.T) { testCurl(t, n, ours, tip, hash) })
}

// testCurl asks as the examples in the help of zcashd do.
func testCurl(t *testing.T, n *node, ours jsonrpctest.Server, tip int, hash string) {
	if _, err := exec.LookPath("curl"); err != nil {
		missing(t, "curl is not installed")
	}
	cookie, err := os.ReadFile(ours.CookieFile)
	if err != nil {
		t.Fatal(err)
	}
	curl := func(user, body string) string {
		cmd := exec.Command("curl", "--silent", "--show-error", "--write-out", " %{http_code}", "--user", user,
			"--data-binary", "@-", "-H", "content-type: text/plain;", ours.URL+"/")
		cmd.Stdin = strings.NewReader(body)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("curl: %v", err)
		}
		return strings.TrimSpace(string(out))
	}
	raw := ""
	n.call(&raw, "getblock", "150", 0)
	for body, want := range map[string]string{
		`{"jsonrpc": "1.0", "id":"curltest", "method": "getblockcount", "params": [] }`: fmt.Sprintf(`{"jsonrpc":"1.0","id":"curltest","result":%d,"error":null} 200`, tip),
		`{"id":"curltest", "method": "getbestblockhash", "params": [] }`:                fmt.Sprintf(`{"id":"curltest","result":"%s","error":null} 200`, hash),
		`{"id":0,"method":"getblock","params":["150",0]}`:                               fmt.Sprintf(`{"id":0,"result":"%s","error":null} 200`, raw),
		`{"id":1,"method":"generate","params":[1]}`:                                     `{"id":1,"result":null,"error":{"code":-32601,"message":"Method not found"}} 200`,
		`{"jsonrpc":"2.0","method":"getblockcount"}`:                                    "200",
	} {
		if got := curl(string(cookie), body); got != want {
			t.Errorf("%s: %.500s, want %.500s", body, got, want)
		}
	}
	if got := curl("__cookie__:wrong", "{}"); !strings.HasSuffix(got, " 401") {
		t.Errorf("with a wrong password: %s", got)
	}
	if got := curl(string(cookie), strings.Repeat(" ", 5_000_000)); !strings.HasSuffix(got, " 413") {
		t.Errorf("five million bytes: %s", got)
	}
}
