package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/pkg/bench"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// startedTarget is a zsidecar that the benchmark starts beside a node.
func startedTarget(t *testing.T, name string, n *zebratest.Node, more string) bench.TargetOptions {
	t.Helper()
	grpcAddr, httpAddr := servertest.FreeAddr(t), servertest.FreeAddr(t)
	return bench.TargetOptions{Name: name, Address: grpcAddr, Start: &bench.StartOptions{
		Command: fmt.Sprintf("'%s' start --zebra %s --zebra-cookie '%s' --grpc %s --http %s --data-dir '{dir}' %s",
			program(t), n.URL(), n.CookieFile(), grpcAddr, httpAddr, more),
		Dir:      filepath.Join(t.TempDir(), "index"),
		Complete: "http://" + httpAddr + "/healthz",
	}}
}

// TestBenchRun measures two zsidecars, one of them without an index, in the scenarios that start servers and move the node's chain. It
// looks at what is right and not at how long it took.
func TestBenchRun(t *testing.T) {
	t.Parallel()
	c, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Regtest})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Extend(1500, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	n := zebratest.NewNode(c, zebratest.NodeOptions{CookieDir: t.TempDir()})
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	}()
	asks := startedTarget(t, "asks", n, "--no-index")
	asks.Start.Complete = "" // it has no index that could be complete
	result, err := bench.Run(t.Context(), bench.Options{
		Targets: []bench.TargetOptions{startedTarget(t, "indexes", n, ""), asks},
		Node:    bench.NodeOptions{URL: n.URL(), CookieFile: n.CookieFile()}, Logs: t.TempDir(), BuildTime: time.Minute,
		Scenarios: []string{"index", "restart", "mempool", "tip", "reorg"}, Rounds: 1, RoundTime: 10 * time.Millisecond, Mempool: 1500,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range result.Faults {
		t.Errorf("%+v", f)
	}
	measured := make(map[string]int)
	for _, m := range result.Measurements {
		measured[m.Scenario]++
		if m.Unsupported != "" || len(m.Rounds) == 0 {
			t.Errorf("%s, %s of %s has no rounds: %s", m.Scenario, m.Case, m.Target, m.Unsupported)
		}
		if cpu, ok := m.Stat(bench.ServerCPU); !ok || cpu.Low <= 0 {
			t.Errorf("%s, %s of %s: server CPU is %+v, %v", m.Scenario, m.Case, m.Target, cpu, ok)
		}
	}
	if got, want := fmt.Sprint(measured), "map[index:2 mempool:6 reorg:6 restart:2 tip:2]"; got != want {
		t.Errorf("measured %s, want %s", got, want)
	}
	if tip := c.Tip().Height; tip != 1500+2*2*5 {
		t.Errorf("the node's tip is %d: want five blocks more for each of two rounds at each of two targets", tip)
	}
	if !strings.HasPrefix(result.Targets[0].Server, "zsidecar") || result.Targets[0].Height == 0 {
		t.Errorf("the first target is %+v", result.Targets[0])
	}
}
