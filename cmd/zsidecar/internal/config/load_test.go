package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// load runs Load over a file's text, an environment and flags.
func load(t *testing.T, toml string, env []string, args ...string) (Config, []string, error) {
	t.Helper()
	src := Sources{Env: env, CacheDir: "/cache"}
	if toml != "" {
		src.File = write(t, "z.toml", toml)
	}
	src.Flags = pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(src.Flags, src.CacheDir)
	if err := src.Flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	cfg, warnings, err := Load(src)
	for i := range warnings {
		warnings[i] = strings.ReplaceAll(warnings[i], src.File, "z.toml")
	}
	return cfg, warnings, err
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got, warnings, err := load(t, "", nil)
	if err != nil || warnings != nil {
		t.Fatal(warnings, err)
	}
	want := Config{
		Zebra: "http://127.0.0.1:8232", GRPC: "127.0.0.1:8137", HTTP: "127.0.0.1:9998", DataDir: "/cache/zsidecar",
		GetBlockPools: "all", MaxUnaryReplyBytes: 64 << 20, InFlight: 16, SealDepth: 1100, SegmentBlocks: 2048, MinFreeBytes: 1 << 30,
		LogFormat: "text", LogLevel: slog.LevelInfo,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Each layer is stronger than the one before it.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	const (
		classic  = "[grpc_settings]\nlisten_address = \"1.1.1.1:1\"\n"
		own      = "[zsidecar]\ngrpc = \"1.1.1.1:2\"\n"
		zainoEnv = "ZAINO_GRPC_SETTINGS__LISTEN_ADDRESS=1.1.1.1:3"
		ownEnv   = "ZSIDECAR_GRPC=1.1.1.1:4"
		flag     = "--grpc=1.1.1.1:5"
	)
	tests := []struct {
		name string
		toml string
		env  []string
		args []string
		want string
	}{
		{"default", "", nil, nil, "127.0.0.1:8137"},
		{"Zaino's file", classic, nil, nil, "1.1.1.1:1"},
		{"own table over Zaino's", classic + own, nil, nil, "1.1.1.1:2"},
		{"own table first in the file", own + classic, nil, nil, "1.1.1.1:2"},
		{"Zaino's environment over the file", classic + own, []string{zainoEnv}, nil, "1.1.1.1:3"},
		{"own environment over Zaino's", classic + own, []string{ownEnv, zainoEnv}, nil, "1.1.1.1:4"},
		{"flag over all", classic + own, []string{ownEnv, zainoEnv}, []string{flag}, "1.1.1.1:5"},
		{"flag over the default", "", nil, []string{flag}, "1.1.1.1:5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, warnings, err := load(t, tt.toml, tt.env, tt.args...)
			if err != nil || warnings != nil {
				t.Fatal(warnings, err)
			}
			if got.GRPC != tt.want {
				t.Errorf("grpc = %s, want %s", got.GRPC, tt.want)
			}
		})
	}
}

