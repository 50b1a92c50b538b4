package ops

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/index"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc"
	"github.com/zsidecar/zsidecar/pkg/lightwallet"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
)

func TestAssess(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	refused := errors.New("connection refused")
	up := zebrarpc.TipState{ID: chain.BlockID{Height: 100}, Known: true, Confirmed: now.Add(-time.Second)}
	silent := func(d time.Duration) zebrarpc.TipState {
		s := up
		s.Confirmed, s.Err = now.Add(-d), refused
		return s
	}
	building := IndexFacts{On: true, Open: true, HasTip: true, Tip: chain.BlockID{Height: 7}}
	complete := building
	complete.Complete = true
	with := func(f IndexFacts, change func(*IndexFacts)) IndexFacts { change(&f); return f }
	tests := []struct {
		name    string
		facts   Facts
		ready   bool
		state   string
		reasons []string
	}{
		{"before the first answer", Facts{NodeURL: "U", Index: IndexFacts{On: true}}, false, "opening",
			[]string{"zebra at U has not answered yet"}},
		{"never reached", Facts{NodeURL: "U", Node: zebrarpc.TipState{Err: refused}, Index: building}, false, "building",
			[]string{"zebra at U has not answered yet: connection refused"}},
		{"never reached since the start, index complete", Facts{NodeURL: "U", Node: zebrarpc.TipState{Err: refused}, Index: complete}, true, "complete",
			[]string{"zebra at U has not answered yet: connection refused"}},
		{"up without an index", Facts{NodeURL: "U", Node: up}, true, "off", nil},
		{"up and building", Facts{NodeURL: "U", Node: up, Index: building}, true, "building", nil},
		{"up and complete", Facts{NodeURL: "U", Node: up, Index: complete}, true, "complete", nil},
		{"silent for 30 s", Facts{NodeURL: "U", Node: silent(30 * time.Second), Index: building}, true, "building", nil},
		{"silent for 31 s", Facts{NodeURL: "U", Node: silent(31 * time.Second), Index: building}, false, "building",
			[]string{"zebra at U has not answered for 31s: connection refused"}},
		{"silent for an hour, index complete", Facts{NodeURL: "U", Node: silent(time.Hour), Index: complete}, true, "complete",
			[]string{"zebra at U has not answered for 1h0m0s: connection refused"}},
		{"paused", Facts{NodeURL: "U", Node: up, Index: with(building, func(f *IndexFacts) { f.Paused, f.Err = true, errors.New("disk full") })}, true, "building",
			[]string{"the index build is paused: disk full"}},
		{"waiting", Facts{NodeURL: "U", Node: up, Index: with(building, func(f *IndexFacts) { f.Err = errors.New("no") })}, true, "building", nil},
		{"stopped at a block", Facts{NodeURL: "U", Node: up, Index: with(complete, func(f *IndexFacts) { f.Stopped, f.Err = true, errors.New("block 8: version 9") })}, false, "complete",
			[]string{"the index build has stopped: block 8: version 9"}},
		{"stopped at a block that was pruned", Facts{NodeURL: "U", Node: up, Index: with(building, func(f *IndexFacts) { f.Stopped, f.Pruned, f.Err = true, true, errors.New("from 50 on") })}, true, "building",
			[]string{"the index build has stopped: from 50 on"}},
		{"a node that prunes is away", Facts{NodeURL: "U", Node: silent(31 * time.Second), Index: with(building, func(f *IndexFacts) { f.Stopped, f.Pruned = true, true })}, false, "building",
			[]string{"zebra at U has not answered for 31s: connection refused", "the index build has stopped"}},
		{"the node has shown another chain and is away", Facts{NodeURL: "U", Node: silent(time.Second), Index: with(complete, func(f *IndexFacts) { f.Err, f.Apart = refused, errors.New("chain X") })}, false, "complete",
			[]string{"wallets get no tip until the node shows the chain of the index again: chain X"}},
		{"the node is set back", Facts{NodeURL: "U", Node: up, Index: with(complete, func(f *IndexFacts) { f.Tip.Height = 103 })}, true, "complete",
			[]string{"zebra at U is at height 100, below the index's 103: it is waited for"}},
		{"the node is below an index that is built", Facts{NodeURL: "U", Node: up, Index: with(building, func(f *IndexFacts) { f.Tip.Height = 103 })}, true, "building", nil},
		{"the node is refused", Facts{NodeURL: "U", Node: up, Index: complete, Refused: errors.New("another network")}, false, "complete",
			[]string{"another network"}},
		{"methods are missing", Facts{NodeURL: "U", Node: up, Index: complete, Missing: []MissingMethod{{"getinfo", "much is missing"}}}, true, "complete",
			[]string{"zebra at U does not have the method getinfo: much is missing"}},
		{"stopping", Facts{NodeURL: "U", Node: up, Index: complete, Stopping: true}, false, "complete", []string{"the program is stopping"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := Assess(now, tt.facts)
			if h.Ready != tt.ready || h.Index.State != tt.state || !slices.Equal(h.Reasons, tt.reasons) {
				t.Errorf("got ready %v, index %s, reasons %q", h.Ready, h.Index.State, h.Reasons)
			}
		})
	}
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestPaths(t *testing.T) {
	t.Parallel()
	health := Health{Ready: true, Reasons: []string{"something"}}
	alive := true
	h := NewHandler(Options{
		Metrics: prometheus.NewRegistry(),
		Health:  func() Health { return health },
		Alive:   func() bool { return alive },
	})
	check := func(path string, code int, body string) {
		t.Helper()
		if gotCode, gotBody := get(t, h, path); gotCode != code || gotBody != body {
			t.Errorf("%s: got %d %q, want %d %q", path, gotCode, gotBody, code, body)
		}
	}
	check("/livez", 200, "ok\n")
	check("/readyz", 200, "ok\n")
	check("/ready", 200, "ok\n")
	check("/elsewhere", 404, "404 page not found\n")
	health.Ready, alive = false, false
	check("/livez", 503, "the program's loop has stood still for 30 s\n")
	check("/readyz", 503, "something\n")
	check("/ready", 503, "something\n")
	for _, path := range []string{"/healthz", "/healthy"} {
		code, body := get(t, h, path)
		var got Health
		if err := json.Unmarshal([]byte(body), &got); err != nil || code != 503 || got.Ready || len(got.Reasons) != 1 {
			t.Errorf("%s: got %d %s, %v", path, code, body, err)
		}
	}
}

// The JSON of /healthz as a whole.
func TestHealthJSON(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	h := Assess(now, Facts{
		NodeURL: "http://127.0.0.1:8232",
		Node:    zebrarpc.TipState{ID: chain.BlockID{Height: 9, Hash: chain.Hash{0xab}}, Known: true, Confirmed: now.Add(-1500 * time.Millisecond)},
		Index:   IndexFacts{On: true, Open: true},
	})
	got, err := json.Marshal(h)
	const want = `{"ready":true,"reasons":[],"node":{"url":"http://127.0.0.1:8232","height":9,` +
		`"hash":"00000000000000000000000000000000000000000000000000000000000000ab","last_answer_seconds":1.5},` +
		`"index":{"state":"building","height":null}}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	r := Readings{
		Facts: Facts{
			Node:  zebrarpc.TipState{ID: chain.BlockID{Height: 123}, Known: true, Confirmed: time.UnixMilli(1500)},
			Index: IndexFacts{On: true, Open: true, HasTip: true, Tip: chain.BlockID{Height: 77}, Paused: true, Err: errors.New("disk full")},
		},
		Zebra:   zebrarpc.Stats{InFlight: 3, Requests: []zebrarpc.RequestCount{{Method: "getblock", Outcome: "ok", Count: 5}}},
		Wallets: lightwallet.Stats{Framed: true},
		Store:   index.Stats{SealedBlocks: 70, DiskBytes: 4096},
		Ready:   true,
	}
	r.Wallets.BlocksServed[chain.FromIndex], r.Wallets.BlocksServed[chain.FromZebra] = 11, 22
	registry := NewRegistry(Build{Version: "1", Commit: "c", Go: "g"}, func() Readings { return r })
	requests := NewRequests(registry)
	requests.Observe(lightwallet.Call{Method: "/cash.z.wallet.sdk.rpc.CompactTxStreamer/GetBlock", Code: 5, Duration: time.Millisecond, Bytes: 8})
	h := NewHandler(Options{Metrics: registry})
	code, text := get(t, h, "/metrics")
	if code != 200 {
		t.Fatal(code, text)
	}
	for _, line := range []string{
		`zsidecar_build_info{commit="c",go="g",version="1"} 1`,
		`zsidecar_node_height 123`,
		`zsidecar_node_tip_confirmed_timestamp_seconds 1.5`,
		`zsidecar_index_height 77`,
		`zsidecar_index_complete 0`,
		`zsidecar_build_paused_for_disk 1`,
		`zsidecar_build_stopped 0`,
		`zsidecar_index_sealed_blocks 70`,
		`zsidecar_index_disk_bytes 4096`,
		`zsidecar_blocks_served_total{source="index"} 11`,
		`zsidecar_blocks_served_total{source="zebra"} 22`,
		`zsidecar_framed_writer 1`,
		`zsidecar_ready 1`,
		`zsidecar_zebra_in_flight 3`,
		`zsidecar_zebra_requests_total{method="getblock",outcome="ok"} 5`,
		`zsidecar_requests_total{code="NotFound",method="GetBlock"} 1`,
		`zsidecar_request_duration_seconds_bucket{method="GetBlock",le="0.0064"} 1`,
		`zsidecar_block_bytes_served_total 8`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("lacks %s", line)
		}
	}
	for _, name := range []string{"go_goroutines ", "process_resident_memory_bytes "} {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("lacks %s", name)
		}
	}
	// What is not known is not shown as 0.
	r = Readings{}
	if _, text = get(t, h, "/metrics"); strings.Contains(text, "zsidecar_node_height ") || strings.Contains(text, "zsidecar_index_height ") {
		t.Error("heights are shown that are not known")
	}
}

// Every metric that the operator guide names exists.
func TestGuideNamesMetrics(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../../docs/operator.md")
	if err != nil {
		t.Fatal(err)
	}
	registry := NewRegistry(Build{}, func() Readings {
		return Readings{
			Facts:     Facts{Node: zebrarpc.TipState{Known: true}, Index: IndexFacts{Open: true, HasTip: true}},
			Zebra:     zebrarpc.Stats{Requests: []zebrarpc.RequestCount{{}}},
			TipStream: true,
		}
	})
	NewRequests(registry).Observe(lightwallet.Call{})
	NewJSONCalls(registry).Observe(jsonrpc.Call{})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	exist := make(map[string]bool)
	for _, f := range families {
		exist[f.GetName()] = true
	}
	named := regexp.MustCompile(`zsidecar_\w+`).FindAllString(string(guide), -1)
	if len(named) < 10 {
		t.Fatalf("the guide names %d metrics", len(named))
	}
	for _, name := range named {
		if !exist[name] {
			t.Errorf("the guide names %s, which does not exist", name)
		}
	}
}
