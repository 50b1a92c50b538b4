package jsonrpc_test

import (
	"slices"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc/jsonrpctest"
)

func (p *pair) facts(t *testing.T) jsonrpctest.Facts {
	t.Helper()
	c := p.node.Chain()
	f := jsonrpctest.Facts{Tip: int(c.Tip().Height)}
	for h := range c.Tip().Height + 1 {
		hash, err := c.Hash(h)
		if err != nil {
			t.Fatal(err)
		}
		f.Blocks = append(f.Blocks, jsonrpctest.Block{Height: int(h), Hash: hash.String()})
	}
	f.Addresses = []string{chain.TransparentAddress{Hash: [20]byte{7}}.String(chain.TestNetwork)}
	return f
}

// TestAnswersAsZebra asks the simulated node and the server the same questions.
func TestAnswersAsZebra(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	f := p.facts(t)
	for _, q := range slices.Concat(jsonrpctest.Transport(), jsonrpctest.Versions(), jsonrpctest.Blocks(f), jsonrpctest.Transactions(f),
		jsonrpctest.AddressCalls(f), jsonrpctest.Node()) {
		if err := jsonrpctest.Compare(t.Context(), p.zebra(), p.ours, q); err != nil {
			t.Error(err)
		}
	}
}
