package deploy

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// project loads a compose file as docker compose does, which validates it.
func project(t *testing.T, path string, env ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{path}, cli.WithEnv(env), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// place is where the services of a compose file run as processes: what their files and hosts are here.
type place struct {
	t    *testing.T
	home string
	here *strings.Replacer
}

func newPlace(t *testing.T, pairs ...string) *place {
	return &place{t: t, home: t.TempDir(), here: strings.NewReplacer(pairs...)}
}

// environment is a service's, with the places of this machine in it.
func (p *place) environment(s types.ServiceConfig) map[string]string {
	env := map[string]string{"HOME": p.home, "PATH": os.Getenv("PATH")}
	for key, value := range s.Environment {
		if value == nil {
			p.t.Fatalf("%s of %s has no value", key, s.Name)
		}
		env[key] = p.here.Replace(*value)
	}
	return env
}

// start runs a service. Words of the command that its image would add come first.
func (p *place) start(s types.ServiceConfig, words ...string) *process {
	for _, word := range s.Command {
		words = append(words, p.here.Replace(word))
	}
	grace := 10 * time.Second
	if s.StopGracePeriod != nil {
		grace = time.Duration(*s.StopGracePeriod)
	}
	return run(p.t, grace, p.environment(s), words[0], words[1:]...)
}

// healthy runs a service's health check once.
func (p *place) healthy(s types.ServiceConfig) error {
	test := s.HealthCheck.Test
	if test[0] != "CMD" {
		return fmt.Errorf("the health check is no CMD: %q", test)
	}
	var words []string
	for _, word := range test[1:] {
		words = append(words, p.here.Replace(word))
	}
	cmd := exec.CommandContext(p.t.Context(), words[0], words[1:]...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%q: %w\n%s", words, err, out)
	}
	return nil
}

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// zebraFile is a file with what a node of a test has besides: no peers, a folder of its own, and an address for blocks on demand.
func zebraFile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "zebrad.toml")
	text := fmt.Sprintf("[network]\nlisten_addr = \"127.0.0.1:0\"\ncache_dir = false\ninitial_testnet_peers = []\n"+
		"[state]\ncache_dir = %q\n[mining]\nminer_address = \"tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNV\"\n[tracing]\nfilter = \"warn\"\n", dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// rpc asks the node one question and returns the whole reply.
func rpc(t *testing.T, addr, cookie, method, params string) (string, error) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if user, password, ok := strings.Cut(cookie, ":"); ok {
		req.SetBasicAuth(user, password)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// The compose file from nothing: Zebra and zsidecar, their own environment, volume and health check.
func TestCompose(t *testing.T) {
	t.Parallel()
	zebrad := given(t, "ZSIDECAR_ZEBRAD")
	services := project(t, "../compose.yaml", "NETWORK=Regtest").Services
	zebra, sidecar := services["zebra"], services["zsidecar"]
	zebraAddr, grpcAddr, httpAddr := freeAddr(t), freeAddr(t), freeAddr(t)
	data := t.TempDir()
	p := newPlace(t, "0.0.0.0:8232", zebraAddr, "zebra:8232", zebraAddr, "0.0.0.0:8137", grpcAddr, "0.0.0.0:9998", httpAddr,
		"/dev/tcp/127.0.0.1/9998", "/dev/tcp/127.0.0.1/"+port(httpAddr), "/app/data", data)

	p.start(sidecar, filepath.Join(filepath.Dir(binary), "zainod"), "start")
	await(t, "zsidecar listens before Zebra is there", 20*time.Second, func() bool { return status(t, httpAddr, "/livez") == 200 })
	if err := p.healthy(sidecar); err == nil {
		t.Error("without Zebra the health check is content")
	}
	p.start(zebra, zebrad, "--config", zebraFile(t), "start")
	await(t, "Zebra mines a block", time.Minute, func() bool {
		reply, err := rpc(t, zebraAddr, "", "generate", "[10]")
		return err == nil && strings.Contains(reply, `"result":["`)
	})
	await(t, "the health check is content", 30*time.Second, func() bool { return p.healthy(sidecar) == nil })
	await(t, "the index is complete", 30*time.Second, func() bool {
		return strings.Contains(body(t, httpAddr, "/metrics"), "\nzsidecar_index_height 10\n")
	})
	if _, err := os.Stat(filepath.Join(data, "zsidecar", "MANIFEST")); err != nil {
		t.Error("the index is not on the volume:", err)
	}
}

// z3Service is the service of the Z3 stack with one variable changed.
func z3Service(t *testing.T) types.ServiceConfig {
	t.Helper()
	text, err := os.ReadFile("z3/zsidecar.env")
	if err != nil {
		t.Fatal(err)
	}
	var changed []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			changed = append(changed, line)
		}
	}
	if len(changed) != 1 {
		t.Fatalf("the overlay changes %d variables, want one: %q", len(changed), changed)
	}
	zaino := project(t, "testdata/z3.yaml", append(changed, "NETWORK=Regtest")...).Services["zaino"]
	if want := "ghcr.io/zsidecar/zsidecar:" + release(t); zaino.Image != want {
		t.Errorf("the image is %s, want %s", zaino.Image, want)
	}
	return zaino
}

