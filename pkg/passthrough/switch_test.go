package passthrough

import (
	"bytes"
	"errors"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// switchCase is a range that is being read while the chain changes.
type switchCase struct {
	fork, newTip chain.Height
	indexed      int  // blocks that the index has
	both         bool // it goes over to the other branch with the node
	after        int  // runs
	r            [2]chain.Height
}

const switchTip = 100

func switchCases() (cases []switchCase) {
	for _, fork := range []chain.Height{switchTip, 81, 51} {
		for _, newTip := range []chain.Height{fork, switchTip, switchTip + 5} {
			for _, indexed := range []int{0, 40, 90, switchTip + 1} {
				for _, after := range []int{0, 1, 3, 9} {
					for _, r := range [][2]chain.Height{{0, switchTip}, {switchTip, 0}, {10, 95}, {95, 10}, {30, switchTip + 10}} {
						cases = append(cases, switchCase{fork, newTip, indexed, false, after, r}, switchCase{fork, newTip, indexed, true, after, r})
					}
				}
			}
		}
	}
	return cases
}

// Wherever the index stands, and whenever the node alone or both go over to another branch, a range gives the blocks of one branch, and
// all of them unless it ends with ErrReorged.
func TestJoinedSwitchUnderARange(t *testing.T) {
	t.Parallel()
	old := branch(nil, 0, switchTip, "a")
	cases, reorged := switchCases(), 0
	for i, c := range cases {
		p := projections[i%len(projections)]
		j, node, index := newJoined(t, old, c.indexed, c.indexed > switchTip)
		other := branch(old, c.fork, c.newTip, "b")
		change := func() {
			node.set(other)
			if c.both {
				index.set(other[:min(c.indexed, len(other))], c.indexed > switchTip)
			}
		}
		v, runs := mustView(t, j), 0
		if c.after == 0 {
			change()
		}
		g := read(t, v, c.r[0], c.r[1], p, func(chain.Frames) {
			if runs++; runs == c.after {
				change()
			}
		})
		if errors.Is(g.err, chain.ErrReorged) {
			reorged++
		}
		if problem := oneBranch(t, &g, c.r, p, old, other); problem != "" {
			t.Errorf("%+v through %+v: %s (%v)", c, p, problem, g.err)
		}
	}
	if n := len(cases); reorged < n/10 || reorged > n*9/10 {
		t.Errorf("%d of %d ranges ended with ErrReorged: what is tested here?", reorged, n)
	}
}

// oneBranch says what is wrong with a range that was read from a view whose tip was that of the first branch.
func oneBranch(t *testing.T, g *got, r [2]chain.Height, p chain.Projection, branches ...[]*chain.Block) string {
	t.Helper()
	whole := int(min(r[1], branches[0][len(branches[0])-1].ID.Height)) - int(r[0])
	if r[0] > r[1] {
		whole = -whole
	}
	switch whole++; {
	case g.err != nil && !errors.Is(g.err, chain.ErrReorged) && !errors.Is(g.err, chain.ErrAboveTip):
		return "the error"
	case g.count != whole && !errors.Is(g.err, chain.ErrReorged):
		return "it ended early"
	case g.count == 0:
		return ""
	}
	last := r[0] + chain.Height(g.count) - 1
	if r[0] > r[1] {
		last = r[0] - chain.Height(g.count) + 1
	}
	for _, b := range branches {
		if int(max(r[0], last)) < len(b) && bytes.Equal(g.bytes, want(t, b, r[0], last, p)) {
			return ""
		}
	}
	return "two branches"
}
