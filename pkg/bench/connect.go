package bench

import (
	"context"
	"time"
)

// tlsCases are what TLS makes dearer: a connection, a small answer, many blocks. Targets without it are measured as well, so that a
// server that is given twice, with and without TLS before it, is compared with itself.
func tlsCases(r *run) []testCase {
	cases := []testCase{{name: "GetLatestBlock on a new connection", client: Decoding, measure: r.measureConnect}}
	if blocks := r.chain.heights(latencyBlocks, 0); len(blocks) > 0 {
		var questions []*question
		for _, h := range blocks {
			questions = append(questions, oneBlock(h))
		}
		cases = append(cases, r.askLoad("GetBlock", 0, r.latencyLoad(questions)))
	}
	for _, l := range rangeLengths() {
		if l.blocks == 1000 || l.blocks == 10_000 {
			cases = append(cases, r.rangeCases(l, 1, r.options.Clients)...)
		}
	}
	return cases
}

// measureConnect makes a connection for every call.
func (r *run) measureConnect(ctx context.Context, t *target) (got round, err error) {
	for begin := time.Now(); got.calls == 0 || got.calls < int64(r.options.Calls) && time.Since(begin) < r.options.RoundTime; got.calls++ {
		asked := time.Now()
		if err := t.connectOnce(ctx); err != nil {
			return got, err
		}
		got.times = append(got.times, time.Since(asked))
	}
	return got, nil
}

func (t *target) connectOnce(ctx context.Context) error {
	a, err := newAsker(Decoding, t.options)
	if err != nil {
		return err
	}
	defer a.close()
	_, err = a.ask(ctx, latestBlock())
	return err
}
