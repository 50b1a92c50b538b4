package jsonrpc_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc/envelope"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc/jsonrpctest"
	"github.com/zsidecar/zsidecar/pkg/passthrough"
)

// askFunc is a Node that is a function.
type askFunc func(ctx context.Context, method string, params []byte, costly bool) (*passthrough.Answer, error)

func (f askFunc) Ask(ctx context.Context, method string, params []byte, costly bool) (*passthrough.Answer, error) {
	return f(ctx, method, params, costly)
}

// withNode puts another Node in the place of the relay.
func withNode(f askFunc) func(*jsonrpc.Options) { return func(o *jsonrpc.Options) { o.Node = f } }

// counted is a body that tells whether it was closed.
type counted struct {
	io.Reader
	closed *atomic.Int64
}

func (c counted) Close() error { c.closed.Add(1); return nil }

// What may be asked, in full: nothing of it changes the node but sendrawtransaction.
func TestMethods(t *testing.T) {
	t.Parallel()
	want := strings.Fields(`getaddressbalance getaddressdeltas getaddresstxids getaddressutxos getbestblockhash getbestblockheightandhash getblock
		getblockchaininfo getblockcount getblockdeltas getblockhash getblockheader getblocksubsidy getchaintips getdeprecationinfo getdifficulty
		getinfo getmempoolinfo getmininginfo getnetworkhashps getnetworkinfo getnetworksolps getpeerinfo getrawmempool getrawtransaction
		getspentinfo getstandardfee gettxout gettxoutsetinfo ping rpc.discover sendrawtransaction validateaddress z_converttex
		z_getsubtreesbyindex z_gettreestate z_listunifiedreceivers z_validateaddress`)
	if got := jsonrpc.Methods(); !slices.Equal(got, want) {
		t.Errorf("methods %q", got)
	}
	guide, err := os.ReadFile("../../docs/operator.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range jsonrpc.Methods() {
		if !bytes.Contains(guide, []byte("`"+method+"`")) {
			t.Errorf("the operator guide does not name %s", method)
		}
	}
}

// Whatever is not in the table is unknown, and nobody is asked about it.
func TestUnknownMethods(t *testing.T) {
	t.Parallel()
	p := newPair(t, withNode(func(_ context.Context, method string, _ []byte, _ bool) (*passthrough.Answer, error) {
		t.Errorf("the node was asked for %q", method)
		return nil, errors.New("no")
	}))
	for _, method := range []string{
		"stop", "generate", "generatetoaddress", "invalidateblock", "reconsiderblock", "addnode", "submitblock", "getblocktemplate",
		"", "help", "GETBLOCK", " getblock", "getblock ", `getblock\u0000`, `getblock\",\"method\":\"stop`,
	} {
		const want = `"error":{"code":-32601,"message":"Method not found"}}`
		if got := p.body(t, jsonrpctest.Call(method, "[]")); got != `{"jsonrpc":"2.0","id":1,`+want {
			t.Errorf("%q: %s", method, got)
		}
		if got := p.body(t, jsonrpctest.Body("["+jsonrpctest.Call(method, "[]").Body+"]")); got != `[{"jsonrpc":"2.0","id":1,`+want+"]" {
			t.Errorf("%q in a batch: %s", method, got)
		}
		if got := <-p.calls; got.Method != "other" || got.Code != -32601 {
			t.Errorf("%q: observed %+v", method, got)
		}
		<-p.calls
	}
	const smuggled = `{"jsonrpc":"2.0","id":1,"method":"getinfo","method":"stop","params":[]}`
	if got := p.body(t, jsonrpctest.Body(smuggled)); !strings.Contains(got, "-32") {
		t.Errorf("two methods: %s", got)
	}
}

