package envelope

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Dialect is the version of JSON-RPC that a request speaks; the reply is worded to match.
type Dialect uint8

// The dialects.
const (
	Plain    Dialect = iota // 2.0, and whatever is refused
	One                     // "jsonrpc":"1.0": the reply has both a result and an error, one of them null
	Bitcoind                // no "jsonrpc": like One, and the reply has no "jsonrpc" either
)

// Request is one JSON-RPC request.
type Request struct {
	Dialect Dialect
	ID      json.RawMessage // null, a string or an unsigned integer, as the reply repeats it; nil: a notification, which has no reply
	Method  string
	Params  json.RawMessage // as sent; nil when absent or null
}

// What is said to requests that cannot be executed.
var (
	ErrParse          = &Error{Code: -32700, Message: "Parse error"}
	ErrInvalidRequest = &Error{Code: -32600, Message: "Invalid request"}
	ErrUnknownMethod  = &Error{Code: -32601, Message: "Method not found"}
)

// null is the id of a reply to a request whose own id could not be read.
var null = json.RawMessage("null")

// Kind is what the body of an HTTP request holds.
type Kind uint8

// The kinds of bodies. What is neither an object nor an array is answered with HTTP status 400.
const (
	Neither Kind = iota
	Single
	Batch
)

// KindOf looks at the first byte that is not white space, and returns the body from there on.
func KindOf(body []byte) (Kind, []byte) {
	body = bytes.TrimLeft(body, " \t\n\f\r")
	switch {
	case len(body) > 0 && body[0] == '{':
		return Single, body
	case len(body) > 0 && body[0] == '[':
		return Batch, body
	}
	return Neither, body
}

// Decode reads a single request. When it cannot be executed, the error says why and the request holds the id to answer with.
//
// The order of the checks is Zebra's: its middleware rewrites the requests of older dialects to 2.0 and leaves the rest to the
// JSON-RPC library, which knows 2.0 alone.
func Decode(body []byte) (Request, *Error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return Request{ID: null}, ErrParse
	}
	r, ok := Request{ID: members["id"], Params: members["params"]}, true
	if string(r.Params) == "null" {
		r.Params = nil
	}
	var version string
	if !isString(members["method"]) || json.Unmarshal(members["method"], &r.Method) != nil {
		ok = false
	}
	if v, present := members["jsonrpc"]; present && string(v) != "null" {
		ok = ok && isString(v) && json.Unmarshal(v, &version) == nil
	}
	old := r.Params != nil && r.ID != nil
	switch {
	case ok && version == "2.0":
	case ok && version == "1.0" && old:
		r.Dialect = One
	case ok && version == "" && old:
		r.Dialect = Bitcoind
	default:
		if r.ID = idOf(r.ID); r.ID == nil {
			return Request{ID: null}, ErrParse
		}
		return r, ErrInvalidRequest
	}
	r.ID = idOf(r.ID) // an id that cannot be one makes the library see a notification
	return r, nil
}

// DecodeBatch splits an array of requests.
func DecodeBatch(body []byte) (items []json.RawMessage, err *Error) {
	if json.Unmarshal(body, &items) != nil {
		return nil, ErrParse
	}
	if len(items) == 0 {
		return nil, ErrInvalidRequest
	}
	return items, nil
}

// DecodeItem reads one element of a batch, where only 2.0 is understood.
func DecodeItem(item []byte) (Request, *Error) {
	r, err := Decode(item)
	if r.Dialect != Plain {
		r.Dialect, err = Plain, ErrInvalidRequest
	}
	if err != nil {
		err = ErrInvalidRequest // the array itself could be read
		if r.ID == nil {
			r.ID = null
		}
	}
	return r, err
}

func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

// idOf returns an id as the reply spells it, or nil when the JSON-RPC library takes it for none.
func idOf(raw json.RawMessage) json.RawMessage {
	var text string
	switch {
	case string(raw) == "null":
		return raw
	case isString(raw) && json.Unmarshal(raw, &text) == nil:
		return AppendString(nil, text)
	}
	if _, err := strconv.ParseUint(string(raw), 10, 64); err != nil {
		return nil
	}
	return raw
}
