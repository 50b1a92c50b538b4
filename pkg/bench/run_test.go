package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// quick are the options of a run that is over soon.
func quick(targets ...TargetOptions) Options {
	return Options{Targets: targets, Rounds: 2, Calls: 20, Most: 4, RoundTime: 20 * time.Millisecond}
}

func mustRun(t *testing.T, o Options) *Result {
	t.Helper()
	result, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// TestRunEverything measures two targets that are one server with everything that is run by default: nothing is wrong, and every case has
// its rounds at both.
func TestRunEverything(t *testing.T) {
	t.Parallel()
	addr := startServer(t, nil)
	o := quick(TargetOptions{Name: "one", Address: addr, PID: os.Getpid()}, TargetOptions{Name: "two", Address: addr})
	if runtime.GOOS != "linux" {
		o.Targets[0].PID = 0
	}
	var last Event
	finished := 0
	o.Show = func(e Event) { last = e; finished += len(e.Finished) }
	result := mustRun(t, o)
	for _, f := range result.Faults {
		t.Errorf("fault: %+v", f)
	}
	if finished != len(result.Measurements) || last.Done != last.Total {
		t.Errorf("%d measurements were shown of %d, and %d rounds of %d", finished, len(result.Measurements), last.Done, last.Total)
	}
	seen := map[string]int{}
	for i := range result.Measurements {
		m := &result.Measurements[i]
		seen[m.Scenario]++
		seen[m.Case]++
		if len(m.Rounds) != 2 {
			t.Errorf("%s, %s at %s: %d rounds, %q", m.Scenario, m.Case, m.Target, len(m.Rounds), m.Unsupported)
		}
		for _, round := range m.Rounds {
			requireValues(t, m, round, o.Targets[0].PID != 0 && m.Target == "one")
		}
	}
	for _, s := range scenarios() {
		if s.byDefault && seen[s.name] == 0 {
			t.Errorf("nothing was measured of %s", s.name)
		}
	}
	for _, method := range []string{"GetLightdInfo", "GetLatestBlock", "GetBlock", "GetBlockNullifiers", "GetTreeState", "GetLatestTreeState",
		"GetSubtreeRoots sapling", "GetSubtreeRoots orchard", "GetSubtreeRoots ironwood", "GetMempoolTx", "GetTransaction",
		"GetTaddressTxids", "GetTaddressBalance", "GetAddressUtxos"} {
		if seen[method] == 0 {
			t.Errorf("%s was not measured", method)
		}
	}
	if len(result.Targets) != 2 || result.Targets[0].Height != chainLength || !strings.HasPrefix(result.Targets[0].Server, "zsidecar") {
		t.Errorf("targets: %+v", result.Targets)
	}
}

// requireValues looks at the values of a round.
func requireValues(t *testing.T, m *Measurement, round map[Metric]float64, process bool) {
	t.Helper()
	want := []Metric{Duration, ClientCPU}
	switch m.Scenario {
	case "latency":
		want = append(want, P50, P95, P99, Max, CallsRate)
	case "ranges", "sync":
		want = append(want, BlocksRate, BytesRate, First, P50)
	case "mixed":
		want = append(want, BlocksRate, P50)
	}
	if process {
		want = append(want, RSSAnon, ServerCPU)
	}
	_, aBlock := round[ServerBlock]
	_, aCall := round[ServerCall]
	if m.Scenario == "mixed" && (aBlock || aCall) || m.Scenario == "ranges" && aBlock != process {
		t.Errorf("%s, %s: server CPU a block: %v, a call: %v", m.Scenario, m.Case, aBlock, aCall)
	}
	if m.Case == "4 equal readers" {
		want = append(want, Share, BlocksRate)
	}
	for _, metric := range want {
		if round[metric] <= 0 {
			t.Errorf("%s, %s, %s: %s is %v", m.Scenario, m.Case, m.Client, metric, round[metric])
		}
	}
	if round[P50] > round[P99] || round[P99] > round[Max] {
		t.Errorf("%s, %s: p50 %v, p99 %v, max %v", m.Scenario, m.Case, round[P50], round[P99], round[Max])
	}
	if share := round[Share]; share > 1 {
		t.Errorf("the slowest got %v of the fastest", share)
	}
}

// editBlock changes a block of an answer.
func editBlock(t *testing.T, message []byte, edit func(*walletrpc.CompactBlock)) [][]byte {
	t.Helper()
	block := &walletrpc.CompactBlock{}
	if err := proto.Unmarshal(message, block); err != nil {
		t.Error(err)
	}
	edit(block)
	changed, err := proto.Marshal(block)
	if err != nil {
		t.Error(err)
	}
	return [][]byte{changed}
}

// TestWrongServers plants servers that answer wrongly: each is found, and the right one beside it is measured all the same.
func TestWrongServers(t *testing.T) {
	t.Parallel()
	right := startServer(t, nil)
	for _, tt := range []struct {
		name     string
		scenario string
		want     string
		change   change
	}{
		{"too few", "ranges", "came where", func(_ string, n int, m []byte) ([][]byte, error) {
			if n == 50 {
				return nil, nil
			}
			return [][]byte{m}, nil
		}},
		{"one short at the end", "ranges", "99 messages came with OK, want 100", func(_ string, n int, m []byte) ([][]byte, error) {
			if n == 99 {
				return nil, nil
			}
			return [][]byte{m}, nil
		}},
		{"one twice", "ranges", "came where", func(_ string, n int, m []byte) ([][]byte, error) {
			if n == 7 {
				return [][]byte{m, m}, nil
			}
			return [][]byte{m}, nil
		}},
		{"broken link", "ranges", "the link is broken", func(_ string, n int, m []byte) ([][]byte, error) {
			if n != 20 {
				return [][]byte{m}, nil
			}
			return editBlock(t, m, func(b *walletrpc.CompactBlock) { b.PrevHash = bytes.Repeat([]byte{7}, 32) }), nil
		}},
		{"other bytes", "ranges", "message 3 differs from that at right: time is", func(_ string, n int, m []byte) ([][]byte, error) {
			if n != 3 {
				return [][]byte{m}, nil
			}
			return editBlock(t, m, func(b *walletrpc.CompactBlock) { b.Time++ }), nil
		}},
		{"other bytes of the whole chain", "sync", "message 3 differs from that at right: time is", func(_ string, n int, m []byte) ([][]byte, error) {
			if n != 3 {
				return [][]byte{m}, nil
			}
			return editBlock(t, m, func(b *walletrpc.CompactBlock) { b.Time++ }), nil
		}},
		{"no metadata", "ranges", "has no chainMetadata", func(_ string, n int, m []byte) ([][]byte, error) {
			if n != 3 {
				return [][]byte{m}, nil
			}
			return editBlock(t, m, func(b *walletrpc.CompactBlock) { b.ChainMetadata = nil }), nil
		}},
		{"error in the middle", "ranges", "gone away", func(_ string, n int, m []byte) ([][]byte, error) {
			if n == 60 {
				return nil, status.Error(codes.Unavailable, "gone away")
			}
			return [][]byte{m}, nil
		}},
		{"another block", "latency", "came where", func(method string, _ int, m []byte) ([][]byte, error) {
			if method != "GetBlock" {
				return [][]byte{m}, nil
			}
			return editBlock(t, m, func(b *walletrpc.CompactBlock) { b.Height++ }), nil
		}},
		{"another tree", "latency", "saplingTree is", func(method string, _ int, m []byte) ([][]byte, error) {
			s := &walletrpc.TreeState{}
			if method != "GetTreeState" || proto.Unmarshal(m, s) != nil {
				return [][]byte{m}, nil
			}
			s.SaplingTree += "01"
			changed, err := proto.Marshal(s)
			return [][]byte{changed}, err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := quick(TargetOptions{Name: "right", Address: right}, TargetOptions{Name: "wrong", Address: startWrong(t, right, func(method string, n int, m []byte) ([][]byte, error) {
				if method == "GetLatestBlock" || method == "GetLightdInfo" {
					return [][]byte{m}, nil
				}
				return tt.change(method, n, m)
			})})
			o.Rounds, o.Scenarios = 1, []string{tt.scenario}
			result := mustRun(t, o)
			if !slices.ContainsFunc(result.Faults, func(f Fault) bool { return strings.Contains(f.Text, tt.want) }) {
				t.Errorf("no fault says %q: %+v", tt.want, result.Faults)
			}
			if tt.scenario != "latency" && len(result.Faults) != 2 { // one for each client
				t.Errorf("%d faults: %+v", len(result.Faults), result.Faults)
			}
			if slices.ContainsFunc(result.Faults, func(f Fault) bool { return f.Target != "wrong" }) {
				t.Errorf("a fault is not of the wrong one: %+v", result.Faults)
			}
			if !slices.ContainsFunc(result.Measurements, func(m Measurement) bool { return m.Target == "right" }) {
				t.Error("the right one was not measured")
			}
		})
	}
}

// TestWrongLater plants a server that answers rightly while its answers are looked at, and wrongly afterwards: both clients notice.
func TestWrongLater(t *testing.T) {
	t.Parallel()
	right := startServer(t, nil)
	for _, client := range []Client{Decoding, Counting} {
		t.Run(string(client), func(t *testing.T) {
			t.Parallel()
			// The 50 ranges of 100 blocks that are looked at are the first 5,000 messages.
			var messages atomic.Int64
			wrong := startWrong(t, right, func(method string, n int, m []byte) ([][]byte, error) {
				if method != "GetBlockRange" {
					return [][]byte{m}, nil
				}
				if messages.Add(1) < 5500 || n != 10 {
					return [][]byte{m}, nil
				}
				return editBlock(t, m, func(b *walletrpc.CompactBlock) { b.Time++ }), nil
			})
			o := quick(TargetOptions{Name: "wrong", Address: wrong})
			o.Scenarios, o.Clients, o.RoundTime = []string{"ranges"}, []Client{client}, 2*time.Second
			result := mustRun(t, o)
			if !slices.ContainsFunc(result.Faults, func(f Fault) bool { return strings.Contains(f.Text, "the same question has to have the same answer") }) {
				t.Errorf("faults: %+v, %d messages were sent", result.Faults, messages.Load())
			}
		})
	}
}

// TestAllowedDifference has a server fill in what the protocol leaves open: that is a note and no fault.
func TestAllowedDifference(t *testing.T) {
	t.Parallel()
	right := startServer(t, nil)
	other := startWrong(t, right, func(method string, _ int, m []byte) ([][]byte, error) {
		if method != "GetBlockRange" {
			return [][]byte{m}, nil
		}
		return editBlock(t, m, func(b *walletrpc.CompactBlock) { b.Header = []byte{1, 2, 3} }), nil
	})
	o := quick(TargetOptions{Name: "right", Address: right}, TargetOptions{Name: "other", Address: other})
	o.Scenarios = []string{"ranges"}
	result := mustRun(t, o)
	if len(result.Faults) > 0 || !slices.ContainsFunc(result.Notes, func(f Fault) bool { return strings.Contains(f.Text, "other bytes") }) {
		t.Errorf("faults: %+v, notes: %+v", result.Faults, result.Notes)
	}
}

// TestSlower measures a server beside the same one with a delay in each answer: the difference is seen.
func TestSlower(t *testing.T) {
	t.Parallel()
	const delay = 20 * time.Millisecond
	fast := startServer(t, nil)
	slow := startWrong(t, fast, func(_ string, n int, m []byte) ([][]byte, error) {
		if n == 0 {
			time.Sleep(delay)
		}
		return [][]byte{m}, nil
	})
	o := quick(TargetOptions{Name: "fast", Address: fast}, TargetOptions{Name: "slow", Address: slow})
	o.Scenarios = []string{"latency"}
	methods := []string{"GetLatestBlock", "GetBlock", "GetTreeState", "GetTransaction"}
	for _, m := range mustRun(t, o).Measurements {
		if s, ok := m.Stat(P50); m.Target == "slow" && slices.Contains(methods, m.Case) && (!ok || s.Low < delay.Seconds()) {
			t.Errorf("%s: p50 %+v, and every answer takes %v", m.Case, s, delay)
		}
	}
}

// TestUnsupported has a server without a method: that is said, and is no fault.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	right := startServer(t, nil)
	without := startWrong(t, right, func(method string, _ int, m []byte) ([][]byte, error) {
		if method == "GetTreeState" || method == "GetTransaction" {
			return nil, status.Error(codes.Unimplemented, "no "+method+" here")
		}
		return [][]byte{m}, nil
	})
	o := quick(TargetOptions{Name: "without", Address: without}, TargetOptions{Name: "right", Address: right})
	o.Scenarios = []string{"latency", "mixed"}
	result := mustRun(t, o)
	if len(result.Faults) > 0 {
		t.Errorf("faults: %+v", result.Faults)
	}
	for _, m := range result.Measurements {
		missing := m.Target == "without" && (strings.HasPrefix(m.Case, "GetTreeState") || m.Case == "GetTransaction")
		if missing != (m.Unsupported != "") || missing != (len(m.Rounds) == 0) {
			t.Errorf("%s at %s: %d rounds, unsupported %q", m.Case, m.Target, len(m.Rounds), m.Unsupported)
		}
	}
}

