package zebrarpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// method is a JSON-RPC method of Zebra. All but sendRawTransaction change nothing, so that their requests may be repeated.
type method uint8

const (
	getBestBlockHeightAndHash method = iota
	getBlock
	getBlockHash
	getBlockHeader
	getBlockchainInfo
	getInfo
	getTreeState
	getSubtreesByIndex
	getRawMempool
	getRawTransaction
	sendRawTransaction
	getAddressBalance
	getAddressTxids
	getAddressUtxos
	relayed // whatever Relay is given
	methodCount
)

var methodNames = [methodCount]string{
	getBestBlockHeightAndHash: "getbestblockheightandhash",
	getBlock:                  "getblock",
	getBlockHash:              "getblockhash",
	getBlockHeader:            "getblockheader",
	getBlockchainInfo:         "getblockchaininfo",
	getInfo:                   "getinfo",
	getTreeState:              "z_gettreestate",
	getSubtreesByIndex:        "z_getsubtreesbyindex",
	getRawMempool:             "getrawmempool",
	getRawTransaction:         "getrawtransaction",
	sendRawTransaction:        "sendrawtransaction",
	getAddressBalance:         "getaddressbalance",
	getAddressTxids:           "getaddresstxids",
	getAddressUtxos:           "getaddressutxos",
	relayed:                   "relayed",
}

func (m method) String() string { return methodNames[m] }

// How long Zebra may take, and how often a question is put before its passing error is reported.
const (
	tipLimit   = 3 * time.Second
	callLimit  = 10 * time.Second
	treeLimit  = 30 * time.Second // Zebra reads the whole block first, for its time
	callTries  = 2
	busyTries  = 5                      // more, while Zebra says that it has too many requests (429): then it has not looked at this one
	retryPause = 100 * time.Millisecond // before the first repetition, then doubling
)

// query is one question.
type query struct {
	method  method
	subject string        // for errors: "height 5"
	params  string        // JSON, without the brackets
	limit   time.Duration // for the answer, repetitions included
	tries   int
	calm    bool // it takes Zebra next to nothing, or long: bulk need not make way
	patient bool // it costs Zebra much: few are asked at one time, and bulk goes on beside them
}

// call is a query on its way. It is the context of its requests, so that the hooks of the one retryablehttp.Client find it.
type call struct {
	context.Context
	client  *Client
	method  method
	id      uint64
	tries   int // left, the running one included
	busy    int // left for answers that Zebra is too busy; 0 for bulk, whose fetcher repeats
	hangups int // connections that were closed without an answer
	renewed bool
	creds   *credentials // of the running request
	onSize  func(int)    // told the length of the body before it is read; may be nil
	verdict *Error       // on the last request, nil when a body came
	body    *[]byte      // lent by client.buffers
}

type callKey struct{}

// Value lets the hooks find the call.
func (a *call) Value(key any) any {
	if key == (callKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// send puts the query and returns the call with the body of the reply, which whoever has read it must drop. Errors still lack URL, method and subject.
// The permit for it is the caller's matter.
func (c *Client) send(parent context.Context, q *query, onSize func(int)) (a *call, err error) {
	ctx, cancel := context.WithTimeout(parent, q.limit)
	defer cancel()
	a = &call{Context: ctx, client: c, method: q.method, id: c.lastID.Add(1), tries: q.tries, onSize: onSize}
	if onSize == nil {
		a.busy = busyTries
	}
	body := make([]byte, 0, 64+len(q.method.String())+len(q.params))
	body = a.begin(body, q.method.String())
	body = append(body, `,"params":[`...)
	body = append(body, q.params...)
	body = append(body, `]}`...)
	return a, a.exchange(parent, body, q.limit, a.receive)
}

// begin appends the start of the call's request.
func (a *call) begin(dst []byte, method string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = strconv.AppendUint(dst, a.id, 10)
	dst = append(dst, `,"method":"`...)
	return append(append(dst, method...), '"')
}

// exchange sends the request, as often as it takes, and has the response read by receive. a.Context, made of parent, ends after limit.
func (a *call) exchange(parent context.Context, body []byte, limit time.Duration, receive retryablehttp.ResponseHandlerFunc) (err error) {
	c := a.client
	if err := c.Refused(); err != nil && a.method != getBestBlockHeightAndHash && a.method != getBlockHash {
		return passing("not asked: %w", err)
	}
	if a.creds, err = c.auth.get(); err != nil {
		return err
	}
	req := &retryablehttp.Request{Request: c.prototype.WithContext(a)}
	req.Header = a.creds.header
	sender := c.http
	if a.method == sendRawTransaction {
		sender = c.sender
	}
	if err := req.SetBody(body); err != nil {
		return err
	}
	req.SetResponseHandler(receive)
	if _, err = sender.Do(req); err == nil {
		a.creds.accepted.CompareAndSwap(false, true)
		return nil
	}
	a.drop()
	if parent.Err() != nil {
		return parent.Err()
	}
	if a.verdict == nil {
		a.verdict = transportError(err)
	}
	if errors.Is(a.verdict, context.Canceled) && context.Cause(a) == context.DeadlineExceeded {
		a.verdict = transportError(context.DeadlineExceeded) // Relay's limit ends before its context
	}
	if errors.Is(a.verdict, context.DeadlineExceeded) {
		a.verdict.Err = fmt.Errorf("no answer within %v", limit)
	}
	return a.verdict
}

// receive is retryablehttp's response handler: it reads the body into a lent buffer.
func (a *call) receive(resp *http.Response) error {
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 256))
		return statusError(resp.StatusCode, text)
	}
	limit := a.client.options.MaxReply
	size := resp.ContentLength
	if size > limit {
		return a.tooLong(size)
	}
	if size < 0 { // chunked, as some proxies do
		return a.receiveUnsized(resp.Body, limit)
	}
	if size == 0 {
		return passing("empty reply")
	}
	if a.onSize != nil {
		a.onSize(int(size))
	}
	a.body = a.client.buffers.get(int(size))
	n, err := io.ReadFull(resp.Body, *a.body)
	a.client.stats.bytesRead.Add(uint64(n))
	if err != nil {
		return cutOff(err, int64(n), size)
	}
	return nil
}

