package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
)

// zebradConfig staggers the upgrades so that one short chain holds every transaction version: coinbases of version 4 below NU5,
// version 5 below NU6.3, version 6 from there. The backup of the non-finalized blocks is written on every commit, so that SIGKILL
// loses none.
const zebradConfig = `[network]
network = "Regtest"
listen_addr = "127.0.0.1:0"
cache_dir = false
initial_testnet_peers = []

[network.testnet_parameters.activation_heights]
BeforeOverwinter = 1
Overwinter = 1
Sapling = 1
Blossom = 1
Heartwood = 1
Canopy = 1
NU5 = 2
NU6 = 3
"NU6.1" = 4
"NU6.2" = 5
"NU6.3" = 20
NU7 = 40

[state]
cache_dir = "%[1]s/state"
ephemeral = false
debug_skip_non_finalized_state_backup_task = true

[rpc]
listen_addr = "%[2]s"
enable_cookie_auth = true
cookie_dir = "%[1]s"
%[3]s
[tracing]
filter = "info"
`

// beforeNU7 is zebradConfig for software that does not know NU7.
func beforeNU7() string { return strings.Replace(zebradConfig, "NU7 = 40\n", "", 1) }

// node is one zebrad with its own folder and a fixed RPC port, so that it can be killed and come back at the same address.
type node struct {
	tb     testing.TB
	binary string
	dir    string
	addr   string // of the JSON-RPC server
	proc   *process
	rpc    *rpcClient
}

// newNode prepares a zebrad whose state is in dir/state; start runs it. extraRPC are more lines of the [rpc] table.
func newNode(tb testing.TB, dir, extraRPC string) *node {
	tb.Helper()
	return newNodeOf(tb, zebradConfig, dir, extraRPC)
}

// newNodeOf is newNode with a configuration like zebradConfig.
func newNodeOf(tb testing.TB, config, dir, extraRPC string) *node {
	tb.Helper()
	n := &node{tb: tb, binary: zebradPath(tb), dir: dir, addr: servertest.FreeAddr(tb)}
	n.rpc = newRPCClient(n.addr, n.cookie())
	text := fmt.Sprintf(config, dir, n.addr, extraRPC)
	if err := os.WriteFile(filepath.Join(dir, "zebrad.toml"), []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return n
}

// cookie is the path of the node's cookie file.
func (n *node) cookie() string { return filepath.Join(n.dir, ".cookie") }

// url is what --zebra takes.
func (n *node) url() string { return "http://" + n.addr }

// start runs zebrad and waits until it answers.
func (n *node) start() {
	n.tb.Helper()
	n.proc = startProcess(n.tb, "zebrad", n.binary, "-c", filepath.Join(n.dir, "zebrad.toml"), "start")
	var lastErr error
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var count int
		if lastErr = n.rpc.call(context.Background(), &count, "getblockcount"); lastErr == nil {
			return
		}
		if !n.proc.running() || time.Now().After(deadline) {
			n.tb.Fatalf("zebrad does not answer: %v", lastErr)
		}
	}
}

// stop ends zebrad in an orderly way.
func (n *node) stop() {
	n.tb.Helper()
	n.proc.terminate(30 * time.Second)
}

// call is an RPC that has to succeed.
func (n *node) call(result any, method string, params ...any) {
	n.tb.Helper()
	if err := n.rpc.call(context.Background(), result, method, params...); err != nil {
		n.tb.Fatal(err)
	}
}

// tip returns height and hash (display order) of the best block.
func (n *node) tip() (height int, hash string) {
	n.tb.Helper()
	var info struct {
		Blocks        int
		BestBlockHash string
	}
	n.call(&info, "getblockchaininfo")
	return info.Blocks, info.BestBlockHash
}

// hashAt returns the hash of the best chain's block at a height, in display order.
func (n *node) hashAt(height int) string {
	n.tb.Helper()
	var hash string
	n.call(&hash, "getblockhash", height)
	return hash
}

// invalidate takes the best chain's block of that height, and all above it, out of the chain. Zebra answers before that has happened.
func (n *node) invalidate(height int) {
	n.tb.Helper()
	n.call(nil, "invalidateblock", n.hashAt(height))
	await(n.tb, fmt.Sprintf("zebra's tip falls to %d", height-1), 5*time.Second, func() bool {
		now, _ := n.tip()
		return now == height-1
	})
}

// mine adds count blocks that pay the address, and returns the new height.
func (n *node) mine(count int, address string) int {
	n.tb.Helper()
	height, _ := n.tip()
	for left := count; left > 0; left -= min(left, 250) {
		n.call(nil, "generatetoaddress", min(left, 250), address)
	}
	await(n.tb, fmt.Sprintf("zebra's tip reaches %d", height+count), 10*time.Second, func() bool {
		now, _ := n.tip()
		return now == height+count
	})
	return height + count
}
