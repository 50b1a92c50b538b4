package zebrarpc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/valyala/fastjson"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// maxDocument bounds what is given to the JSON parser, whose values take many times the space of their text. The longest document
// that this package asks for lists the txids of one block; raw blocks do not pass through the parser.
const maxDocument = 8 << 20

// errOtherRequest says that a reply is not to the request that was sent before it on its connection.
var errOtherRequest = errors.New("the reply answers another request")

// parseReply returns the result of a reply to request id, or its error. The value lives until p parses again.
func parseReply(p *fastjson.Parser, body []byte, id uint64) (*fastjson.Value, error) {
	if t := bytes.TrimSpace(body); len(t) == 0 || t[0] != '{' {
		return nil, fatal(hintPort, "the reply is not a JSON object but%s", quoted(body[:min(len(body), 256)]))
	}
	if len(body) > maxDocument {
		return nil, fatal(hintReply, "the reply has %d bytes, more than the limit of %d for a JSON document", len(body), maxDocument)
	}
	v, err := p.ParseBytes(body)
	if err != nil {
		return nil, fatal(hintReply, "the reply is not valid JSON: %w", err)
	}
	if version, err := stringOf(v, "jsonrpc"); err != nil || version != "2.0" {
		return nil, fatal(hintReply, "the reply is not JSON-RPC 2.0")
	}
	failure := v.Get("error")
	failed := failure != nil && failure.Type() != fastjson.TypeNull
	if got := v.Get("id"); got == nil || !(failed && got.Type() == fastjson.TypeNull) {
		if n, err := unsigned(v, "id", 1<<64-1); err != nil || n != id {
			return nil, fatal(hintReply, "%w: its id is %s, not %d", errOtherRequest, text(got), id)
		}
	}
	if failed {
		return nil, failureOf(failure)
	}
	result := v.Get("result")
	if result == nil {
		return nil, fatal(hintReply, "the reply has neither result nor error")
	}
	return result, nil
}

// failureOf reads a JSON-RPC error object.
func failureOf(v *fastjson.Value) error {
	number := v.Get("code")
	if number == nil {
		return fatal(hintReply, "the reply's error is %s, without a code", text(v))
	}
	code, err := number.Int()
	if err != nil {
		return fatal(hintReply, "the code of the reply's error is %s, not an integer", text(number))
	}
	message := string(v.GetStringBytes("message"))
	if data := v.GetStringBytes("data"); len(data) > 0 {
		message += ": " + string(data)
	}
	return rpcError(code, message)
}

// rawResult returns the bytes whose hex is the result of a getblock reply. They lie in body, which they overwrite.
// Hex can take megabytes: only what surrounds it is parsed as JSON.
func rawResult(p *fastjson.Parser, body []byte, id uint64) ([]byte, error) {
	const key = `"result":"`
	start := bytes.Index(body[:min(len(body), 128)], []byte(key))
	if start >= 0 {
		start += len(key)
	}
	length := bytes.IndexByte(body[max(start, 0):], '"')
	if start < 0 || length < 0 { // an error, or another order or spacing of the members
		v, err := parseReply(p, body, id)
		if err != nil {
			return nil, err
		}
		digits, err := v.StringBytes()
		if err != nil {
			return nil, fatal(hintReply, "the result is %s, not a string of hex digits", text(v))
		}
		return unhex(append(body[:0], digits...))
	}
	var space [128]byte
	envelope := append(append(space[:0], body[:start]...), body[start+length:]...)
	if _, err := parseReply(p, envelope, id); err != nil {
		return nil, err
	}
	return unhex(body[start : start+length])
}

// unhex decodes hex digits in place: encoding/hex has read two digits before it writes their byte, which TestUnhex holds it to.
func unhex(b []byte) ([]byte, error) {
	n, err := hex.Decode(b, b)
	if err != nil {
		return nil, fatal(hintReply, "the result is not a string of hex digits: %w", err)
	}
	return b[:n], nil
}

// text shows a JSON value in an error.
func text(v *fastjson.Value) string {
	if v == nil {
		return "missing"
	}
	const most = 80
	s := v.MarshalTo(nil)
	if len(s) > most {
		return string(s[:most]) + "…"
	}
	return string(s)
}

// member returns a member of an object, or an error that names it.
func member(v *fastjson.Value, key string) (*fastjson.Value, error) {
	if v.Type() != fastjson.TypeObject {
		return nil, fmt.Errorf("%s is missing: its parent is %s, not an object", key, text(v))
	}
	m := v.Get(key)
	if m == nil {
		return nil, fmt.Errorf("%s is missing", key)
	}
	return m, nil
}

// unsigned returns an integer member between 0 and most.
func unsigned(v *fastjson.Value, key string, most uint64) (uint64, error) {
	m, err := member(v, key)
	if err != nil {
		return 0, err
	}
	n, err := m.Uint64()
	if err != nil || n > most {
		return 0, fmt.Errorf("%s is %s, not an integer between 0 and %d", key, text(m), most)
	}
	return n, nil
}

// stringOf returns a copy of a string member.
func stringOf(v *fastjson.Value, key string) (string, error) {
	m, err := member(v, key)
	if err != nil {
		return "", err
	}
	s, err := m.StringBytes()
	if err != nil {
		return "", fmt.Errorf("%s is %s, not a string", key, text(m))
	}
	return string(s), nil
}

func heightOf(v *fastjson.Value, key string) (chain.Height, error) {
	n, err := unsigned(v, key, uint64(chain.MaxHeight))
	return chain.Height(n), err
}

// hashOf returns a hash member in display order.
func hashOf(v *fastjson.Value, key string) (chain.Hash, error) {
	s, err := stringOf(v, key)
	if err != nil {
		return chain.Hash{}, err
	}
	h, err := chain.ParseHash(s)
	if err != nil {
		return chain.Hash{}, fmt.Errorf("%s: %w", key, err)
	}
	return h, nil
}

// rawHashOf returns a hash member that Zebra writes as 32 integers in internal order (getbestblockheightandhash); the display hex of
// other methods is understood too.
func rawHashOf(v *fastjson.Value, key string) (chain.Hash, error) {
	m, err := member(v, key)
	if err != nil {
		return chain.Hash{}, err
	}
	if m.Type() == fastjson.TypeString {
		return hashOf(v, key)
	}
	var h chain.Hash
	numbers, err := m.Array()
	if err != nil || len(numbers) != len(h) {
		return h, fmt.Errorf("%s is %s, not 32 bytes", key, text(m))
	}
	for i, b := range numbers {
		n, err := b.Uint()
		if err != nil || n > 255 {
			return h, fmt.Errorf("%s[%d] is %s, not a byte", key, i, text(b))
		}
		h[i] = byte(n)
	}
	return h, nil
}

// treeSizesOf reads getblock's "trees": a pool whose tree is empty is left out.
func treeSizesOf(v *fastjson.Value) (s chain.TreeSizes, err error) {
	trees, err := member(v, "trees")
	if err != nil {
		return s, err
	}
	if trees.Type() != fastjson.TypeObject {
		return s, fmt.Errorf("trees is %s, not an object", text(trees))
	}
	for pool, size := range map[chain.Pool]*uint32{chain.Sapling: &s.Sapling, chain.Orchard: &s.Orchard, chain.Ironwood: &s.Ironwood} {
		tree := trees.Get(pool.String())
		if tree == nil {
			continue
		}
		n, err := unsigned(tree, "size", 1<<32-1)
		if err != nil {
			return s, fmt.Errorf("trees.%s: %w", pool, err)
		}
		*size = uint32(n)
	}
	return s, nil
}
