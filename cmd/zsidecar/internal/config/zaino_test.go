package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// loadZaino is load for a program that was started as zainod.
func loadZaino(t *testing.T, toml string, env ...string) (Config, []string, error) {
	t.Helper()
	src := Sources{Env: env, CacheDir: "/cache", Zaino: true}
	if toml != "" {
		src.File = write(t, "zainod.toml", toml)
	}
	return Load(src)
}

func zainoDefaults() Config {
	return Config{
		Zebra: "http://127.0.0.1:18232", ZebraUser: "xxxxxx", ZebraPassword: "xxxxxx", GRPC: "127.0.0.1:8137", HTTP: "",
		DataDir: "/cache/zaino/zsidecar", Network: "test",
		GetBlockPools: "all", MaxUnaryReplyBytes: 64 << 20, InFlight: 16, SealDepth: 1100, SegmentBlocks: 2048, MinFreeBytes: 1 << 30,
		LogFormat: "text", LogLevel: slog.LevelInfo,
	}
}

// Under the name zainod Zaino's defaults hold, and every layer is stronger than they are.
func TestZainoDefaults(t *testing.T) {
	t.Parallel()
	got, warnings, err := loadZaino(t, "")
	if err != nil || warnings != nil || got != zainoDefaults() {
		t.Errorf("got %+v, %v, %v\nwant %+v", got, warnings, err, zainoDefaults())
	}
	got, warnings, err = loadZaino(t, "[service]\n[grpc_settings]\n[storage]\n[zsidecar]\nhttp = \"127.0.0.1:1\"\n",
		"ZAINO_VALIDATOR_SETTINGS__VALIDATOR_COOKIE_PATH=/c", "zaino_Network=Mainnet", "ZAINO_DONATION_ADDRESS=")
	want := zainoDefaults()
	want.ZebraCookie, want.ZebraUser, want.ZebraPassword = "/c", "", ""
	want.Network, want.HTTP = "main", "127.0.0.1:1"
	if err != nil || warnings != nil || got != want {
		t.Errorf("got %+v, %v, %v\nwant %+v", got, warnings, err, want)
	}
}

// keyHash is an address of the main network.
const keyHash = "t1Hsc1LR8yKnbbe3twRp88p6vFfC5t7DLbs"

// Every key of Zaino's file is known, in the file and in the environment, and an alias means the same.
func TestEveryClassicKey(t *testing.T) {
	t.Parallel()
	for _, k := range ClassicKeys() {
		value := k.Default
		if value == "" {
			value = map[Kind]string{Text: "127.0.0.1:7", Number: "7"}[k.Kind]
		}
		if k.Path == "donation_address" {
			value = keyHash
		}
		text := tomlText(k.Kind, value)
		section, name := "", k.Path
		if i := strings.LastIndexByte(k.Path, '.'); i >= 0 {
			section, name = "["+k.Path[:i]+"]\n", k.Path[i+1:]
		}
		tail := "\n" // the other half of a pair
		switch name {
		case "cert_path":
			tail = "\nkey_path = \"k\"\n"
		case "key_path":
			tail = "\ncert_path = \"c\"\n"
		}
		_, warnings, err := loadZaino(t, section+name+" = "+text+tail)
		if err != nil {
			t.Errorf("%s: %v", k.Path, err)
		}
		// A key without a meaning is named, once; every other one is taken without a word.
		if named := k.Means == ""; named != (len(warnings) == 1) {
			t.Errorf("%s: warnings %q", k.Path, warnings)
		}
		if k.Secret || len(tail) > 1 {
			continue
		}
		if _, envWarnings, err := loadZaino(t, "", k.Env()+"="+value); err != nil || len(envWarnings) != len(warnings) {
			t.Errorf("%s: %v, warnings %q", k.Env(), err, envWarnings)
		}
	}
}

// A generated file says nothing but the defaults, in the words of the file.
func TestGenerate(t *testing.T) {
	t.Parallel()
	for _, zaino := range []bool{false, true} {
		src := Sources{CacheDir: "/cache", Zaino: zaino}
		want, _, err := Load(src)
		if err != nil {
			t.Fatal(err)
		}
		src.File = filepath.Join(t.TempDir(), "generated.toml")
		if err := os.WriteFile(src.File, []byte(Generate(src)), 0o600); err != nil {
			t.Fatal(err)
		}
		got, warnings, err := Load(src)
		if err != nil || got != want {
			t.Errorf("zainod %v: got %+v, %v\nwant %+v", zaino, got, err, want)
		}
		for _, w := range warnings {
			if !strings.Contains(w, "has no effect") {
				t.Errorf("zainod %v: %s", zaino, w)
			}
		}
	}
	for _, part := range []string{"network = \"PubTestnet\"", "[validator_settings]\nvalidator_jsonrpc_listen_address = \"127.0.0.1:18232\"",
		"[storage.database]\npath = \"/cache/zaino\"", "size = 384"} {
		if text := Generate(Sources{CacheDir: "/cache", Zaino: true}); !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}

func TestRustLog(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		env   []string
		level slog.Level
		form  string
	}{
		{[]string{"RUST_LOG=info,reqwest=warn,hyper_util=warn"}, slog.LevelInfo, "text"},
		{[]string{"RUST_LOG=warn"}, slog.LevelWarn, "text"},
		{[]string{"RUST_LOG=TRACE"}, slog.LevelDebug, "text"},
		{[]string{"RUST_LOG=off"}, slog.LevelError, "text"},
		{[]string{"RUST_LOG=error,zainod=debug"}, slog.LevelDebug, "text"},
		{[]string{"RUST_LOG=reqwest=trace, zsidecar=error"}, slog.LevelError, "text"},
		{[]string{"RUST_LOG=no=such=thing,,=,[x]"}, slog.LevelInfo, "text"},
		{[]string{"RUST_LOG=debug", "ZSIDECAR_LOG_LEVEL=warn", "ZAINOLOG_FORMAT=json", "ZAINOLOG_COLOR=false"}, slog.LevelWarn, "json"},
		{[]string{"ZAINOLOG_FORMAT=tree"}, slog.LevelInfo, "text"},
		{[]string{"ZAINOLOG_FORMAT=JSON"}, slog.LevelInfo, "json"},
	} {
		got, warnings, err := loadZaino(t, "", tt.env...)
		if err != nil || warnings != nil || got.LogLevel != tt.level || got.LogFormat != tt.form {
			t.Errorf("%q: %v, %s, warnings %q, %v", tt.env, got.LogLevel, got.LogFormat, warnings, err)
		}
	}
	_, warnings, err := loadZaino(t, "", "ZAINOLOG_FORMAT=xml")
	if want := []string{"environment variable ZAINOLOG_FORMAT is not stream, tree or json, and is ignored"}; err != nil || !slices.Equal(warnings, want) {
		t.Errorf("got %q, %v", warnings, err)
	}
}