// The Z3 stack, as for the main and the test network with a cookie, and as its regtest overlay has it: a password in the file, no cookie.
func TestZ3(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, settings string
		cookie         bool
	}{
		{"cookie", "# Z3's own file has comments only.\n", true},
		{"regtest", "backend = \"fetch\"\n[validator_settings]\nvalidator_user = \"zebra\"\nvalidator_password = \"zebra\"\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			testZ3(t, tt.settings, tt.cookie)
		})
	}
}

func testZ3(t *testing.T, text string, cookie bool) {
	zaino, zebrad := z3Service(t), given(t, "ZSIDECAR_ZEBRAD")
	if !cookie {
		delete(zaino.Environment, "ZAINO_VALIDATOR_SETTINGS__VALIDATOR_COOKIE_PATH")
	}
	zebraAddr, grpcAddr, rpcAddr := freeAddr(t), freeAddr(t), freeAddr(t)
	auth, settings, data := t.TempDir(), filepath.Join(t.TempDir(), "zaino.toml"), t.TempDir()
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, "zebra:8232", zebraAddr, "0.0.0.0:8137", grpcAddr, "0.0.0.0:8237", rpcAddr, "/var/run/auth", auth,
		"/etc/zaino/zindexer.toml", settings, "/dev/tcp/127.0.0.1/8137", "/dev/tcp/127.0.0.1/"+port(grpcAddr))
	// The image leads ~/.cache/zaino to its volume.
	if err := os.Mkdir(filepath.Join(p.home, ".cache"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(data, filepath.Join(p.home, ".cache", "zaino")); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	program := p.start(zaino, filepath.Join(filepath.Dir(binary), "zainod"))
	await(t, "the health check is content", time.Duration(*zaino.HealthCheck.StartPeriod), func() bool { return p.healthy(zaino) == nil })
	t.Logf("listening after %v", time.Since(started).Round(time.Millisecond))

	run(t, time.Minute, map[string]string{
		"HOME": p.home, "ZEBRA_NETWORK__NETWORK": "Regtest", "ZEBRA_RPC__LISTEN_ADDR": zebraAddr,
		"ZEBRA_RPC__ENABLE_COOKIE_AUTH": strconv.FormatBool(cookie), "ZEBRA_RPC__COOKIE_DIR": auth,
	}, zebrad, "--config", zebraFile(t), "start")
	await(t, "Zebra mines a block", time.Minute, func() bool {
		secret, err := os.ReadFile(filepath.Join(auth, ".cookie"))
		if cookie && err != nil {
			return false
		}
		reply, err := rpc(t, zebraAddr, string(secret), "generate", "[5]")
		return err == nil && strings.Contains(reply, `"result":["`)
	})
	// Zebra has made its genesis block first: the index may have been complete with that alone.
	await(t, "JSON-RPC has the blocks", 30*time.Second, func() bool {
		reply, err := rpc(t, rpcAddr, "", "getblockcount", "[]")
		return err == nil && strings.Contains(reply, `"result":5`)
	})
	await(t, "the status line says that the index is complete", 30*time.Second, func() bool {
		return strings.Contains(program.out.String(), "chain_state: Ready, fs_mode: persistent, json_rpc: Ready, grpc: Ready")
	})
	if _, err := os.Stat(filepath.Join(data, "zsidecar", "MANIFEST")); err != nil {
		t.Error("the index is not on Zaino's volume:", err)
	}
}

// status is the HTTP status of a path, 0 when nobody answers.
func status(t *testing.T, addr, path string) int {
	t.Helper()
	resp, err := get(t, addr, path)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func body(t *testing.T, addr, path string) string {
	t.Helper()
	resp, err := get(t, addr, path)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(text)
}

func get(t *testing.T, addr, path string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return http.DefaultClient.Do(req)
}
