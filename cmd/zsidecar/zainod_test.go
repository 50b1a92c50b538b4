package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// zainod prepares a run of the program under Zaino's name.
func zainod(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	link := filepath.Join(t.TempDir(), "zainod")
	if err := os.Symlink(binary, link); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, args...)
	cmd.Path, cmd.Args[0] = link, link
	return cmd
}

// Zaino's invocations, with its exit codes and its one line of error.
func TestZainodInvocations(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad.toml")
	if err := os.WriteFile(bad, []byte("network = \"Mainnet\"\n\nnetwrok = 1\nbackend = [1]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := "Error: " + bad + ":4: backend: must be a single value; " + bad + ":3: netwrok: is not a known key: remove it, or write network\n"
	for _, tt := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"", 2, "Error: no command given: start, demo, check, bench, config, generate-config or version; see zainod --help\n"},
		{"begin", 2, "Error: unknown command \"begin\"; see zainod --help\n"},
		{"start --zebro", 2, "Error: unknown flag: --zebro; see zainod start --help\n"},
		{"start --config " + bad, 1, wrong},
		{"-c " + bad + " start", 1, wrong},
		{"--config " + bad, 1, wrong},
		{"start -c /no/such.toml", 1, "Error: read the configuration: open /no/such.toml: no such file or directory: give the path of a TOML file, or leave --config away\n"},
		{"-c " + bad + " config check", 1, wrong},
	} {
		if got := finish(t, zainod(t, strings.Fields(tt.args)...)); got != (result{tt.code, "", tt.stderr}) {
			t.Errorf("%q: got %d\n%s%s\nwant %d\n%s", tt.args, got.code, got.stdout, got.stderr, tt.code, tt.stderr)
		}
	}
	for _, args := range []string{"--version", "-V", "--help"} {
		if got := finish(t, zainod(t, args)); got.code != 0 || got.stderr != "" || got.stdout == "" {
			t.Errorf("%s: got %d %s%s", args, got.code, got.stdout, got.stderr)
		}
	}
}

// Where Zaino's file is looked for, in that order.
func TestZainoFiles(t *testing.T) {
	t.Parallel()
	const last = "/tmp/zaino/.config/zaino/zainod.toml"
	for _, tt := range []struct{ env, want []string }{
		{nil, []string{last}},
		{[]string{"HOME=/h"}, []string{"/h/.config/zaino/zainod.toml", last}},
		{[]string{"HOME=/h", "XDG_CONFIG_HOME=/x"}, []string{"/x/zaino/zainod.toml", "/h/.config/zaino/zainod.toml", last}},
		{[]string{"XDG_CONFIG_HOME=relative"}, []string{last}},
	} {
		if got := zainoFiles(tt.env); !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q, want %q", tt.env, got, tt.want)
		}
	}
}

