package zebrarpc

import (
	"errors"
	"slices"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// TestMissingMethods: the methods that a node does not know are found by name, and asking changes nothing.
func TestMissingMethods(t *testing.T) {
	t.Parallel()
	n := zebratest.NewNode(newChain(t, 3, zebratest.Small), zebratest.NodeOptions{})
	c := nodeClient(t, Options{}, n)
	if missing, err := c.MissingMethods(t.Context()); err != nil || missing != nil {
		t.Errorf("a node that has all: %v, %v", missing, err)
	}
	want := []string{"z_gettreestate", "getrawmempool", "sendrawtransaction"}
	for _, name := range want {
		n.Fault(zebratest.Fault{Method: name, Error: &zebratest.Error{Code: -32601, Message: "Method not found"}})
	}
	if missing, err := c.MissingMethods(t.Context()); err != nil || !slices.Equal(missing, want) {
		t.Errorf("missing: %v, %v; want %v", missing, err, want)
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	if missing, err := c.MissingMethods(t.Context()); !errors.Is(err, chain.ErrUnavailable) || missing != nil {
		t.Errorf("a node that is away: %v, %v", missing, err)
	}
}