// The requests that reach the node are worded anew: name and parameters are all that a client decides.
func TestRelayedWords(t *testing.T) {
	t.Parallel()
	var asked string
	p := newPair(t, withNode(func(_ context.Context, method string, params []byte, costly bool) (*passthrough.Answer, error) {
		asked = fmt.Sprintf("%s %s %v", method, params, costly)
		return &passthrough.Answer{Size: 1, Body: io.NopCloser(strings.NewReader("1"))}, nil
	}))
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"getinfo"}`:                                                               "getinfo  false",
		`{"jsonrpc":"2.0","id":1,"method":"getinfo","params":null}`:                                                 "getinfo  false",
		`{"more":{"method":"stop"},"params":[ 1.0 ,"a\u0041"],"method":"get\u0069nfo","id":"\n\"","jsonrpc":"2.0"}`: "getinfo [ 1.0 ,\"a\\u0041\"] false",
		`{"jsonrpc":"2.0","id":1,"method":"getblock","params":{"hash_or_height":"1","x":1e400}}`:                    `getblock {"hash_or_height":"1","x":1e400} true`,
		`{"jsonrpc":"1.0","id":1,"method":"getblockhash","params":["1"]}`:                                           `getblockhash ["1"] false`,
		`{"jsonrpc":"2.0","id":1,"method":"getblockhash","params":[2147483648]}`:                                    "getblockhash [2147483648] false",
	} {
		asked = ""
		if a := p.ask(t, jsonrpctest.Body(body)); a.Status != 200 || asked != want {
			t.Errorf("%s: asked %q, want %q (%d)", body, asked, want, a.Status)
		}
	}
}

// Long answers pass in full, with their length when it is known; what breaks off is not taken for whole.
func TestLongAnswers(t *testing.T) {
	t.Parallel()
	text := `"` + strings.Repeat("0123456789", 500_000) + `"`
	var answer passthrough.Answer
	var closed atomic.Int64
	p := newPair(t, withNode(func(context.Context, string, []byte, bool) (*passthrough.Answer, error) {
		a := answer
		a.Body = counted{a.Body, &closed}
		return &a, nil
	}))
	get := func(body string) (*http.Response, string, error) {
		resp, err := http.Post(p.ours.URL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		return resp, string(got), err
	}
	one := jsonrpctest.Call("getblock", `["1"]`).Body
	for _, known := range []bool{true, false} {
		answer = passthrough.Answer{Size: -1, Body: io.NopCloser(strings.NewReader(text))}
		if known {
			answer.Size = int64(len(text))
		}
		want := `{"jsonrpc":"2.0","id":1,"result":` + text + `}`
		resp, got, err := get(one)
		if err != nil || got != want || (resp.ContentLength == int64(len(want))) != known {
			t.Errorf("length known %v: %d bytes, announced %d, %v", known, len(got), resp.ContentLength, err)
		}
		answer.Body = io.NopCloser(strings.NewReader(text))
		if _, got, err := get("[" + one + "]"); err != nil || got != "["+want+"]" {
			t.Errorf("length known %v, in a batch: %d bytes, %v", known, len(got), err)
		}
		for _, body := range []string{one, "[" + one + "]"} {
			answer.Body = io.NopCloser(io.MultiReader(strings.NewReader(text[:len(text)/2]), iotest.ErrReader(io.ErrUnexpectedEOF)))
			if _, got, err := get(body); err == nil {
				t.Errorf("length known %v: half an answer was taken for %d bytes", known, len(got))
			}
		}
	}
	await(t, "every body is closed", func() bool { return closed.Load() == 8 })
	broken := 0
	for range 8 {
		if call := <-p.calls; call.Code == jsonrpc.BrokenOff {
			broken++
		}
	}
	if broken != 4 {
		t.Errorf("%d calls were observed as broken off, want 4", broken)
	}
}

// Errors that are not Zebra's own.
func TestErrors(t *testing.T) {
	t.Parallel()
	var failure error
	p := newPair(t, withNode(func(context.Context, string, []byte, bool) (*passthrough.Answer, error) {
		if failure == nil {
			panic("on purpose")
		}
		return nil, fmt.Errorf("secret details: %w", failure)
	}))
	for _, test := range []struct {
		err  error
		want string
	}{
		{chain.ErrUnavailable, `{"code":-28,"message":"Zebra does not answer at present, try again later"}`},
		{fmt.Errorf("%w: %w", chain.ErrUnavailable, chain.ErrNode), `{"code":-28,"message":"Zebra does not answer at present, try again later"}`},
		{chain.ErrBusy, `{"code":-32009,"message":"Server is busy, try again later"}`},
		{chain.ErrReorged, `{"code":-1,"message":"The best chain changed meanwhile, try again"}`},
		{chain.ErrNode, `{"code":-32603,"message":"Zebra gave no usable answer: the log of zsidecar says why"}`},
		{errors.New("anything"), `{"code":-32603,"message":"Internal error"}`},
		{&envelope.Error{Code: -8, Message: "m", Data: "d"}, `{"code":-8,"data":"d","message":"m"}`},
		{nil, `{"code":-32603,"message":"Internal error"}`},
	} {
		failure = test.err
		want := `{"jsonrpc":"2.0","id":1,"error":` + test.want + `}`
		if got := p.body(t, jsonrpctest.Call("getinfo", "")); got != want {
			t.Errorf("%v: %s, want %s", test.err, got, want)
		}
		if got := p.body(t, jsonrpctest.Body(`{"jsonrpc":"1.0","id":1,"method":"getinfo","params":[]}`)); got != `{"jsonrpc":"1.0","id":1,"result":null,"error":`+test.want+`}` {
			t.Errorf("%v in version 1.0: %s", test.err, got)
		}
	}
	if s := p.server.Stats(); s.Panics != 2 {
		t.Errorf("%d panics were counted, want 2", s.Panics)
	}
}

// The calls of a batch run one after the other, notifications not at all.
func TestBatch(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	var order []string
	p := newPair(t, withNode(func(_ context.Context, _ string, params []byte, _ bool) (*passthrough.Answer, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		order = append(order, string(params))
		return &passthrough.Answer{Size: int64(len(params)), Body: io.NopCloser(bytes.NewReader(params))}, nil
	}))
	var calls, want []string
	for i := range 100 {
		calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","method":"getinfo","params":[%d]}`, i, i),
			`{"jsonrpc":"2.0","method":"getinfo","params":["notification"]}`)
		want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","result":[%d]}`, i, i))
	}
	if got := p.body(t, jsonrpctest.Body("["+strings.Join(calls, ",")+"]")); got != "["+strings.Join(want, ",")+"]" {
		t.Errorf("got %s", got)
	}
	if most.Load() != 1 || len(order) != 100 || !slices.IsSortedFunc(order, func(a, b string) int { return len(a) - len(b) }) {
		t.Errorf("%d calls, %d at one time", len(order), most.Load())
	}
}