// TestTLS measures with both clients over TLS, and refuses a server whose certificate nobody trusts.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	roots := servertest.WriteCertificate(t, cert, key, "localhost", time.Now().Add(time.Hour))
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	addr := startServer(t, &tls.Config{Certificates: []tls.Certificate{pair}})
	o := quick(TargetOptions{Name: "secure", Address: addr, TLS: &tls.Config{RootCAs: roots}})
	o.Scenarios = []string{"ranges", "tls"} // ranges of 100 with two clients, new connections and GetBlock
	result := mustRun(t, o)
	if len(result.Faults) > 0 || len(result.Measurements) != 4 || !result.Targets[0].TLS {
		t.Errorf("faults: %+v, %d measurements", result.Faults, len(result.Measurements))
	}
	o.Targets[0].TLS = &tls.Config{}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server that nobody trusts: %v", err)
	}
	if _, err := DialCounting(t.Context(), addr, &tls.Config{}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server that nobody trusts, counting: %v", err)
	}
}

// TestInterrupted ends a run in the middle: what was measured until then is there.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := quick(TargetOptions{Name: "one", Address: startServer(t, nil)})
	o.RoundTime = time.Minute // the run would take hours
	o.Scenarios = []string{"latency", "ranges"}
	o.Show = func(e Event) {
		if strings.HasPrefix(e.Doing, "ranges") {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
	}
	result, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) || result == nil || len(result.Measurements) == 0 || len(result.Faults) > 0 {
		t.Errorf("%v: %+v", err, result)
	}
	if n := len(result.Notes); n != 1 || !strings.Contains(result.Notes[0].Text, "the run was interrupted") {
		t.Errorf("the result does not say so: %+v", result.Notes)
	}
}
