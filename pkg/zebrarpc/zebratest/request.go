package zebratest

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// dialect is the version of JSON-RPC that a request speaks; the reply is worded to match.
type dialect uint8

const (
	plain    dialect = iota // 2.0, and whatever is refused
	one                     // "jsonrpc":"1.0": the reply has both a result and an error, one of them null
	bitcoind                // no "jsonrpc": like one, and the reply has no "jsonrpc" either
)

// request is one JSON-RPC request that can be executed.
type request struct {
	dialect dialect
	id      json.RawMessage // null, a string or an unsigned integer
	method  string
	params  json.RawMessage // nil when absent or null
}

// rpcError is the error member of a reply.
type rpcError struct {
	code    int
	message string
	data    string // left out when empty
}

var (
	errParse          = &rpcError{code: -32700, message: "Parse error"}
	errInvalidRequest = &rpcError{code: -32600, message: "Invalid request"}
	errUnknownMethod  = &rpcError{code: -32601, message: "Method not found"}
)

// decodeRequest reads a single request. When it cannot be executed, the error says why and the request holds the id to answer with;
// a notification, which is not answered at all, is a request without an id.
//
// The order of the checks is Zebra's: its middleware rewrites the requests of older dialects to 2.0 and leaves the rest to the
// JSON-RPC library, which knows 2.0 alone.
func decodeRequest(body []byte) (request, *rpcError) {
	null := request{id: json.RawMessage("null")}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return null, errParse
	}
	r, ok := request{id: members["id"], params: members["params"]}, true
	if string(r.params) == "null" {
		r.params = nil
	}
	var version string
	if json.Unmarshal(members["method"], &r.method) != nil || !isString(members["method"]) {
		ok = false
	}
	if v, present := members["jsonrpc"]; present && string(v) != "null" {
		ok = ok && isString(v) && json.Unmarshal(v, &version) == nil
	}
	old := r.params != nil && r.id != nil
	switch {
	case ok && version == "2.0":
	case ok && version == "1.0" && old:
		r.dialect = one
	case ok && version == "" && old:
		r.dialect = bitcoind
	default:
		if !isID(r.id) {
			return null, errParse
		}
		return r, errInvalidRequest
	}
	if !isID(r.id) {
		// An id that cannot be one makes the library see a notification.
		r.id = nil
	}
	return r, nil
}

// decodeBatchItem reads one element of a batch, where only 2.0 is understood.
func decodeBatchItem(item []byte) (request, *rpcError) {
	r, err := decodeRequest(item)
	if r.dialect != plain {
		r.dialect, err = plain, errInvalidRequest
	}
	if err != nil {
		err = errInvalidRequest // the array itself could be read
		if r.id == nil {
			r.id = json.RawMessage("null")
		}
	}
	return r, err
}

func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

// isID tells whether a present id is one that the JSON-RPC library takes.
func isID(raw json.RawMessage) bool {
	if string(raw) == "null" || isString(raw) {
		return true
	}
	_, err := strconv.ParseUint(string(raw), 10, 64)
	return err == nil
}

// appendReply appends the reply to a request: the result, or the error when there is one.
func appendReply(dst []byte, d dialect, id, result []byte, err *rpcError) []byte {
	switch d {
	case plain:
		dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	case one:
		dst = append(dst, `{"jsonrpc":"1.0","id":`...)
	case bitcoind:
		dst = append(dst, `{"id":`...)
	}
	dst = append(dst, id...)
	if err == nil {
		dst = append(append(dst, `,"result":`...), result...)
	} else if d != plain {
		dst = append(dst, `,"result":null`...)
	}
	if err != nil {
		dst = err.append(append(dst, `,"error":`...))
	} else if d != plain {
		dst = append(dst, `,"error":null`...)
	}
	return append(dst, '}')
}

// append writes the members in Zebra's order, which is alphabetical.
func (e *rpcError) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"code":`...), int64(e.code), 10)
	if e.data != "" {
		dst = appendJSONString(append(dst, `,"data":`...), e.data)
	}
	dst = appendJSONString(append(dst, `,"message":`...), e.message)
	return append(dst, '}')
}

// appendJSONString appends s as a JSON string, without escaping the characters of HTML.
func appendJSONString(dst []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
