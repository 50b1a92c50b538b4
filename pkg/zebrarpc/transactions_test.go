package zebrarpc

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fastjson"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// anyID is 01…00 in internal order, so 00…01 in Zebra's words.
var anyID = chain.TxID{1}

const anyIDText = "0000000000000000000000000000000000000000000000000000000000000001"

// smallest is a transaction of version 1 with nothing in it, and its id.
const smallest = "01000000000000000000"

func smallestID(t *testing.T) chain.TxID {
	t.Helper()
	raw, err := hex.DecodeString(smallest)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := chain.NewEncoder(chain.EncoderOptions{}).Transaction(raw)
	if err != nil {
		t.Fatal(err)
	}
	return tx.ID
}

func TestTransaction(t *testing.T) {
	t.Parallel()
	id := smallestID(t)
	raw, _ := hex.DecodeString(smallest)
	future := "09000080abcdef01" // version 9 of some group
	const tail = `,"confirmations":3,"vin":[{"txid":"x","scriptSig":{"asm":"","hex":"00"}}],"vout":[]`
	for _, test := range []struct {
		name   string
		result string
		want   chain.LocatedTransaction
		text   string
	}{
		{"mined", `{"in_active_chain":true,"hex":"` + smallest + `","height":5` + tail + `}`, chain.LocatedTransaction{Raw: raw, Place: chain.Mined, Height: 5}, ""},
		{"in genesis", `{"in_active_chain":true,"hex":"` + smallest + `","height":0}`, chain.LocatedTransaction{Raw: raw, Place: chain.Mined}, ""},
		{"at the largest height", `{"in_active_chain":true,"hex":"` + smallest + `","height":2147483647}`,
			chain.LocatedTransaction{Raw: raw, Place: chain.Mined, Height: chain.MaxHeight}, ""},
		{"in the mempool", `{"in_active_chain":false,"hex":"` + smallest + `","vin":[{"hex":"00"}]}`, chain.LocatedTransaction{Raw: raw, Place: chain.InMempool}, ""},
		{"in the mempool, nothing more", `{"in_active_chain":false,"hex":"` + smallest + `"}`, chain.LocatedTransaction{Raw: raw, Place: chain.InMempool}, ""},
		{"on a side chain", `{"in_active_chain":false,"hex":"` + smallest + `","height":-1,"confirmations":0}`,
			chain.LocatedTransaction{Raw: raw, Place: chain.OnSideChain}, ""},
		// In the middle of a reorg Zebra's members may disagree: what left the chain is not mined.
		{"on a side chain, with a height", `{"in_active_chain":false,"hex":"` + smallest + `","height":5}`,
			chain.LocatedTransaction{Raw: raw, Place: chain.OnSideChain}, ""},
		{"on a side chain, active", `{"in_active_chain":true,"hex":"` + smallest + `","height":-1}`, chain.LocatedTransaction{Raw: raw, Place: chain.OnSideChain}, ""},
		{"other order", `{"height":5` + tail + `,"hex":"` + smallest + `","in_active_chain":true}`,
			chain.LocatedTransaction{Raw: raw, Place: chain.Mined, Height: 5}, ""},
		{"other spacing", `{ "in_active_chain": false, "hex": "` + smallest + `" }`, chain.LocatedTransaction{Raw: raw, Place: chain.InMempool}, ""},

		{"of a version to come", `{"in_active_chain":true,"hex":"` + future + `","height":5}`,
			chain.LocatedTransaction{Raw: []byte("\x09\x00\x00\x80\xab\xcd\xef\x01"), Place: chain.Mined, Height: 5}, ""},

		{"another transaction", `{"in_active_chain":true,"hex":"01000000000001000000","height":5}`, chain.LocatedTransaction{},
			"it is transaction 257cbd7bcf77cfa018eb2dc069f7a878a8ed66b256c36089fc4edeb5b6f9d176"},
		{"no transaction", `{"in_active_chain":true,"hex":"00","height":5}`, chain.LocatedTransaction{},
			"transaction version at byte 0: 4 bytes needed, 1 left"},
		{"no height", `{"in_active_chain":true,"hex":"` + smallest + `"}`, chain.LocatedTransaction{}, "height is missing, and the transaction is mined"},
		{"empty", `{"in_active_chain":true,"hex":"","height":5}`, chain.LocatedTransaction{}, "hex is empty"},
		{"odd hex", `{"in_active_chain":true,"hex":"abc","height":5}`, chain.LocatedTransaction{}, "hex: encoding/hex: odd length hex string"},
		{"no hex digits", `{"in_active_chain":true,"hex":"xx","height":5}`, chain.LocatedTransaction{}, "hex: encoding/hex: invalid byte: U+0078 'x'"},
		{"hex a number", `{"in_active_chain":true,"hex":5,"height":5}`, chain.LocatedTransaction{}, "hex is 5, not a string"},
		{"hex missing", `{"in_active_chain":true,"height":5}`, chain.LocatedTransaction{}, "hex is missing"},
		{"in_active_chain a string", `{"in_active_chain":"true","hex":"` + smallest + `"}`, chain.LocatedTransaction{}, `in_active_chain is "true", not a boolean`},
		{"in_active_chain missing", `{"hex":"` + smallest + `"}`, chain.LocatedTransaction{}, "in_active_chain is missing"},
		{"height a string", `{"in_active_chain":true,"hex":"` + smallest + `","height":"5"}`, chain.LocatedTransaction{}, `height is "5", not an integer`},
		{"height a fraction", `{"in_active_chain":true,"hex":"` + smallest + `","height":5.5}`, chain.LocatedTransaction{}, "height is 5.5, not an integer"},
		{"height too large", `{"in_active_chain":true,"hex":"` + smallest + `","height":2147483648}`, chain.LocatedTransaction{},
			"height is 2147483648, more than 2147483647"},
		{"a string", `"abcd"`, chain.LocatedTransaction{}, `hex is missing: its parent is "abcd", not an object`},
		{"null", `null`, chain.LocatedTransaction{}, "hex is missing: its parent is null, not an object"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
				if q.method != "getrawtransaction" || q.params != `["`+id.String()+`",1]` {
					return nil, fmt.Errorf("asked %s %s", q.method, q.params)
				}
				return q.result(test.result)
			})
			got, err := c.Transaction(t.Context(), id)
			if test.text != "" {
				wantError(t, err, Fatal, "getrawtransaction txid "+id.String()+" from "+fakeURL+": the reply is wrong: "+test.text+"; "+hintReply, nil)
				return
			}
			if err != nil || !bytes.Equal(got.Raw, test.want.Raw) || got.Place != test.want.Place || got.Height != test.want.Height {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

// Only Zebra's own words for a missing transaction mean that it is missing.
func TestTransactionNotFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code    int
		message string
		class   ErrorClass
		is      error
	}{
		{-5, "Transaction not found in mempool or best chain", Answerable, chain.ErrNotFound},
		{-5, "transaction not found", Answerable, chain.ErrNotFound},
		{-5, "Invalid string length", Answerable, nil},
		{-5, "block not found", Answerable, nil},
		{-1, "Transaction not found in mempool or best chain", Answerable, nil},
		{-8, "Transaction not found in mempool or best chain", Answerable, nil},
		{-28, "Transaction not found in mempool or best chain", Passing, chain.ErrUnavailable},
		{-32008, "Response is too big", Fatal, nil},
	} {
		c := fakeClient(t, Options{}, func(q question) (*http.Response, error) { return q.failure(test.code, test.message) })
		ask := map[string]func() error{
			"Transaction":    func() error { _, err := c.Transaction(t.Context(), anyID); return err },
			"RawTransaction": func() error { _, err := c.RawTransaction(t.Context(), anyID); return err },
		}
		for name, ask := range ask {
			var e *Error
			if err := ask(); !errors.As(err, &e) || e.Class != test.class || e.Code != test.code || e.Message != test.message ||
				test.is != nil && !errors.Is(err, test.is) || test.is == nil && errors.Is(err, chain.ErrNotFound) {
				t.Errorf("%s: %d %q: got %v", name, test.code, test.message, err)
			}
		}
	}
}

