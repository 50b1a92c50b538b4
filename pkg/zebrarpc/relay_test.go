package zebrarpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// readAll reads an answer to its end and closes it.
func readAll(a *Answer) (string, error) {
	defer a.Body.Close()
	text, err := io.ReadAll(iotest.OneByteReader(a.Body))
	return string(text), err
}

// What comes back is Zebra's to the byte, however the reply around it is spelled.
func TestRelay(t *testing.T) {
	t.Parallel()
	const odd = ` {"b" : 1.10e+3, "a":"\u0041", "b":[1e400,-0], "new":{}} `
	long := `"` + strings.Repeat("x", 100_000) + `"`
	for _, test := range []struct {
		name, reply string // with ID for the id
		chunked     bool
		want        string
		failed      bool
		code        int
		size        int
		null        bool
	}{
		{"result", `{"jsonrpc":"2.0","id":ID,"result":` + odd + `}`, false, odd, false, 0, len(odd), false},
		{"null", `{"jsonrpc":"2.0","id":ID,"result":null}`, false, "null", false, 0, 4, false},
		{"long", `{"jsonrpc":"2.0","id":ID,"result":` + long + `}`, false, long, false, 0, len(long), false},
		{"of no announced length", `{"jsonrpc":"2.0","id":ID,"result":` + odd + `}`, true, odd, false, 0, -1, false},
		{"other order", `{"result":{"b":1.10,"a":2},"id":ID,"jsonrpc":"2.0"}`, false, `{"b":1.10,"a":2}`, false, 0, 16, false},
		{"both members", `{"jsonrpc":"2.0","id":ID, "result":5, "error":null}` + "\n", false, "5", false, 0, 1, false},
		{"error", `{"jsonrpc":"2.0","id":ID,"error":{"code":-8,"data":[1.0],"message":"x"}}`, false, `{"code":-8,"data":[1.0],"message":"x"}`, true, -8, 38, false},
		{"error without a code", `{"jsonrpc":"2.0","id":ID,"error":{"code":"x"}}`, false, `{"code":"x"}`, true, 0, 12, false},
		{"unreadable request", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}`, false, `{"code":-32700}`, true, -32700, 15, true},
	} {
		c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
			if q.method != "getblock" || q.params != `[ "1",{"x":1.0} ]` {
				t.Errorf("asked %s %s", q.method, q.params)
			}
			resp := page(http.StatusOK, strings.Replace(test.reply, "ID", fmt.Sprint(q.id), 1))
			if test.chunked {
				resp.ContentLength = -1
			}
			return resp, nil
		})
		a, err := c.Relay(t.Context(), Question{Method: "getblock", Params: []byte(`[ "1",{"x":1.0} ]`), Limit: time.Minute})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		got := *a
		text, err := readAll(a)
		if err != nil || text != test.want || got.Failed != test.failed || got.Code != test.code || got.Size != int64(test.size) || got.NullID != test.null {
			t.Errorf("%s: %.100s, %+v, %v", test.name, text, got, err)
		}
	}
}

func TestRelayWithoutParams(t *testing.T) {
	t.Parallel()
	c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
		if q.params != "" {
			t.Errorf("params %s", q.params)
		}
		return q.result("1")
	})
	if _, err := c.Relay(t.Context(), Question{Method: "getinfo", Limit: time.Minute}); err != nil {
		t.Error(err)
	}
}

// Replies that no Zebra gives, and requests that it does not answer.
func TestRelayErrors(t *testing.T) {
	t.Parallel()
	const html = "<html><head></head></html>"
	for _, test := range []struct {
		name  string
		node  transport
		class ErrorClass
		text  string
		tries int
	}{
		{"page", func(question) (*http.Response, error) { return page(200, html), nil }, Fatal, `the reply is not a JSON object but "` + html + `"`, 1},
		{"empty", func(question) (*http.Response, error) { return page(200, ""), nil }, Passing, "empty reply", 2},
		{"429", func(question) (*http.Response, error) { return page(429, ""), nil }, Passing, "HTTP 429", 2},
		{"other id", func(q question) (*http.Response, error) { q.id++; return q.result("1") }, Fatal, "answers another request", 1},
		{"no id", func(question) (*http.Response, error) {
			return page(200, `{"jsonrpc":"2.0","id":null,"result":1}`), nil
		}, Fatal, "answers another request", 1},
		{"1.0", func(q question) (*http.Response, error) {
			return page(200, fmt.Sprintf(`{"jsonrpc":"1.0","id":%d,"result":1}`, q.id)), nil
		}, Fatal, "not JSON-RPC 2.0", 1},
		{"nothing", func(q question) (*http.Response, error) {
			return page(200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d}`, q.id)), nil
		}, Fatal, "neither result nor error", 1},
		{"error text", func(q question) (*http.Response, error) {
			return page(200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":"x"}`, q.id)), nil
		}, Fatal, "not an object", 1},
		{"endless error", func(q question) (*http.Response, error) {
			return q.failure(-1, strings.Repeat("x", maxFailure))
		}, Fatal, "longer than 1048576 bytes", 1},
		{"refused", func(question) (*http.Response, error) { return nil, errors.New("refused") }, Passing, "refused", 2},
	} {
		tries := 0
		c := fakeClient(t, Options{}, func(q question) (*http.Response, error) { tries++; return test.node(q) })
		_, err := c.Relay(t.Context(), Question{Method: "getthis", Limit: time.Minute})
		var e *Error
		if !errors.As(err, &e) || e.Class != test.class || e.Method != "getthis" || !strings.Contains(err.Error(), test.text) || tries != test.tries {
			t.Errorf("%s: %v after %d tries", test.name, err, tries)
		}
		if s := c.Stats(); s.InFlight != 0 || len(s.Requests) != 1 || s.Requests[0].Method != "relayed" {
			t.Errorf("%s: %+v", test.name, s)
		}
	}
}

