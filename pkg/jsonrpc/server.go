package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc/envelope"
	"github.com/zsidecar/zsidecar/pkg/passthrough"
)

// Node answers what is not answered here; *passthrough.Relay implements it.
type Node interface {
	Ask(ctx context.Context, method string, params []byte, costly bool) (*passthrough.Answer, error)
}

// Options say what a Server serves. Source and Node are required.
type Options struct {
	Source chain.Source
	Node   Node

	// Secret is the password that requests must bring; empty: none.
	Secret string

	// Observe is called at the end of every call, on the request's goroutine; nil when nobody is interested.
	Observe func(Call)

	// Logger; nil means slog.Default().
	Logger *slog.Logger
}

// Call is what is known of a JSON-RPC call when it has ended.
type Call struct {
	Method   string // one of the table, or "other"
	Code     int    // of the error; 0: a result; BrokenOff: neither
	Duration time.Duration
}

// BrokenOff is the Code of a call whose reply could not be sent to its end.
const BrokenOff = 1

// Stats is what a Server counts, since New or now.
type Stats struct {
	Requests int64  // HTTP requests in progress
	Refused  uint64 // HTTP requests that were answered with another status than 200
	Panics   uint64 // calls that ended with -32603 because of a bug of ours
}

// Server answers JSON-RPC over HTTP. It is an http.Handler, and brings a server for it: Serve and Stop. Its methods are safe for
// concurrent use.
type Server struct {
	options  Options
	log      *slog.Logger
	methods  map[string]method
	http     *http.Server
	requests chan struct{}
	long     chan struct{}

	inProgress      atomic.Int64
	refused, panics atomic.Uint64
}

// New returns a Server that is not serving yet.
func New(o Options) (*Server, error) {
	if o.Source == nil || o.Node == nil {
		return nil, errors.New("a JSON-RPC server needs a Source and a Node")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Server{
		options: o, log: o.Logger, methods: methods(),
		requests: make(chan struct{}, envelope.MaxRequests), long: make(chan struct{}, longBodies),
	}
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: headerLimit, IdleTimeout: idleLimit, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug), Protocols: new(http.Protocols),
	}
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetUnencryptedHTTP2(true)
	return s, nil
}

// Serve answers connections of lis until Stop, and closes lis. It returns nil after Stop.
func (s *Server) Serve(lis net.Listener) error {
	s.log.Info("serving JSON-RPC", "addr", lis.Addr().String(), "auth", s.options.Secret != "")
	if err := s.http.Serve(newListener(lis, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve JSON-RPC on %s: %w", lis.Addr(), err)
	}
	return nil
}

// Stop takes no new requests, waits for those in progress, and cuts them off when ctx ends.
func (s *Server) Stop(ctx context.Context) {
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

// Stats counts what was done so far.
func (s *Server) Stats() Stats {
	return Stats{Requests: s.inProgress.Load(), Refused: s.refused.Load(), Panics: s.panics.Load()}
}

// ServeHTTP answers one HTTP request. Where Zebra closes the connection without a word it says what is wrong: 401 and 413.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.inProgress.Add(1)
	defer s.inProgress.Add(-1)
	rc := http.NewResponseController(w)
	start := time.Now()
	_ = rc.SetWriteDeadline(start.Add(replyLimit)) // a connection without deadlines is a test's
	if s.options.Secret != "" && !envelope.Authorized(r.Header.Get("Authorization"), s.options.Secret) {
		w.Header().Set("WWW-Authenticate", `Basic realm="zsidecar"`)
		s.refuse(w, http.StatusUnauthorized, "The password of the cookie file is required.\n")
		return
	}
	if !enter(s.requests) {
		s.refuse(w, http.StatusTooManyRequests, envelope.TextTooMany)
		return
	}
	defer leave(s.requests)
	switch {
	case r.Method != http.MethodPost:
		s.refuse(w, http.StatusMethodNotAllowed, envelope.TextNotPost)
		return
	case !envelope.AcceptsContentType(r.Header.Values("Content-Type")):
		s.refuse(w, http.StatusUnsupportedMediaType, envelope.TextContentType)
		return
	}
	if r.ContentLength < 0 || r.ContentLength > longBody {
		if !enter(s.long) {
			s.refuse(w, http.StatusTooManyRequests, envelope.TextTooMany)
			return
		}
		defer leave(s.long)
	}
	_ = rc.SetReadDeadline(start.Add(bodyLimit))
	var body []byte
	var err error
	if r.ContentLength <= envelope.MaxBody {
		body, err = io.ReadAll(io.LimitReader(r.Body, envelope.MaxBody+1))
	}
	_ = rc.SetReadDeadline(time.Time{})
	switch {
	case err != nil:
		panic(http.ErrAbortHandler) // the client has left, or takes too long
	case len(body) > envelope.MaxBody || r.ContentLength > envelope.MaxBody:
		s.refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("A request has %d bytes at most.\n", envelope.MaxBody))
		return
	}
	s.answer(r.Context(), newOutput(w, rc, start), body)
}

func enter(slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func leave(slots chan struct{}) { <-slots }

// refuse answers with an HTTP status and text.
func (s *Server) refuse(w http.ResponseWriter, status int, text string) {
	s.refused.Add(1)
	w.Header().Set("Content-Type", envelope.TypeText)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // an error means that the client has left
}

// answer executes what a body holds.
func (s *Server) answer(ctx context.Context, out *output, body []byte) {
	kind, body := envelope.KindOf(body)
	switch kind {
	case envelope.Single:
		out.single = true
		req, err := envelope.Decode(body)
		s.reply(ctx, out, req, err)
	case envelope.Batch:
		s.answerBatch(ctx, out, body)
	default:
		s.refused.Add(1)
		out.status = http.StatusBadRequest
		out.refusal(envelope.ErrParse)
	}
	out.finish()
}

// answerBatch executes the calls of an array, one after the other. A batch of notifications has an empty reply.
func (s *Server) answerBatch(ctx context.Context, out *output, body []byte) {
	items, err := envelope.DecodeBatch(body)
	if err != nil {
		out.refusal(err)
		return
	}
	separator := "["
	for _, item := range items {
		req, err := envelope.DecodeItem(item)
		if err == nil && req.ID == nil {
			continue
		}
		out.text(separator)
		separator = ","
		s.reply(ctx, out, req, err)
	}
	if separator == "," {
		out.text("]")
	}
}

// reply executes one call and writes its reply. A notification is not executed and has none.
func (s *Server) reply(ctx context.Context, out *output, req envelope.Request, refusal *envelope.Error) {
	if refusal == nil && req.ID == nil {
		return
	}
	start, name := time.Now(), "other"
	code := BrokenOff
	defer func() {
		if s.options.Observe != nil {
			s.options.Observe(Call{name, code, time.Since(start)})
		}
	}()
	if refusal != nil {
		code = refusal.Code
		out.failure(req.Dialect, req.ID, refusal)
		return
	}
	m, known := s.methods[req.Method]
	if !known {
		code = envelope.ErrUnknownMethod.Code
		out.failure(req.Dialect, req.ID, envelope.ErrUnknownMethod)
		return
	}
	name = req.Method
	answer, err := s.call(ctx, req.Method, &m, req.Params)
	if err != nil {
		e := s.errorOf(ctx, req.Method, err)
		code = e.Code
		out.failure(req.Dialect, req.ID, e)
		return
	}
	defer answer.Body.Close()
	if answer.NullID {
		req.ID = json.RawMessage("null")
	}
	out.answer(req.Dialect, req.ID, answer)
	code = answer.Code
}