func TestMempoolIDs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		result string
		want   []chain.TxID
		text   string
	}{
		{`[]`, nil, ""},
		{`["` + anyIDText + `"]`, []chain.TxID{anyID}, ""},
		{`{}`, nil, "the result is {}, not an array"},
		{`null`, nil, "the result is null, not an array"},
		{`["` + anyIDText + `",5]`, nil, "entry 1 is 5, not a string"},
		{`["` + anyIDText[1:] + `"]`, nil, `entry 0: txid "` + anyIDText[1:] + `": has 63 characters, not 64`},
		{`["` + anyIDText[1:] + `x"]`, nil, `entry 0: txid "` + anyIDText[1:] + `x": encoding/hex: invalid byte: U+0078 'x'`},
	} {
		c := fakeClient(t, Options{}, func(q question) (*http.Response, error) { return q.result(test.result) })
		got, err := c.MempoolIDs(t.Context())
		if test.text != "" {
			wantError(t, err, Fatal, "getrawmempool from "+fakeURL+": the reply is wrong: "+test.text+"; "+hintReply, nil)
		} else if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, %v", test.result, got, err)
		}
	}
}

// What Zebra says to a transaction is the result, whatever it says; an error is only what is no answer.
func TestSendTransaction(t *testing.T) {
	t.Parallel()
	rpc := func(code int, message string) transport {
		return func(q question) (*http.Response, error) { return q.failure(code, message) }
	}
	result := func(r string) transport { return func(q question) (*http.Response, error) { return q.result(r) } }
	fail := func(err error) transport { return func(question) (*http.Response, error) { return nil, err } }
	hungUp := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	for _, test := range []struct {
		name  string
		node  transport
		want  chain.SendResult
		class ErrorClass // 0: no error
	}{
		{"accepted", result(`"` + anyIDText + `"`), chain.SendResult{ID: anyID}, 0},
		{"already there", rpc(-1, "transaction already exists in mempool"), chain.SendResult{Code: -1, Message: "transaction already exists in mempool"}, 0},
		{"queued", rpc(-1, "transaction dropped because it is already queued for download"),
			chain.SendResult{Code: -1, Message: "transaction dropped because it is already queued for download"}, 0},
		{"garbage", rpc(-22, "io error: failed to fill whole buffer"), chain.SendResult{Code: -22, Message: "io error: failed to fill whole buffer"}, 0},
		{"invalid", rpc(-25, `failed to validate tx: WtxId("private")`), chain.SendResult{Code: -25, Message: `failed to validate tx: WtxId("private")`}, 0},
		{"mempool off", rpc(-1, "mempool is disabled since synchronization is behind the chain tip"),
			chain.SendResult{Code: -1, Message: "mempool is disabled since synchronization is behind the chain tip"}, 0},
		{"warming up", rpc(-28, "loading"), chain.SendResult{}, Passing},
		{"not our question", rpc(-1, "Invalid params"), chain.SendResult{}, Fatal},
		{"unknown method", rpc(-32601, "Method not found"), chain.SendResult{}, Fatal},
		{"a short txid", result(`"` + anyIDText[1:] + `"`), chain.SendResult{}, Fatal},
		{"a number", result(`5`), chain.SendResult{}, Fatal},
		{"refused", fail(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}), chain.SendResult{}, Passing},
		{"reset", fail(hungUp), chain.SendResult{}, Passing},
		{"429", func(question) (*http.Response, error) { return page(429, "Too many connections"), nil }, chain.SendResult{}, Passing},
		{"503", func(question) (*http.Response, error) { return page(503, "<html>"), nil }, chain.SendResult{}, Passing},
		{"HTML", func(question) (*http.Response, error) { return page(200, "<html>"), nil }, chain.SendResult{}, Fatal},
		{"empty", func(question) (*http.Response, error) { return page(200, ""), nil }, chain.SendResult{}, Passing},
		{"hung", func(q question) (*http.Response, error) { <-q.ctx.Done(); return nil, q.ctx.Err() }, chain.SendResult{}, Passing},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sends atomic.Int32
				c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
					if q.method == "getbestblockheightandhash" {
						return q.failure(-1, "no matter")
					}
					sends.Add(1)
					if q.method != "sendrawtransaction" || q.params != `["0102ff"]` {
						t.Errorf("asked %s %s", q.method, q.params)
					}
					return test.node(q)
				})
				begin := time.Now()
				got, err := c.SendTransaction(t.Context(), []byte{1, 2, 0xff})
				var e *Error
				switch {
				case test.class == 0 && (err != nil || got != test.want):
					t.Errorf("got %+v, %v", got, err)
				case test.class != 0 && (!errors.As(err, &e) || e.Class != test.class || got != chain.SendResult{}):
					t.Errorf("got %+v, %v", got, err)
				}
				if sends.Load() != 1 {
					t.Errorf("sent %d times", sends.Load())
				}
				if took := time.Since(begin); test.name == "hung" && took != sendLimit || test.name != "hung" && took != 0 {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// A connection that dies under a transaction is not repeated, also when it had served before; other questions are.
func TestSendOnDeadConnection(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var sends, others atomic.Int32
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		if strings.Contains(b.String(), "sendrawtransaction") {
			sends.Add(1)
			panic(http.ErrAbortHandler)
		}
		if others.Add(1) == 2 { // the kept connection
			panic(http.ErrAbortHandler)
		}
		id := b.String()[len(`{"jsonrpc":"2.0","id":`):]
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"height":1,"hash":"%s"}}`, id[:strings.Index(id, ",")], anyIDText)
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(lis) }()
	t.Cleanup(func() { server.Close(); <-done })
	c, err := New(Options{URL: "http://" + lis.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for range 2 {
		if _, err := c.BestBlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if others.Load() != 3 {
		t.Fatalf("%d questions came, want the second one twice", others.Load())
	}
	if _, err := c.SendTransaction(t.Context(), []byte{1}); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if sends.Load() != 1 {
		t.Errorf("the transaction came %d times", sends.Load())
	}
}

// What we understand is accepted under its own id, or not at all; what we do not is taken at Zebra's word.
func TestSentUnderAnotherID(t *testing.T) {
	t.Parallel()
	known := chaintest.Tx{Version: 5, BranchID: chaintest.NU7, Inputs: 1, Outputs: 2, Seed: 7}.Append(nil)
	parsed, err := chain.NewEncoder(chain.EncoderOptions{}).Transaction(known)
	if err != nil {
		t.Fatal(err)
	}
	newer := append([]byte{9}, known[1:]...)
	for _, test := range []struct {
		name  string
		raw   []byte
		named chain.TxID
		ok    bool
	}{
		{"its own", known, parsed.ID, true},
		{"another", known, anyID, false},
		{"of a version to come", newer, anyID, true},
		{"of no transaction", known[:40], anyID, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			c := fakeClient(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(q question) (*http.Response, error) {
				if q.method == "getbestblockheightandhash" {
					return q.failure(-1, "no matter")
				}
				return q.result(`"` + test.named.String() + `"`)
			})
			got, err := c.SendTransaction(t.Context(), test.raw)
			var e *Error
			switch {
			case test.ok && (err != nil || got != chain.SendResult{ID: test.named} || log.Len() > 0):
				t.Errorf("%+v, %v, logged %s", got, err, &log)
			case !test.ok && (!errors.As(err, &e) || e.Class != Fatal || !strings.Contains(log.String(), "the id of another one")):
				t.Errorf("%+v, %v, logged %q", got, err, &log)
			}
		})
	}
}

// A node that has restarted with a new cookie takes a transaction at the first try when another question came before.
func TestSendWithNewCookie(t *testing.T) {
	t.Parallel()
	n := zebratest.NewNode(newChain(t, 3, zebratest.Small), zebratest.NodeOptions{CookieDir: t.TempDir()})
	if err := os.WriteFile(n.CookieFile(), []byte("__cookie__:old"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := nodeClient(t, Options{Auth: Auth{CookieFile: n.CookieFile()}}, n)
	raw := chaintest.Tx{Version: 6, Ironwood: 1, Seed: 1}.Append(nil)
	for i := range 3 {
		got, err := c.SendTransaction(t.Context(), raw)
		if err != nil || (got.Code == 0) != (i == 0) {
			t.Fatalf("time %d: %+v, %v", i, got, err)
		}
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.BestBlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n.Requests("sendrawtransaction") != 3 {
		t.Errorf("%d sends", n.Requests("sendrawtransaction"))
	}
}

// Sends and the mempool on the simulated node, to the end of a transaction's life on a side chain.
func TestTransactionLife(t *testing.T) {
	t.Parallel()
	n := zebratest.NewNode(newChain(t, 3, zebratest.Small), zebratest.NodeOptions{})
	c := nodeClient(t, Options{}, n)
	raw := chaintest.Tx{Version: 6, Ironwood: 2, Inputs: 1, Outputs: 1, Seed: 5}.Append(nil)
	want := func(place chain.Place, h chain.Height, id chain.TxID) {
		t.Helper()
		got, err := c.Transaction(t.Context(), id)
		if err != nil || !bytes.Equal(got.Raw, raw) || got.Place != place || got.Height != h {
			t.Errorf("got %d bytes, place %d, height %d, %v", len(got.Raw), got.Place, got.Height, err)
		}
		if alone, err := c.RawTransaction(t.Context(), id); err != nil || !bytes.Equal(alone, raw) {
			t.Errorf("verbosity 0: %x, %v", alone, err)
		}
	}
	result, err := c.SendTransaction(t.Context(), raw)
	if err != nil || result.Code != 0 {
		t.Fatal(result, err)
	}
	want(chain.InMempool, 0, result.ID)
	if ids, err := c.MempoolIDs(t.Context()); err != nil || !slices.Equal(ids, []chain.TxID{result.ID}) {
		t.Error(ids, err)
	}
	if err := n.MineMempool(); err != nil {
		t.Fatal(err)
	}
	want(chain.Mined, 4, result.ID)
	if ids, err := c.MempoolIDs(t.Context()); err != nil || len(ids) != 0 {
		t.Error(ids, err)
	}
	if err := n.Chain().Reorg(1, 2, zebratest.Small); err != nil {
		t.Fatal(err)
	}
	want(chain.OnSideChain, 0, result.ID)
	if _, err := c.Transaction(t.Context(), anyID); !errors.Is(err, chain.ErrNotFound) {
		t.Error(err)
	}
	if _, err := c.RawTransaction(context.WithoutCancel(t.Context()), anyID); !errors.Is(err, chain.ErrNotFound) {
		t.Error(err)
	}
}

// The largest transactions make replies far beyond what is given to the JSON parser.
func TestLongReply(t *testing.T) {
	t.Parallel()
	digits := hex.EncodeToString(make([]byte, 2_000_000))
	c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
		return q.result(`{"in_active_chain":true,"hex":"` + digits + `","height":5,"vin":["` + strings.Repeat("x", 2*maxDocument) + `"]}`)
	})
	got, err := c.Transaction(t.Context(), anyID)
	if err != nil || len(got.Raw) != 2_000_000 || got.Height != 5 {
		t.Errorf("%d bytes at %d, %v", len(got.Raw), got.Height, err)
	}
}

// Whatever is read without parsing the whole reply is what parsing it would have given.
func FuzzLocatedResult(f *testing.F) {
	for _, result := range []string{
		`{"in_active_chain":true,"hex":"abcd","height":5,"confirmations":1}`, `{"in_active_chain":false,"hex":"abcd","vin":[{"hex":"00"}]}`,
		`{"in_active_chain":false,"hex":"abcd","height":-1}`, `{"in_active_chain":true,"hex":"ab","height":5e3}`, `{"in_active_chain":true,"hex":""}`,
	} {
		f.Add([]byte(`{"jsonrpc":"2.0","id":7,"result":` + result + `}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<16 {
			return
		}
		tx, found, err := firstMembers(body, 7)
		if !found || !json.Valid(body) || bytes.Contains(body, []byte{'\\'}) {
			return // to be parsed, or its tail is wrong, which nobody looks at
		}
		for _, name := range []string{"in_active_chain", "hex", "height"} { // twice, or elsewhere than Zebra writes it
			if n := bytes.Count(body, []byte(`"`+name+`"`)); n > 1 || n > 0 && name == "height" && !bytes.Contains(body, []byte(`","height":`)) {
				return
			}
		}
		v, parseErr := parseReply(new(fastjson.Parser), body, 7)
		if parseErr != nil {
			return // an error beside the result
		}
		want, wantErr := allMembers(v)
		if (err == nil) != (wantErr == nil) || err == nil && (!bytes.Equal(tx.Raw, want.Raw) || tx.Place != want.Place || tx.Height != want.Height) {
			t.Errorf("got %+v, %v, want %+v, %v", tx, err, want, wantErr)
		}
	})
}
