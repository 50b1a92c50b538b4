package zebratest

import (
	"slices"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Fault is one way in which a Node misbehaves: which calls it meets, how often, and what happens to them. Fields left zero do nothing.
// What happens, happens in the order of the fields.
type Fault struct {
	Method string          // "" meets every method
	Where  func(Call) bool // nil meets every call of the method; see AtHeight. It must not use the Node
	Times  int             // how many calls it meets before it is used up; 0: until removed

	Delay time.Duration // waits before the call is executed, unless the client leaves
	Hang  bool          // waits until the client leaves
	Drop  bool          // closes the connection without a reply: the client sees EOF

	Error  *Error                                // the call fails with this JSON-RPC error
	Result string                                // JSON text that replaces the result, as of the wrong type
	Raw    func(raw []byte) []byte               // changes the block in getblock's verbosity 0; it may write into its argument
	Sizes  func(chain.TreeSizes) chain.TreeSizes // changes "trees" in getblock's verbosity 1 and z_gettreestate

	WrongID bool // the reply carries an id that was not asked for

	Status int                      // answers with this HTTP status and Page, in place of the reply
	Body   func(body []byte) []byte // changes the whole body; Content-Length fits the result
	CutOff bool                     // sends half of the body, then closes the connection
}

// Error is a JSON-RPC error as Zebra would send it.
type Error struct {
	Code    int
	Message string
}

// Page is the body that comes with a Fault's Status: what a proxy in front of a dead node says.
const Page = "<html><head><title>Error</title></head><body><h1>Something is wrong</h1></body></html>\n"

// AtHeight meets the calls that ask for the block at height h, by height or by hash.
func AtHeight(h chain.Height) func(Call) bool { return InRange(h, h) }

// InRange meets the calls that ask for a block between from and to, both included.
func InRange(from, to chain.Height) func(Call) bool {
	return func(c Call) bool {
		h, ok := c.Height()
		return ok && from <= h && h <= to
	}
}

// FlipHeaderByte spoils a block's hash: it changes the nonce. For Fault.Raw.
func FlipHeaderByte(raw []byte) []byte { return flip(raw, 108) }

// FlipPrevHash spoils a block's link to its parent, and its hash. For Fault.Raw.
func FlipPrevHash(raw []byte) []byte { return flip(raw, 4) }

// FlipMerkleRoot spoils the header's Merkle root, and the block's hash. For Fault.Raw.
func FlipMerkleRoot(raw []byte) []byte { return flip(raw, 36) }

// FlipLastByte spoils the last transaction, and with it the Merkle root. For Fault.Raw.
func FlipLastByte(raw []byte) []byte { return flip(raw, len(raw)-1) }

func flip(raw []byte, i int) []byte {
	if i < len(raw) {
		raw[i] ^= 1
	}
	return raw
}

// Empty empties a body. For Fault.Body.
func Empty([]byte) []byte { return nil }

// activeFault is a Fault in force.
type activeFault struct {
	Fault
	left int // calls; below zero: no end
}

// Fault puts f in force. Of several that meet a call, the one that came first acts alone. remove ends it; it may be called twice.
func (n *Node) Fault(f Fault) (remove func()) {
	a := &activeFault{Fault: f, left: f.Times}
	if f.Times <= 0 {
		a.left = -1
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = append(n.faults, a)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.drop(a)
	}
}

// ClearFaults ends every fault.
func (n *Node) ClearFaults() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = nil
}

// meet returns the fault that c meets, or nil. The caller does not hold n.mu.
func (n *Node) meet(c Call) *Fault {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.faults {
		if a.Method != "" && a.Method != c.Method || a.Where != nil && !a.Where(c) {
			continue
		}
		if a.left > 0 {
			if a.left--; a.left == 0 {
				n.drop(a)
			}
		}
		return &a.Fault
	}
	return nil
}

// drop removes a; the caller holds n.mu.
func (n *Node) drop(a *activeFault) {
	n.faults = slices.DeleteFunc(n.faults, func(other *activeFault) bool { return other == a })
}
