package sidecar

import (
	"context"
	"slices"
	"time"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/ops"
)

// methodsAgain is the pause after the node could not be asked which methods it has.
const methodsAgain = 5 * time.Second

// checkMethods asks the node which of the methods that we need it has, each time that it comes up: no node is judged by its name or
// version. What is missing is told once, and stands in /healthz.
func (s *Sidecar) checkMethods(ctx context.Context) {
	checked := false
	for {
		changed := s.client.Changed()
		var again <-chan time.Time
		switch up := s.client.Tip().Up(); {
		case !up:
			checked = false
		case !checked:
			missing, err := s.client.MissingMethods(ctx)
			if checked = err == nil; checked {
				s.noteMethods(missing)
			} else {
				again = time.After(methodsAgain)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-again:
		}
	}
}

// noteMethods keeps what is missing, and logs what has changed.
func (s *Sidecar) noteMethods(missing []string) {
	now := make([]ops.MissingMethod, len(missing))
	for i, name := range missing {
		now[i] = ops.MissingMethod{Method: name, Without: lossWithout(name)}
	}
	old := s.missing.Swap(&now)
	switch {
	case old == nil && len(now) == 0, old != nil && slices.Equal(*old, now):
	case len(now) == 0:
		s.Log.Info("zebra has every method that is needed now", "url", s.client.URL())
	default:
		for _, m := range now {
			s.Log.Warn("zebra does not have a method that is needed", "url", s.client.URL(), "method", m.Method, "without_it", m.Without)
		}
	}
}

// missingMethods is what the last check found.
func (s *Sidecar) missingMethods() []ops.MissingMethod {
	if m := s.missing.Load(); m != nil {
		return *m
	}
	return nil
}

// lossWithout says what does not work when the node lacks a method.
func lossWithout(method string) string {
	switch method {
	case "getbestblockheightandhash":
		return "the node's tip is not known: no block is indexed, and no new one is seen"
	case "getblock":
		return "no block is indexed, and wallets get only those that are"
	case "getblockhash":
		return "the index is not built, since it cannot be compared with the node"
	case "getblockheader":
		return "blocks that are not indexed are not found by their hash, nor their tree states"
	case "getblockchaininfo", "getinfo":
		return "GetLightdInfo does not answer, nor do the methods of addresses"
	case "z_gettreestate":
		return "GetTreeState and GetLatestTreeState answer only what was kept"
	case "z_getsubtreesbyindex":
		return "GetSubtreeRoots answers only what was kept"
	case "getrawmempool":
		return "GetMempoolTx and GetMempoolStream do not answer"
	case "getrawtransaction":
		return "GetTransaction, the mempool and the transactions of addresses do not answer"
	case "sendrawtransaction":
		return "SendTransaction does not answer"
	case "getaddressbalance":
		return "GetTaddressBalance and GetTaddressBalanceStream do not answer"
	case "getaddresstxids":
		return "GetTaddressTxids and GetTaddressTransactions do not answer"
	case "getaddressutxos":
		return "GetAddressUtxos and GetAddressUtxosStream do not answer"
	}
	return "something does not answer"
}
