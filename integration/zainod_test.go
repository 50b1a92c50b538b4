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

// zainod is a running Zaino.
type zainod struct {
	*wallet
	rpc jsonrpctest.Server
}

// startZainod runs a zainod beside the node and waits until it serves the node's tip.
func startZainod(tb testing.TB, path string, n *node) *zainod {
	tb.Helper()
	dir, grpcAddr, rpcAddr := tb.TempDir(), servertest.FreeAddr(tb), servertest.FreeAddr(tb)
	config := filepath.Join(dir, "zainod.toml")
	text := fmt.Sprintf(zainodConfig, n.addr, n.cookie(), grpcAddr, rpcAddr, dir, filepath.Join(dir, "data"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	p := startProcess(tb, "zainod", path, "start", "--config", config)
	z := &zainod{dial(tb, grpcAddr), jsonrpctest.Server{URL: "http://" + rpcAddr, CookieFile: filepath.Join(dir, ".cookie")}}
	tip, _ := n.tip()
	await(tb, "zainod serves the tip", 5*time.Minute, func() bool {
		if !p.running() {
			tb.Fatalf("zainod ended at once:\n%s", p.output.tail(4000))
		}
		id, err := z.latest(tb.Context())
		return err == nil && id.Height == uint64(tip)
	})
	return z
}
