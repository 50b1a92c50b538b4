package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// builder runs buildah with a storage of the test's own.
type builder struct {
	t       *testing.T
	path    string
	storage []string
}

func (b builder) words(args ...string) []string {
	return append(slices.Clone(b.storage), args...)
}

func (b builder) output(args ...string) string {
	b.t.Helper()
	return output(b.t, b.path, b.words(args...)...)
}

// newImage builds the image. No base image is fetched: the stage that would build the program gets what this machine has built.
func newImage(t *testing.T) builder {
	t.Helper()
	if os.Getuid() != 0 {
		skip(t, "building an image needs root")
	}
	b := builder{t: t, path: tool(t, "buildah")}
	dir := t.TempDir()
	b.storage = []string{"--storage-driver", "vfs", "--root", filepath.Join(dir, "storage"), "--runroot", filepath.Join(dir, "run")}
	stage := filepath.Join(dir, "stage")
	output(t, "image/rootfs.sh", filepath.Join(stage, "rootfs"), binary, given(t, "ZSIDECAR_BASH"), "/etc/ssl/certs/ca-certificates.crt")
	b.output("bud", "--isolation", "chroot", "--format", "docker", "--build-context", "build="+stage, "--tag", "zsidecar", "--file", "../Dockerfile", "..")
	return b
}

// What Zaino's image promises, so that nothing else in an operator's files has to change.
func TestImage(t *testing.T) {
	t.Parallel()
	b := newImage(t)
	var image struct {
		Docker struct {
			Config struct {
				User         string
				Env          []string
				Entrypoint   []string
				Cmd          []string
				ExposedPorts map[string]struct{}
				Healthcheck  struct {
					Test                           []string
					Interval, Timeout, StartPeriod time.Duration
					Retries                        int
				}
			} `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(b.output("inspect", "--type", "image", "zsidecar")), &image); err != nil {
		t.Fatal(err)
	}
	c := image.Docker.Config
	if c.User != "1000:1000" || !slices.Equal(c.Entrypoint, []string{"/entrypoint.sh"}) || !slices.Equal(c.Cmd, []string{"start"}) ||
		!slices.Contains(c.Env, "HOME=/home/container_user") || len(c.ExposedPorts) != 2 {
		t.Errorf("the image's settings are %+v", c)
	}
	for _, p := range []string{"8137/tcp", "8237/tcp"} {
		if _, exposed := c.ExposedPorts[p]; !exposed {
			t.Errorf("port %s is not exposed", p)
		}
	}
	h := c.Healthcheck
	if !slices.Equal(h.Test, []string{"CMD", "/usr/local/bin/zainod", "--version"}) || h.Interval != 30*time.Second || h.Timeout != 5*time.Second ||
		h.StartPeriod != 15*time.Second || h.Retries != 3 {
		t.Errorf("the health check is %+v", h)
	}

	container := strings.TrimSpace(b.output("from", "zsidecar"))
	inside := func(words ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), b.path, b.words(append([]string{"run", "--isolation", "chroot", container, "--"}, words...)...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := inside("/entrypoint.sh", "--version"); err != nil || !strings.HasPrefix(out, "zsidecar "+release(t)+",") {
		t.Errorf("--version: %v, %s", err, out)
	}
	for _, script := range []string{
		`[ "$EUID" = 1000 ]`, `[ -w /app/data ]`, `[ -w /app/config ]`, `echo x >~/.cache/zaino/written && [ -f /app/data/written ]`,
		`echo x >~/.config/zaino/written && [ -f /app/config/written ]`, `[ -x /bin/sh ]`, `[ -w /tmp ]`, `[ ! -w /usr/local/bin ]`,
	} {
		if out, err := inside("/bin/bash", "-c", script); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
	asRoot := exec.CommandContext(t.Context(), b.path, b.words("run", "--isolation", "chroot", "--user", "0:0", container, "--", "/entrypoint.sh", "start")...)
	if out, err := asRoot.CombinedOutput(); err == nil || !strings.Contains(string(out), "Error: this image does not run as root") {
		t.Errorf("as root: %v\n%s", err, out)
	}
	testImageServes(t, b, container)
}

// testImageServes starts the image as Z3 does, on a volume that lies outside, and asks its health check from inside.
func testImageServes(t *testing.T, b builder, container string) {
	volume, addr := t.TempDir(), freeAddr(t)
	// The folders above belong to root alone.
	for dir := volume; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(volume, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	server := run(t, 15*time.Second, map[string]string{"PATH": os.Getenv("PATH"), "HOME": t.TempDir()}, b.path, b.words(
		"run", "--isolation", "chroot", "--volume", volume+":/app/data", "--env", "ZAINO_NETWORK=Mainnet",
		"--env", "ZAINO_GRPC_SETTINGS__LISTEN_ADDRESS="+addr, "--env", "ZAINO_VALIDATOR_SETTINGS__VALIDATOR_JSONRPC_LISTEN_ADDRESS="+freeAddr(t),
		container, "--", "/entrypoint.sh", "start")...)
	check := []string{"run", "--isolation", "chroot", container, "--", "/bin/bash", "-c", "echo > /dev/tcp/127.0.0.1/" + port(addr)}
	await(t, "the health check from inside is content", 30*time.Second, func() bool {
		return exec.CommandContext(t.Context(), b.path, b.words(check...)...).Run() == nil
	})
	if !strings.Contains(server.out.String(), "data_dir=/home/container_user/.cache/zaino/zsidecar") {
		t.Errorf("the index is not on the volume:\n%s", server.out)
	}
}

// The same source gives the same bytes.
func TestReproducible(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	again := filepath.Join(dir, "again")
	output(t, "image/build.sh", "amd64", again)
	first, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(again)
	if err != nil {
		t.Fatal(err)
	}
	if string(first) != string(second) {
		t.Error("two builds of one source differ")
	}
}