// The file is found where Zaino's lies, and generate-config writes it there without losing what was there.
func TestZainodConfigFile(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	run := func(args ...string) result {
		cmd := zainod(t, args...)
		cmd.Env = []string{"HOME=" + home}
		return finish(t, cmd)
	}
	path := filepath.Join(home, ".config", "zaino", "zainod.toml")
	if got := run("generate-config"); got != (result{0, "", "wrote " + path + "\n"}) {
		t.Fatalf("got %+v", got)
	}
	if got := run("config", "check"); got.code != 0 || !strings.Contains(got.stdout, "# "+path+":6: network\n") {
		t.Errorf("the generated file is not the one in force: %+v", got)
	}
	if err := os.WriteFile(path, []byte("# comments only\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run("config", "check"); got.code != 0 || got.stderr != "" || !strings.Contains(got.stdout, "# default of Zaino's network\n") {
		t.Errorf("a file of comments: %+v", got)
	}
	if got := run("generate-config"); got != (result{0, "", "wrote " + path + "\nwhat was there is now " + path + ".old\n"}) {
		t.Errorf("got %+v", got)
	}
	if text, err := os.ReadFile(path + ".old"); err != nil || string(text) != "# comments only\n" {
		t.Errorf("the old file: %q, %v", text, err)
	}
	other := filepath.Join(home, "a", "b", "z.toml")
	if got := run("generate-config", "--output", other); got.code != 0 {
		t.Errorf("got %+v", got)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// The compose file of the Z3 stack: its environment, its arguments, a file of comments, and a folder that holds Zaino's database.
func TestZainodAsInZ3(t *testing.T) {
	t.Parallel()
	n := node(t, zebratest.Test, 3000)
	dir := t.TempDir()
	file := filepath.Join(dir, "zindexer.toml")
	database := filepath.Join(dir, "data", "testnet", "v1", "data.mdb")
	if err := os.MkdirAll(filepath.Dir(database), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{file: "# comments only\n[storage.database]\npath = \"" + dir + "/data\"\n", database: strings.Repeat("m", 5000)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &running{t: t, grpc: servertest.FreeAddr(t), stderr: new(safeBuffer)}
	r.cmd = zainod(t, "start", "--config", file)
	r.cmd.Env = append(r.cmd.Env, "RUST_LOG=info,reqwest=warn,hyper_util=warn", "RUST_BACKTRACE=1", "ZAINO_NETWORK=Testnet",
		"ZAINO_VALIDATOR_SETTINGS__VALIDATOR_JSONRPC_LISTEN_ADDRESS="+strings.TrimPrefix(n.URL(), "http://"),
		"ZAINO_GRPC_SETTINGS__LISTEN_ADDRESS="+r.grpc)
	r.cmd.Stdout, r.cmd.Stderr = r.stderr, r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(r.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	client := walletrpc.NewCompactTxStreamerClient(conn)
	r.await("answers", func() bool {
		tip, err := client.GetLatestBlock(t.Context(), &walletrpc.ChainSpec{})
		return err == nil && tip.GetHeight() == 3000
	})
	r.await("completes the index", func() bool { return strings.Contains(r.stderr.String(), "complete") })
	r.cmd.Process.Signal(syscall.SIGTERM)
	if code, took := r.wait(); code != 0 || took > 15*time.Second {
		t.Errorf("exit code %d after %v\n%s", code, took, r.stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "zsidecar", "MANIFEST")); err != nil {
		t.Error("the index is not beside Zaino's database:", err)
	}
	if text, err := os.ReadFile(database); err != nil || string(text) != strings.Repeat("m", 5000) {
		t.Error("Zaino's database is not what it was:", err)
	}
	if got := strings.Count(r.stderr.String(), database); got != 1 {
		t.Errorf("Zaino's database is mentioned %d times, want once\n%s", got, r.stderr)
	}
}

// The file may be named before the command, and without one: lines of both kinds are in use. The program runs until a signal.
func TestZainodFlagFirst(t *testing.T) {
	t.Parallel()
	n := node(t, zebratest.Test, 10)
	for _, command := range []string{"", "start"} {
		r := &running{t: t, grpc: servertest.FreeAddr(t), stderr: new(safeBuffer)}
		file := filepath.Join(t.TempDir(), "z.toml")
		if err := os.WriteFile(file, []byte("ephemeral_finalised_state = true\n[grpc_settings]\nlisten_address = \""+r.grpc+"\"\n"+
			"[validator_settings]\nvalidator_jsonrpc_listen_address = \""+strings.TrimPrefix(n.URL(), "http://")+"\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.cmd = zainod(t, append([]string{"--config", file}, strings.Fields(command)...)...)
		r.cmd.Stdout, r.cmd.Stderr = r.stderr, r.stderr
		if err := r.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r.await("is ready", func() bool { return strings.Contains(r.stderr.String(), "ready: wallets are answered") })
		r.cmd.Process.Signal(syscall.SIGTERM)
		if code, _ := r.wait(); code != 0 {
			t.Errorf("command %q: exit code %d\n%s", command, code, r.stderr)
		}
	}
}

// wholeChain reads every block of a server and returns how many there are, and their bytes.
func wholeChain(ctx context.Context, addr string, creds credentials.TransportCredentials) (blocks int, size int, err error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	stream, err := walletrpc.NewCompactTxStreamerClient(conn).GetBlockRange(ctx, &walletrpc.BlockRange{
		Start: &walletrpc.BlockID{Height: 0}, End: &walletrpc.BlockID{Height: 3000},
	})
	if err != nil {
		return 0, 0, err
	}
	for {
		b, err := stream.Recv()
		if err != nil {
			return blocks, size, err
		}
		blocks++
		size += len(b.GetHash())
	}
}

// TLS on the gRPC port, in both positions, with a certificate that is renewed while the program runs.
func TestTLS(t *testing.T) {
	t.Parallel()
	n := node(t, zebratest.Regtest, 3000)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	soon := time.Now().AddDate(0, 1, 0)
	first := servertest.WriteCertificate(t, certFile, keyFile, "first", soon)
	r := startProgram(t, n.URL(), filepath.Join(dir, "index"), "--tls-cert", certFile, "--tls-key", keyFile, "--strict-bind")
	read := func(pool *x509.CertPool) (int, error) {
		blocks, _, err := wholeChain(t.Context(), r.grpc, credentials.NewTLS(&tls.Config{RootCAs: pool}))
		return blocks, err
	}
	for _, when := range []string{"while the index may be building", "from the index"} {
		r.await("is ready", func() bool { return r.status("/readyz") == 200 })
		if blocks, err := read(first); blocks != 3001 {
			t.Errorf("%s: %d blocks, %v", when, blocks, err)
		}
		r.await("completes the index", r.complete)
	}
	if blocks, _, err := wholeChain(t.Context(), r.grpc, insecure.NewCredentials()); err == nil || blocks > 0 {
		t.Errorf("plain text was answered: %d blocks, %v", blocks, err)
	}
	second := servertest.WriteCertificate(t, certFile, keyFile, "second", soon)
	r.await("serves the renewed certificate", func() bool {
		blocks, _ := read(second)
		return blocks == 3001
	})
	if blocks, err := read(first); blocks > 0 {
		t.Errorf("the old certificate is still served: %v", err)
	}
	if got := r.metric("zsidecar_framed_writer"); got != "1" {
		t.Errorf("under TLS the framed writer is %q", got)
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.wait()
	if strings.Contains(r.stderr.String(), "plain text") {
		t.Errorf("a port with TLS is called plain text:\n%s", r.stderr)
	}
}

// Every address of the machine is served on with one warning for each port, or plain text there is refused.
func TestExposedPlainText(t *testing.T) {
	t.Parallel()
	got := finish(t, command(t, "start", "--grpc", "0.0.0.0:0", "--http", "off", "--strict-bind", "--data-dir", filepath.Join(t.TempDir(), "index")))
	if want := "may be reached by others and would speak plain text, which strict_bind forbids: give a certificate (--tls-cert, --tls-key) or a private address (--grpc)\n"; got.code != 1 || !strings.HasSuffix(got.stderr, want) {
		t.Errorf("got %d %s", got.code, got.stderr)
	}
	r := &running{t: t, stderr: new(safeBuffer)}
	r.cmd = command(t, "start", "--grpc", "0.0.0.0:0", "--json-rpc", "0.0.0.0:0", "--http", "0.0.0.0:0", "--no-index", "--zebra", "http://"+servertest.FreeAddr(t))
	r.cmd.Stderr = r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ports := []string{"wallets are served in plain text", "JSON-RPC is served in plain text", "metrics and health are served on an address"}
	for _, port := range ports {
		r.await("warns", func() bool { return strings.Contains(r.stderr.String(), port) })
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	if code, _ := r.wait(); code != 0 || strings.Count(r.stderr.String(), "an address that others may reach") != len(ports) {
		t.Errorf("exit code %d\n%s", code, r.stderr)
	}
}
