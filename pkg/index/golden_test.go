package index

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// goldenOptions are those with which every golden index was written.
func goldenOptions() Options {
	return Options{SealDepth: 6, SegmentBlocks: 8, MinFree: -1, TreeCheckEvery: 5, Network: "golden"}
}

// goldenBlocks are the 24 blocks of every golden index, and 6 more. One transparent column is so long that its row is in the value log.
func goldenBlocks(t *testing.T) []testBlock {
	f := newForge()
	f.kind = func(b *chaintest.Builder, dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
		switch {
		case h == 3:
			coinbase := chaintest.Tx{Version: 4, Coinbase: true, Height: h, Outputs: 70_000, EmptyScripts: true, Seed: seed}
			block, err := b.Block(dst, prev, chaintest.BlockTime(h), seed, coinbase.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			return block
		case h%5 == 0:
			return b.Mixed(dst, h, prev, seed)
		}
		return b.Small(dst, h, prev, seed)
	}
	return f.extend(t, nil, 30)
}

func goldenNode(blocks []testBlock) chain.NodeInfo {
	return chain.NodeInfo{Genesis: blocks[0].ID.Hash, Chain: "test", Tip: blocks[23].ID, BranchID: 7, Build: "build", Subversion: "/golden/",
		Upgrades: []chain.Upgrade{{BranchID: 7, Name: "NU7", Height: 5}}}
}

func goldenFile(version int) string { return fmt.Sprintf("testdata/index-%d.tar.gz", version) }

// TestGoldenIndexes opens an index of every format version that there ever was, as the release of its time wrote it. One of our version
// is read to the last byte, and written on; one of another version is refused. With -update the one of our version is written if it is
// not there: it is never written again, since later releases have to read what earlier ones wrote.
func TestGoldenIndexes(t *testing.T) {
	t.Parallel()
	blocks := goldenBlocks(t)
	if _, err := os.Stat(goldenFile(FormatVersion)); *update && errors.Is(err, fs.ErrNotExist) {
		writeGolden(t, blocks)
	}
	for version := 1; version <= FormatVersion; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, goldenFile(version), dir)
			if version != FormatVersion {
				expectRefused(t, dir)
				return
			}
			r := check(t, dir, CheckOptions{Compare: newFakeNode(blocks), All: true})
			if len(r.Problems) > 0 || r.Format != uint32(version) || r.Height != 23 || r.SealedBlocks != 16 || r.Segments != 2 || r.TreeStates != 2 ||
				r.Node.Blocks != 24 || r.Network != "golden" || !r.Complete {
				t.Errorf("check: %+v, %+v", r, r.Node)
			}
			s := open(t, dir, goldenOptions())
			expectChain(t, s, blocks[:24])
			expectTree(t, s, blocks[2])
			expectTree(t, s, blocks[20])
			if info, ok := s.NodeInfo(); !ok || fmt.Sprint(info) != fmt.Sprint(goldenNode(blocks)) {
				t.Errorf("node %+v", info)
			}
			build(t, s, newFakeNode(blocks))
			expectChain(t, s, blocks)
		})
	}
}

// TestUnknownFormats: what a later release wrote, or somebody else, is refused, and not a byte of it changes.
func TestUnknownFormats(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(rowSet){
		"a later version": put(keyFormat.bytes(), encodeFormat(FormatVersion+1)),
		"version 0":       put(keyFormat.bytes(), encodeFormat(0)),
		"no version":      put(keyFormat.bytes(), []byte("x")),
		"no format row":   gone(keyFormat.bytes()),
		"another's":       func(rows rowSet) { clear(rows); rows["key"] = []byte("value") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, goldenFile(FormatVersion), dir)
			before := readRows(t, dir)
			after := maps.Clone(before)
			change(after)
			writeRows(t, dir, before, after)
			expectRefused(t, dir)
		})
	}
}

func expectRefused(t *testing.T, dir string) {
	t.Helper()
	before := sums(t, dir)
	_, openErr := Open(dir, goldenOptions())
	_, checkErr := Check(t.Context(), dir, CheckOptions{})
	_, repairErr := Repair(t.Context(), dir, nil, goldenOptions(), CheckOptions{})
	for what, err := range map[string]error{"open": openErr, "check": checkErr, "repair": repairErr} {
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "use ") {
			t.Errorf("%s: %v, want ErrFormat and what to do", what, err)
		}
	}
	after := sums(t, dir)
	delete(before, lockName)
	delete(after, lockName)
	if !maps.Equal(before, after) {
		t.Errorf("the files changed from %x to %x", before, after)
	}
}

func sums(t *testing.T, dir string) map[string][sha256.Size]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sums := make(map[string][sha256.Size]byte)
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sums[entry.Name()] = sha256.Sum256(data)
	}
	return sums
}

func writeGolden(t *testing.T, blocks []testBlock) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, goldenOptions())
	s.PutTreeState(madeUpState(blocks[2]))
	s.PutTreeState(madeUpState(blocks[20]))
	build(t, s, newFakeNode(blocks[:23]))
	s.PutNodeInfo(goldenNode(blocks))
	build(t, s, newFakeNode(blocks[:24]))
	closeAndCheck(t, s)
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(zip)
	if err := errors.Join(archive.AddFS(os.DirFS(dir)), archive.Close(), zip.Close(), os.WriteFile(goldenFile(FormatVersion), out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, path, dir string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("every format version needs its golden index: %v", err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || !filepath.IsLocal(header.Name) {
			t.Fatal(header.Name, err)
		}
		file, err := io.ReadAll(archive)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, header.Name), file, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
