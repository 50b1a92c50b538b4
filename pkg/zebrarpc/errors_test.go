package zebrarpc

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	const head = "getblockhash height 5 from " + fakeURL + ": "
	fail := func(err error) transport {
		return func(question) (*http.Response, error) { return nil, err }
	}
	status := func(code int, body string) transport {
		return func(question) (*http.Response, error) { return page(code, body), nil }
	}
	rpc := func(code int, message string) transport {
		return func(q question) (*http.Response, error) { return q.failure(code, message) }
	}
	result := func(r string) transport {
		return func(q question) (*http.Response, error) { return q.result(r) }
	}
	const html = "<html><head><title>Welcome</title></head><body>It works, and this page is long enough to be cut.</body></html>"
	for _, test := range []struct {
		name  string
		node  transport
		class ErrorClass
		text  string
		is    error
		tries int
	}{
		{"refused", fail(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}), Passing, "dial tcp: connection refused", chain.ErrUnavailable, 2},
		{"no descriptors", fail(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}), Passing,
			"dial tcp: socket: too many open files", chain.ErrUnavailable, 2},
		{"time-out", func(q question) (*http.Response, error) { <-q.ctx.Done(); return nil, nil }, Passing, "no answer within 10s", chain.ErrUnavailable, 1},
		{"dial time-out", fail(&net.OpError{Op: "dial", Net: "tcp", Err: timeoutError{}}), Passing, "dial tcp: i/o timeout", chain.ErrUnavailable, 2},
		{"429", status(429, "Too many connections. Please try again later."), Passing,
			`HTTP 429 Too Many Requests "Too many connections. Please try again later."`, chain.ErrUnavailable, 2 + busyTries},
		{"408", status(408, ""), Passing, "HTTP 408 Request Timeout", chain.ErrUnavailable, 2},
		{"500", status(500, "\n"), Passing, "HTTP 500 Internal Server Error", chain.ErrUnavailable, 2},
		{"503", status(503, html), Passing,
			`HTTP 503 Service Unavailable "<html><head><title>Welcome</title></head><body>It works, and this page is long e…"`, chain.ErrUnavailable, 2},
		{"404", status(404, ""), Fatal, "HTTP 404 Not Found; " + hintPort, nil, 1},
		{"405", status(405, ""), Fatal, "HTTP 405 Method Not Allowed; " + hintPort, nil, 1},
		{"415", status(415, ""), Fatal, "HTTP 415 Unsupported Media Type; " + hintPort, nil, 1},
		{"302", status(302, ""), Fatal, "HTTP 302 Found; " + hintPort, nil, 1},
		{"401", status(401, ""), Fatal,
			"HTTP 401 Unauthorized; the node refuses requests without credentials; give Zebra's cookie file, or set rpc.enable_cookie_auth = false in Zebra", nil, 1},
		{"403", status(403, ""), Fatal,
			"HTTP 403 Forbidden; the node refuses requests without credentials; give Zebra's cookie file, or set rpc.enable_cookie_auth = false in Zebra", nil, 1},
		{"empty body", status(200, ""), Passing, "empty reply", chain.ErrUnavailable, 2},
		{"cut-off body", func(question) (*http.Response, error) {
			r := page(200, `{"jsonrpc":"2.0"`)
			r.ContentLength = 100
			return r, nil
		}, Passing, "the reply was cut off after 16 of 100 bytes: unexpected EOF", chain.ErrUnavailable, 2},
		{"empty chunked body", func(question) (*http.Response, error) {
			r := page(200, "")
			r.ContentLength = -1
			return r, nil
		}, Passing, "empty reply", chain.ErrUnavailable, 2},
		{"cut-off chunked body", func(question) (*http.Response, error) {
			r := page(200, "")
			r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF))), -1
			return r, nil
		}, Passing, "the reply was cut off after 1 bytes: unexpected EOF", chain.ErrUnavailable, 2},
		{"HTML", status(200, html), Fatal,
			`the reply is not a JSON object but "<html><head><title>Welcome</title></head><body>It works, and this page is long e…"; ` + hintPort, nil, 1},
		{"JSON array", status(200, `[]`), Fatal, `the reply is not a JSON object but "[]"; ` + hintPort, nil, 1},
		{"not JSON", status(200, `{"jsonrpc":"2.0"`), Fatal,
			`the reply is not valid JSON: cannot parse JSON: cannot parse object: unexpected end of object; unparsed tail: ""; ` + hintReply, nil, 1},
		{"not 2.0", status(200, `{"jsonrpc":"1.0","id":1,"result":""}`), Fatal, `the reply is not JSON-RPC 2.0; ` + hintReply, nil, 1},
		{"another id", status(200, `{"jsonrpc":"2.0","id":77,"result":""}`), Fatal,
			`the reply answers another request: its id is 77, not 1; ` + hintReply, nil, 1},
		{"id of another type", status(200, `{"jsonrpc":"2.0","id":"1","result":""}`), Fatal,
			`the reply answers another request: its id is "1", not 1; ` + hintReply, nil, 1},
		{"no id", status(200, `{"jsonrpc":"2.0","result":""}`), Fatal, `the reply answers another request: its id is missing, not 1; ` + hintReply, nil, 1},
		{"neither", status(200, `{"jsonrpc":"2.0","id":1}`), Fatal, `the reply has neither result nor error; ` + hintReply, nil, 1},
		{"error without code", status(200, `{"jsonrpc":"2.0","id":1,"error":"bad"}`), Fatal, `the reply's error is "bad", without a code; ` + hintReply, nil, 1},
		{"error with a text code", status(200, `{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}`), Fatal,
			`the code of the reply's error is "x", not an integer; ` + hintReply, nil, 1},
		{"error for no id", status(200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`), Fatal,
			"code -32700: Parse error; " + hintReply, nil, 1},
		{"error with data", status(200, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"Invalid params","data":"invalid type"}}`), Fatal,
			"code -1: Invalid params: invalid type; " + hintReply, nil, 1},
		{"no such method", rpc(-32601, "Method not found"), Fatal, "code -32601: Method not found; " + hintMethod, nil, 1},
		{"too big", rpc(-32008, "Response is too big"), Fatal, "code -32008: Response is too big; " + hintSize, nil, 1},
		{"no blocks", rpc(-1, "No blocks in state"), Passing, "code -1: No blocks in state", chain.ErrUnavailable, 1},
		{"warming up", rpc(-28, "Loading"), Passing, "code -28: Loading", chain.ErrUnavailable, 1},
		{"initial download", rpc(-10, "Zebra has not synced"), Passing, "code -10: Zebra has not synced", chain.ErrUnavailable, 1},
		{"reorg between reads", rpc(-1, "missing Ironwood tree"), Passing, "code -1: missing Ironwood tree", chain.ErrUnavailable, 1},
		{"above the tip", rpc(-1, "Provided index is greater than the current tip"), Answerable,
			"code -1: Provided index is greater than the current tip: above the tip", chain.ErrAboveTip, 1},
		{"gone", rpc(-8, "Block not found"), Answerable, "code -8: Block not found: above the tip", chain.ErrAboveTip, 1},
		{"other -1", rpc(-1, "Something else"), Answerable, "code -1: Something else", nil, 1},
		{"result of another type", result(`5`), Fatal, "the reply is wrong: the result is 5, not a string; " + hintReply, nil, 1},
		{"short hash", result(`"abcd"`), Fatal, `the reply is wrong: block hash "abcd": has 4 characters, not 64; ` + hintReply, nil, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				c := fakeClient(t, Options{}, func(q question) (*http.Response, error) { tries++; return test.node(q) })
				_, err := c.BlockHash(t.Context(), 5)
				wantError(t, err, test.class, head+test.text, test.is)
				if tries != test.tries {
					t.Errorf("%d tries, want %d", tries, test.tries)
				}
			})
		})
	}
}

