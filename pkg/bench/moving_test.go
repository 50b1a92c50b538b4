package bench

import (
	"strings"
	"testing"
	"time"
)

// TestMovingChain finds what servers do wrong when the node mines, moves or has a mempool, and nothing at one that does it right.
func TestMovingChain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		how, scenario string
		want          string // the fault; "" means none
		faults        int
	}{
		{"good", "tip", "", 0},
		{"late", "tip", "it does not serve", 1},
		{"strange", "tip", "which the node does not have", 1},
		{"unlinked", "tip", "names", 1},
		{"good", "reorg", "", 0},
		{"strange", "reorg", "", 0},                // no block is higher than the tip of the start
		{"late", "reorg", "", 0},                   // nor is a new height missed
		{"mixing", "reorg", "mixes two chains", 2}, // the last block alone is replaced in a reorg of depth 1,
		{"orphan", "reorg", "gives the orphaned block", 3},
		{"slow", "reorg", "", 0}, // it is still on the branch of another target's round when its own begins
		{"slow", "tip", "", 0},
		{"good", "mempool", "", 0},
		{"forgetful", "mempool", "which are not the 10 that the node has besides", 1},
		{"double", "mempool", "twice", 1},
	} {
		t.Run(tt.how+" "+tt.scenario, func(t *testing.T) {
			t.Parallel()
			n := startRegtest(t, 120, "")
			patience := 20 * time.Second // the machine may be busy
			if tt.how == "late" {
				patience = time.Second
			}
			before := n.Chain().Tip()
			targets := []TargetOptions{startFake(t, tt.how, n)}
			if tt.how == "slow" {
				targets = append(targets, startFake(t, "good", n))
			}
			result, err := Run(t.Context(), Options{
				Targets: targets, Node: NodeOptions{URL: n.URL()}, Mempool: 20,
				Scenarios: []string{tt.scenario}, Rounds: 1, RoundTime: time.Millisecond, Patience: patience,
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Faults) != tt.faults {
				t.Errorf("%d faults, want %d: %+v", len(result.Faults), tt.faults, result.Faults)
			}
			for _, f := range result.Faults {
				if !strings.Contains(f.Text, tt.want) {
					t.Errorf("the fault is %q, want %q", f.Text, tt.want)
				}
			}
			if after := n.Chain().Tip(); tt.scenario == "reorg" && after != before {
				t.Errorf("the node's tip is %s, and was %s before: a reorg has to leave it as it was", after, before)
			}
		})
	}
}