// A body that breaks off, or does not end where it should, is an error, never an end.
func TestRelayCutOff(t *testing.T) {
	t.Parallel()
	c := newChain(t, 3, zebratest.Small)
	n := zebratest.NewNode(c, zebratest.NodeOptions{})
	client := nodeClient(t, Options{}, n)
	n.Fault(zebratest.Fault{Method: "getblock", CutOff: true})
	a, err := client.Relay(t.Context(), Question{Method: "getblock", Params: []byte(`["2",0]`), Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := readAll(a); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %d bytes, %v", len(text), err)
	}
	for _, end := range []string{"", " ", "}\n", "]"} {
		fake := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
			return page(200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":5%s`, q.id, end)), nil
		})
		a, err := fake.Relay(t.Context(), Question{Method: "getblock", Limit: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := readAll(a); !errors.Is(err, errEnd) {
			t.Errorf("a reply that ends with %q: %q, %v", end, text, err)
		}
	}
}

// The time limit is for the beginning of the answer, and then for each part; the permit is back when it begins.
func TestRelayTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 20 * time.Second
		read, write := io.Pipe()
		hang := true
		c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
			if hang {
				<-q.ctx.Done()
				return nil, q.ctx.Err()
			}
			go fmt.Fprintf(write, `{"jsonrpc":"2.0","id":%d,"result":12`, q.id)
			context.AfterFunc(q.ctx, func() { write.CloseWithError(context.Cause(q.ctx)) })
			return &http.Response{StatusCode: 200, ContentLength: -1, Body: read}, nil
		})
		begin := time.Now()
		_, err := c.Relay(t.Context(), Question{Method: "getblock", Limit: limit})
		if !errors.Is(err, chain.ErrUnavailable) || !strings.Contains(err.Error(), "no answer within 20s") || time.Since(begin) != limit {
			t.Errorf("no answer: %v after %v", err, time.Since(begin))
		}
		hang = false
		a, err := c.Relay(t.Context(), Question{Method: "getblock", Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if s := c.Stats(); s.InFlight != 0 {
			t.Errorf("%d requests in flight when the answer has begun", s.InFlight)
		}
		time.Sleep(10 * limit) // a reader who takes his time
		begin = time.Now()
		text, err := readAll(a)
		if text != "1" || !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != limit {
			t.Errorf("a body that does not go on: %q, %v after %v", text, err, time.Since(begin))
		}
	})
}

// Closing an answer that was not read ends the request.
func TestRelayClose(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
		context.AfterFunc(q.ctx, func() { close(ended) })
		return q.result(`"` + strings.Repeat("x", 100_000) + `"`)
	})
	a, err := c.Relay(t.Context(), Question{Method: "getblock", Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	<-ended
}

// A transaction is sent once, whatever happens.
func TestRelaySendsOnce(t *testing.T) {
	t.Parallel()
	n := zebratest.NewNode(newChain(t, 3, zebratest.Small), zebratest.NodeOptions{})
	client := nodeClient(t, Options{}, n)
	n.Fault(zebratest.Fault{Drop: true})
	for method, want := range map[string]int{"sendrawtransaction": 1, "getrawmempool": 2} {
		client.auth.current.Load().accepted.Store(true)
		_, err := client.Relay(t.Context(), Question{Method: method, Params: []byte(`["00"]`), Limit: time.Minute})
		if !errors.Is(err, chain.ErrUnavailable) || n.Requests(method) != want {
			t.Errorf("%s: %v, sent %d times", method, err, n.Requests(method))
		}
	}
}
