package integration

import (
	"context"
	"flag"
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

	"go.uber.org/goleak"

	"github.com/zsidecar/zsidecar/internal/servertest"
)

// programDir is where TestMain lets the program be built.
var programDir string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	if len(os.Args) > 2 && helpers()[os.Args[1]] != nil {
		fmt.Fprintln(os.Stderr, helpers()[os.Args[1]](os.Args[2:])) // it runs until it is killed, or fails
		return 1
	}
	flag.Parse()
	if *update { // the tests that know the flag; the second one is skipped where there is no zainod
		if err := flag.Set("test.run", "^(TestProtocolDocument|TestInterop)$"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	dir, err := os.MkdirTemp("", "zsidecar-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programDir = dir
	code := m.Run()
	if err := stopShared(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// stopShared ends what the tests share, and looks for goroutines that somebody left running.
func stopShared() error {
	if sharedSynthetic != nil {
		if err := sharedSynthetic.stop(); err != nil {
			return err
		}
	}
	http.DefaultClient.CloseIdleConnections()
	return goleak.Find()
}

// program returns the path of the zsidecar binary, built from this checkout.
func program(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(programDir, "zsidecar")
	fixtureLock.Lock()
	defer fixtureLock.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path
	}
	build := exec.Command("go", "build", "-o", path, "./cmd/zsidecar")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("go build ./cmd/zsidecar: %v\n%s", err, out)
	}
	return path
}

// setup is how a zsidecar is run.
type setup struct {
	name    string
	noIndex bool
	small   bool // SealDepth 50 and segments of 16 blocks instead of the defaults
}

// The three ways that every answer has to be the same in.
var (
	passthrough     = setup{name: "no index", noIndex: true}
	smallSegments   = setup{name: "small segments", small: true}
	defaultSegments = setup{name: "default segments"}
)

const smallConfig = `[zsidecar]
seal_depth = 50
segment_blocks = 16
`

// sidecar is one zsidecar with fixed addresses and data folder, so that it can be stopped and come back.
type sidecar struct {
	tb       testing.TB
	grpcAddr string
	httpAddr string
	dataDir  string
	args     []string
	shell    string // run before the program, in the process that becomes it
	proc     *process
}

// newSidecar prepares a zsidecar that asks the Zebra at url; start runs it.
func newSidecar(tb testing.TB, url, cookie string, s setup) *sidecar {
	tb.Helper()
	dir := tb.TempDir()
	c := &sidecar{tb: tb, grpcAddr: servertest.FreeAddr(tb), httpAddr: servertest.FreeAddr(tb), dataDir: filepath.Join(dir, "data")}
	c.args = []string{
		"start", "--zebra", url, "--zebra-cookie", cookie, "--grpc", c.grpcAddr, "--http", c.httpAddr, "--data-dir", c.dataDir,
	}
	if s.noIndex {
		c.args = append(c.args, "--no-index")
	}
	if s.small {
		config := filepath.Join(dir, "zsidecar.toml")
		if err := os.WriteFile(config, []byte(smallConfig), 0o600); err != nil {
			tb.Fatal(err)
		}
		c.args = append(c.args, "--config", config)
	}
	return c
}

// start runs zsidecar and waits until it listens, which it does without waiting for Zebra.
func (c *sidecar) start() {
	c.tb.Helper()
	path := program(c.tb)
	args := c.args
	if c.shell != "" {
		args = append([]string{"-e", "-c", c.shell + `; exec "$0" "$@"`, path}, args...)
		path = "/bin/sh"
	}
	c.proc = startProcess(c.tb, "zsidecar", path, args...)
	await(c.tb, "zsidecar listens on "+c.grpcAddr, 5*time.Second, func() bool {
		if !c.proc.running() {
			c.tb.Fatalf("zsidecar ended at once:\n%s", c.proc.output.tail(4000))
		}
		return listening(c.grpcAddr)
	})
}

// wallet connects a client.
func (c *sidecar) wallet() *wallet {
	c.tb.Helper()
	return dial(c.tb, c.grpcAddr)
}

// stop ends zsidecar with SIGTERM, which has to give exit code 0 within 10 s.
func (c *sidecar) stop() {
	c.tb.Helper()
	if code, took := c.proc.terminate(15 * time.Second); code != 0 || took > 10*time.Second {
		c.tb.Errorf("SIGTERM: exit code %d after %v, want 0 within 10s", code, took)
	}
}

// get reads a path of the HTTP port.
func (c *sidecar) get(path string) (code int, body string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.httpAddr+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// status is the HTTP status code of a health path, 0 when nobody answers.
func (c *sidecar) status(path string) int {
	code, _, _ := c.get(path)
	return code
}

// metric reads one series, as in `name` or `name{label="value"}`. A series that is not there reads as -1.
func (c *sidecar) metric(series string) float64 {
	_, text, err := c.get("/metrics")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			if f, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
				return f
			}
		}
	}
	return -1
}

// indexHeight is how far the index is.
func (c *sidecar) indexHeight() int { return int(c.metric("zsidecar_index_height")) }

// awaitIndex waits until the index holds the height.
func (c *sidecar) awaitIndex(height int, limit time.Duration) {
	c.tb.Helper()
	await(c.tb, fmt.Sprintf("the index reaches height %d", height), limit, func() bool { return c.indexHeight() >= height })
}

// served is how many blocks one source has delivered.
func (c *sidecar) served(source string) float64 {
	return c.metric(fmt.Sprintf("zsidecar_blocks_served_total{source=%q}", source))
}
