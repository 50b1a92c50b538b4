package zebrarpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// ErrorClass says what to do about an error.
type ErrorClass uint8

const (
	// Passing: Zebra cannot be asked now. Asking again later helps. Matches chain.ErrUnavailable.
	Passing ErrorClass = 1 + iota
	// Answerable: Zebra answered the question with an error, which belongs to whoever asked.
	Answerable
	// Fatal: this is no node that we understand, or we are not let in, or it gave a wrong block. Somebody has to do something.
	Fatal
)

// String is the label of the metric that counts requests.
func (c ErrorClass) String() string {
	switch c {
	case Passing:
		return "passing"
	case Answerable:
		return "answerable"
	case Fatal:
		return "fatal"
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// Error is what went wrong with one question to Zebra. A question that ended because its own context did is no Error but the
// context's.
type Error struct {
	URL     string // of the node, without any secret
	Method  string // JSON-RPC method
	Subject string // what was asked about: "height 5", "hash 0000…1f2a", or empty

	Class      ErrorClass
	Code       int    // of the JSON-RPC error, else 0
	Message    string // Zebra's own text for Code, unchanged, and the error's "data" if that was a string
	HTTPStatus int    // when it was not 200, else 0
	Hint       string // what to do about it; may be empty

	Err error // the cause, or the sentinel of package chain that Code means for this method

	overload bool // Zebra had too much to do, or looked like it
	refused  bool // what Zebra does with wrong credentials
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Method)
	if e.Subject != "" {
		b.WriteString(" " + e.Subject)
	}
	b.WriteString(" from " + e.URL)
	if e.Code != 0 || e.Message != "" {
		fmt.Fprintf(&b, ": code %d: %s", e.Code, e.Message)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes passing errors match chain.ErrUnavailable, and all of them chain.ErrNode.
func (e *Error) Is(target error) bool {
	return target == chain.ErrUnavailable && e.Class == Passing || target == chain.ErrNode
}

const (
	hintPort    = "is this the address of Zebra's RPC (rpc.listen_addr)?"
	hintReply   = "this does not look like Zebra's RPC, or it is a version that answers differently"
	hintSize    = "raise rpc.max_response_body_size in Zebra's configuration"
	hintBlock   = "the node's database is damaged, or what it sends is changed on its way"
	hintVersion = "the network has new rules that need a newer version of this program"
	hintMethod  = "the node does not know what Zebra 7 knows; " + hintPort
)

// fatal is a reply that no Zebra would give.
func fatal(hint, format string, args ...any) *Error {
	return &Error{Class: Fatal, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// passing is an answer that did not come.
func passing(format string, args ...any) *Error {
	return &Error{Class: Passing, Err: fmt.Errorf(format, args...)}
}

// transportError classifies what net/http said. Whether a context of our caller ended is the caller's to ask.
func transportError(err error) *Error {
	if inner := (*url.Error)(nil); errors.As(err, &inner) {
		err = inner.Err // it repeats the method and the URL
	}
	e := &Error{Class: Passing, Err: err}
	var timeout net.Error
	switch {
	case hungUp(err):
		e.overload, e.refused = true, true
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		e.overload = true
	}
	return e
}

// hungUp tells whether the connection was closed before any answer. Requests on a connection that had served before were repeated on
// a new one already, so this is about a fresh connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || strings.Contains(err.Error(), "server closed idle connection")
}

// statusError classifies an HTTP status other than 200. text is the start of the body.
func statusError(status int, text []byte) *Error {
	e := &Error{Class: Fatal, HTTPStatus: status, Err: fmt.Errorf("HTTP %d %s%s", status, http.StatusText(status), quoted(text))}
	switch {
	case status == http.StatusTooManyRequests:
		e.Class, e.overload = Passing, true
	case status == http.StatusRequestTimeout || status >= 500:
		e.Class = Passing
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.refused = true
	default:
		e.Hint = hintPort
	}
	return e
}

// quoted shows the start of a body in an error text, or nothing when it is empty.
func quoted(text []byte) string {
	const most = 80
	s := strings.TrimSpace(string(text))
	if s == "" {
		return ""
	}
	if len(s) > most {
		s = s[:most] + "…"
	}
	return fmt.Sprintf(" %q", s)
}

// rpcError classifies a JSON-RPC error. What -1, -5 and -8 say about a block depends on the method: see notFound.
func rpcError(code int, message string) *Error {
	e := &Error{Class: Answerable, Code: code, Message: message}
	text := strings.ToLower(message)
	switch {
	case code == -28 || code == -10: // warming up, initial download
		e.Class = Passing
	case code == -1 && strings.Contains(text, "no blocks in state"):
		e.Class = Passing
	case code == -1 && (strings.HasPrefix(text, "missing ") && strings.Contains(text, " tree") || strings.Contains(text, "block not found")):
		e.Class = Passing // a reorg came between two of Zebra's own reads
	case code == -1 && strings.Contains(text, "state was committing a block"):
		e.Class = Passing // the same for addresses
	case code == -1 && strings.Contains(text, "invalid params"), code == -32600, code == -32602, code == -32700:
		e.Class, e.Hint = Fatal, hintReply
	case code == -32601:
		e.Class, e.Hint = Fatal, hintMethod
	case code == -32008 || code == -32011:
		e.Class, e.Hint = Fatal, hintSize
	}
	return e
}

// about gives err a meaning of package chain when it is Zebra's word for a block that it does not have: -8 or -5, and for getblockhash
// also -1 with its text for a height above the tip.
func about(err, meaning error) error {
	var e *Error
	if !errors.As(err, &e) || e.Class != Answerable || e.Err != nil {
		return err
	}
	if e.Code == -8 || e.Code == -5 || e.Code == -1 && strings.Contains(e.Message, "greater than the current tip") {
		e.Err = meaning
	}
	return err
}
