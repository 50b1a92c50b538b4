package zebratest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// faulty returns a running node with ten blocks, the last five of which have notes.
func faulty(t *testing.T) (*Node, endpoint) {
	t.Helper()
	c := newChain(t, 5, Small)
	if err := c.Extend(5, Mixed); err != nil {
		t.Fatal(err)
	}
	n := NewNode(c, NodeOptions{})
	start(t, n)
	return n, endpoint{url: n.URL()}
}

// TestReplyFaults are the faults that the client sees in a whole HTTP reply.
func TestReplyFaults(t *testing.T) {
	t.Parallel()
	healthy := `{"jsonrpc":"2.0","id":1,"result":10}`
	for name, test := range map[string]struct {
		fault  Fault
		status int
		body   string
	}{
		"error":       {Fault{Error: &Error{-1, "No blocks in state"}}, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"No blocks in state"}}`},
		"wrong type":  {Fault{Result: `{"a":[]}`}, 200, `{"jsonrpc":"2.0","id":1,"result":{"a":[]}}`},
		"wrong id":    {Fault{WrongID: true}, 200, `{"jsonrpc":"2.0","id":"not 1","result":10}`},
		"bad gateway": {Fault{Status: http.StatusBadGateway}, 502, Page},
		"throttled":   {Fault{Status: http.StatusTooManyRequests}, 429, Page},
		"empty":       {Fault{Body: Empty}, 200, ""},
		"late":        {Fault{Delay: time.Millisecond}, 200, healthy},
		"no change":   {Fault{}, 200, healthy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, e := faulty(t)
			test.fault.Method, test.fault.Times = "getblockcount", 1
			n.Fault(test.fault)
			if a := e.ask(t, call("getbestblockhash", "")); a.status != 200 || strings.Contains(string(a.body), "error") {
				t.Errorf("another method: %d %s", a.status, a.body)
			}
			if a := e.ask(t, call("getblockcount", "")); a.status != test.status || string(a.body) != test.body {
				t.Errorf("status %d body %s, want %d %s", a.status, a.body, test.status, test.body)
			}
			if a := e.ask(t, call("getblockcount", "")); string(a.body) != healthy {
				t.Errorf("after its one time: %s", a.body)
			}
		})
	}
}

func TestDrop(t *testing.T) {
	t.Parallel()
	n, e := faulty(t)
	n.Fault(Fault{Drop: true, Times: 2})
	for range 2 {
		if a := e.ask(t, call("getinfo", "")); !a.closed {
			t.Errorf("not dropped: %+v", a)
		}
	}
	if a := e.ask(t, call("getinfo", "")); a.closed {
		t.Error("dropped a third time")
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	n, e := faulty(t)
	n.Fault(Fault{Delay: 30 * time.Millisecond, Times: 1})
	began := time.Now()
	e.ask(t, call("getblockcount", ""))
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("answered after %v", took)
	}
}

// A hanging or slow request ends when the client leaves, and when the node is stopped.
func TestHang(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]Fault{"hang": {Hang: true}, "delay": {Delay: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, e := faulty(t)
			n.Fault(fault)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, strings.NewReader(call("getblockcount", "").body))
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := http.DefaultClient.Do(req); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, %v", resp, err)
			}
			stopped := make(chan answer)
			go func() { stopped <- e.ask(t, call("getblockcount", "")) }()
			for n.Requests("getblockcount") < 2 {
				time.Sleep(time.Millisecond)
			}
			if err := n.Stop(); err != nil {
				t.Fatal(err)
			}
			if a := <-stopped; !a.closed {
				t.Errorf("stopped, and yet: %+v", a)
			}
		})
	}
}

func TestCutOff(t *testing.T) {
	t.Parallel()
	for name, params := range map[string]string{"short": `["99"]`, "long": `["10",0]`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, e := faulty(t)
			whole := len(e.ask(t, call("getblock", params)).body)
			n.Fault(Fault{CutOff: true})
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(e.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url, strings.NewReader(call("getblock", params).body))
			if err != nil {
				t.Fatal(err)
			}
			if err := req.Write(conn); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if int(resp.ContentLength) != whole || len(got) != whole/2 || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("announced %d, got %d and %v; want %d, %d and an unexpected end", resp.ContentLength, len(got), err, whole, whole/2)
			}
		})
	}
}

// result reads a result that must be there.
func result[T any](t *testing.T, e endpoint, method, params string) T {
	t.Helper()
	var v T
	a := e.ask(t, call(method, params))
	if err := json.Unmarshal(a.body, &struct{ Result *T }{&v}); err != nil {
		t.Fatalf("%s %s answered %s: %v", method, params, a.body, err)
	}
	return v
}

func TestRawFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil  func([]byte) []byte
		offset int // of the byte that differs; negative: from the end
	}{
		"header": {FlipHeaderByte, 108},
		"link":   {FlipPrevHash, 4},
		"merkle": {FlipMerkleRoot, 36},
		"last":   {FlipLastByte, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, e := faulty(t)
			n.Fault(Fault{Method: "getblock", Where: AtHeight(7), Raw: test.spoil})
			for _, h := range []string{`["6",0]`, `["8",0]`} {
				raw := fromHex(t, result[string](t, e, "getblock", h))
				if _, err := n.Chain().HeightOf(chaintest.BlockHash(raw)); err != nil {
					t.Errorf("block %s is spoiled too: %v", h, err)
				}
			}
			want := rawBlock(t, n.Chain(), 7)
			got := fromHex(t, result[string](t, e, "getblock", `["7",0]`))
			at := (test.offset + len(want)) % len(want)
			if len(got) != len(want) || got[at] == want[at] {
				t.Fatalf("%d bytes of %d, byte %d unchanged", len(got), len(want), at)
			}
			got[at] = want[at]
			if string(got) != string(want) {
				t.Errorf("more than byte %d changed", at)
			}
			if string(rawBlock(t, n.Chain(), 7)) != string(want) {
				t.Error("the chain itself changed")
			}
		})
	}
}

func TestSizesFault(t *testing.T) {
	t.Parallel()
	n, e := faulty(t)
	type verbose struct{ Trees map[string]treeSize }
	before := result[verbose](t, e, "getblock", `["10"]`)
	n.Fault(Fault{Sizes: func(s chain.TreeSizes) chain.TreeSizes { s.Orchard++; return s }})
	after := result[verbose](t, e, "getblock", `["10"]`)
	for pool, size := range before.Trees {
		want := size.Size
		if pool == "orchard" {
			want++
		}
		if got := after.Trees[pool].Size; got != want || size.Size == 0 {
			t.Errorf("%s: %d, was %d, want %d", pool, got, size.Size, want)
		}
	}
	if len(before.Trees) != 3 {
		t.Errorf("%d trees, want 3", len(before.Trees))
	}
}

func TestFaultMatching(t *testing.T) {
	t.Parallel()
	n, _ := faulty(t)
	hash := hashOf(t, n.Chain(), 4).String()
	for name, test := range map[string]struct {
		fault   Fault
		request question
		meets   bool
	}{
		"any method":        {Fault{}, call("getinfo", ""), true},
		"unknown method":    {Fault{}, call("nosuchmethod", ""), true},
		"this method":       {Fault{Method: "getinfo"}, call("getinfo", ""), true},
		"another method":    {Fault{Method: "getinfo"}, call("getblockcount", ""), false},
		"by height":         {Fault{Where: AtHeight(4)}, call("getblock", `["4",0]`), true},
		"by name":           {Fault{Where: AtHeight(4)}, call("getblock", `{"hash_or_height":"4"}`), true},
		"by hash":           {Fault{Where: AtHeight(4)}, call("getblock", `["`+hash+`"]`), true},
		"from the tip":      {Fault{Where: AtHeight(4)}, call("getblock", `["-7",0]`), true},
		"header":            {Fault{Where: AtHeight(4)}, call("getblockheader", `["4"]`), true},
		"hash of height":    {Fault{Where: AtHeight(4)}, call("getblockhash", `[4]`), true},
		"another height":    {Fault{Where: AtHeight(4)}, call("getblock", `["5",0]`), false},
		"another hash":      {Fault{Where: AtHeight(5)}, call("getblock", `["`+hash+`"]`), false},
		"height above tip":  {Fault{Where: AtHeight(11)}, call("getblock", `["11",0]`), false},
		"no height":         {Fault{Where: AtHeight(0)}, call("getblockcount", ""), false},
		"bad height":        {Fault{Where: AtHeight(0)}, call("getblock", `[5]`), false},
		"genesis":           {Fault{Where: AtHeight(0)}, call("getblock", `["0",0]`), true},
		"start of a range":  {Fault{Where: InRange(3, 5)}, call("getblock", `["3",0]`), true},
		"end of a range":    {Fault{Where: InRange(3, 5)}, call("getblock", `["5",0]`), true},
		"outside the range": {Fault{Where: InRange(3, 5)}, call("getblock", `["6",0]`), false},
	} {
		t.Run(name, func(t *testing.T) {
			test.fault.Status = http.StatusTeapot
			remove := n.Fault(test.fault)
			if met := post(n, test.request.body).Code == http.StatusTeapot; met != test.meets {
				t.Errorf("met: %v, want %v", met, test.meets)
			}
			remove()
			remove()
			if post(n, test.request.body).Code != http.StatusOK {
				t.Error("the removed fault is still there")
			}
		})
	}
}

// Of several faults the first one acts, until it is used up.
func TestFaultOrder(t *testing.T) {
	t.Parallel()
	n, _ := faulty(t)
	n.Fault(Fault{Status: 501, Times: 1})
	n.Fault(Fault{Status: 502, Times: 2})
	n.Fault(Fault{Status: 503})
	for i, want := range []int{501, 502, 502, 503, 503} {
		if got := post(n, call("getinfo", "").body).Code; got != want {
			t.Errorf("request %d: status %d, want %d", i, got, want)
		}
	}
	n.ClearFaults()
	if got := post(n, call("getinfo", "").body).Code; got != http.StatusOK {
		t.Errorf("cleared, and yet status %d", got)
	}
}

// In a batch a fault meets its one call.
func TestFaultInBatch(t *testing.T) {
	t.Parallel()
	n, e := faulty(t)
	n.Fault(Fault{Method: "getinfo", Error: &Error{-1, "x"}})
	a := e.ask(t, body("["+call("getinfo", "").body+","+call("getblockcount", "").body+"]"))
	const want = `[{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x"}},{"jsonrpc":"2.0","id":1,"result":10}]`
	if string(a.body) != want {
		t.Errorf("got %s, want %s", a.body, want)
	}
}