// The names that Zaino takes for secrets, by their last part.
func TestSecretNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"VALIDATOR_SETTINGS__VALIDATOR_PASSWORD": true, "A__API_SECRET": true, "A__Token": true, "COOKIE": true, "A__TLS_PRIVATE_KEY": true,
		"VALIDATOR_SETTINGS__VALIDATOR_COOKIE_PATH": false, "JSON_SERVER_SETTINGS__COOKIE_DIR": false, "PASSWORD__A": false,
	} {
		_, _, err := loadZaino(t, "", "ZAINO_"+name+"=/hunter2")
		if refused := err != nil && strings.Contains(err.Error(), "environment variable ZAINO_"+name+": a secret may not come from the environment"); refused != want {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the secret: %v", name, err)
		}
	}
}

// Every value in force names its source, and no secret is shown.
func TestExplain(t *testing.T) {
	t.Parallel()
	src := Sources{CacheDir: "/cache", Zaino: true, Env: []string{"ZAINO_NETWORK=Regtest", "ZSIDECAR_IN_FLIGHT=4"}}
	src.File = write(t, "zainod.toml", "[validator_settings]\n\nvalidator_password = \"hunter2\"\n[zsidecar]\nhttp = \"127.0.0.1:1\"\n")
	values, _, err := Explain(src)
	if err != nil {
		t.Fatal(err)
	}
	if len(values) != len(Keys())+1 {
		t.Errorf("%d values for %d keys and the password", len(values), len(Keys()))
	}
	want := map[string]Value{
		"network":        {Value: "regtest", Source: "environment variable ZAINO_NETWORK"},
		"in_flight":      {Value: "4", Source: "environment variable ZSIDECAR_IN_FLIGHT"},
		"http":           {Value: "127.0.0.1:1", Source: src.File + ":5: zsidecar.http"},
		"data_dir":       {Value: "/cache/zaino/zsidecar", Source: "default of Zaino's storage.database.path"},
		"seal_depth":     {Value: "1100", Source: "default"},
		"zebra_cookie":   {Source: "default of Zaino's validator_settings.validator_cookie_path"},
		"zebra_password": {Value: "[hidden]", Source: src.File + ":3: validator_settings.validator_password"},
	}
	for _, v := range values {
		if w, checked := want[v.Key]; checked && (v.Value != w.Value || v.Source != w.Source) {
			t.Errorf("%s: %q from %q, want %q from %q", v.Key, v.Value, v.Source, w.Value, w.Source)
		}
		delete(want, v.Key)
		if strings.Contains(v.Value+v.Source, "hunter2") {
			t.Errorf("%s shows the password", v.Key)
		}
	}
	if len(want) > 0 {
		t.Errorf("not explained: %v", want)
	}
}

// What is explained can be used as our table of a file: of the ways of authentication it holds the one in force, and switches as words.
func TestExplainedIsTOML(t *testing.T) {
	t.Parallel()
	src := Sources{CacheDir: "/cache", Zaino: true, Env: []string{"ZAINO_VALIDATOR_SETTINGS__VALIDATOR_COOKIE_PATH=/c", "ZSIDECAR_STRICT_BIND=1"}}
	values, _, err := Explain(src)
	if err != nil {
		t.Fatal(err)
	}
	text := "[zsidecar]\n"
	for _, v := range values {
		if v.Value != "" {
			text += v.Key + " = " + v.TOML() + "\n"
		}
		if v.Key == "zebra_user" && (v.Value != "" || v.Source != "default of Zaino's validator_settings.validator_user, not in force") {
			t.Errorf("the user that the cookie replaces: %+v", v)
		}
	}
	want, _, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	got, warnings, err := Load(Sources{File: write(t, "own.toml", text)})
	if err != nil || warnings != nil || got != want {
		t.Errorf("got %+v, %q, %v\nwant %+v\nfrom %s", got, warnings, err, want, text)
	}
}
