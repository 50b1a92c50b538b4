package zebrarpc

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const fakeURL = "http://127.0.0.1:8232"

// question is one request as a fake transport sees it.
type question struct {
	ctx    context.Context
	header http.Header
	id     uint64
	method string
	params string // JSON array
}

// height is that of a getblock by height.
func (q question) height() int {
	var params []any
	_ = json.Unmarshal([]byte(q.params), &params)
	s, _ := params[0].(string)
	h, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return h
}

// transport is a node without sockets, so that it works in a synctest bubble.
type transport func(question) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body.Close()
	var q struct {
		JSONRPC string
		ID      uint64
		Method  string
		Params  json.RawMessage
	}
	if err := json.Unmarshal(body, &q); err != nil || q.JSONRPC != "2.0" || r.Method != http.MethodPost ||
		r.Header.Get("Content-Type") != "application/json" {
		return nil, fmt.Errorf("not a JSON-RPC 2.0 request: %s %v %s: %w", r.Method, r.Header, body, err)
	}
	resp, err := t(question{r.Context(), r.Header, q.ID, q.Method, string(q.Params)})
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	return resp, err
}

// sleep ends early when the client leaves.
func (q question) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-q.ctx.Done():
	}
}

// result is the reply with the given JSON result.
func (q question) result(result string) (*http.Response, error) {
	return page(http.StatusOK, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, q.id, result)), nil
}

// failure is the reply with a JSON-RPC error.
func (q question) failure(code int, message string) (*http.Response, error) {
	return page(http.StatusOK, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":%d,"message":%q}}`, q.id, code, message)), nil
}

func page(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader([]byte(body)))}
}

// fakeClient asks a fake transport.
func fakeClient(t testing.TB, o Options, node transport) *Client {
	t.Helper()
	if o.URL == "" {
		o.URL = fakeURL
	}
	c, err := newClient(o, node)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// nodeClient asks a simulated Zebra over a socket.
func nodeClient(t testing.TB, o Options, n *zebratest.Node) *Client {
	t.Helper()
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	o.URL = n.URL()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// newChain returns genesis and n blocks of a kind.
func newChain(t testing.TB, n int, kind zebratest.Kind) *zebratest.Chain {
	t.Helper()
	c, err := zebratest.NewChain(zebratest.ChainOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Extend(n, kind); err != nil {
		t.Fatal(err)
	}
	return c
}

// blockHex is a chain of raw blocks as hex strings in JSON quotes, and their ids.
type blockHex struct {
	quoted []string
	ids    []chain.BlockID
}

func newBlockHex(n int, build func(h chain.Height, prev chain.Hash, seed uint64) []byte) *blockHex {
	b := &blockHex{}
	var prev chain.Hash
	for h := range chain.Height(n) {
		raw := build(h, prev, 1)
		prev = chaintest.BlockHash(raw)
		b.quoted = append(b.quoted, `"`+hex.EncodeToString(raw)+`"`)
		b.ids = append(b.ids, chain.BlockID{Height: h, Hash: prev})
	}
	return b
}

// answer is what Zebra says to getblock "<height>" 0.
func (b *blockHex) answer(q question) (*http.Response, error) {
	h := q.height()
	if q.method != "getblock" || h < 0 || h >= len(b.quoted) {
		return q.failure(-8, "Block not found")
	}
	return q.result(b.quoted[h])
}

// cookieFile is a path in a new folder.
func cookieFile(t testing.TB) string { return filepath.Join(t.TempDir(), ".cookie") }

// wantError checks class, text and what the error matches.
func wantError(t *testing.T, err error, class ErrorClass, text string, is error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v (%T), want an *Error", err, err)
	}
	if e.Class != class {
		t.Errorf("class %v, want %v", e.Class, class)
	}
	if err.Error() != text {
		t.Errorf("error text\n got: %s\nwant: %s", err, text)
	}
	if !errors.Is(err, chain.ErrNode) {
		t.Error("does not match ErrNode")
	}
	for _, sentinel := range []error{chain.ErrUnavailable, chain.ErrAboveTip, chain.ErrNotFound} {
		if want := sentinel == is; errors.Is(err, sentinel) != want {
			t.Errorf("matches %q: %v, want %v", sentinel, !want, want)
		}
	}
}

// replaceURL puts the client's URL where an expected text says URL.
func replaceURL(text string, c *Client) string { return strings.ReplaceAll(text, "URL", c.URL()) }
