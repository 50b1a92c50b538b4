package envelope

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Error is the error member of a reply.
type Error struct {
	Code    int
	Message string
	Data    string // left out when empty
}

func (e *Error) Error() string {
	if e.Data != "" {
		return fmt.Sprintf("code %d: %s: %s", e.Code, e.Message, e.Data)
	}
	return fmt.Sprintf("code %d: %s", e.Code, e.Message)
}

// append writes the members. Zebra has them in the order of the alphabet, but in batches in the order of its JSON-RPC library.
func (e *Error) append(dst []byte, d Dialect) []byte {
	dst = strconv.AppendInt(append(dst, `{"code":`...), int64(e.Code), 10)
	data := func() {
		if e.Data != "" {
			dst = AppendString(append(dst, `,"data":`...), e.Data)
		}
	}
	if d != InBatch {
		data()
	}
	dst = AppendString(append(dst, `,"message":`...), e.Message)
	if d == InBatch {
		data()
	}
	return append(dst, '}')
}

// AppendError appends an error object of Zebra's, which was answered outside of a batch.
func AppendError(dst []byte, d Dialect, object []byte) []byte {
	var members map[string]json.RawMessage
	if d != InBatch || json.Unmarshal(object, &members) != nil {
		return append(dst, object...)
	}
	code, message, data := members["code"], members["message"], members["data"]
	if code == nil || message == nil || data == nil || len(members) > 3 {
		return append(dst, object...)
	}
	dst = append(append(dst, `{"code":`...), code...)
	dst = append(append(dst, `,"message":`...), message...)
	dst = append(append(dst, `,"data":`...), data...)
	return append(dst, '}')
}

// AppendReply appends the reply to a request: the result, which is JSON, or the error when there is one.
func AppendReply(dst []byte, d Dialect, id, result []byte, err *Error) []byte {
	dst = AppendHead(dst, d, id, err != nil)
	if err != nil {
		dst = err.append(dst, d)
	} else {
		dst = append(dst, result...)
	}
	return AppendTail(dst, d, err != nil)
}

// AppendHead appends what comes before the result, or before the error when the call has failed.
func AppendHead(dst []byte, d Dialect, id []byte, failed bool) []byte {
	switch d {
	case Plain, InBatch:
		dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	case One:
		dst = append(dst, `{"jsonrpc":"1.0","id":`...)
	case Bitcoind:
		dst = append(dst, `{"id":`...)
	}
	dst = append(dst, id...)
	if !failed {
		return append(dst, `,"result":`...)
	}
	if d.old() {
		dst = append(dst, `,"result":null`...)
	}
	return append(dst, `,"error":`...)
}

// old tells whether replies have both a result and an error.
func (d Dialect) old() bool { return d == One || d == Bitcoind }

// AppendTail appends what comes after the result or the error.
func AppendTail(dst []byte, d Dialect, failed bool) []byte {
	if d.old() && !failed {
		dst = append(dst, `,"error":null`...)
	}
	return append(dst, '}')
}

// AppendString appends s as a JSON string with only those characters escaped that have to be, as Zebra's JSON library writes it.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r >= '\b' && r <= '\r' && r != '\v':
			dst = append(dst, '\\', "btn_fr"[r-'\b'])
		case r < ' ':
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
