package integration

import (
	"crypto/sha256"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/jsonrpc/jsonrpctest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// TestSwap is an operator's day: zainod runs, zsidecar takes over with the same file of settings and the same volume, and in the end zainod
// comes back. The clients keep their connections and get the same chain from all three.
func TestSwap(t *testing.T) {
	path := zainodPath(t)
	n := recipeNodeOf(t, beforeNU7(), everyPool, "")
	z := newZainod(t, n)
	link := filepath.Join(t.TempDir(), "zainod")
	if err := os.Symlink(program(t), link); err != nil {
		t.Fatal(err)
	}

	before := z.start(t, path)
	want := z.chain(t)
	early := startProcess(t, "zsidecar beside zainod", link, "start", "--config", z.config)
	await(t, "zsidecar finds the port taken", time.Minute, func() bool { return !early.running() })
	if out := early.output.String(); early.cmd.ProcessState.ExitCode() != 1 || strings.Count(out, "Error: ") != 1 ||
		!strings.HasSuffix(out, "stop the program that has the port, or choose another with --grpc\n") {
		t.Errorf("zsidecar beside zainod: exit code %d\n%s", early.cmd.ProcessState.ExitCode(), out)
	}
	if code, _ := before.terminate(time.Minute); code != 0 {
		t.Errorf("zainod ended with %d", code)
	}
	database := files(t, z.data)
	if len(database) == 0 {
		t.Fatal("zainod has left no database")
	}

	ours := z.start(t, link)
	z.requireSame(t, want)
	await(t, "the index is complete", time.Minute, func() bool { return strings.Contains(ours.output.String(), "fs_mode: persistent") })
	z.requireSame(t, want)
	tip := n.mine(1, keyHash)
	await(t, "the new block is served", 10*time.Second, func() bool {
		id, err := z.latest(t.Context())
		return err == nil && id.Height == uint64(tip)
	})
	want = z.chain(t)
	if code, _ := ours.terminate(15 * time.Second); code != 0 {
		t.Errorf("zsidecar ended with %d", code)
	}
	for name := range database {
		if !strings.Contains(ours.output.String(), filepath.Join(z.data, name)) && filepath.Base(name) == "data.mdb" {
			t.Errorf("the log does not name %s", name)
		}
	}
	left := files(t, z.data)
	maps.DeleteFunc(left, func(name string, _ [sha256.Size]byte) bool { return strings.HasPrefix(name, "zsidecar/") })
	if !maps.Equal(left, database) {
		t.Errorf("the volume had %q, and has beside our index %q", slices.Sorted(maps.Keys(database)), slices.Sorted(maps.Keys(left)))
	}

	z.start(t, path)
	z.requireSame(t, want)
}

// chain is what the server says of the whole chain, over both protocols.
func (z *zainod) chain(t *testing.T) []string {
	t.Helper()
	tip, _ := z.node.tip()
	var seen []string
	request := &walletrpc.BlockRange{Start: &walletrpc.BlockID{Height: 0}, End: &walletrpc.BlockID{Height: uint64(tip)}}
	if err := z.stream(t.Context(), getBlockRange, request, func(b []byte) error { seen = append(seen, string(b)); return nil }); err != nil {
		t.Fatalf("%s: %v", getBlockRange, err)
	}
	for _, q := range []jsonrpctest.Question{jsonrpctest.Call("getblockcount", "[]"), jsonrpctest.Call("getbestblockhash", "[]")} {
		a, err := z.rpc.Ask(t.Context(), q)
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		seen = append(seen, string(a.Body))
	}
	return seen
}

func (z *zainod) requireSame(t *testing.T, want []string) {
	t.Helper()
	got := z.chain(t)
	if len(got) != len(want) {
		t.Fatalf("%d blocks and answers, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("block or answer %d of %d: %q, want %q", i, len(got), got[i], want[i])
		}
	}
}

// files are the digests of all files of a folder, by path.
func files(t *testing.T, dir string) map[string][sha256.Size]byte {
	t.Helper()
	found := make(map[string][sha256.Size]byte)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, dir+"/")] = sha256.Sum256(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
