package envelope

import (
	"encoding/json"
	"strings"
	"testing"
)

// Requests that only differ in what two JSON readers make of them. What they get is what a zebrad 7.0.0 was seen to answer.
func TestDecode(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for _, test := range []struct {
		body    string
		want    string // dialect, id, method, params, or the error
		inBatch string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`, `0 1 m [1]`, `3 1 m [1]`},
		{`{"jsonrpc":"2.0","method":"m"}`, `0  m `, `3  m `},
		{`{"jsonrpc":"1.0","id":1,"method":"m","params":[]}`, `1 1 m []`, `-32600 1`},
		{`{"id":"x","method":"m","params":{}}`, `2 "x" m {}`, `-32600 "x"`},
		{`{"id":1,"method":"m"}`, `-32600 1`, `-32600 1`},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}`, `0  m `, `3  m `},
		{`{"id":1,"id":2,"method":"m","params":[]}`, `-32700 null`, `-32600 null`},
		{`{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}`, `-32600 1`, `-32600 1`},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":[],"params":[]}`, `-32600 1`, `-32600 1`},
		{`{"jsonrpc":"2.0","id":1,"meth\u006fd":"\u006d"}`, `0 1 m `, `3 1 m `},
		{`{"jsonrpc":"2.0","id":1,"METHOD":"m"}`, `-32600 1`, `-32600 1`},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", `-32600 1`, `-32600 1`},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[\"\xff\"]}", `-32600 1`, `-32600 1`},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"x\":\"\xff\"}", `0 1 m `, `3 1 m `},
		{`{"jsonrpc":"2.0","id":"\ud800","method":"m"}`, `0  m `, `3  m `},
		{`{"jsonrpc":"2.0","id":"\ud83d\ude00\n","method":"m"}`, "0 \"\U0001F600\\n\" m ", "3 \"\U0001F600\\n\" m "},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":["\ud800",1e999,` + deep + `]}`, `0 1 m ["\ud800",1e999,` + deep + `]`, `3 1 m ["\ud800",1e999,` + deep + `]`},
		{`{"id":1,"method":"m","params":["\ud800"]}`, `-32600 1`, `-32600 1`},
		{`{"id":1,"method":"m","params":[1e999]}`, `-32600 1`, `-32600 1`},
		{`{"id":1,"method":"m","params":` + deep + `}`, `-32600 1`, `-32600 1`},
		{`{"id":1,"method":"m","params":["[{\"\\",-1.5e3]}`, `2 1 m ["[{\"\\",-1.5e3]`, `-32600 1`},
		{`{"jsonrpc":"2.0","id":1,"method":"m"} x`, `-32700 null`, `-32600 null`},
	} {
		for inBatch, want := range map[bool]string{false: test.want, true: test.inBatch} {
			decode := Decode
			if inBatch {
				decode = DecodeItem
			}
			r, err := decode([]byte(test.body))
			got := strings.Join([]string{string('0' + rune(r.Dialect)), string(r.ID), r.Method, string(r.Params)}, " ")
			if err != nil {
				got = strings.TrimSpace(string(err.append(nil, Plain)[len(`{"code":`):][:6]) + " " + string(r.ID))
			}
			if got != want {
				t.Errorf("in a batch %v: %.120s\n got %.200s\nwant %.200s", inBatch, test.body, got, want)
			}
		}
	}
}

// FuzzDecode: whatever is sent, the reply is JSON that repeats an id, and parameters pass as they are.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`))
	f.Add([]byte(`{"jsonrpc":"1.0","id":"\ud83d\ude00\u0001","method":"m","params":{"a":1e5}}`))
	f.Add([]byte(`[{"id":null,"method":"m","params":[]},5]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 4096 {
			return
		}
		check := func(r Request, err *Error) {
			if r.ID == nil {
				if err != nil {
					t.Fatal("a refusal without an id")
				}
				return
			}
			if r.Params != nil && !json.Valid(r.Params) {
				t.Fatalf("parameters %q", r.Params)
			}
			if err == nil {
				err = &Error{Code: -1, Message: r.Method, Data: r.Method}
			}
			reply := AppendReply(nil, r.Dialect, r.ID, nil, err)
			var members map[string]json.RawMessage
			if json.Unmarshal(reply, &members) != nil || members["error"] == nil || string(members["id"]) != string(r.ID) {
				t.Fatalf("reply %q", reply)
			}
		}
		check(Decode(body))
		if items, err := DecodeBatch(body); err == nil {
			for _, item := range items {
				check(DecodeItem(item))
			}
		}
	})
}