type timeoutError struct{}

func (timeoutError) Error() string   { return "i/o timeout" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

func TestErrorFields(t *testing.T) {
	t.Parallel()
	ask := func(node transport) *Error {
		_, err := fakeClient(t, Options{}, node).BlockHash(t.Context(), 5)
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("%T", err)
		}
		return e
	}
	e := ask(func(q question) (*http.Response, error) { return q.failure(-8, "Block not found") })
	if e.URL != fakeURL || e.Method != "getblockhash" || e.Subject != "height 5" || e.Code != -8 || e.Message != "Block not found" || e.HTTPStatus != 0 {
		t.Errorf("%+v", e)
	}
	if e = ask(func(question) (*http.Response, error) { return page(418, ""), nil }); e.HTTPStatus != 418 || e.Code != 0 {
		t.Errorf("%+v", e)
	}
}

func TestTimeLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		call func(context.Context, *Client) error
		want time.Duration
	}{
		{"tip", func(ctx context.Context, c *Client) error { _, err := c.BestBlock(ctx); return err }, 3 * time.Second},
		{"block", func(ctx context.Context, c *Client) error { _, err := c.RawBlockAt(ctx, 1); return err }, 10 * time.Second},
		{"info", func(ctx context.Context, c *Client) error { _, err := c.NodeInfo(ctx); return err }, 10 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := fakeClient(t, Options{}, func(q question) (*http.Response, error) { <-q.ctx.Done(); return nil, q.ctx.Err() })
				begin := time.Now()
				if err := test.call(t.Context(), c); !errors.Is(err, chain.ErrUnavailable) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(begin); took != test.want {
					t.Errorf("gave up after %v, want %v", took, test.want)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begin = time.Now()
				if err := test.call(ctx, c); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, chain.ErrUnavailable) {
					t.Errorf("with the caller's deadline: %v", err)
				}
				if took := time.Since(begin); took != time.Second {
					t.Errorf("with the caller's deadline: gave up after %v", took)
				}
			})
		})
	}
}

