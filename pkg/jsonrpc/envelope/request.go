package envelope

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Dialect is the version of JSON-RPC that a request speaks; the reply is worded to match.
type Dialect uint8

// The dialects.
const (
	Plain    Dialect = iota // 2.0, and whatever is refused
	One                     // "jsonrpc":"1.0": the reply has both a result and an error, one of them null
	Bitcoind                // no "jsonrpc": like One, and the reply has no "jsonrpc" either
	InBatch                 // an element of a batch: like Plain, but that the members of an error stand in another order
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

// The members of a request that mean something.
const (
	version = iota
	method
	params
	id
	memberCount
)

// members are those of one request.
type members struct {
	raw      [memberCount]json.RawMessage // nil when absent; the last one of several
	repeated [memberCount]bool
}

// read splits an object; false when the text is none.
func (m *members) read(text []byte) bool {
	if !json.Valid(text) {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return false
	}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return false
		}
		i := slices.Index([]string{"jsonrpc", "method", "params", "id"}, name.(string)) // a name is a string
		if i >= 0 {
			m.repeated[i] = m.raw[i] != nil
			m.raw[i] = value
		}
	}
	return true
}

// present tells whether there is a member of that name, and not null.
func (m *members) present(i int) bool { return m.raw[i] != nil && string(m.raw[i]) != "null" }

// text decodes a member that must be a string.
func (m *members) text(i int) (s string, ok bool) {
	ok = isString(m.raw[i]) && readable(m.raw[i]) && json.Unmarshal(m.raw[i], &s) == nil
	return s, ok
}

// translated tells whether Zebra's middleware understands the request, and makes one of version 2.0 of it.
func (m *members) translated() (d Dialect, ok bool) {
	v, vok := m.text(version)
	if _, mok := m.text(method); !mok || m.present(version) && !vok || m.repeated != [memberCount]bool{} {
		return Plain, false
	}
	if m.raw[params] != nil && !isValue(m.raw[params]) || m.raw[id] != nil && !isValue(m.raw[id]) {
		return Plain, false
	}
	old := m.present(params) && m.raw[id] != nil
	switch {
	case v == "2.0":
		return Plain, true
	case v == "1.0" && old:
		return One, true
	case !m.present(version) && old:
		return Bitcoind, true
	}
	return Plain, false
}

// read20 is the JSON-RPC library's reading of a request as it is. Where its version is not looked at, it has been translated.
func (m *members) read20(translated bool) (Request, *Error) {
	r := Request{ID: idOf(m.raw[id])}
	if m.repeated[id] {
		r.ID = nil
	}
	if m.present(params) {
		r.Params = m.raw[params]
	}
	v, vok := m.text(version)
	var mok bool
	r.Method, mok = m.text(method)
	call := (translated || vok && v == "2.0") && mok && utf8.Valid(r.Params) && !m.repeated[version] && !m.repeated[method] && !m.repeated[params]
	switch {
	case call:
		return r, nil // an id that cannot be one makes the library see a notification
	case r.ID != nil:
		return Request{ID: r.ID}, ErrInvalidRequest
	}
	return Request{ID: null}, ErrParse
}

// Decode reads a single request. When it cannot be executed, the error says why and the request holds the id to answer with.
//
// The order of the checks is Zebra's: its middleware rewrites the requests of older dialects to 2.0 and leaves the rest to the
// JSON-RPC library, which knows 2.0 alone.
func Decode(body []byte) (Request, *Error) {
	var m members
	if !m.read(body) {
		return Request{ID: null}, ErrParse
	}
	d, translated := m.translated()
	r, err := m.read20(translated)
	r.Dialect = d
	return r, err
}

// DecodeBatch splits an array of requests.
func DecodeBatch(body []byte) (items []json.RawMessage, err *Error) {
	if !utf8.Valid(body) || json.Unmarshal(body, &items) != nil {
		return nil, ErrParse
	}
	if len(items) == 0 {
		return nil, ErrInvalidRequest
	}
	return items, nil
}

// DecodeItem reads one element of a batch, where only 2.0 is understood.
func DecodeItem(item []byte) (Request, *Error) {
	var m members
	if !m.read(item) {
		return Request{Dialect: InBatch, ID: null}, ErrInvalidRequest
	}
	r, err := m.read20(false)
	r.Dialect = InBatch
	if err != nil {
		err = ErrInvalidRequest // the array itself could be read
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
	case isString(raw):
		if readable(raw) && json.Unmarshal(raw, &text) == nil {
			return AppendString(nil, text)
		}
		return nil
	}
	if _, err := strconv.ParseUint(string(raw), 10, 64); err != nil {
		return nil
	}
	return raw
}
