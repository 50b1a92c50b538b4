package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// How many different blocks, transactions and tree states are asked for in turns.
const (
	latencyBlocks = 256
	latencyTrees  = 64
)

// addressSpan is how many blocks on either side of the one that an address was found in are searched for its transactions.
const addressSpan = 50

// latencyCases asks each method many times, one call after the other, with one client that decodes.
func latencyCases(r *run) []testCase {
	groups := r.unaryQuestions()
	cases := make([]testCase, 0, len(groups)+1)
	for _, g := range groups {
		cases = append(cases, r.askLoad(g.name, 0, r.latencyLoad(g.questions)))
	}
	return append(cases, r.freshTreeStates())
}

// latencyLoad asks the questions one after the other.
func (r *run) latencyLoad(questions []*question) load {
	most := 4 * r.options.RoundTime // many servers need 40 ms for a call
	return load{client: Decoding, clients: 1, questions: questions, calls: r.options.Calls, time: most, limit: r.cut(most)}
}

// cut is when answers are cut off that clients wait for which have asked for so long.
func (r *run) cut(asking time.Duration) time.Duration { return max(3*asking, 3*time.Second) }

// questionGroup is a method and what it is asked for.
type questionGroup struct {
	name      string
	questions []*question
}

// unaryQuestions are all methods with short answers.
func (r *run) unaryQuestions() []questionGroup {
	var blocks, nullifiers, trees, txs, txids, balance, utxos []*question
	for _, h := range r.chain.heights(latencyBlocks, 0) {
		blocks, nullifiers = append(blocks, oneBlock(h)), append(nullifiers, blockNullifiers(h))
	}
	for _, h := range r.chain.heights(latencyTrees, 0) {
		trees = append(trees, treeState(h))
	}
	for _, tx := range r.chain.txids {
		txs = append(txs, transaction(tx.txid, tx.height))
	}
	if address := r.chain.address; address != "" {
		at := r.chain.addressAt
		if at == 0 {
			at = r.chain.last
		}
		from := max(at, r.chain.first+addressSpan) - addressSpan
		txids = []*question{addressTxids(address, from, min(at+addressSpan, r.chain.last))}
		balance, utxos = []*question{addressBalance(address)}, []*question{addressUtxos(address)}
	}
	groups := []questionGroup{
		{"GetLightdInfo", []*question{lightdInfo()}},
		{"GetLatestBlock", []*question{latestBlock()}},
		{"GetBlock", blocks},
		{"GetBlockNullifiers", nullifiers},
		{"GetTreeState", trees},
		{"GetLatestTreeState", []*question{latestTreeState()}},
	}
	for _, pool := range []walletrpc.ShieldedProtocol{
		walletrpc.ShieldedProtocol_sapling, walletrpc.ShieldedProtocol_orchard, walletrpc.ShieldedProtocol_ironwood,
	} {
		groups = append(groups, questionGroup{fmt.Sprintf("GetSubtreeRoots %v", pool), []*question{subtreeRoots(pool)}})
	}
	return append(groups,
		questionGroup{"GetMempoolTx", []*question{mempoolTx()}},
		questionGroup{"GetTransaction", txs},
		questionGroup{"GetTaddressTxids", txids},
		questionGroup{"GetTaddressBalance", balance},
		questionGroup{"GetAddressUtxos", utxos},
	)
}

// freshTreeStates asks in every round for tree states that no round before has asked for, so that none can be kept.
func (r *run) freshTreeStates() testCase {
	type state struct {
		asker asker
		turn  int
	}
	l := r.latencyLoad(nil)
	c := testCase{name: "GetTreeState, not asked before", client: Decoding}
	blocks := int(min(r.chain.last-r.chain.first+1, 1<<30))
	each := min(r.options.Calls, blocks/(r.options.Rounds+2))
	if each < 1 {
		c.skip = "the chain has too few blocks"
	}
	c.measure = func(ctx context.Context, t *target) (round, error) {
		s, ok := t.state.(*state)
		if !ok {
			a, err := newAsker(Decoding, t.options)
			if err != nil {
				return round{}, err
			}
			s = &state{asker: a}
			t.state = s
		}
		s.turn++
		l := l
		for _, h := range r.chain.heights(each, s.turn) {
			l.questions = append(l.questions, treeState(h))
		}
		l.calls = len(l.questions)
		return r.load(ctx, t, l, []asker{s.asker})
	}
	c.end = func(t *target) {
		if s, ok := t.state.(*state); ok {
			s.asker.close()
		}
	}
	return c
}
