package zebratest

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/zsidecar/zsidecar/pkg/jsonrpc/envelope"
)

// response is what goes out over HTTP.
type response struct {
	status      int
	contentType string
	body        []byte
	cutOff      bool
}

// buffers lends the memory of one exchange.
type buffers struct {
	in            bytes.Buffer
	result, reply []byte
	work          *workshop
}

var bufferPool = sync.Pool{New: func() any { return &buffers{work: newWorkshop()} }}

// ServeHTTP answers one HTTP request. Where Zebra closes the connection without an answer (wrong credentials, too long a body), it panics
// with http.ErrAbortHandler, which is how a handler tells the server to do so.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b := bufferPool.Get().(*buffers)
	defer bufferPool.Put(b)
	b.in.Reset()

	if !n.authorized(r) {
		panic(http.ErrAbortHandler)
	}
	if _, err := b.in.ReadFrom(io.LimitReader(r.Body, envelope.MaxBody+1)); err != nil || b.in.Len() > envelope.MaxBody {
		panic(http.ErrAbortHandler)
	}
	if !n.enter() {
		write(w, response{http.StatusTooManyRequests, envelope.TypeText, []byte(envelope.TextTooMany), false})
		return
	}
	defer n.leave()
	switch {
	case r.Method != http.MethodPost:
		write(w, response{http.StatusMethodNotAllowed, envelope.TypeText, []byte(envelope.TextNotPost), false})
	case !envelope.AcceptsContentType(r.Header.Values("Content-Type")):
		write(w, response{http.StatusUnsupportedMediaType, envelope.TypeText, []byte(envelope.TextContentType), false})
	default:
		write(w, n.answer(r, b))
	}
}

// authorized checks the cookie.
func (n *Node) authorized(r *http.Request) bool {
	n.mu.Lock()
	secret := n.secret
	n.mu.Unlock()
	return secret == "" || envelope.Authorized(r.Header.Get("Authorization"), secret)
}

// enter takes one of the permits for requests in flight.
func (n *Node) enter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.inFlight >= n.opts.MaxRequests {
		return false
	}
	n.inFlight++
	n.mostBusy = max(n.mostBusy, n.inFlight)
	return true
}

func (n *Node) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.inFlight--; n.inFlight == 0 {
		n.idle.Broadcast()
	}
}

// answer executes the request body. What it returns lives in b.
func (n *Node) answer(r *http.Request, b *buffers) response {
	switch kind, body := envelope.KindOf(b.in.Bytes()); kind {
	case envelope.Single:
		req, err := envelope.Decode(body)
		if err == nil && req.ID == nil {
			return response{status: http.StatusOK, contentType: envelope.TypeJSON} // a notification
		}
		reply, f := n.execute(r, b, req, err)
		b.reply = reply
		return spoil(response{http.StatusOK, envelope.TypeJSON, reply, false}, f)
	case envelope.Batch:
		return n.answerBatch(r, b, body)
	}
	b.reply = refusal(b.reply[:0], envelope.ErrParse)
	return response{http.StatusBadRequest, envelope.TypeJSON, b.reply, false}
}

// refusal is the reply to what is no request.
func refusal(dst []byte, err *rpcError) []byte {
	return envelope.AppendReply(dst, envelope.Plain, []byte("null"), nil, err)
}

// answerBatch executes the calls of an array, one after the other.
func (n *Node) answerBatch(r *http.Request, b *buffers, body []byte) response {
	ok := response{status: http.StatusOK, contentType: envelope.TypeJSON}
	items, rerr := envelope.DecodeBatch(body)
	if rerr != nil {
		ok.body = refusal(nil, rerr)
		return ok
	}
	var replies [][]byte
	var fault *Fault
	for _, item := range items {
		req, err := envelope.DecodeItem(item)
		if err == nil && req.ID == nil {
			continue
		}
		reply, f := n.execute(r, b, req, err)
		if f != nil {
			fault = f
		}
		replies = append(replies, bytes.Clone(reply))
	}
	if len(replies) > 0 {
		ok.body = joinReplies(replies)
	}
	return spoil(ok, fault)
}

func joinReplies(replies [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(replies, []byte{','})...), ']')
}

// execute runs one call and returns its reply, which lives in b.reply, and the fault that it met.
func (n *Node) execute(r *http.Request, b *buffers, req envelope.Request, err *rpcError) ([]byte, *Fault) {
	if err != nil {
		return envelope.AppendReply(b.reply[:0], req.Dialect, req.ID, nil, err), nil
	}
	c := Call{Method: req.Method, Params: req.Params, chain: n.count(req.Method)}
	if n.opts.Observe != nil {
		n.opts.Observe(c)
	}
	f := n.meet(c)
	if f != nil {
		hold(r, f)
	}
	b.result, err = n.call(b.result[:0], b.work, c, f)
	id := []byte(req.ID)
	if f != nil {
		if f.Error != nil {
			err = &rpcError{Code: f.Error.Code, Message: f.Error.Message}
		} else if f.Result != "" {
			b.result, err = append(b.result[:0], f.Result...), nil
		}
		if f.WrongID {
			id = []byte(strconv.Quote("not " + string(id)))
		}
	}
	b.reply = envelope.AppendReply(b.reply[:0], req.Dialect, id, b.result, err)
	return b.reply, f
}

// count notes a call of method and returns the chain to answer it from.
func (n *Node) count(method string) *Chain {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests[method]++
	return n.chain
}

// hold does what a fault does before the call is executed.
func hold(r *http.Request, f *Fault) {
	if f.Delay > 0 {
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if f.Hang {
		<-r.Context().Done()
	}
	if f.Hang || f.Drop {
		panic(http.ErrAbortHandler)
	}
}

// spoil does what a fault does to the finished reply.
func spoil(resp response, f *Fault) response {
	if f == nil {
		return resp
	}
	if f.Status != 0 {
		resp.status, resp.contentType, resp.body = f.Status, "text/html", []byte(Page)
	}
	if f.Body != nil {
		resp.body = f.Body(resp.body)
	}
	resp.cutOff = f.CutOff
	return resp
}

func write(w http.ResponseWriter, resp response) {
	h := w.Header()
	h["Content-Type"] = []string{resp.contentType}
	h["Content-Length"] = []string{strconv.Itoa(len(resp.body))}
	w.WriteHeader(resp.status)
	if resp.cutOff {
		_, _ = w.Write(resp.body[:len(resp.body)/2])
		_ = http.NewResponseController(w).Flush() // else the half would stay in the server's buffer
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(resp.body) // an error means that the client has left
}
