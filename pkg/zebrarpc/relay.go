package zebrarpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Question is a call that somebody else wants to have put to Zebra. Whether it may be is theirs to decide.
type Question struct {
	Method string        // JSON-RPC method; letters, digits, '_' and '.' only
	Params []byte        // JSON, as it was given; nil: none
	Limit  time.Duration // until the answer begins
}

// Answer is what Zebra said to a Question, as Zebra spelled it. Whoever gets one closes its Body.
type Answer struct {
	Failed bool          // Body is the error object; else it is the result
	Code   int           // of the error object
	Size   int64         // of Body in bytes; -1 when that shows at its end only
	NullID bool          // Zebra could not read the request, and answered none in particular
	Body   io.ReadCloser // ends with io.EOF; any other error means that the rest is missing
}

// maxFailure bounds an error object, which is read at once.
const maxFailure = 1 << 20

// Relay puts a question to Zebra and returns its answer as soon as that begins: Zebra has done its work then, so the permit for it is
// given back, and a reader who is slow occupies nobody's turn. sendrawtransaction is sent once; every other method is taken for one
// that changes nothing and may be repeated. An error object of Zebra's is an Answer, not an error.
//
// It asks in the class that bulk need not make way for. How many questions may be put at one time is the caller's to decide.
func (c *Client) Relay(ctx context.Context, q Question) (*Answer, error) {
	asked := query{method: relayed, limit: q.Limit, tries: callTries}
	if q.Method == sendRawTransaction.String() {
		asked.method, asked.tries = sendRawTransaction, 1
		if err := c.proveCredentials(ctx); err != nil {
			return nil, err
		}
	}
	answer, err := c.relay(ctx, &asked, &q)
	if err = c.answered(&asked, err); err != nil {
		if e := (*Error)(nil); errors.As(err, &e) {
			e.Method = q.Method
		}
		return nil, err
	}
	return answer, nil
}

func (c *Client) relay(parent context.Context, asked *query, q *Question) (*Answer, error) {
	if err := c.permits.acquire(parent, patient, asked.limit); err != nil {
		return nil, err
	}
	defer c.permits.release(patient)
	ctx, cancel := context.WithCancelCause(parent)
	limit := time.AfterFunc(asked.limit, func() { cancel(context.DeadlineExceeded) })
	a := &call{Context: ctx, client: c, method: asked.method, id: c.lastID.Add(1), tries: asked.tries}
	body := a.begin(make([]byte, 0, 64+len(q.Method)+len(q.Params)), q.Method)
	if q.Params != nil {
		body = append(append(body, `,"params":`...), q.Params...)
	}
	var answer *Answer
	err := a.exchange(parent, append(body, '}'), asked.limit, func(resp *http.Response) (err error) {
		answer, err = a.receiveAnswer(resp)
		if err != nil {
			resp.Body.Close()
		}
		return err
	})
	if !limit.Stop() && err == nil { // the answer began in the very moment that its time ended
		answer.Body.Close()
		err = &Error{Class: Passing, Err: context.DeadlineExceeded, overload: true}
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	answer.Body = &answerBody{answer.Body, limit, asked.limit, cancel}
	return answer, nil
}

// receiveAnswer is the response handler of Relay.
func (a *call) receiveAnswer(resp *http.Response) (*Answer, error) {
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 256))
		return nil, statusError(resp.StatusCode, text)
	}
	body := bufio.NewReaderSize(countingReader{resp.Body, a.client}, 16<<10)
	id := strconv.FormatUint(a.id, 10)
	start := `{"jsonrpc":"2.0","id":` + id + `,"result":`
	head, err := body.Peek(len(start))
	switch {
	case string(head) == start:
		_, _ = body.Discard(len(start))
		answer := &Answer{Size: -1, Body: resultReader{body, resp.Body}}
		if resp.ContentLength > int64(len(start)) {
			answer.Size = resp.ContentLength - int64(len(start)) - 1
		}
		return answer, nil
	case err != nil && !errors.Is(err, io.EOF):
		return nil, cutOff(err, int64(len(head)), resp.ContentLength)
	}
	return a.receiveOther(resp, body)
}

// receiveOther reads a reply that does not begin as Zebra's results do: an error, or what a proxy has worded anew.
func (a *call) receiveOther(resp *http.Response, body io.Reader) (*Answer, error) {
	text, err := io.ReadAll(io.LimitReader(body, maxFailure+1))
	switch {
	case err != nil:
		return nil, cutOff(err, int64(len(text)), resp.ContentLength)
	case len(text) == 0:
		return nil, passing("empty reply")
	case len(text) > maxFailure:
		return nil, fatal(hintReply, "the reply is longer than %d bytes and does not begin as Zebra's do:%s", maxFailure, quoted(text[:256]))
	}
	var reply map[string]json.RawMessage
	if err := json.Unmarshal(text, &reply); err != nil {
		return nil, fatal(hintPort, "the reply is not a JSON object but%s", quoted(text[:min(len(text), 256)]))
	}
	said, id := reply["error"], string(reply["id"])
	failed := said != nil && string(said) != "null"
	null := failed && id == "null"
	switch {
	case string(reply["jsonrpc"]) != `"2.0"`:
		return nil, fatal(hintReply, "the reply is not JSON-RPC 2.0")
	case !null && id != strconv.FormatUint(a.id, 10):
		return nil, fatal(hintReply, "%w: its id is%s, not %d", errOtherRequest, quoted([]byte(id)), a.id)
	case failed && said[0] != '{':
		return nil, fatal(hintReply, "the reply's error is%s, not an object", quoted(said))
	case !failed:
		if said = reply["result"]; said == nil {
			return nil, fatal(hintReply, "the reply has neither result nor error")
		}
	}
	resp.Body.Close()
	answer := &Answer{Failed: failed, Size: int64(len(said)), NullID: null, Body: io.NopCloser(bytes.NewReader(said))}
	if failed {
		var e struct{ Code int }
		_ = json.Unmarshal(said, &e) // a code that is no integer is not ours to judge
		answer.Code = e.Code
	}
	return answer, nil
}

// resultReader reads a result up to the brace that ends the reply. Should the reply be cut off, the body says so.
type resultReader struct {
	body *bufio.Reader
	io.Closer
}

var errEnd = errors.New("the reply does not end as Zebra's do")

func (r resultReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	two, err := r.body.Peek(2) // what is last is the brace, which is not the result's
	switch {
	case len(two) == 2:
		return r.body.Read(p[:min(len(p), r.body.Buffered()-1)])
	case !errors.Is(err, io.EOF):
		return 0, err
	case len(two) == 0 || two[0] != '}':
		return 0, errEnd
	}
	return 0, io.EOF
}

// answerBody ends the context of its call when it is closed, or when a part of it does not come in time.
type answerBody struct {
	io.ReadCloser
	timer  *time.Timer
	limit  time.Duration
	cancel context.CancelCauseFunc
}

func (b *answerBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.limit)
	defer b.timer.Stop()
	return b.ReadCloser.Read(p)
}

func (b *answerBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// countingReader counts what is read of replies.
type countingReader struct {
	io.Reader
	client *Client
}

func (r countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.client.stats.bytesRead.Add(uint64(n))
	return n, err
}
