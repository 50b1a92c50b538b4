package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc/jsonrpctest"
)

// zainodConfig is all that zainod needs beside a node on regtest.
const zainodConfig = `backend = "rpc"
network = "Regtest"

[validator_settings]
validator_jsonrpc_listen_address = %q
validator_cookie_path = %q

[grpc_settings]
listen_address = %q

[json_server_settings]
json_rpc_listen_address = %q
cookie_dir = %q

[storage.database]
path = %q
size = 1
`

// zainod is a place for a Zaino beside a node, or for what takes over from it: a file of settings, a volume, and clients of its addresses.
type zainod struct {
	*wallet
	rpc          jsonrpctest.Server
	node         *node
	config, data string
}

func newZainod(tb testing.TB, n *node) *zainod {
	tb.Helper()
	dir, grpcAddr, rpcAddr := tb.TempDir(), servertest.FreeAddr(tb), servertest.FreeAddr(tb)
	z := &zainod{
		dial(tb, grpcAddr), jsonrpctest.Server{URL: "http://" + rpcAddr, CookieFile: filepath.Join(dir, ".cookie")},
		n, filepath.Join(dir, "zainod.toml"), filepath.Join(dir, "data"),
	}
	text := fmt.Sprintf(zainodConfig, n.addr, n.cookie(), grpcAddr, rpcAddr, dir, z.data)
	if err := os.WriteFile(z.config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return z
}

// start runs a program as zainod and waits until it serves the node's tip.
func (z *zainod) start(tb testing.TB, path string) *process {
	tb.Helper()
	p := startProcess(tb, "zainod", path, "start", "--config", z.config)
	tip, _ := z.node.tip()
	await(tb, "zainod serves the tip", 5*time.Minute, func() bool {
		if !p.running() {
			tb.Fatalf("zainod ended at once:\n%s", p.output.tail(4000))
		}
		id, err := z.latest(tb.Context())
		return err == nil && id.Height == uint64(tip)
	})
	return p
}
