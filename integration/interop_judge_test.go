package integration

import (
	"slices"
	"testing"
)

// TestJudge: the first judgement that fits counts, differences of one kind make one line, and nothing passes unjudged or unused.
func TestJudge(t *testing.T) {
	t.Parallel()
	seen := []difference{
		{"GetBlock", "above the tip", "OUT_OF_RANGE", "INTERNAL", 1},
		{"GetTreeState", "above the tip", "OUT_OF_RANGE", "INTERNAL", 1},
		{"GetBlock", "unknown", "NOT_FOUND", "INTERNAL", 1},
		{"Ping", "switched off", "FAILED_PRECONDITION", "UNIMPLEMENTED", 1},
	}
	rules := []judgement{
		{method: "GetBlock|GetTreeState", zainod: "INTERNAL", right: "zsidecar"},
		{method: "GetBlock", example: "unknown", right: "too late"},
		{example: "known", right: "no part of a field"},
	}
	for _, byExample := range []bool{true, false} {
		used := make([]int, len(rules))
		lines, without := judge(seen, rules, byExample, used)
		if !slices.Equal(used, []int{3, 0, 0}) || len(without) != 1 || without[0] != seen[3] {
			t.Errorf("judgements used %v, without one: %+v", used, without)
		}
		// The two above the tip are one line; another status makes another line in any case.
		if len(lines) != 2 || lines[0].count != 2 || !slices.Equal(lines[0].methods, []string{"GetBlock", "GetTreeState"}) || lines[1].count != 1 {
			t.Errorf("by example %v: %+v", byExample, lines)
		}
	}
	seen[2].want = seen[0].want // now only the example tells it from the first
	for byExample, want := range map[bool]int{true: 2, false: 1} {
		if lines, _ := judge(seen, rules, byExample, make([]int, len(rules))); len(lines) != want {
			t.Errorf("by example %v: %d lines, want %d", byExample, len(lines), want)
		}
	}
}
