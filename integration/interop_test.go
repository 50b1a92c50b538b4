package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/zsidecar/zsidecar/pkg/jsonrpc/jsonrpctest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// difference is one kind of answer of zainod that is not the right one, or at least not ours.
type difference struct {
	method, example string
	want, zainod    string // in few words
	count           int    // requests that show it
}

// TestInterop runs zainod and zsidecar beside the same zebrad, asks all three the same, and holds docs/differences.md against what it
// sees. Every difference needs a judgement, and every judgement a difference.
func TestInterop(t *testing.T) {
	path := zainodPath(t)
	n := recipeNodeOf(t, beforeNU7(), everyPool, "")
	facts := jsonRPCFacts(t, n)
	c := newSidecar(t, n.url(), n.cookie(), smallSegments)
	ours := c.withJSONRPC()
	c.start()
	awaitAnswer(t, c.wallet())
	awaitComplete(t, c)
	theirs := newZainod(t, n)
	theirs.start(t, path)
	e := zebradFacts(t, n) // which fills the mempool
	e.position = passthrough
	for _, w := range []*wallet{c.wallet(), theirs.wallet} {
		e.awaitPooled(t, w)
	}

	calls := rpcDifferences(t, facts, n.jsonRPC(), ours, theirs.rpc)
	requests := answerDifferences(t, e, facts, c.wallet(), theirs.wallet)
	e.wallet = c.wallet()
	for _, d := range rowDifferences(t, n, e) {
		t.Errorf("zsidecar differs from its own table: %+v", d)
	}
	e.wallet = theirs.wallet
	requests = append(requests, rowDifferences(t, n, e)...)
	checkDifferences(t, requests, calls)
}