// Every key of ours can be set in the file and in the environment.
func TestEveryOwnKey(t *testing.T) {
	t.Parallel()
	password := write(t, "password", "from the file\nsecond line\n")
	toml := `[zsidecar]
zebra = "https://zebra.example:443"
zebra_user = "u"
zebra_password_file = "` + password + `"
zebra_indexer = "zebra.example:8230"
grpc = "0.0.0.0:9067"
tls_cert = "/c.pem"
tls_key = "/k.pem"
strict_bind = true
http = "off"
pprof = "localhost:6060"
json_rpc = "127.0.0.1:8237"
json_rpc_cookie_dir = "/jc"
data_dir = "/d"
no_index = true
network = "regtest"
chain_name = "regtest"
donation_address = "t1Hsc1LR8yKnbbe3twRp88p6vFfC5t7DLbs"
getblock_pools = "shielded"
max_unary_reply_bytes = 1048576
ping_very_insecure = true
in_flight = 48
seal_depth = 50
segment_blocks = 16
min_free_bytes = 0
log_format = "json"
log_level = "debug"
`
	want := Config{
		Zebra: "https://zebra.example:443", ZebraUser: "u", ZebraPasswordFile: password, ZebraPassword: "from the file", ZebraIndexer: "zebra.example:8230",
		GRPC: "0.0.0.0:9067", TLSCert: "/c.pem", TLSKey: "/k.pem", StrictBind: true, Pprof: "localhost:6060", JSONRPC: "127.0.0.1:8237", JSONRPCCookieDir: "/jc", DataDir: "/d", NoIndex: true, Network: "regtest", ChainName: "regtest", DonationAddress: "t1Hsc1LR8yKnbbe3twRp88p6vFfC5t7DLbs",
		GetBlockPools: "shielded", MaxUnaryReplyBytes: 1 << 20, Ping: true, InFlight: 48, SealDepth: 50, SegmentBlocks: 16, LogFormat: "json", LogLevel: slog.LevelDebug,
	}
	got, warnings, err := load(t, toml, nil)
	if err != nil || warnings != nil || got != want {
		t.Errorf("file: got %+v, %v, %v\nwant %+v", got, warnings, err, want)
	}
	var env []string
	for line := range strings.Lines(toml) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
			env = append(env, "ZSIDECAR_"+strings.ToUpper(name)+"="+strings.Trim(value, `"`))
		}
	}
	if len(env)+1 != len(Keys()) { // all but zebra_cookie, which excludes the user
		t.Errorf("the test sets %d keys of %d", len(env)+1, len(Keys()))
	}
	got, warnings, err = load(t, "", env)
	if err != nil || warnings != nil || got != want {
		t.Errorf("environment: got %+v, %v, %v\nwant %+v", got, warnings, err, want)
	}
}