// A client that leaves takes its question back.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	asked, ended := make(chan struct{}), make(chan error, 1)
	p := newPair(t, withNode(func(ctx context.Context, _ string, _ []byte, _ bool) (*passthrough.Answer, error) {
		close(asked)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.ours.URL, strings.NewReader(jsonrpctest.Call("getinfo", "").Body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	go func() {
		<-asked
		cancel()
	}()
	if _, err := http.DefaultClient.Do(req); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the question ended with %v", err)
	}
	if call := <-p.calls; call.Method != "getinfo" || call.Code != jsonrpc.BrokenOff {
		t.Errorf("observed %+v", call)
	}
}

// blocked is a server whose node keeps all questions until release.
func blocked(t *testing.T) (p *pair, waiting *atomic.Int64, release func()) {
	t.Helper()
	waiting = new(atomic.Int64)
	let := make(chan struct{})
	p = newPair(t, withNode(func(ctx context.Context, _ string, _ []byte, _ bool) (*passthrough.Answer, error) {
		waiting.Add(1)
		defer waiting.Add(-1)
		select {
		case <-let:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return &passthrough.Answer{Size: 1, Body: io.NopCloser(strings.NewReader("1"))}, nil
	}))
	return p, waiting, sync.OnceFunc(func() { close(let) })
}

// A hundred requests are in progress at most, and sixteen long ones; one more is told so, and those before it are answered.
func TestTooMany(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		most int
		body string
	}{
		"short": {envelope.MaxRequests, jsonrpctest.Call("getinfo", "").Body},
		"long":  {16, jsonrpctest.Call("getinfo", `["`+strings.Repeat("x", 100_000)+`"]`).Body},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, waiting, release := blocked(t)
			defer release()
			answers := make(chan jsonrpctest.Answer, test.most)
			for range test.most {
				go func() {
					a, _ := p.ours.Ask(t.Context(), jsonrpctest.Body(test.body))
					answers <- a
				}()
			}
			await(t, "all are in progress", func() bool { return waiting.Load() == int64(test.most) })
			if a := p.ask(t, jsonrpctest.Body(test.body)); a.Status != http.StatusTooManyRequests || string(a.Body) != envelope.TextTooMany {
				t.Errorf("one more: %d %s", a.Status, a.Body)
			}
			if test.most < envelope.MaxRequests {
				if a := p.ask(t, jsonrpctest.Call("getblockcount", "")); a.Status != http.StatusOK {
					t.Errorf("a short one beside long ones: %d", a.Status)
				}
			}
			release()
			for range test.most {
				if a := <-answers; string(a.Body) != `{"jsonrpc":"2.0","id":1,"result":1}` {
					t.Errorf("got %d %s", a.Status, a.Body)
				}
			}
			if a := p.ask(t, jsonrpctest.Body(test.body)); a.Status != http.StatusOK {
				t.Errorf("afterwards: %d", a.Status)
			}
		})
	}
}