// awaitPooled waits until a server has the node's mempool.
func (e *env) awaitPooled(t *testing.T, w *wallet) {
	t.Helper()
	e.wallet = w
	await(t, "the server has the node's mempool", time.Minute, func() bool {
		ids, err := e.pooled(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.read(t.Context(), "GetMempoolTx", &walletrpc.GetMempoolTxRequest{PoolTypes: everyPoolType()})
		return err == nil && len(got) == len(ids)
	})
}

func everyPoolType() []walletrpc.PoolType {
	return []walletrpc.PoolType{walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING, walletrpc.PoolType_ORCHARD, walletrpc.PoolType_IRONWOOD}
}

// rpcDifferences asks all questions over JSON-RPC. zsidecar has to answer as Zebra does; where Zebra has no such method, zainod is
// compared with zsidecar.
func rpcDifferences(t *testing.T, f jsonrpctest.Facts, zebra, ours, theirs jsonrpctest.Server) (list []difference) {
	for _, group := range []struct {
		name      string // where there is no one method
		right     jsonrpctest.Server
		questions []jsonrpctest.Question
	}{
		{"", zebra, slices.Concat(jsonrpctest.Blocks(f), jsonrpctest.Transactions(f), jsonrpctest.AddressCalls(f), jsonrpctest.Node(),
			jsonrpctest.Wrong(relayedMethods()))},
		{"HTTP", zebra, jsonrpctest.Transport()},
		{"JSON-RPC", zebra, jsonrpctest.Versions()},
		{"strange JSON", zebra, jsonrpctest.Broken()},
		{"", ours, ownQuestions(f)},
	} {
		answers := func(s jsonrpctest.Server) []jsonrpctest.Answer { return askAll(t, s, group.questions) }
		want, got := answers(group.right), answers(theirs)
		if group.right == zebra {
			for i, answer := range answers(ours) {
				if a, b := jsonrpctest.Outcomes(group.questions[i], want[i], answer); a != b {
					t.Errorf("zsidecar differs from Zebra in %s: %s, want %s", group.questions[i], b, a)
				}
			}
		}
		for i, q := range group.questions {
			if a, b := jsonrpctest.Outcomes(q, want[i], got[i]); a != b {
				method, example := describe(group.name, q)
				list = append(list, difference{method, example, a, b, 1})
			}
		}
	}
	return list
}

// ownQuestions are about the five methods that Zebra lacks.
func ownQuestions(f jsonrpctest.Facts) []jsonrpctest.Question {
	list := []jsonrpctest.Question{
		jsonrpctest.Call("getchaintips", "[]"), jsonrpctest.Call("gettxoutsetinfo", "[]"),
		jsonrpctest.Call("getspentinfo", fmt.Sprintf(`[{"txid":%q,"index":0}]`, f.Txids[0])),
		jsonrpctest.Call("getaddressdeltas", fmt.Sprintf(`[{"addresses":[%q],"start":1,"end":9}]`, keyHash)),
	}
	for _, b := range f.Blocks {
		list = append(list, jsonrpctest.Call("getblockdeltas", fmt.Sprintf("[%q]", b.Hash)))
	}
	return list
}

// askAll asks eight questions at a time, because zainod thinks for seconds before it gives some errors.
func askAll(t *testing.T, s jsonrpctest.Server, questions []jsonrpctest.Question) []jsonrpctest.Answer {
	t.Helper()
	answers := make([]jsonrpctest.Answer, len(questions))
	var wg sync.WaitGroup
	for first := range 8 {
		wg.Go(func() {
			for i := first; i < len(questions); i += 8 {
				var err error
				if answers[i], err = s.Ask(t.Context(), questions[i]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return answers
}

// describe names the method and the parameters of a question, or the group without one method and the whole question. The words are the
// same each time: hashes are left out.
func describe(group string, q jsonrpctest.Question) (method, example string) {
	method, example = group, q.Body
	var call struct {
		Method string
		Params json.RawMessage
	}
	if group == "" && json.Unmarshal([]byte(q.Body), &call) == nil {
		method, example = call.Method, string(call.Params)
	}
	if q.Verb != http.MethodPost || q.ContentType != "application/json" {
		example = strings.TrimSpace(q.Verb + " " + q.ContentType)
	}
	if example == "" {
		example = "nothing"
	}
	example = regexp.MustCompile("[0-9a-f]{64}").ReplaceAllString(example, "HASH")
	if len(example) > 80 {
		example = example[:80] + "…"
	}
	if !strconv.CanBackquote(example) {
		example = strconv.Quote(example)
	}
	return method, example
}

// rowDifferences runs the rows of the conformance table that need no failing node and no server of ours.
func rowDifferences(t *testing.T, n *node, e *env) (list []difference) {
	t.Helper()
	for range 2 {
		requireSent(t, n, e.pay()) // rows may have mined what was there
	}
	e.awaitPooled(t, e.wallet)
	for _, r := range conformance() {
		if r.oursAlone() {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := e.settle(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		err = e.holdWithin(t.Context(), rowLimit, r)
		if err == nil {
			continue
		}
		t.Logf("%s/%s: %.600v", r.method, r.name, err)
		list = append(list, difference{r.method, r.name, codeName(r.want.in(e.position)), kindOf(err), 1})
	}
	return list
}

// kindOf says in few words what is wrong with an answer. Whose patience ends first is chance.
func kindOf(err error) string {
	var d deviation
	if !errors.As(err, &d) || d.kind == codeName(codes.DeadlineExceeded) || d.kind == codeName(codes.Canceled) {
		return "no answer in time"
	}
	return d.kind
}

// answerDifferences compares whole answers of the two servers, of every method that has one.
func answerDifferences(t *testing.T, e *env, f jsonrpctest.Facts, ours, theirs *wallet) (list []difference) {
	for _, x := range wholeAnswers(e, f) {
		e.wallet = ours
		want, err := e.asJSON(t.Context(), x.exchange)
		if err != nil {
			t.Errorf("%s %v: %v", x.method, x.request, err)
			continue
		}
		e.wallet = theirs
		got, err := e.asJSON(t.Context(), x.exchange)
		d := difference{x.method, x.name, "as zsidecar", codeName(status.Code(err)), 1}
		if err == nil {
			d.zainod += ": " + strings.Join(jsonrpctest.Members(want, got, nil), ", ")
		}
		if d.zainod != "OK: " {
			t.Logf("%s, %s: %s, %v", x.method, x.name, d.zainod, err)
			list = append(list, d)
		}
	}
	return list
}

// namedExchange is a request whose whole answer is compared.
type namedExchange struct {
	name string
	exchange
}

func wholeAnswers(e *env, f jsonrpctest.Facts) (list []namedExchange) {
	add := func(name, method string, request proto.Message) {
		list = append(list, namedExchange{name, exchange{method, request}})
	}
	whole := func(p ...walletrpc.PoolType) *walletrpc.BlockRange {
		return &walletrpc.BlockRange{Start: id(0, nil), End: id(e.tip, nil), PoolTypes: p}
	}
	add("whole chain, no pools named", getBlockRange, whole())
	add("whole chain, every pool", getBlockRange, whole(everyPoolType()...))
	add("whole chain, no pools named", getBlockRangeNullifiers, whole())
	for _, b := range f.Blocks {
		for _, method := range []string{getBlock, getBlockNullifiers, getTreeState} {
			add("blocks one by one", method, id(0, reversed(b.Hash)))
		}
	}
	for _, txid := range f.Txids {
		add("mined transactions", getTransaction, &walletrpc.TxFilter{Hash: reversed(txid)})
	}
	for _, txid := range f.Mempool {
		add("transactions of the mempool", getTransaction, &walletrpc.TxFilter{Hash: reversed(txid)})
	}
	add("no pools named", "GetMempoolTx", &walletrpc.GetMempoolTxRequest{})
	for _, x := range everyMethod(e) {
		switch x.method {
		case getTransaction, sendTransaction, getMempoolStream, "Ping":
			continue // asked above, changes something, does not end, is switched off
		}
		add("a plain request", x.method, x.request)
	}
	return list
}

// asJSON puts a request and returns the answer as JSON, a stream as an array.
func (e *env) asJSON(ctx context.Context, x exchange) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var messages [][]byte
	var err error
	if streamed(x.method) {
		messages, err = e.read(ctx, x.method, x.request)
	} else {
		messages = make([][]byte, 1)
		err = e.call(ctx, x.method, x.request, &messages[0])
	}
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, m := range messages {
		text, err := answerJSON(x.method, m)
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	return []byte("[" + strings.Join(texts, ",") + "]"), nil
}

// answerJSON decodes one message of a method's answer.
func answerJSON(method string, message []byte) ([]byte, error) {
	service := walletrpc.File_service_proto.Services().ByName("CompactTxStreamer")
	kind, err := protoregistry.GlobalTypes.FindMessageByName(service.Methods().ByName(protoreflect.Name(method)).Output().FullName())
	if err != nil {
		return nil, err
	}
	m := kind.New().Interface()
	if err := proto.Unmarshal(message, m); err != nil {
		return nil, status.Error(codes.DataLoss, err.Error())
	}
	return protojson.Marshal(m)
}
