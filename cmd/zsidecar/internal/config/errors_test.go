package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const (
	wantAddr     = "must be host:port such as 127.0.0.1:8137"
	wantLoopback = "profiles are shown on a loopback address only, such as 127.0.0.1:6060"
	wantPort     = "the port must be a number from 0 (any free port) to 65535"
	wantTarget   = "must be host:port such as 127.0.0.1:8230"
	wantURL      = "must be a URL such as http://127.0.0.1:8232"
)

// Every wrong value, with the whole text of the error.
func TestErrors(t *testing.T) {
	t.Parallel()
	empty := write(t, "empty", "")
	tests := []struct {
		name string
		toml string
		env  []string
		args []string
		want string // FILE stands for the path of the file
	}{
		{"URL without a scheme", "", nil, []string{"--zebra=127.0.0.1:8232"}, `flag --zebra = "127.0.0.1:8232": ` + wantURL},
		{"URL empty", "", nil, []string{"--zebra="}, "flag --zebra: " + wantURL},
		{"URL without a host", "", nil, []string{"--zebra=http://:8232"}, `flag --zebra = "http://:8232": ` + wantURL},
		{"URL with another scheme", "", nil, []string{"--zebra=ftp://h:1"}, `flag --zebra = "ftp://h:1": ` + wantURL + ", with http or https"},
		{"URL with a query", "", nil, []string{"--zebra=http://h:1/?a=b"}, `flag --zebra = "http://h:1/?a=b": ` + wantURL + ", without a query"},
		{"URL with a password", "", nil, []string{"--zebra=http://u:secret@h:1"},
			`flag --zebra = "http://…@h:1": must not hold a user or password: use zebra_user and zebra_password_file`},
		{"URL with a password and a bad port", "", nil, []string{"--zebra=http://u:secret@h:x"}, `flag --zebra = "http://…@h:x": ` + wantURL},
		{"address without a port", "", nil, []string{"--grpc=127.0.0.1"}, `flag --grpc = "127.0.0.1": ` + wantAddr},
		{"address empty", "", []string{"ZSIDECAR_GRPC="}, nil, "environment variable ZSIDECAR_GRPC: " + wantAddr},
		{"port too large", "", nil, []string{"--grpc=127.0.0.1:65536"}, `flag --grpc = "127.0.0.1:65536": ` + wantPort},
		{"port by name", "", nil, []string{"--http=:http"}, `flag --http = ":http": ` + wantPort + ", or off"},
		{"both ports alike", "", nil, []string{"--http=h:1", "--grpc=h:1"}, `flag --http = "h:1": the gRPC and the HTTP port must differ`},
		{"address to connect to, of no host", "", nil, []string{"--zebra-indexer=:8230"}, `flag --zebra-indexer = ":8230": ` + wantTarget},
		{"address to connect to, of any port", "", nil, []string{"--zebra-indexer=h:0"}, `flag --zebra-indexer = "h:0": ` + wantTarget},
		{"address to connect to, a URL", "", nil, []string{"--zebra-indexer=http://h:1"}, `flag --zebra-indexer = "http://h:1": ` + wantTarget},
		{"Zaino's address of the indexer", "[validator_settings]\nvalidator_grpc_listen_address = \"h\"\n", nil, nil,
			`FILE:2: validator_settings.validator_grpc_listen_address = "h": ` + wantTarget},
		{"JSON-RPC port like gRPC's", "", nil, []string{"--json-rpc=h:1", "--grpc=h:1"}, `flag --json-rpc = "h:1": the gRPC and the JSON-RPC port must differ`},
		{"profiles for others", "", nil, []string{"--pprof=0.0.0.0:6060"}, `flag --pprof = "0.0.0.0:6060": ` + wantLoopback},
		{"profiles on every address", "", nil, []string{"--pprof=:6060"}, `flag --pprof = ":6060": ` + wantLoopback},
		{"profiles at a name", "", nil, []string{"--pprof=h:1"}, `flag --pprof = "h:1": ` + wantLoopback},
		{"profiles without a port", "[zsidecar]\npprof = \"127.0.0.1\"\n", nil, nil, `FILE:2: zsidecar.pprof = "127.0.0.1": ` + wantAddr + ", or off"},
		{"profiles on the port of metrics", "", nil, []string{"--pprof=[::1]:1", "--http=[::1]:1"},
			`flag --pprof = "[::1]:1": the HTTP and the profiles' port must differ`},
		{"switch", "", nil, []string{"--no-index=perhaps"}, `flag --no-index = "perhaps": must be true or false`},
		{"chain name with a space", "", nil, []string{"--chain-name=a b"},
			`flag --chain-name = "a b": must be letters, digits and punctuation without spaces`},
		{"chain name too long", "", nil, []string{"--chain-name=" + strings.Repeat("a", 33)},
			`flag --chain-name = "` + strings.Repeat("a", 33) + `": must have at most 32 characters, not 33`},
		{"donation address with a line break", "", nil, []string{"--donation-address=a\nb"},
			`flag --donation-address = "a\nb": must be letters, digits and punctuation without spaces`},
		{"donation address with a wrong letter", "", nil, []string{"--donation-address=t1Hsc1LR8yKnbbe3twRp88p6vFfC5t7DLbt"},
			`flag --donation-address = "t1Hsc1LR8yKnbbe3twRp88p6vFfC5t7DLbt": must be a Zcash address: the checksum is wrong`},
		{"Zaino's donation address, of another chain", "donation_address = \"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa\"\n", nil, nil,
			`FILE:1: donation_address = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa": must be a Zcash address: it is no unified, Sapling, TEX or transparent address of any network`},
		{"log format", "", nil, []string{"--log-format=xml"}, `flag --log-format = "xml": must be text or json`},
		{"log level", "", nil, []string{"--log-level=loud"}, `flag --log-level = "loud": must be debug, info, warn or error`},
		{"number too large", "[zsidecar]\nin_flight = 49\n", nil, nil, `FILE:2: zsidecar.in_flight = "49": must be a whole number from 1 to 48`},
		{"number zero", "[zsidecar]\nseal_depth = 0\n", nil, nil, `FILE:2: zsidecar.seal_depth = "0": must be a whole number from 1 to 1000000`},
		{"number negative", "", []string{"ZSIDECAR_SEGMENT_BLOCKS=-1"}, nil,
			`environment variable ZSIDECAR_SEGMENT_BLOCKS = "-1": must be a whole number from 1 to 65536`},
		{"number in quotes", "[zsidecar]\nmin_free_bytes = \"7\"\n", nil, nil, `FILE:2: zsidecar.min_free_bytes = "7": must be a whole number, without quotes`},
		{"fraction", "[zsidecar]\nin_flight = 1.5\n", nil, nil, `FILE:2: zsidecar.in_flight = "1.5": must be a whole number, without quotes`},
		{"text without quotes", "[zsidecar]\ngrpc = 8137\n", nil, nil, `FILE:2: zsidecar.grpc = "8137": must be a text in quotes`},
		{"switch in quotes", "[zsidecar]\nno_index = \"true\"\n", nil, nil, `FILE:2: zsidecar.no_index = "true": must be true or false, without quotes`},
		{"list", "[zsidecar]\ngrpc = [\"a\"]\n", nil, nil, `FILE:2: zsidecar.grpc = "[a]": must be a text in quotes`},
		{"pools", "[zsidecar]\ngetblock_pools = \"none\"\n", nil, nil, `FILE:2: zsidecar.getblock_pools = "none": must be all or shielded`},
		{"network", "[zsidecar]\nnetwork = \"Mainnet\"\n", nil, nil, `FILE:2: zsidecar.network = "Mainnet": must be main, test or regtest`},
		{"Zaino's network", "network = \"main\"\n", nil, nil, `FILE:1: network = "main": must be Mainnet, Testnet, PubTestnet or Regtest`},
		{"Zaino's validator", "", []string{"ZAINO_VALIDATOR_SETTINGS__VALIDATOR_JSONRPC_LISTEN_ADDRESS=zebra"}, nil,
			`environment variable ZAINO_VALIDATOR_SETTINGS__VALIDATOR_JSONRPC_LISTEN_ADDRESS = "zebra": ` + wantTarget},
		{"Zaino's validator without a host", "[validator_settings]\nvalidator_jsonrpc_listen_address = \":8232\"\n", nil, nil,
			`FILE:2: validator_settings.validator_jsonrpc_listen_address = ":8232": ` + wantTarget},
		{"Zaino's validator at port 0", "[validator_settings]\nvalidator_jsonrpc_listen_address = \"zebra:0\"\n", nil, nil,
			`FILE:2: validator_settings.validator_jsonrpc_listen_address = "zebra:0": ` + wantTarget},
		{"Zaino's section is no table", "json_server_settings = \"127.0.0.1:8237\"\n", nil, nil,
			"FILE:1: json_server_settings: must be a table: write [json_server_settings] on a line of its own"},
		{"Zaino's inner section is no table", "[grpc_settings]\ntls = true\n", nil, nil,
			"FILE:2: grpc_settings.tls: must be a table: write [grpc_settings.tls] on a line of its own"},
		{"Zaino's password from the environment", "", []string{"ZAINO_VALIDATOR_SETTINGS__VALIDATOR_PASSWORD=secret"}, nil,
			"environment variable ZAINO_VALIDATOR_SETTINGS__VALIDATOR_PASSWORD: a secret may not come from the environment: write it into the file (validator_settings.validator_password)"},
		{"our password from the environment", "", []string{"ZSIDECAR_ZEBRA_PASSWORD=secret"}, nil,
			"environment variable ZSIDECAR_ZEBRA_PASSWORD: a secret may not come from the environment: write it into a file and name that with ZSIDECAR_ZEBRA_PASSWORD_FILE"},
		{"Zaino's password as a list", "[validator_settings]\nvalidator_password = [\"secret\"]\n", nil, nil,
			"FILE:2: validator_settings.validator_password: must be a single value"},
		{"certificate alone", "[grpc_settings.tls]\ncert_path = \"/c\"\n", nil, nil,
			`FILE:2: grpc_settings.tls.cert_path = "/c": give the file of its private key too (tls_key)`},
		{"private key alone", "", nil, []string{"--tls-key=/k"}, `flag --tls-key = "/k": give the file of the certificate too (tls_cert)`},
		{"inline table", "# a comment\n\ngrpc_settings = { listen_address = \"x\" }\n", nil, nil,
			`FILE:3: grpc_settings.listen_address = "x": ` + wantAddr},
		{"dotted key", "\ngrpc_settings.listen_address = \"x\"\n", nil, nil, `FILE:2: grpc_settings.listen_address = "x": ` + wantAddr},
		{"unknown top-level key", "netwrok = \"Mainnet\"\n", nil, nil, "FILE:1: netwrok: is not a known key: remove it, or write network"},
		{"our key at the top level", "in_flight = 3\n", nil, nil, "FILE:1: in_flight: is not a known key: remove it, or put it under [zsidecar]"},
		{"unknown table", "[something]\na = 1\n", nil, nil, "FILE:1: something: is not a known key: remove it"},
		{"unknown database key", "[storage.database]\nsync_write_batch_bytes = 1\n", nil, nil,
			"FILE:2: storage.database.sync_write_batch_bytes: is not a known key: remove it, or write storage.database.sync_write_batch_size"},
		{"own table is no table", "zsidecar = 3\n", nil, nil, `FILE:1: zsidecar = "3": must be a table: write [zsidecar] on a line of its own`},
		{"new schema", "[serve]\na = 1\n", nil, nil,
			"FILE:1: [serve] belongs to Zaino's new configuration schema: this program reads the classic one of Zaino 0.8 to 0.10, and its own keys under [zsidecar]"},
		{"no TOML", "a = \n", nil, nil, "FILE:1:5: not TOML: toml: unexpected character U+000A at start of value"},
		{"cookie and user", "", nil, []string{"--zebra-cookie=/c", "--zebra-user=u"},
			`flag --zebra-cookie = "/c": give either a cookie file or a user with a password file, not both`},
		{"user alone", "", nil, []string{"--zebra-user=u"},
			`flag --zebra-user = "u": give the file that holds the password too (zebra_password_file)`},
		{"password file alone", "", nil, []string{"--zebra-password-file=/p"},
			`flag --zebra-password-file = "/p": give the user name too (zebra_user)`},
		{"password file missing", "", nil, []string{"--zebra-user=u", "--zebra-password-file=/no/such"},
			`flag --zebra-password-file = "/no/such": cannot be read (open /no/such: no such file or directory): give a file whose first line is the password`},
		{"password file empty", "", nil, []string{"--zebra-user=u", "--zebra-password-file=" + empty},
			fmt.Sprintf("flag --zebra-password-file = %q: the first line is empty: it must be the password", empty)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := load(t, tt.toml, tt.env, tt.args...)
			if err == nil {
				t.Fatal("no error")
			}
			got := err.Error()
			if at := strings.Index(got, "/z.toml"); at >= 0 {
				got = "FILE" + got[at+len("/z.toml"):]
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if strings.Contains(got, "secret@") || strings.Contains(got, "=secret") {
				t.Errorf("the error shows a secret: %s", got)
			}
		})
	}
}

// What is only ignored is warned about, with the nearest known key.
func TestWarnings(t *testing.T) {
	t.Parallel()
	_, got, err := load(t, "[zsidecar]\nin_fligth = 3\nxyz = 1\n[service]\ntimout = 3\n", []string{
		"ZAINO_PORT=tcp://10.0.0.1:8137", "ZAINO_NETWORKS=x", "ZSIDECAR_DATADIR=/d", "ZSIDECAR_CONFIG=/c", "ZSIDECAR_QQQQ=1",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"z.toml:5: service.timout is not a known key and is ignored; did you mean service.timeout?",
		"z.toml:2: zsidecar.in_fligth is not a known key and is ignored; did you mean in_flight?",
		"z.toml:3: zsidecar.xyz is not a known key and is ignored",
		"environment variable ZAINO_NETWORKS is not a known key and is ignored; did you mean ZAINO_NETWORK?",
		"environment variable ZAINO_PORT is not a known key and is ignored",
		"environment variable ZSIDECAR_DATADIR is not a known key and is ignored; did you mean ZSIDECAR_DATA_DIR?",
		"environment variable ZSIDECAR_QQQQ is not a known key and is ignored",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Several wrong values are all named at once.
func TestErrorsAreJoined(t *testing.T) {
	t.Parallel()
	_, _, err := load(t, "", nil, "--grpc=x", "--zebra=y")
	if got := strings.Count(err.Error(), "\n"); got != 1 {
		t.Errorf("%d line breaks in %q, want 1", got, err)
	}
	var value *ValueError
	if !errors.As(err, &value) || value.Layer != FromFlag {
		t.Errorf("got %#v", value)
	}
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	_, _, err := Load(Sources{File: "/no/such.toml"})
	const want = "read the configuration: open /no/such.toml: no such file or directory: give the path of a TOML file, or leave --config away"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNoCacheFolder(t *testing.T) {
	t.Parallel()
	_, _, err := Load(Sources{})
	const want = "data_dir: no folder is named and none could be chosen: give --data-dir DIR, or --no-index"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, _, err := Load(Sources{Env: []string{"ZSIDECAR_NO_INDEX=true"}}); err != nil {
		t.Error(err)
	}
}

func TestSecretIsHidden(t *testing.T) {
	t.Parallel()
	c := Config{ZebraPassword: "hunter2"}
	for _, form := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(form, c); strings.Contains(got, "hunter2") {
			t.Errorf("%s shows it: %s", form, got)
		}
	}
}

func TestEditDistance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"grpc", "grpc", 0}, {"ab", "ba", 2}} {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q to %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
