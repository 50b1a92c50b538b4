package integration

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
	"github.com/zsidecar/zsidecar/proto/indexrpc"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// misery is a way in which a node fails.
type misery struct {
	name  string
	stop  bool // it is not there at all
	fault zebratest.Fault
}

// hung is the one misery that only a client's deadline ends soon.
const hung = "hung"

func miseries() []misery {
	return []misery{
		{name: "gone", stop: true},
		{name: hung, fault: zebratest.Fault{Hang: true}},
		{name: "closing connections", fault: zebratest.Fault{Drop: true}},
		{name: "warming up", fault: zebratest.Fault{Error: &zebratest.Error{Code: -28, Message: "Loading block index..."}}},
		{name: "an HTML page", fault: zebratest.Fault{Status: 200}},
		{name: "HTTP 429", fault: zebratest.Fault{Status: 429}},
		{name: "HTTP 502", fault: zebratest.Fault{Status: 502}},
		{name: "an empty body", fault: zebratest.Fault{Body: zebratest.Empty}},
		{name: "a body cut off", fault: zebratest.Fault{CutOff: true}},
		{name: "wrong JSON types", fault: zebratest.Fault{Result: `[{"result":true},-1]`}},
		{name: "a wrong id", fault: zebratest.Fault{WrongID: true}},
	}
}

// outageRow is a row for a node that fails. hung is what a client gets at its deadline of a node that is hung.
type outageRow struct {
	row
	hung outcome
}

// Heights of the short simulated chain that outage rows ask for: one whose trees were asked for before, and one whose were not.
const (
	knownTrees   = 45
	unknownTrees = 44
)

// outageRows ask every method while the node as a whole fails, which the program has noticed. With a complete index everything that
// the index holds is still answered; nothing else is answered with anything but UNAVAILABLE.
func outageRows() (rows []outageRow) {
	add := func(method, name string, want, hung outcome, run func(ctx context.Context, e *env) error) {
		rows = append(rows, outageRow{row{method, name, want, "", simulated, run}, hung})
	}
	unavailable, deadline := always(codes.Unavailable), always(codes.DeadlineExceeded)
	indexed := outcome{codes.Unavailable, codes.OK}
	add("GetLatestBlock", "", indexed, indexed, func(ctx context.Context, e *env) error {
		got, err := e.latest(ctx)
		if err == nil && got.Height != e.tip {
			return wrong("%v, want %d", got, e.tip)
		}
		return err
	})
	for _, method := range []string{getBlock, getBlockNullifiers} {
		add(method, "", indexed, indexed, func(ctx context.Context, e *env) error { return e.ask(ctx, method, id(e.middle, nil)) })
		add(method, "neither height nor hash", always(codes.InvalidArgument), always(codes.InvalidArgument), func(ctx context.Context, e *env) error {
			return e.ask(ctx, method, id(0, nil))
		})
	}
	for _, method := range []string{getBlockRange, getBlockRangeNullifiers} {
		add(method, "", indexed, indexed, func(ctx context.Context, e *env) error {
			count := int(e.tip)
			if e.position.noIndex {
				count = 0
			}
			return e.requireChain(ctx, method, &walletrpc.BlockRange{Start: id(1, nil), End: id(e.tip, nil)}, count)
		})
	}
	add(getTransaction, "", unavailable, deadline, func(ctx context.Context, e *env) error {
		return e.ask(ctx, getTransaction, &walletrpc.TxFilter{Hash: wrongHash})
	})
	add(sendTransaction, "", unavailable, deadline, func(ctx context.Context, e *env) error {
		return e.ask(ctx, sendTransaction, &walletrpc.RawTransaction{Data: []byte{1, 2, 3}})
	})
	for _, method := range sixMethods() {
		atDeadline := deadline
		if method == getTaddressTransactions || method == getTaddressTxids {
			atDeadline = outcome{codes.Unavailable, codes.DeadlineExceeded} // without the tip there is nothing to ask
		}
		add(method, "", unavailable, atDeadline, func(ctx context.Context, e *env) error {
			_, err := e.aboutAddresses(ctx, method, keyHash)
			return err
		})
		add(method, "wrong checksum", always(codes.InvalidArgument), always(codes.InvalidArgument), func(ctx context.Context, e *env) error {
			_, err := e.aboutAddresses(ctx, method, keyHash[:len(keyHash)-1]+"X")
			return err
		})
	}
	add("GetMempoolTx", "", unavailable, deadline, func(ctx context.Context, e *env) error {
		_, err := e.mempoolIDs(ctx)
		return err
	})
	add(getMempoolStream, "", unavailable, outcome{codes.Unavailable, codes.DeadlineExceeded}, func(ctx context.Context, e *env) error {
		return e.put(ctx, getMempoolStream, &walletrpc.Empty{})
	})
	add(getTreeState, "trees that were asked for before", indexed, indexed, func(ctx context.Context, e *env) error {
		return e.ask(ctx, getTreeState, id(knownTrees, nil))
	})
	add(getTreeState, "other trees", unavailable, unavailable, func(ctx context.Context, e *env) error {
		return e.ask(ctx, getTreeState, id(unknownTrees, nil))
	})
	add(getLatestTreeState, "", indexed, indexed, func(ctx context.Context, e *env) error { return e.ask(ctx, getLatestTreeState, &walletrpc.Empty{}) })
	add(getSubtreeRoots, "", indexed, indexed, func(ctx context.Context, e *env) error {
		return e.put(ctx, getSubtreeRoots, &walletrpc.GetSubtreeRootsArg{})
	})
	add("GetLightdInfo", "", indexed, indexed, func(ctx context.Context, e *env) error {
		height, err := infoHeight(ctx, e.wallet)
		if err == nil && height != e.tip {
			return wrong("block height %d, want %d", height, e.tip)
		}
		return err
	})
	add("Ping", "", always(codes.FailedPrecondition), always(codes.FailedPrecondition), func(ctx context.Context, e *env) error {
		return e.ask(ctx, "Ping", &walletrpc.Duration{})
	})
	add(subscribeIndexedTips, "", indexed, indexed, func(ctx context.Context, e *env) error {
		stream, err := indexrpc.NewIndexedTipServiceClient(e.conn).SubscribeIndexedTips(ctx, &indexrpc.SubscribeIndexedTipsRequest{})
		if err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	})
	return rows
}

// Times of an answer while the node fails: with a client's deadline, and without.
const (
	hungDeadline = 4 * time.Second  // more than the three seconds that an older answer about the node waits for a newer one
	outageLimit  = 25 * time.Second // twice the ten seconds that a node gets for blocks, and some for a busy machine
)

// TestConformanceOutage runs the rows of a failing node, in every way in which one fails. All at once: most of it is waiting.
func TestConformanceOutage(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for _, m := range miseries() {
		all.Go(func() { t.Run(m.name, func(t *testing.T) { testOutage(t, m) }) })
	}
	all.Wait()
}

func testOutage(t *testing.T, m misery) {
	c := newSimulatedChain(t)
	n := newSimulatedNode(t, c)
	var envs []*env
	for _, s := range positions() {
		e := &env{tb: t, position: s, place: simulated, rpc: newRPCClient(hostOf(t, n.URL()), n.CookieFile()), sim: n, middle: 40}
		e.begin(n.URL(), n.CookieFile())
		e.prepare(t)
		envs = append(envs, e)
	}
	if m.stop {
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
	} else {
		n.Fault(m.fault)
	}
	var all sync.WaitGroup
	for _, e := range envs {
		all.Go(func() {
			e.holdOutage(t, m)
			if m.stop && !e.position.noIndex { // the other ways would take the same one once more
				e.restart(t)
				e.holdOutage(t, m)
			}
		})
	}
	all.Wait()
}

// restart stops the program and starts it beside the node as it is.
func (e *env) restart(t *testing.T) {
	t.Helper()
	e.server.stop()
	e.server.start()
	e.wallet = e.server.wallet()
	awaitComplete(t, e.server)
}

// holdOutage runs all rows at once, when the program knows that the node fails.
func (e *env) holdOutage(t *testing.T, m misery) {
	t.Helper()
	e.awaitOutage(t)
	limit := outageLimit
	if m.name == hung {
		limit = hungDeadline
	}
	var all sync.WaitGroup
	for _, r := range outageRows() {
		if m.name == hung {
			r.want = r.hung
		}
		all.Go(func() {
			if err := e.holdWithin(t.Context(), limit, r.row); err != nil {
				t.Errorf("%s/%s/%s: %v", e.position.name, r.method, r.name, err)
			}
		})
	}
	all.Wait()
}

// prepare asks what is to be known when the node fails.
func (e *env) prepare(t *testing.T) {
	t.Helper()
	for _, err := range []error{
		e.ask(t.Context(), getTreeState, id(knownTrees, nil)),
		e.ask(t.Context(), getLatestTreeState, &walletrpc.Empty{}),
		e.ask(t.Context(), "GetLightdInfo", &walletrpc.Empty{}),
		e.ask(t.Context(), getTaddressBalance, &walletrpc.AddressList{Addresses: []string{keyHash}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// awaitOutage waits until the program knows that the node fails.
func (e *env) awaitOutage(t *testing.T) {
	t.Helper()
	await(t, "the outage is noticed", 10*time.Second, func() bool {
		return strings.Contains(e.server.proc.output.String(), "zebra cannot be asked")
	})
}
