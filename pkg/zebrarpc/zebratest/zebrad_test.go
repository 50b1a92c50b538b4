package zebratest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Addresses of Zebra's own tests that a regtest node can pay coinbases to (zebra-rpc/src/config/mining.rs).
const (
	transparentAddress = "tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNV"
	saplingAddress     = "zregtestsapling1xl84ekz6stprmvrp39s77mf9t953nqjndwlcjtzfrr3cgjjez87639xm4u9pfuvylrhecx0c2j8"
	orchardAddress     = "uregtest1pszqlgxaf5w8mu2yd9uygg8cswp0ec4f7eejqnqc35tztw4tk0sxnt3pym2f3s2872cy2ruuc5n8y9cen5q6ngzlmzu8ztrjesv8zm9j"
)

// The upgrades are staggered so that every transaction version and every pool gets its turn: the last address pays to Orchard from
// NU6.2 on and to Ironwood from NU6.3 on.
const zebradConfig = `
[network]
network = "Regtest"
listen_addr = "127.0.0.1:0"
cache_dir = false

[network.testnet_parameters.activation_heights]
Canopy = 1
NU5 = 2
NU6 = 3
"NU6.1" = 4
"NU6.2" = 5
"NU6.3" = 20
NU7 = 40

[state]
cache_dir = "DIR/state"

[rpc]
listen_addr = "127.0.0.1:0"
enable_cookie_auth = true
cookie_dir = "DIR"
`

// startZebrad starts the node that ZSIDECAR_ZEBRAD names and returns it once it answers. It is killed when the test ends.
func startZebrad(t *testing.T) endpoint {
	t.Helper()
	binary := os.Getenv("ZSIDECAR_ZEBRAD")
	if binary == "" {
		const text = "ZSIDECAR_ZEBRAD is not set: set it to the path of a zebrad 7.0.0 binary (scripts/zebrad.sh prints one)"
		if os.Getenv("ZSIDECAR_REQUIRE_REAL") == "1" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "zebrad.toml")
	if err := os.WriteFile(config, []byte(strings.ReplaceAll(zebradConfig, "DIR", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-c", config, "start")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	address, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			fmt.Fprintln(&log, lines.Text())
			if _, a, ok := strings.Cut(lines.Text(), "Opened RPC endpoint at "); ok {
				address <- a
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails when it is dead already
		<-ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("zebrad said:\n%s", log.String())
		}
	})

	var z endpoint
	select {
	case a := <-address:
		z = endpoint{url: "http://" + a, cookieFile: filepath.Join(dir, ".cookie")}
	case <-ended:
		t.Fatal("zebrad ended before it opened its RPC port")
	case <-time.After(time.Minute):
		t.Fatal("zebrad did not open its RPC port within a minute")
	}
	waitFor(t, "zebrad has its genesis block", func() bool {
		return !strings.Contains(string(z.ask(t, call("getblockcount", "")).body), "error")
	})
	return z
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 30 s in vain until %s", what)
		}
	}
}

// result asks for a method's result and decodes it.
func (s endpoint) result(t *testing.T, into any, method, params string) {
	t.Helper()
	resultOf(t, s, into, method, params)
}

func resultOf(t *testing.T, who asker, into any, method, params string) {
	t.Helper()
	a := who.ask(t, call(method, params))
	reply := struct {
		Result any
		Error  *Error
	}{Result: into}
	if err := json.Unmarshal(a.body, &reply); err != nil || reply.Error != nil {
		t.Fatalf("%s %s answered %s", method, params, a.body)
	}
}

// mine adds n blocks that pay to an address.
func (s endpoint) mine(t *testing.T, n int, address string) {
	t.Helper()
	var before, after int
	s.result(t, &before, "getblockcount", "")
	s.result(t, new([]string), "generatetoaddress", fmt.Sprintf(`[%d,"%s"]`, n, address))
	waitFor(t, "the mined blocks are the tip", func() bool {
		s.result(t, &after, "getblockcount", "")
		return after == before+n
	})
}

// copyChain returns a chain with the node's blocks from 1 to its tip on top of its genesis.
func (s endpoint) copyChain(t *testing.T) *Chain {
	t.Helper()
	var tip chain.Height
	s.result(t, &tip, "getblockcount", "")
	raw := make([][]byte, tip+1)
	for h := range raw {
		var text string
		s.result(t, &text, "getblock", fmt.Sprintf(`["%d",0]`, h))
		raw[h] = fromHex(t, text)
	}
	c, err := NewChain(ChainOptions{Network: Regtest, Genesis: raw[0], Upgrades: s.upgrades(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Append(raw[1:]...); err != nil {
		t.Fatal(err)
	}
	return c
}

func (s endpoint) upgrades(t *testing.T) []chain.Upgrade {
	t.Helper()
	var info struct{ Upgrades json.RawMessage }
	s.result(t, &info, "getblockchaininfo", "")
	var list []chain.Upgrade
	for _, m := range parseJSON(t, info.Upgrades).members {
		var u struct {
			Name             string
			ActivationHeight chain.Height
		}
		var id uint32
		if _, err := fmt.Sscanf(m.name, "%x", &id); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(m.value.raw, &u); err != nil {
			t.Fatal(err)
		}
		list = append(list, chain.Upgrade{BranchID: id, Name: u.Name, Height: u.ActivationHeight})
	}
	return list
}
