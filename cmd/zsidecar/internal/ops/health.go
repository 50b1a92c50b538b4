package ops

import (
	"fmt"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
)

// answeredWithin is how long after its last answer the node still counts as there.
const answeredWithin = 30 * time.Second

// Facts are what Assess judges.
type Facts struct {
	NodeURL  string
	Node     zebrarpc.TipState
	Refused  error           // why the node is not asked, nil when it is
	Missing  []MissingMethod // of the node, as far as it was asked
	Index    IndexFacts
	Stopping bool
}

// MissingMethod is a JSON-RPC method that the node does not know, and what does not work without it.
type MissingMethod struct {
	Method  string `json:"method"`
	Without string `json:"without_it"`
}

// IndexFacts are the part about the index. The zero value says that there is none.
type IndexFacts struct {
	On       bool // false: --no-index
	Open     bool
	Tip      chain.BlockID
	HasTip   bool  // false: no block yet
	Complete bool  // the tip is the node's, or was when the node last answered
	Paused   bool  // the build waits for free disk space
	Stopped  bool  // the build does not go on after an error that waiting does not cure, such as a block of an unknown version
	Pruned   bool  // it has stopped because the node prunes: what the node has is answered without the index
	Err      error // why the build waits, is paused or has stopped
	Apart    error // why its chain is known not to be the node's, so that no tip is served; nil when it is not
}

// Health is the answer of /healthz.
type Health struct {
	Ready   bool        `json:"ready"`
	Reasons []string    `json:"reasons"` // why it is not ready, or what is not as it should be
	Node    NodeHealth  `json:"node"`
	Index   IndexHealth `json:"index"`
}

// NodeHealth is the part about Zebra.
type NodeHealth struct {
	URL               string  `json:"url"`
	Height            *uint32 `json:"height"` // null until the node has answered
	Hash              string  `json:"hash,omitempty"`
	LastAnswerSeconds float64 `json:"last_answer_seconds,omitempty"` // since the tip was last confirmed
	Error             string  `json:"error,omitempty"`

	Missing []MissingMethod `json:"missing_methods,omitempty"`
}

// IndexHealth is the part about the index.
type IndexHealth struct {
	State  string  `json:"state"`  // off, opening, building, complete
	Height *uint32 `json:"height"` // null: no block yet
	Hash   string  `json:"hash,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// Assess judges the facts of one moment. The program is ready when a tip is known and it can answer for it: the node answered in the
// last 30 seconds, or the index is complete; and when the node is not refused and nothing has stopped the build, such as a block that it
// cannot read, nor has the node shown another chain, even if it is away by now. A node that prunes does not have what the index needs, and
// never will: the program is as ready as without an index.
func Assess(now time.Time, f Facts) Health {
	h := Health{Reasons: []string{}, Node: nodeHealth(now, f), Index: indexHealth(f.Index)}
	say := func(format string, args ...any) { h.Reasons = append(h.Reasons, fmt.Sprintf(format, args...)) }

	answered := f.Node.Known && now.Sub(f.Node.Confirmed) <= answeredWithin
	h.Ready = (answered || f.Index.Complete) && f.Refused == nil && f.Index.Apart == nil && (!f.Index.Stopped || f.Index.Pruned) && !f.Stopping
	if f.Stopping {
		say("the program is stopping")
	}
	switch {
	case !f.Node.Known:
		say("zebra at %s has not answered yet%s", f.NodeURL, because(f.Node.Err))
	case !answered:
		say("zebra at %s has not answered for %s%s", f.NodeURL, now.Sub(f.Node.Confirmed).Round(time.Second), because(f.Node.Err))
	}
	if answered && f.Node.Err == nil && f.Index.Complete && f.Index.HasTip && f.Node.ID.Height < f.Index.Tip.Height {
		say("zebra at %s is at height %d, below the index's %d: it is waited for", f.NodeURL, f.Node.ID.Height, f.Index.Tip.Height)
	}
	if f.Refused != nil {
		say("%v", f.Refused)
	}
	for _, m := range f.Missing {
		say("zebra at %s does not have the method %s: %s", f.NodeURL, m.Method, m.Without)
	}
	switch {
	case f.Index.Paused:
		say("the index build is paused%s", because(f.Index.Err))
	case f.Index.Stopped:
		say("the index build has stopped%s", because(f.Index.Err))
	case f.Index.Apart != nil:
		say("wallets get no tip until the node shows the chain of the index again: %v", f.Index.Apart)
	}
	return h
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

func nodeHealth(now time.Time, f Facts) NodeHealth {
	n := NodeHealth{URL: f.NodeURL, Missing: f.Missing}
	if f.Node.Known {
		height := uint32(f.Node.ID.Height)
		n.Height, n.Hash = &height, f.Node.ID.Hash.String()
		n.LastAnswerSeconds = now.Sub(f.Node.Confirmed).Round(time.Millisecond).Seconds()
	}
	if f.Node.Err != nil {
		n.Error = f.Node.Err.Error()
	}
	return n
}

func indexHealth(f IndexFacts) IndexHealth {
	var h IndexHealth
	switch {
	case !f.On:
		h.State = "off"
	case !f.Open:
		h.State = "opening"
	case f.Complete:
		h.State = "complete"
	default:
		h.State = "building"
	}
	if f.HasTip {
		height := uint32(f.Tip.Height)
		h.Height, h.Hash = &height, f.Tip.Hash.String()
	}
	if f.Err != nil {
		h.Error = f.Err.Error()
	}
	return h
}
