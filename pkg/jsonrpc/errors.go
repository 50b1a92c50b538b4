package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc/envelope"
	"github.com/zsidecar/zsidecar/pkg/passthrough"
)

// Errors of ours, none of which Zebra has a word for. The codes are those that clients of zcashd and of the JSON-RPC library in Zebra
// take for "ask again".
var (
	errAway     = &envelope.Error{Code: -28, Message: "Zebra does not answer at present, try again later"} // in warm-up
	errBusy     = &envelope.Error{Code: -32009, Message: "Server is busy, try again later"}
	errReorged  = &envelope.Error{Code: -1, Message: "The best chain changed meanwhile, try again"}
	errUnusable = &envelope.Error{Code: -32603, Message: "Zebra gave no usable answer: the log of zsidecar says why"}
	errInternal = &envelope.Error{Code: -32603, Message: "Internal error"}
)

// call has a method executed.
func (s *Server) call(ctx context.Context, name string, m *method, params json.RawMessage) (answer *passthrough.Answer, err error) {
	err = chain.Guard(func() (err error) {
		if m.answer != nil {
			if answer, err = m.answer(s, ctx, params); answer != nil || err != nil {
				return err
			}
		}
		answer, err = s.options.Node.Ask(ctx, name, params, m.costly)
		return err
	})
	if bug := (*chain.Panic)(nil); errors.As(err, &bug) {
		s.panics.Add(1)
		s.log.Error("a method panicked", "method", name, "panic", fmt.Sprint(bug.Value), "stack", string(bug.Stack))
	}
	return answer, err
}

// errorOf is the one map from errors to those of JSON-RPC. Details go to the log: they name the node's address and files.
func (s *Server) errorOf(ctx context.Context, name string, err error) *envelope.Error {
	if ctx.Err() != nil {
		panic(http.ErrAbortHandler) // the client has left
	}
	if e := (*envelope.Error)(nil); errors.As(err, &e) {
		return e
	}
	e, level := errInternal, slog.LevelError
	switch {
	case errors.Is(err, chain.ErrBusy):
		e, level = errBusy, slog.LevelDebug
	case errors.Is(err, chain.ErrReorged):
		e, level = errReorged, slog.LevelDebug
	case errors.Is(err, chain.ErrUnavailable):
		e, level = errAway, slog.LevelDebug
	case errors.Is(err, chain.ErrNode):
		e, level = errUnusable, slog.LevelWarn
	}
	s.log.Log(ctx, level, "a JSON-RPC call failed", "method", name, "code", e.Code, "err", err)
	return e
}
