package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
)

// ground is where zainod is started with something wrong: an empty volume, an empty folder for the cookie, and a file of settings that is
// right but for what a test adds.
type ground struct {
	t                       *testing.T
	dir, data, cookie, file string
	owner, user             int // of the folders; of the program, another one when the test runs as root
}

func newGround(t *testing.T) *ground {
	t.Helper()
	dir := t.TempDir()
	g := &ground{t: t, dir: dir, data: filepath.Join(dir, "data"), cookie: filepath.Join(dir, "cookie"), file: filepath.Join(dir, "zainod.toml")}
	g.owner, g.user = os.Getuid(), os.Getuid()
	if g.owner == 0 {
		g.user = 65534
		for _, open := range []string{filepath.Dir(binary), dir, filepath.Dir(dir)} {
			g.must(os.Chmod(open, 0o755))
		}
	}
	for _, folder := range []string{g.data, g.cookie} {
		g.must(os.Mkdir(folder, 0o755))
		g.must(os.Chown(folder, g.user, -1))
	}
	return g
}

func (g *ground) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// start runs zainod to its end with the sections of a file, and wants nothing but one line on stderr and nothing in its folders.
func (g *ground) start(sections, want string) {
	g.t.Helper()
	base := fmt.Sprintf("network = \"Regtest\"\n[validator_settings]\nvalidator_jsonrpc_listen_address = %q\n[storage.database]\npath = %q\n",
		servertest.FreeAddr(g.t), g.data)
	if _, err := os.Stat(g.file); errors.Is(err, os.ErrNotExist) {
		g.must(os.WriteFile(g.file, []byte(base+sections), 0o644))
	}
	cmd := zainod(g.t, "start", "--config", g.file)
	// The link that zainod runs is in a folder of root's alone.
	cmd.Path = binary
	if g.owner == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(g.user), Gid: uint32(g.user)}}
	}
	got := finish(g.t, cmd)
	if got.code != 1 || !strings.HasPrefix(got.stderr, "Error: ") || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, want) {
		g.t.Errorf("got %d %s\nwant 1 and one line with %s", got.code, got.stderr, want)
	}
	for _, folder := range []string{g.data, g.cookie} {
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			g.t.Errorf("left in %s: %v, %v", folder, left, err)
		}
	}
}

// grpcOn and the like are sections of the file.
func grpcOn(addr string) string {
	return fmt.Sprintf("[grpc_settings]\nlisten_address = %q\n", addr)
}

func tlsOf(cert, key string) string {
	return fmt.Sprintf("[grpc_settings.tls]\ncert_path = %q\nkey_path = %q\n", cert, key)
}

func jsonOn(addr, cookie string) string {
	return fmt.Sprintf("[json_server_settings]\njson_rpc_listen_address = %q\ncookie_dir = %q\n", addr, cookie)
}

// Certificates that cannot be used.
func TestZainodBadCertificates(t *testing.T) {
	t.Parallel()
	write := func(g *ground, end time.Time) (cert, key string) {
		cert, key = filepath.Join(g.dir, "tls.crt"), filepath.Join(g.dir, "tls.key")
		servertest.WriteCertificate(g.t, cert, key, "zainod", end)
		for _, path := range []string{cert, key} {
			g.must(os.Chmod(path, 0o644))
		}
		return cert, key
	}
	free := grpcOn("127.0.0.1:0")

	g := newGround(t)
	cert, key := write(g, time.Now().AddDate(0, 1, 0))
	g.must(os.Chmod(key, 0))
	g.start(free+tlsOf(cert, key), "read the TLS certificate "+cert+" with the key "+key+": open "+key+": permission denied: give a PEM")

	g = newGround(t)
	cert, key = write(g, time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC))
	g.start(free+tlsOf(cert, key), "the TLS certificate "+cert+" expired on 2025-03-01 12:00:00: renew it")

	g = newGround(t)
	cert, _ = write(g, time.Now().AddDate(0, 1, 0))
	g.start(free+tlsOf(cert, "/no/such.key"), "open /no/such.key: no such file or directory: give a PEM")
}