// The compose file of the Z3 stack and its regtest file, as they are.
func TestZainoSettings(t *testing.T) {
	t.Parallel()
	got, warnings, err := load(t, "# comments only\n", []string{
		"RUST_LOG=info,reqwest=warn", "ZAINOLOG_FORMAT=stream", "ZAINO_NETWORK=Mainnet",
		"ZAINO_VALIDATOR_SETTINGS__VALIDATOR_JSONRPC_LISTEN_ADDRESS=zebra:8232",
		"ZAINO_VALIDATOR_SETTINGS__VALIDATOR_COOKIE_PATH=/var/run/auth/.cookie",
		"ZAINO_GRPC_SETTINGS__LISTEN_ADDRESS=0.0.0.0:8137",
		"ZAINO_JSON_SERVER_SETTINGS__JSON_RPC_LISTEN_ADDRESS=0.0.0.0:8237",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Zebra != "http://zebra:8232" || got.ZebraCookie != "/var/run/auth/.cookie" || got.GRPC != "0.0.0.0:8137" || got.Network != "main" ||
		got.JSONRPC != "0.0.0.0:8237" || got.JSONRPCCookieDir != "" || warnings != nil {
		t.Errorf("got %+v, %q", got, warnings)
	}

	got, warnings, err = load(t, `backend = "fetch"
network = "Regtest"
metrics_endpoint = "0.0.0.0:9998"
ephemeral_finalised_state = true
donation_address = "tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNV"
[validator_settings]
validator_grpc_listen_address = "127.0.0.1:18230"
validator_user = "zebra"
validator_password = "zebra"
[storage.database]
path = "/app/data"
size = 128
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Zebra: "http://127.0.0.1:8232", ZebraUser: "zebra", ZebraPassword: "zebra", ZebraIndexer: "127.0.0.1:18230", GRPC: "127.0.0.1:8137", HTTP: "0.0.0.0:9998",
		DataDir: "/app/data/zsidecar", NoIndex: true, Network: "regtest", DonationAddress: "tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNV",
		GetBlockPools: "all", MaxUnaryReplyBytes: 64 << 20, InFlight: 16, SealDepth: 1100, SegmentBlocks: 2048, MinFreeBytes: 1 << 30, LogFormat: "text",
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if want := []string{
		"z.toml:1: backend has no effect: the index is always built over JSON-RPC",
		"z.toml:12: storage.database.size has no effect: sizes of Zaino's own database mean nothing to this index",
	}; !slices.Equal(warnings, want) {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
}

// What is meant when only a part of the JSON-RPC server's settings is given.
func TestJSONRPC(t *testing.T) {
	t.Parallel()
	const section = "[json_server_settings]\n"
	for _, tt := range []struct {
		name, toml string
		env, args  []string
		addr, dir  string
	}{
		{"nothing", "", nil, nil, "", ""},
		{"address", "", nil, []string{"--json-rpc=127.0.0.1:1"}, "127.0.0.1:1", ""},
		{"folder", "", nil, []string{"--json-rpc-cookie-dir=/d"}, "127.0.0.1:8237", "/d"},
		{"folder, but off", "", []string{"ZSIDECAR_JSON_RPC=off"}, []string{"--json-rpc-cookie-dir=/d"}, "", "/d"},
		{"Zaino's", section + "json_rpc_listen_address = \"127.0.0.1:1\"\ncookie_dir = \"/d\"\n", nil, nil, "127.0.0.1:1", "/d"},
		{"Zaino's default folder", section + "cookie_dir = \"\"\n", []string{"XDG_RUNTIME_DIR=/run/user/7"}, nil, "127.0.0.1:8237", "/run/user/7/zaino/.cookie"},
		{"Zaino's default folder without a session", "", []string{"ZAINO_JSON_SERVER_SETTINGS__COOKIE_DIR="}, nil, "127.0.0.1:8237", "/tmp/zaino/.cookie"},
		{"own over Zaino's", section + "cookie_dir = \"/z\"\n[zsidecar]\njson_rpc_cookie_dir = \"\"\n", nil, nil, "", ""},
	} {
		got, warnings, err := load(t, tt.toml, tt.env, tt.args...)
		if err != nil || warnings != nil || got.JSONRPC != tt.addr || got.JSONRPCCookieDir != tt.dir {
			t.Errorf("%s: %q, %q, %v, %v", tt.name, got.JSONRPC, got.JSONRPCCookieDir, warnings, err)
		}
	}
}

// Which way of authentication is in force.
func TestAuth(t *testing.T) {
	t.Parallel()
	password := write(t, "password", "pw\n")
	const zaino = "[validator_settings]\nvalidator_user = \"zu\"\nvalidator_password = \"zp\"\n"
	tests := []struct {
		name                   string
		toml                   string
		env, args              []string
		cookie, user, password string
	}{
		{"none", "", nil, nil, "", "", ""},
		{"cookie", "", nil, []string{"--zebra-cookie=/c"}, "/c", "", ""},
		{"user", "", nil, []string{"--zebra-user=u", "--zebra-password-file=" + password}, "", "u", "pw"},
		{"Zaino's user", zaino, nil, nil, "", "zu", "zp"},
		{"Zaino's cookie beats its user", zaino + "validator_cookie_path = \"/c\"\n", nil, nil, "/c", "", ""},
		{"Zaino's cookie beats its user of the environment", "[validator_settings]\nvalidator_cookie_path = \"/c\"\n",
			[]string{"ZAINO_VALIDATOR_SETTINGS__VALIDATOR_USER=u"}, nil, "/c", "", ""},
		{"an empty cookie of Zaino's leaves its user", zaino + "validator_cookie_path = \"/c\"\n",
			[]string{"ZAINO_VALIDATOR_SETTINGS__VALIDATOR_COOKIE_PATH="}, nil, "", "zu", "zp"},
		{"a stronger cookie beats the user", zaino, []string{"ZSIDECAR_ZEBRA_COOKIE=/c"}, nil, "/c", "", ""},
		{"a stronger user beats the cookie", "[zsidecar]\nzebra_cookie = \"/c\"\n", nil,
			[]string{"--zebra-user=u", "--zebra-password-file=" + password}, "", "u", "pw"},
		{"our user beats Zaino's cookie", "[validator_settings]\nvalidator_cookie_path = \"/c\"\n",
			[]string{"ZSIDECAR_ZEBRA_USER=u", "ZSIDECAR_ZEBRA_PASSWORD_FILE=" + password}, nil, "", "u", "pw"},
		{"an empty flag switches the cookie off", "[zsidecar]\nzebra_cookie = \"/c\"\n", nil, []string{"--zebra-cookie="}, "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, warnings, err := load(t, tt.toml, tt.env, tt.args...)
			if err != nil || warnings != nil {
				t.Fatal(warnings, err)
			}
			if got.ZebraCookie != tt.cookie || got.ZebraUser != tt.user || string(got.ZebraPassword) != tt.password {
				t.Errorf("got cookie %q, user %q, password %q", got.ZebraCookie, got.ZebraUser, string(got.ZebraPassword))
			}
		})
	}
}