// A second try that succeeds hides the first one's passing error.
func TestSecondTry(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func() (*http.Response, error){
		"429":      func() (*http.Response, error) { return page(429, ""), nil },
		"refused":  func() (*http.Response, error) { return nil, syscall.ECONNREFUSED },
		"hang-up":  func() (*http.Response, error) { return nil, io.EOF },
		"cut off":  func() (*http.Response, error) { r := page(200, "{"); r.ContentLength = 5; return r, nil },
		"no reply": func() (*http.Response, error) { return page(200, ""), nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
					if tries++; tries == 1 {
						return first()
					}
					return q.result(`"` + chain.Hash{9}.String() + `"`)
				})
				begin := time.Now()
				if got, err := c.BlockHash(t.Context(), 1); err != nil || got != (chain.Hash{9}) {
					t.Errorf("%v, %v", got, err)
				}
				if pause := time.Since(begin); pause < retryPause/2 || pause > retryPause {
					t.Errorf("the second try came after %v", pause)
				}
				if s := c.Stats(); s.Retries != 1 {
					t.Errorf("%d retries counted", s.Retries)
				}
			})
		})
	}
}

func TestReplyLimit(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("00", 40<<10) + `"`
	for _, unsized := range []bool{false, true} {
		c := fakeClient(t, Options{MaxReply: minMaxReply}, func(q question) (*http.Response, error) {
			r, err := q.result(long)
			if unsized {
				r.ContentLength = -1
			}
			return r, err
		})
		text := "the reply has 81956 bytes, more than the limit of 65536; "
		if unsized {
			text = "the reply is longer than the limit of 65536 bytes; "
		}
		_, err := c.RawBlockAt(t.Context(), 3)
		wantError(t, err, Fatal, "getblock height 3 from "+fakeURL+": "+text+hintReply, nil)
	}
	// A JSON document is bounded more tightly than a block, since its values take more space than its text.
	c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
		return q.result("[" + strings.Repeat("0,", maxDocument/2) + "0]")
	})
	if _, err := c.BlockHash(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "more than the limit of 8388608 for a JSON document") {
		t.Errorf("got %v", err)
	}
}

func TestUnsizedReplies(t *testing.T) {
	t.Parallel()
	c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
		r, err := q.result(`"0102"`)
		r.ContentLength = -1
		return r, err
	})
	if raw, err := c.RawBlockAt(t.Context(), 3); err != nil || string(raw) != "\x01\x02" {
		t.Errorf("%x, %v", raw, err)
	}
}

// The faults of a real socket look as expected.
func TestSocketErrors(t *testing.T) {
	t.Parallel()
	bc := newChain(t, 3, zebratest.Small)
	for _, test := range []struct {
		name  string
		fault zebratest.Fault
		class ErrorClass
		want  string // part of the text
	}{
		{"cut off", zebratest.Fault{CutOff: true}, Passing, ": the reply was cut off after "},
		{"empty", zebratest.Fault{Body: zebratest.Empty}, Passing, ": empty reply"},
		{"HTML page", zebratest.Fault{Status: 200}, Fatal, `: the reply is not a JSON object but "<html>`},
		{"HTML 502", zebratest.Fault{Status: 502}, Passing, `: HTTP 502 Bad Gateway "<html>`},
		{"wrong id", zebratest.Fault{WrongID: true}, Fatal, ": the reply answers another request: its id is "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			node := zebratest.NewNode(bc, zebratest.NodeOptions{})
			c := nodeClient(t, Options{}, node)
			node.Fault(test.fault)
			_, err := c.RawBlockAt(t.Context(), 2)
			var e *Error
			if !errors.As(err, &e) || e.Class != test.class || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want class %v and %q", err, test.class, test.want)
			}
		})
	}
	t.Run("stopped and started", func(t *testing.T) {
		t.Parallel()
		node := zebratest.NewNode(bc, zebratest.NodeOptions{})
		c := nodeClient(t, Options{}, node)
		for range 3 {
			if _, err := c.BestBlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := node.Stop(); err != nil {
				t.Fatal(err)
			}
			_, err := c.BestBlock(t.Context())
			if !errors.Is(err, chain.ErrUnavailable) || !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("while it is stopped: %v", err)
			}
			if err := node.Start(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