// The size of a request is limited, whether it is announced or not, and its time.
func TestBodies(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	ok := jsonrpctest.Call("getblockcount", "").Body
	for extra, want := range map[int]int{0: http.StatusOK, 1: http.StatusRequestEntityTooLarge, 10_000_000: http.StatusRequestEntityTooLarge} {
		body := ok + strings.Repeat(" ", envelope.MaxBody-len(ok)+extra)
		for _, chunked := range []bool{false, true} {
			var reader io.Reader = strings.NewReader(body)
			if chunked {
				reader = io.MultiReader(reader)
			}
			resp, err := http.Post(p.ours.URL, "text/plain", reader)
			if err != nil {
				if extra > 1 {
					continue // the server stopped reading, and the client noticed first
				}
				t.Errorf("%d bytes beyond the limit, chunked %v: %v", extra, chunked, err)
				continue
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%d bytes beyond the limit, chunked %v: status %d, want %d", extra, chunked, resp.StatusCode, want)
			}
		}
	}
}

// With a secret every request must bring it, however it is wrong otherwise.
func TestSecret(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(o *jsonrpc.Options) { o.Secret = "s3cret" })
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for header, want := range map[string]int{
		"": 401, "Basic": 401, "Basic !": 401, basic("s3cret"): 401, basic("__cookie__:wrong"): 401, basic("__cookie__:"): 401, basic(":s3cre"): 401,
		basic("__cookie__:s3cret"): 200, basic("anybody:s3cret"): 200, strings.Replace(basic(":s3cret"), "Basic", "Bearer", 1): 200,
	} {
		for _, verb := range []string{http.MethodPost, http.MethodGet} {
			req, err := http.NewRequestWithContext(t.Context(), verb, p.ours.URL+"/any/path?x", strings.NewReader(jsonrpctest.Call("getblockcount", "").Body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", header)
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			expect := want
			if verb == http.MethodGet && want == 200 {
				expect = http.StatusMethodNotAllowed
			}
			if resp.StatusCode != expect || (expect == 401) != (resp.Header.Get("WWW-Authenticate") != "") {
				t.Errorf("%s with %q: %d, want %d", verb, header, resp.StatusCode, expect)
			}
		}
	}
}

// Connections are kept, and HTTP/2 without TLS is understood, as Zebra does.
func TestConnections(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	for _, h2 := range []bool{false, true} {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(!h2)
		transport.Protocols.SetUnencryptedHTTP2(h2)
		client := &http.Client{Transport: transport}
		for range 3 {
			resp, err := client.Post(p.ours.URL, "application/json", strings.NewReader(jsonrpctest.Call("getblockcount", "").Body))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || string(body) != `{"jsonrpc":"2.0","id":1,"result":20}` || (resp.ProtoMajor == 2) != h2 || resp.Close {
				t.Errorf("%s: %s, %v", resp.Proto, body, err)
			}
		}
		transport.CloseIdleConnections()
	}
}

// While the node is away the server says so; what it knows it goes on saying.
func TestOutage(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	const away = `{"jsonrpc":"2.0","id":1,"error":{"code":-28,"message":"Zebra does not answer at present, try again later"}}`
	if err := p.node.Stop(); err != nil {
		t.Fatal(err)
	}
	await(t, "the outage is noticed", func() bool { return !p.client.Tip().Up() })
	begin := time.Now()
	for _, method := range jsonrpc.Methods() {
		got := p.body(t, jsonrpctest.Call(method, "[]"))
		switch method {
		case "getaddressdeltas", "getspentinfo", "gettxoutsetinfo", "getblockdeltas":
			if !strings.Contains(got, `"code":-1,`) {
				t.Errorf("%s: %s", method, got)
			}
		default:
			if got != away {
				t.Errorf("%s: %s", method, got)
			}
		}
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("that took %v", took)
	}
	if err := p.node.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the node is back", func() bool { return p.client.Tip().Up() })
	if got := p.body(t, jsonrpctest.Call("getblockcount", "")); got != `{"jsonrpc":"2.0","id":1,"result":20}` {
		t.Errorf("afterwards: %s", got)
	}
}
