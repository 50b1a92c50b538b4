package bench

import (
	"context"
	"fmt"
	"slices"
)

// rangeLength is a length of ranges, and how many different ones of it are read in turns: all are looked at once before.
type rangeLength struct {
	blocks uint64
	ranges int
}

func rangeLengths() []rangeLength {
	return []rangeLength{{100, 50}, {1000, 10}, {10_000, 4}, {100_000, 2}}
}

// rangesCases reads ranges with one client.
func rangesCases(r *run) (cases []testCase) {
	for _, l := range rangeLengths() {
		cases = append(cases, r.rangeCases(l, 1, r.options.Clients)...)
	}
	return cases
}

// rangeCases reads ranges of one length with each of the clients.
func (r *run) rangeCases(l rangeLength, clients int, kinds []Client) (cases []testCase) {
	for _, kind := range kinds {
		cases = append(cases, r.askLoad(fmt.Sprintf("range of %d", l.blocks), l.blocks, load{
			client: kind, clients: clients, questions: r.chain.stretches(l.ranges, l.blocks),
			time: r.options.RoundTime, limit: r.cut(r.options.RoundTime),
		}))
	}
	if have := r.chain.last - r.chain.first + 1; have < l.blocks {
		for i := range cases {
			cases[i].skip = fmt.Sprintf("the targets share %d blocks only", have)
		}
	}
	return cases
}

// crowds are how many clients ask at once.
func (r *run) crowds() (crowds []int) {
	for _, clients := range []int{1, 8, 32, 128} {
		crowds = append(crowds, min(clients, r.options.Most))
	}
	return slices.Compact(crowds)
}

// concurrencyCases reads ranges and single blocks with several clients at once. They count, unless another client is asked for: a client
// that decodes would measure itself.
func concurrencyCases(r *run) (cases []testCase) {
	kind := []Client{Counting}
	if len(r.options.Clients) == 1 {
		kind = r.options.Clients
	}
	var blocks []*question
	for _, h := range r.chain.heights(latencyBlocks, 0) {
		blocks = append(blocks, oneBlock(h))
	}
	for _, l := range rangeLengths()[1:3] {
		for _, clients := range r.crowds() {
			cases = append(cases, r.rangeCases(l, clients, kind)...)
		}
	}
	for _, clients := range r.crowds() {
		cases = append(cases, r.askLoad("GetBlock", 0, load{
			client: kind[0], clients: clients, questions: blocks, time: r.options.RoundTime, limit: r.cut(r.options.RoundTime),
		}))
	}
	return cases
}

// syncLength is how many blocks a wallet that synchronises asks for at once.
const syncLength = 10_000

// syncCases reads the whole chain.
func syncCases(r *run) (cases []testCase) {
	for _, kind := range r.options.Clients {
		cases = append(cases, r.syncCase(kind))
	}
	return cases
}

// syncCase reads the chain from its first block to its last with one client. A round ends after a while: that much of a large chain.
func (r *run) syncCase(kind Client) testCase {
	c := testCase{name: "whole chain", client: kind, end: closeAskers}
	l := load{time: 20 * r.options.RoundTime, limit: r.cut(20 * r.options.RoundTime)}
	for from := r.chain.first; from <= r.chain.last; from += syncLength {
		l.questions = append(l.questions, blockRange(from, min(from+syncLength-1, r.chain.last)))
	}
	c.measure = func(ctx context.Context, t *target) (round, error) {
		askers, err := t.askers(kind, 1)
		if err != nil {
			return round{}, err
		}
		l := l
		l.calls = len(l.questions)
		got, err := r.load(ctx, t, l, askers)
		if all := int64(r.chain.last - r.chain.first + 1); err == nil && got.blocks < all {
			r.note(Fault{Scenario: "sync", Case: c.name, Target: t.options.Name,
				Text: fmt.Sprintf("not all of the %d blocks came within %v: what was read until then counts", all, l.time)})
		}
		return got, err
	}
	return c
}
