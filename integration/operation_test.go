package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// badStart is a reason why Zebra cannot be asked.
type badStart struct {
	name   string
	hurt   func(p *proxy, cookie string)
	heal   func(p *proxy, cookie string)
	reason []string // the log names one of these beside the URL
}

func badStarts(t *testing.T, secret string) []badStart {
	restore := func(_ *proxy, cookie string) { write(t, cookie, secret) }
	return []badStart{
		{
			"refused connection",
			func(p *proxy, _ string) { p.refuse() },
			func(p *proxy, _ string) { p.accept() },
			[]string{"connection refused"},
		},
		{
			"wrong cookie",
			func(_ *proxy, cookie string) { write(t, cookie, "__cookie__:wrong") },
			restore,
			[]string{"cookie", "credentials"},
		},
		{
			"missing cookie file",
			func(_ *proxy, cookie string) { os.Remove(cookie) },
			restore,
			[]string{"no such file"},
		},
		{
			"HTML page",
			func(p *proxy, _ string) { p.page.Store(true) },
			func(p *proxy, _ string) { p.page.Store(false) },
			[]string{"html", "HTML"},
		},
	}
}

// TestBadStart starts zsidecar while Zebra cannot be asked, for one reason after the other: it says so naming the URL, lives on,
// answers UNAVAILABLE, and is well as soon as the reason is gone.
func TestBadStart(t *testing.T) {
	t.Parallel()
	n := fixtureNode(t, "")
	secret, err := os.ReadFile(n.cookie())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range badStarts(t, string(secret)) {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			testBadStart(t, n, tc, string(secret))
		})
	}
}

func testBadStart(t *testing.T, n *node, tc badStart, secret string) {
	p := newProxy(t, n)
	cookie := filepath.Join(t.TempDir(), "cookie")
	write(t, cookie, secret)
	tc.hurt(p, cookie)
	c := newSidecar(t, p.url(), cookie, smallSegments)
	c.start()
	w := c.wallet()
	await(t, "the log names the reason and the URL", 10*time.Second, func() bool {
		for line := range strings.Lines(c.proc.output.String()) {
			if strings.Contains(line, p.addr) && containsAny(line, tc.reason) {
				return true
			}
		}
		return false
	})
	_, err := w.latest(t.Context())
	requireCode(t, "GetLatestBlock", err, codes.Unavailable)
	_, err = infoHeight(t.Context(), w)
	requireCode(t, "GetLightdInfo", err, codes.Unavailable)
	_, err = w.readBlock(t.Context(), getBlock, 1)
	requireCode(t, "GetBlock", err, codes.Unavailable)
	requireCode(t, "GetBlockRange", w.requireRange(t.Context(), query{method: getBlockRange}, 1, 2, nil), codes.Unavailable)
	if live, ready := c.status("/livez"), c.status("/readyz"); live != 200 || ready != 503 {
		t.Errorf("/livez %d, /readyz %d; want 200 and 503", live, ready)
	}

	tc.heal(p, cookie)
	awaitAnswer(t, w)
	tip, _ := n.tip()
	c.awaitIndex(tip, time.Minute)
	if strings.Contains(c.proc.output.String(), strings.TrimPrefix(secret, "__cookie__:")) {
		t.Error("the log shows the cookie's secret")
	}
	c.stop()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// TestOperation looks at what operators see: metrics, health, reflection's neighbours on the HTTP port, and GetLightdInfo.
func TestOperation(t *testing.T) {
	t.Parallel()
	n := fixtureNode(t, "")
	tip, _ := n.tip()
	c := newSidecar(t, n.url(), n.cookie(), smallSegments)
	c.start()
	c.awaitIndex(tip, time.Minute)
	w := c.wallet()

	await(t, "zsidecar_node_height is zebra's tip", 5*time.Second, func() bool { return int(c.metric("zsidecar_node_height")) == tip })
	before := c.served("index")
	want := query{method: getBlockRange}.encoded(t, expectChain(t, n, 0, 99))
	if err := w.requireRange(t.Context(), query{method: getBlockRange}, 0, 99, want); err != nil {
		t.Fatal(err)
	}
	if moved := c.served("index") - before; moved != 100 {
		t.Errorf("zsidecar_blocks_served_total{source=\"index\"} moved by %v for a range of 100 blocks", moved)
	}
	for _, path := range []string{"/livez", "/readyz", "/ready", "/healthz", "/healthy"} {
		if code := c.status(path); code != 200 {
			t.Errorf("%s: %d", path, code)
		}
	}
	if _, body, err := c.get("/healthz"); err != nil || !json.Valid([]byte(body)) {
		t.Errorf("/healthz: %q, %v; want JSON", body, err)
	}
	requireInfo(t, n, w)

	height := n.mine(1, keyHash)
	await(t, "metrics follow the tip", 5*time.Second, func() bool {
		return c.indexHeight() == height && int(c.metric("zsidecar_node_height")) == height
	})
	c.stop()
	requireClean(t, c)
}

// requireInfo compares GetLightdInfo with Zebra's getblockchaininfo and getinfo.
func requireInfo(t *testing.T, n *node, w *wallet) {
	t.Helper()
	var chain struct {
		Chain     string
		Blocks    uint64
		Consensus struct{ ChainTip string }
		Upgrades  map[string]struct {
			Name             string
			ActivationHeight uint64
		}
	}
	n.call(&chain, "getblockchaininfo")
	var node struct{ Build, Subversion string }
	n.call(&node, "getinfo")
	info := &walletrpc.LightdInfo{}
	if err := w.call(t.Context(), "GetLightdInfo", &walletrpc.Empty{}, info); err != nil {
		t.Fatal(err)
	}
	var sapling uint64
	for _, upgrade := range chain.Upgrades {
		if upgrade.Name == "Sapling" {
			sapling = upgrade.ActivationHeight
		}
	}
	for _, field := range []struct {
		name      string
		got, want any
	}{
		{"vendor", info.Vendor, "zsidecar"},
		{"taddrSupport", info.TaddrSupport, true},
		{"chainName", info.ChainName, chain.Chain},
		{"saplingActivationHeight", info.SaplingActivationHeight, sapling},
		{"consensusBranchId", info.ConsensusBranchId, chain.Consensus.ChainTip},
		{"blockHeight", info.BlockHeight, chain.Blocks},
		{"zcashdBuild", info.ZcashdBuild, node.Build},
		{"zcashdSubversion", info.ZcashdSubversion, node.Subversion},
		{"upgradeName", info.UpgradeName, ""},
		{"upgradeHeight", info.UpgradeHeight, uint64(0)},
		{"donationAddress", info.DonationAddress, ""},
		{"lightwalletProtocolVersion", info.LightwalletProtocolVersion, "v0.5.0"},
	} {
		if field.got != field.want {
			t.Errorf("GetLightdInfo %s: %v, want %v", field.name, field.got, field.want)
		}
	}
	if info.Version == "" || info.EstimatedHeight < info.BlockHeight || sapling == 0 {
		t.Errorf("GetLightdInfo: version %q, estimatedHeight %d, saplingActivationHeight %d", info.Version, info.EstimatedHeight, sapling)
	}
}