func (a *call) receiveUnsized(r io.Reader, limit int64) error {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	a.client.stats.bytesRead.Add(uint64(len(b)))
	switch {
	case err != nil:
		return cutOff(err, int64(len(b)), -1)
	case int64(len(b)) > limit:
		return a.tooLong(-1)
	case len(b) == 0:
		return passing("empty reply")
	}
	if a.onSize != nil {
		a.onSize(len(b))
	}
	a.body = a.client.buffers.get(len(b))
	copy(*a.body, b)
	return nil
}

func (a *call) tooLong(size int64) *Error {
	limit := a.client.options.MaxReply
	if size < 0 {
		return fatal(hintReply, "the reply is longer than the limit of %d bytes", limit)
	}
	return fatal(hintReply, "the reply has %d bytes, more than the limit of %d", size, limit)
}

func cutOff(err error, got, size int64) *Error {
	e := transportError(err)
	e.refused = false // there was an answer
	if e.overload && !errors.Is(err, context.DeadlineExceeded) {
		if size < 0 {
			e.Err = fmt.Errorf("the reply was cut off after %d bytes: %w", got, err)
		} else {
			e.Err = fmt.Errorf("the reply was cut off after %d of %d bytes: %w", got, size, err)
		}
	}
	return e
}

// again decides after a failed request whether to repeat it.
func (a *call) again(err error) bool {
	if !errors.As(err, &a.verdict) {
		a.verdict = transportError(err)
	}
	a.drop()
	if a.Err() != nil {
		return false
	}
	renewed := a.verdict.refused && a.renew()
	switch {
	case a.method == sendRawTransaction:
		return false
	case a.verdict.HTTPStatus == http.StatusTooManyRequests && a.busy > 0:
		a.busy--
	case renewed || a.verdict.Class == Passing && a.tries > 1:
		a.tries--
	default:
		return false
	}
	a.client.stats.retries.Add(1)
	return true
}

// drop gives the body back.
func (a *call) drop() {
	a.client.buffers.put(a.body)
	a.body = nil
}

// renew deals with what may be a refusal of our credentials, and tells whether to repeat the request at once, whatever its tries.
// Zebra closes the connection without an answer when it does not like them, but so do overloaded proxies and dying nodes: that is
// taken for a refusal only when it happens twice in a row to credentials that were never accepted.
func (a *call) renew() bool {
	e, auth := a.verdict, a.client.auth
	closed := e.HTTPStatus == 0
	a.hangups++
	e.Hint = auth.hint(closed)
	if creds, err := auth.reload(a.creds); err != nil {
		e.Class, e.Err = Passing, fmt.Errorf("%w: %w", e.Err, err)
	} else if creds != a.creds && !a.renewed {
		a.creds, a.renewed, a.hangups = creds, true, 0
		return true
	}
	if !closed || a.creds.accepted.Load() {
		return false
	}
	if a.hangups < 2 {
		return true
	}
	e.Class = Fatal
	return false
}

// newHTTP makes the retrying HTTP client. Its policies find their call in the request's context.
func newHTTP(transport http.RoundTripper) *retryablehttp.Client {
	callOf := func(ctx context.Context) *call { a, _ := ctx.Value(callKey{}).(*call); return a }
	return &retryablehttp.Client{
		HTTPClient: &http.Client{
			// Behind an interface of one method: retryablehttp would close all idle connections after any failed request.
			Transport: struct{ http.RoundTripper }{transport},
			// A redirect would take our credentials elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryMax:     callTries + 3 + busyTries, // calls count for themselves: credentials may be renewed, and checked twice
		RetryWaitMin: retryPause,
		RetryWaitMax: time.Second,
		CheckRetry: func(ctx context.Context, _ *http.Response, err error) (bool, error) {
			return err != nil && callOf(ctx).again(err), nil
		},
		Backoff: func(least, most time.Duration, attempt int, _ *http.Response) time.Duration {
			return jitter(min(least<<attempt, most))
		},
		PrepareRetry: func(req *http.Request) error {
			req.Header = callOf(req.Context()).creds.header
			return nil
		},
		ErrorHandler: func(resp *http.Response, err error, _ int) (*http.Response, error) {
			if resp != nil {
				resp.Body.Close()
			}
			return nil, err
		},
	}
}

// jitter returns between half of d and d, so that requests that failed together do not come back together.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
