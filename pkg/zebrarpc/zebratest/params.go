package zebratest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// params are the parameters of a call, read one by one in the order of the method's signature, as Zebra's generated code does.
// The first parameter that does not fit is the error of the call; its texts are those of Zebra's JSON parser.
type params struct {
	named      map[string]json.RawMessage // when the call has an object
	whole      json.RawMessage            // the object
	positional []json.RawMessage
	err        *rpcError
}

// invalidParams is what Zebra makes of the JSON-RPC library's -32602.
func invalidParams(data string) *rpcError {
	return &rpcError{Code: -1, Message: "Invalid params", Data: data}
}

func newParams(raw json.RawMessage) *params {
	p := &params{}
	if len(raw) == 0 {
		return p
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		p.err = invalidParams(err.Error())
		return p
	}
	raw = compact.Bytes()
	switch raw[0] {
	case '{':
		p.whole = raw
		p.named = make(map[string]json.RawMessage)
		_ = json.Unmarshal(raw, &p.named) // it was valid for Compact
	case '[':
		_ = json.Unmarshal(raw, &p.positional)
	default:
		p.err = invalidParams("Invalid params. Expected one of '[', ']' or ',' but found " + strconv.Quote(string(raw)))
	}
	return p
}

// next returns the next parameter, nil when it is absent. A name is the Rust argument's; camelCase is an alias.
func (p *params) next(name string) json.RawMessage {
	if p.named != nil {
		if v, ok := p.named[name]; ok {
			return v
		}
		return p.named[camel(name)]
	}
	if len(p.positional) == 0 {
		return nil
	}
	v := p.positional[0]
	p.positional = p.positional[1:]
	return v
}

// camel turns snake_case into camelCase.
func camel(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// text reads a string, which must be there.
func (p *params) text(name string) string {
	var s string
	if raw, ok := p.required(name); ok && (!isString(raw) || json.Unmarshal(raw, &s) != nil) {
		p.mismatch(raw, "a string")
	}
	return s
}

// integer reads an integer of the Rust type with these bounds, which must be there.
func (p *params) integer(name, rust string, low, high int64) int64 {
	raw, ok := p.required(name)
	if !ok {
		return 0
	}
	return p.bounded(raw, rust, low, high)
}

// verbosity reads an optional u8.
func (p *params) verbosity(name string, otherwise int64) int64 {
	if v, ok := p.optionalInteger(name, "u8", 0, math.MaxUint8); ok {
		return v
	}
	return otherwise
}

// optionalInteger reads an integer that may be left out, or null.
func (p *params) optionalInteger(name, rust string, low, high int64) (v int64, ok bool) {
	raw := p.next(name)
	if p.err != nil || raw == nil || string(raw) == "null" {
		return 0, false
	}
	return p.bounded(raw, rust, low, high), true
}

// flag reads an optional boolean.
func (p *params) flag(name string, otherwise bool) bool {
	raw := p.next(name)
	switch {
	case p.err != nil || raw == nil || string(raw) == "null":
		return otherwise
	case string(raw) == "true" || string(raw) == "false":
		return raw[0] == 't'
	}
	p.mismatch(raw, "a boolean")
	return otherwise
}

func (p *params) required(name string) (json.RawMessage, bool) {
	raw := p.next(name)
	if p.err != nil {
		return nil, false
	}
	if raw == nil {
		if p.named != nil {
			p.err = invalidParams(fmt.Sprintf("missing field `%s` at line 1 column %d", name, len(p.whole)))
		} else {
			p.err = invalidParams("No more params")
		}
	}
	return raw, raw != nil
}

func (p *params) bounded(raw json.RawMessage, rust string, low, high int64) int64 {
	if string(raw) == "-0" { // no integer to Zebra's JSON library
		raw = json.RawMessage("-0.0")
	}
	v, err := strconv.ParseInt(string(raw), 10, 64)
	if _, tooBig := strconv.ParseUint(string(raw), 10, 64); err != nil && tooBig != nil {
		p.mismatch(raw, rust)
	} else if err != nil || v < low || v > high {
		p.reject(raw, fmt.Sprintf("invalid value: integer `%s`, expected %s", raw, rust))
	}
	return v
}

// mismatch records that raw is not of the expected type.
func (p *params) mismatch(raw json.RawMessage, expected string) {
	var what string
	switch raw[0] {
	case '"':
		what = "string " + string(raw)
	case '[':
		what = "sequence"
	case '{':
		what = "map"
	case 't', 'f':
		what = "boolean `" + string(raw) + "`"
	case 'n':
		what = "null"
	default:
		what = "integer `" + string(raw) + "`"
		if strings.ContainsAny(string(raw), ".eE") {
			what = "floating point `" + string(raw) + "`"
		}
	}
	p.reject(raw, "invalid type: "+what+", expected "+expected)
}

// reject records the error. The column counts from the parameter's start; an array or object is not read to its end.
func (p *params) reject(raw json.RawMessage, why string) {
	column := len(raw)
	if raw[0] == '[' || raw[0] == '{' {
		column = 0
	}
	p.err = invalidParams(fmt.Sprintf("%s at line 1 column %d", why, column))
}

func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }
