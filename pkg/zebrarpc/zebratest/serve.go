package zebratest

import (
	"bytes"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	typeJSON = "application/json; charset=utf-8"
	typeText = "text/plain"
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
	if _, err := b.in.ReadFrom(io.LimitReader(r.Body, maxBody+1)); err != nil || b.in.Len() > maxBody {
		panic(http.ErrAbortHandler)
	}
	if !n.enter() {
		write(w, response{http.StatusTooManyRequests, typeText, []byte("Too many connections. Please try again later."), false})
		return
	}
	defer n.leave()
	switch {
	case r.Method != http.MethodPost:
		write(w, response{http.StatusMethodNotAllowed, typeText, []byte("Used HTTP Method is not allowed. POST is required\n"), false})
	case !acceptable(r.Header.Values("Content-Type")):
		const text = "Supplied content type is not allowed. Content-Type: application/json is required\n"
		write(w, response{http.StatusUnsupportedMediaType, typeText, []byte(text), false})
	default:
		write(w, n.answer(r, b))
	}
}

// authorized checks the cookie. The scheme and the user name do not count.
func (n *Node) authorized(r *http.Request) bool {
	n.mu.Lock()
	secret := n.secret
	n.mu.Unlock()
	if secret == "" {
		return true
	}
	fields := strings.Fields(r.Header.Get("Authorization"))
	if len(fields) < 2 {
		return false
	}
	decoded, err := base64.StdEncoding.DecodeString(fields[1])
	parts := strings.Split(string(decoded), ":")
	return err == nil && len(parts) > 1 && subtle.ConstantTimeCompare([]byte(parts[1]), []byte(secret)) == 1
}

// acceptable tells whether a request with this Content-Type is read: none, plain text and JSON are.
func acceptable(values []string) bool {
	if len(values) == 0 || strings.HasPrefix(values[0], "text/plain") {
		return true
	}
	base, parameter, _ := strings.Cut(strings.ToLower(values[0]), ";")
	if base != "application/json" && base != "application/json-rpc" {
		return false
	}
	return len(base) == len(values[0]) || parameter == "charset=utf-8" || parameter == " charset=utf-8"
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
	body := bytes.TrimLeft(b.in.Bytes(), " \t\n\f\r")
	switch {
	case len(body) > 0 && body[0] == '{':
		req, err := decodeRequest(body)
		if err == nil && req.id == nil {
			return response{status: http.StatusOK, contentType: typeJSON} // a notification
		}
		reply, f := n.execute(r, b, req, err)
		b.reply = reply
		return spoil(response{http.StatusOK, typeJSON, reply, false}, f)
	case len(body) > 0 && body[0] == '[':
		return n.answerBatch(r, b, body)
	}
	b.reply = appendReply(b.reply[:0], plain, []byte("null"), nil, errParse)
	return response{http.StatusBadRequest, typeJSON, b.reply, false}
}

// answerBatch executes the calls of an array, one after the other.
func (n *Node) answerBatch(r *http.Request, b *buffers, body []byte) response {
	ok := response{status: http.StatusOK, contentType: typeJSON}
	var items []json.RawMessage
	if json.Unmarshal(body, &items) != nil {
		ok.body = appendReply(nil, plain, []byte("null"), nil, errParse)
		return ok
	}
	var replies [][]byte
	var fault *Fault
	for _, item := range items {
		req, err := decodeBatchItem(item)
		if err == nil && req.id == nil {
			continue
		}
		reply, f := n.execute(r, b, req, err)
		if f != nil {
			fault = f
		}
		replies = append(replies, bytes.Clone(reply))
	}
	switch {
	case len(replies) > 0:
		ok.body = joinReplies(replies)
	case len(items) == 0:
		ok.body = appendReply(nil, plain, []byte("null"), nil, errInvalidRequest)
	}
	return spoil(ok, fault)
}

func joinReplies(replies [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(replies, []byte{','})...), ']')
}

// execute runs one call and returns its reply, which lives in b.reply, and the fault that it met.
func (n *Node) execute(r *http.Request, b *buffers, req request, err *rpcError) ([]byte, *Fault) {
	if err != nil {
		return appendReply(b.reply[:0], plain, req.id, nil, err), nil
	}
	c := Call{Method: req.method, Params: req.params, chain: n.count(req.method)}
	if n.opts.Observe != nil {
		n.opts.Observe(c)
	}
	f := n.meet(c)
	if f != nil {
		hold(r, f)
	}
	b.result, err = n.call(b.result[:0], b.work, c, f)
	id := []byte(req.id)
	if f != nil {
		if f.Error != nil {
			err = &rpcError{code: f.Error.Code, message: f.Error.Message}
		} else if f.Result != "" {
			b.result, err = append(b.result[:0], f.Result...), nil
		}
		if f.WrongID {
			id = []byte(strconv.Quote("not " + string(id)))
		}
	}
	b.reply = appendReply(b.reply[:0], req.dialect, id, b.result, err)
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