// Ports that somebody has, each of the three.
func TestZainodTakenPorts(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	busy := taken.Addr().String()
	for flag, ports := range map[string]struct{ grpc, json, metrics string }{
		"--grpc":     {busy, "127.0.0.1:0", "127.0.0.1:0"},
		"--json-rpc": {"127.0.0.1:0", busy, "127.0.0.1:0"},
		"--http":     {"127.0.0.1:0", "127.0.0.1:0", busy},
	} {
		g := newGround(t)
		g.start(grpcOn(ports.grpc)+jsonOn(ports.json, g.cookie)+fmt.Sprintf("[zsidecar]\nhttp = %q\n", ports.metrics),
			"listen tcp "+busy+": bind: address already in use: stop the program that has the port, or choose another with "+flag)
	}
}

// Folders and files that are somebody else's, or cannot be written.
func TestZainodForeignPlaces(t *testing.T) {
	t.Parallel()
	free := grpcOn("127.0.0.1:0")
	remedy := func(g *ground, dir string) string {
		return fmt.Sprintf("permission denied: %s belongs to user %d with mode 0555, and this process is user %d: give it the folder (chown), or name another data directory",
			dir, g.owner, g.user)
	}
	seal := func(g *ground, dir string) {
		g.must(os.Chown(dir, g.owner, -1))
		g.must(os.Chmod(dir, 0o555))
	}

	g := newGround(t)
	seal(g, g.data)
	g.start(free+jsonOn("127.0.0.1:0", g.cookie), remedy(g, g.data))

	g = newGround(t)
	seal(g, g.cookie)
	g.start(free+jsonOn("127.0.0.1:0", g.cookie), "write the cookie of the JSON-RPC server: open "+g.cookie+"/.cookie: permission denied: choose a folder")

	g = newGround(t)
	g.must(os.WriteFile(g.file, nil, 0))
	g.start("", fmt.Sprintf("open %s: permission denied: let the user of this process, %d, read it", g.file, g.user))

	g = newGround(t)
	g.must(os.Mkdir(g.file, 0o755)) // which container engines make of a mount of a file that is not there
	g.start("", "read "+g.file+": is a directory: give the path of a TOML file")
}

// A volume that is mounted for reading alone.
func TestZainodReadOnlyVolume(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	if err := syscall.Mount(g.data, g.data, "", syscall.MS_BIND, ""); err != nil {
		t.Skip("this machine mounts nothing for the test: ", err)
	}
	t.Cleanup(func() { g.must(syscall.Unmount(g.data, 0)) })
	g.must(syscall.Mount("", g.data, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	g.start(grpcOn("127.0.0.1:0")+jsonOn("127.0.0.1:0", g.cookie), "read-only file system: mount")
}

// A cookie that is nowhere is no reason to end: Zebra may start later. The log says it once, with the path.
func TestZainodWrongCookiePath(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.must(os.WriteFile(g.file, fmt.Appendf(nil, "network = \"Regtest\"\n[validator_settings]\nvalidator_cookie_path = \"/no/such/cookie\"\n%s"+
		"[storage.database]\npath = %q\n", grpcOn("127.0.0.1:0"), g.data), 0o644))
	out := new(safeBuffer)
	r := &running{t: t, cmd: zainod(t, "start", "--config", g.file), stderr: out}
	r.cmd.Stdout, r.cmd.Stderr = out, out
	g.must(r.cmd.Start())
	const line = "read the cookie: open /no/such/cookie: no such file or directory"
	r.await("says which file is missing", func() bool { return strings.Contains(out.String(), line) })
	time.Sleep(time.Second) // several polls
	g.must(r.cmd.Process.Signal(syscall.SIGTERM))
	if code, _ := r.wait(); code != 0 || strings.Count(out.String(), line) != 1 {
		t.Errorf("exit code %d, said %d times, want once\n%s", code, strings.Count(out.String(), line), out)
	}
}
