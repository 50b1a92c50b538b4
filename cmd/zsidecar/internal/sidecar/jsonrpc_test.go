package sidecar

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// askJSON asks the JSON-RPC port and returns the status and the body.
func askJSON(t *testing.T, s *Sidecar, cookie, method, params string) (int, string) {
	t.Helper()
	body := fmt.Sprintf(`{"id":1,"method":"%s","params":%s}`, method, params)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.JSONRPCAddr(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if cookie != "" {
		req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(cookie)))
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestJSONRPC runs the server with and without an index, with the node there, gone and back.
func TestJSONRPC(t *testing.T) {
	for name, noIndex := range map[string]bool{"no index": true, "index": false} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, 20, zebratest.NodeOptions{})
			startNode(t, n)
			dir := filepath.Join(t.TempDir(), "new", "folder")
			s, stop := run(t, settings(t, func(c *config.Config) {
				c.Zebra, c.NoIndex, c.JSONRPC, c.JSONRPCCookieDir = n.URL(), noIndex, "127.0.0.1:0", dir
			}))
			cookie, err := os.ReadFile(filepath.Join(dir, ".cookie"))
			if err != nil {
				t.Fatal(err)
			}
			await(t, "the tip is known", func() bool { return s.client.Tip().Up() && (noIndex || s.Health().Index.State == "complete") })
			if status, _ := askJSON(t, s, "", "getblockcount", "[]"); status != http.StatusUnauthorized {
				t.Errorf("without the cookie: %d", status)
			}
			tip, genesis := n.Chain().Tip().Hash.String(), n.Chain()
			zero, err := genesis.Hash(0)
			if err != nil {
				t.Fatal(err)
			}
			expect := func(method, params, result, failure string) {
				t.Helper()
				want := `{"id":1,"result":` + result + `,"error":` + failure + `}`
				if status, got := askJSON(t, s, string(cookie), method, params); status != http.StatusOK || got != want {
					t.Errorf("%s %s: %d %s, want %s", method, params, status, got, want)
				}
			}
			const away = `{"code":-28,"message":"Zebra does not answer at present, try again later"}`
			expect("getblockcount", "[]", "20", "null")
			expect("getbestblockhash", "[]", `"`+tip+`"`, "null")
			expect("getblockhash", "[0]", `"`+zero.String()+`"`, "null")
			expect("getrawmempool", "[]", "[]", "null")
			expect("stop", "[]", "null", `{"code":-32601,"message":"Method not found"}`)
			if n.Requests("stop") != 0 {
				t.Error("zebra was asked to stop")
			}

			if err := n.Stop(); err != nil {
				t.Fatal(err)
			}
			await(t, "the outage is noticed", func() bool { return !s.client.Tip().Up() })
			expect("getrawmempool", "[]", "null", away)
			if noIndex {
				expect("getblockcount", "[]", "null", away)
				expect("getchaintips", "[]", "null", away)
			} else {
				expect("getblockcount", "[]", "20", "null")
				expect("getblockhash", "[-21]", `"`+zero.String()+`"`, "null")
				expect("getblockhash", "[21]", "null", `{"code":-1,"message":"Provided index is greater than the current tip"}`)
				expect("getchaintips", "[]", `[{"height":20,"hash":"`+tip+`","branchlen":0,"status":"active"}]`, "null")
			}
			startNode(t, n)
			await(t, "the node is back", func() bool { return s.client.Tip().Up() })
			expect("getrawmempool", "[]", "[]", "null")
			if status, body := get(t, s, "/metrics"); status != http.StatusOK ||
				!strings.Contains(body, `zsidecar_jsonrpc_calls_total{code="-28",method="getrawmempool"} 1`) ||
				!strings.Contains(body, `zsidecar_jsonrpc_calls_total{code="-32601",method="other"} 1`) ||
				!strings.Contains(body, "zsidecar_jsonrpc_refused_total 1\n") {
				t.Errorf("metrics: %d", status)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, ".cookie")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the cookie after an orderly stop: %v", err)
			}
		})
	}
}

// A port or folder that cannot be used ends the start, and leaves no port open.
func TestJSONRPCCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	for what, change := range map[string]func(*config.Config){
		"--json-rpc":            func(c *config.Config) { c.JSONRPC = taken.Addr().String() },
		"strict_bind":           func(c *config.Config) { c.JSONRPC, c.StrictBind = "0.0.0.0:0", true },
		"--json-rpc-cookie-dir": func(c *config.Config) { c.JSONRPC, c.JSONRPCCookieDir = "127.0.0.1:0", file },
	} {
		cfg := settings(t, change)
		cfg.GRPC = free.Addr().String()
		if _, err := New(Options{Config: cfg}); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
		again, err := net.Listen("tcp", cfg.GRPC)
		if err != nil {
			t.Fatalf("%s: the gRPC port: %v", what, err)
		}
		again.Close()
	}
}
