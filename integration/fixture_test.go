package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// The addresses that coinbases pay.
const (
	// anyoneCanSpend is pay-to-script-hash of the one-byte script OP_1: its outputs are spent without a signature.
	anyoneCanSpend = "t2SRyAR26tXTnZHfpa3jPqeyYmxCbAZxUnh"
	keyHash        = "tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNV"
	saplingOnly    = "zregtestsapling1xl84ekz6stprmvrp39s77mf9t953nqjndwlcjtzfrr3cgjjez87639xm4u9pfuvylrhecx0c2j8"
	// orchardOnly is paid in the Orchard pool up to height 19 and in the Ironwood pool from 20 on.
	orchardOnly = "uregtest1pszqlgxaf5w8mu2yd9uygg8cswp0ec4f7eejqnqc35tztw4tk0sxnt3pym2f3s2872cy2ruuc5n8y9cen5q6ngzlmzu8ztrjesv8zm9j"
)

// miningStep mines count blocks, after sending spends transparent transactions into the first of them.
type miningStep struct {
	address string
	count   int
	spends  int
}

// recipe says what a chain in the cache folder is made of.
type recipe []miningStep

// everyPool has every pool in the part that is sealed even with the default SealDepth (1,100), and again near the tip.
var everyPool = recipe{
	{saplingOnly, 1, 0},    // 1: version 4
	{keyHash, 3, 0},        // 2-4
	{saplingOnly, 2, 0},    // 5-6: version 5
	{anyoneCanSpend, 2, 0}, // 7-8
	{orchardOnly, 4, 0},    // 9-12: Orchard
	{anyoneCanSpend, 8, 0}, // 13-20
	{orchardOnly, 1, 0},    // 21: Ironwood, NU6.3
	{saplingOnly, 1, 0},    // 22: version 6
	{anyoneCanSpend, 21, 0},
	{orchardOnly, 1, 0}, // 44: Ironwood, NU7
	{anyoneCanSpend, 105, 0},
	{anyoneCanSpend, 1, 3}, // 150
	{saplingOnly, 1, 2},    // 151
	{anyoneCanSpend, 850, 0},
	{anyoneCanSpend, 1, 5}, // 1002
	{keyHash, 1480, 0},
	{orchardOnly, 1, 2}, // 2483
	{saplingOnly, 1, 0}, // 2484
	{keyHash, 116, 0},   // up to 2600
}

// longChain is what speed is measured on: 20,000 blocks with nothing but a transparent coinbase.
var longChain = recipe{{keyHash, 20_000, 0}}

// fixture describes a mined chain in the cache folder, beside the state folder of the zebrad that mined it.
type fixture struct {
	Height int
	Hash   string // display order
}

// fixtureLock keeps parallel tests from mining a chain or building the program twice.
var fixtureLock sync.Mutex

// fixtureNode runs a zebrad that has the fixture chain. extraRPC are more lines of the [rpc] table.
func fixtureNode(tb testing.TB, extraRPC string) *node {
	tb.Helper()
	return recipeNode(tb, everyPool, extraRPC)
}

// recipeNode runs a zebrad that has a chain of the recipe.
func recipeNode(tb testing.TB, r recipe, extraRPC string) *node {
	tb.Helper()
	return recipeNodeOf(tb, zebradConfig, r, extraRPC)
}

// recipeNodeOf is recipeNode with a configuration like zebradConfig.
func recipeNodeOf(tb testing.TB, config string, r recipe, extraRPC string) *node {
	tb.Helper()
	zebradPath(tb) // skips before any work
	cached, want := cachedFixture(tb, config, r)
	dir := tb.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "state"), os.DirFS(filepath.Join(cached, "state"))); err != nil {
		tb.Fatalf("copy the fixture chain: %v", err)
	}
	n := newNodeOf(tb, config, dir, extraRPC)
	n.start()
	await(tb, fmt.Sprintf("zebrad restores the fixture chain from %s (delete that folder to mine it again)", cached), 20*time.Second,
		func() bool {
			height, hash := n.tip()
			return height == want.Height && hash == want.Hash
		})
	return n
}

// cachedFixture returns the cache folder that holds the fixture chain; a missing or unreadable one is mined anew.
func cachedFixture(tb testing.TB, config string, r recipe) (string, fixture) {
	tb.Helper()
	fixtureLock.Lock()
	defer fixtureLock.Unlock()

	dir := filepath.Join(cacheFolder(tb), "regtest-"+fixtureKey(tb, config, r))
	f, err := readFixture(dir)
	if err == nil {
		return dir, f
	}
	tb.Logf("mining the fixture chain: %v", err)
	begin := time.Now()
	built := mineFixture(tb, config, r)
	if err := os.RemoveAll(dir); err != nil {
		tb.Fatal(err)
	}
	// The rename is what makes the cache valid: a test that dies before leaves nothing behind that looks like a chain.
	if err := moveInto(built, dir); err != nil {
		tb.Fatalf("keep the fixture chain: %v", err)
	}
	if f, err = readFixture(dir); err != nil {
		tb.Fatalf("read back the fixture chain: %v", err)
	}
	tb.Logf("mined %d blocks in %v", f.Height, time.Since(begin).Round(time.Second))
	return dir, f
}

func readFixture(dir string) (fixture, error) {
	var f fixture
	text, err := os.ReadFile(filepath.Join(dir, "chain.json"))
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("%s: %w", dir, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "state")); err != nil {
		return f, err
	}
	return f, nil
}

// mineFixture mines the recipe on a fresh node and returns a folder with chain.json and state/.
func mineFixture(tb testing.TB, config string, r recipe) string {
	tb.Helper()
	n := newNodeOf(tb, config, tb.TempDir(), "")
	n.start()
	var f fixture
	wallet := &spender{node: n}
	for _, step := range r {
		for range step.spends {
			wallet.send()
		}
		f.Height = n.mine(step.count, step.address)
		wallet.requireMined()
	}
	f.Height, f.Hash = n.tip()
	n.stop()
	text, err := json.Marshal(f)
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.dir, "chain.json"), text, 0o600); err != nil {
		tb.Fatal(err)
	}
	return n.dir
}

// moveInto copies state and chain.json beside dst and renames the copy to dst.
func moveInto(src, dst string) error {
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	part, err := os.MkdirTemp(filepath.Dir(dst), "part-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(part) // nothing is left to remove after the rename
	if err := os.CopyFS(filepath.Join(part, "state"), os.DirFS(filepath.Join(src, "state"))); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(src, "chain.json"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(part, "chain.json"), text, 0o600); err != nil {
		return err
	}
	return os.Rename(part, dst)
}

// cacheFolder is where things that are dear to make stay between runs, outside the checkout.
func cacheFolder(tb testing.TB) string {
	tb.Helper()
	if dir := os.Getenv("ZSIDECAR_CACHE"); dir != "" {
		return dir
	}
	root, err := os.UserCacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(root, "zsidecar-ci")
}

// fixtureKey changes with everything that the chain depends on.
func fixtureKey(tb testing.TB, config string, r recipe) string {
	tb.Helper()
	version, err := exec.Command(zebradPath(tb), "--version").Output()
	if err != nil {
		tb.Fatalf("zebrad --version: %v", err)
	}
	digest := sha256.New()
	fmt.Fprintf(digest, "1\n%s\n%s\n%v", version, config, r)
	return hex.EncodeToString(digest.Sum(nil)[:8])
}
