package zebrarpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// payee is the address that the chains of these tests pay.
func payee() (chain.TransparentAddress, string) {
	a := chain.TransparentAddress{Hash: [20]byte{1, 2, 3}}
	return a, a.String(chain.MainNetwork)
}

// gather reads an iteration to its end.
func gather[T any](seq iter.Seq2[[]T, error]) (all []T, parts int, err error) {
	for part, err := range seq {
		if err != nil {
			return all, parts, err
		}
		all, parts = append(all, part...), parts+1
	}
	return all, parts, nil
}

// Blocks of Paying hold outputs+1 unspent outputs while they are the tip, one less once their first output is spent.
func TestAddresses(t *testing.T) {
	t.Parallel()
	to, address := payee()
	bc := newChain(t, 3, zebratest.Small)
	if err := bc.Extend(20, zebratest.Paying(to, 2)); err != nil { // heights 4 to 23
		t.Fatal(err)
	}
	c := nodeClient(t, Options{}, zebratest.NewNode(bc, zebratest.NodeOptions{}))
	ctx := t.Context()
	other := chain.TransparentAddress{Hash: [20]byte{9}}.String(chain.MainNetwork)

	balance, err := c.AddressBalance(ctx, []string{other, address})
	// The spend at height 4 spends what is not of this branch's kind; 20 spends pay, 19 take.
	if want := int64(20*2*zebratest.PaidByCoinbase + 20*zebratest.PaidBySpend - 19*zebratest.PaidByCoinbase); err != nil || balance != want {
		t.Errorf("balance %d, %v; want %d", balance, err, want)
	}
	if balance, err := c.AddressBalance(ctx, []string{other}); err != nil || balance != 0 {
		t.Errorf("balance of an unused address: %d, %v", balance, err)
	}
	for _, r := range []struct {
		from, to chain.Height
		count    int
	}{{0, 23, 40}, {4, 4, 2}, {1, 3, 0}, {10, 12, 6}, {23, 23, 2}, {0, 0, 0}, {7, 6, 0}} {
		txs, _, err := gather(c.AddressTransactions(ctx, address, r.from, r.to))
		if err != nil || len(txs) != r.count {
			t.Errorf("%d to %d: %d transactions, %v; want %d", r.from, r.to, len(txs), err, r.count)
		}
		for i, tx := range txs {
			raw, err := bc.Raw(tx.Height)
			if err != nil || tx.Place != chain.Mined || !bytes.Contains(raw, tx.Raw) {
				t.Fatalf("%d to %d: transaction %d is not in block %d", r.from, r.to, i, tx.Height)
			}
			if want := max(r.from, 4) + chain.Height(i/2); tx.Height != want {
				t.Errorf("%d to %d: transaction %d has height %d, want %d", r.from, r.to, i, tx.Height, want)
			}
		}
	}
	utxos, _, err := gather(c.AddressUtxos(ctx, []string{address, other}, 22, 0))
	if err != nil || len(utxos) != 2+3 {
		t.Fatalf("%+v, %v", utxos, err)
	}
	u := utxos[0]
	if u.Address != address || u.Height != 22 || u.Index != 1 || u.Value != zebratest.PaidByCoinbase || len(u.Script) != 25 || u.TxID == (chain.TxID{}) {
		t.Errorf("%+v", u)
	}
	// Above the tip there is nothing, where Zebra's own answer would be the tip's transactions.
	for _, seq := range []iter.Seq2[[]chain.LocatedTransaction, error]{
		c.AddressTransactions(ctx, address, 24, 24), c.AddressTransactions(ctx, address, 4, 24),
	} {
		if txs, _, err := gather(seq); !errors.Is(err, chain.ErrUnavailable) || len(txs) != 0 {
			t.Errorf("a range that the node does not have: %d transactions, %v", len(txs), err)
		}
	}
	if utxos, _, err := gather(c.AddressUtxos(ctx, []string{address}, 24, 0)); err != nil || len(utxos) != 0 {
		t.Errorf("outputs above the tip: %v, %v", utxos, err)
	}
	if utxos, _, err := gather(c.AddressUtxos(ctx, nil, 0, 0)); err != nil || len(utxos) != 0 {
		t.Errorf("outputs of nobody: %v, %v", utxos, err)
	}
}

// fakeHistory answers like a Zebra whose caps are small: one transaction, or one output, for each entry of heights.
type fakeHistory struct {
	heights []chain.Height
	most    int // getaddresstxids refuses to give more
	asked   []string
}

func historyID(i int) chain.TxID { return chain.TxID{byte(i), byte(i >> 8), byte(i >> 16), 1} }

func (f *fakeHistory) answer(q question) (*http.Response, error) {
	f.asked = append(f.asked, q.method+q.params[strings.Index(q.params, "]")+1:])
	switch q.method {
	case "getblockhash":
		return q.result(`"` + chain.Hash{5}.String() + `"`)
	case "getaddresstxids":
		var from, to chain.Height
		if _, err := fmt.Sscanf(q.params[strings.Index(q.params, "]"):], `],"start":%d,"end":%d`, &from, &to); err != nil {
			return nil, err
		}
		var ids []string
		for i, h := range f.heights {
			if from <= h && h <= to {
				ids = append(ids, `"`+historyID(i).String()+`"`)
			}
		}
		if len(ids) > f.most {
			return q.failure(-8, fmt.Sprintf("more than %d transactions match; narrow the height range", f.most))
		}
		return q.result("[" + strings.Join(ids, ",") + "]")
	case "getaddressutxos":
		var start chain.Height
		var most int
		if _, err := fmt.Sscanf(q.params[strings.Index(q.params, "]"):], `],"chainInfo":true,"startHeight":%d,"maxEntries":%d`, &start, &most); err != nil {
			return nil, err
		}
		_, address := payee()
		var utxos []string
		for i, h := range f.heights {
			if h >= start && len(utxos) < most {
				utxos = append(utxos, fmt.Sprintf(`{"address":"%s","txid":"%s","outputIndex":%d,"script":"51","satoshis":%d,"height":%d}`,
					address, historyID(i), i, i, h))
			}
		}
		return q.result(fmt.Sprintf(`{"utxos":[%s],"hash":"%s","height":%d}`, strings.Join(utxos, ","), chain.Hash{5}, 1000))
	}
	return nil, fmt.Errorf("asked for %s", q.method)
}

func repeat(h chain.Height, n int) []chain.Height { return slices.Repeat([]chain.Height{h}, n) }

// A range with too many txids is halved until Zebra answers.
func TestTxidParts(t *testing.T) {
	t.Parallel()
	dense := slices.Concat(repeat(1, 21_000), repeat(2, 15_000), repeat(3, 10), repeat(500, 19_000), repeat(1000, 1))
	f := &fakeHistory{heights: dense, most: 22_000}
	c := fakeClient(t, Options{}, f.answer)
	_, address := payee()
	next := 0
	for part, err := range c.addressTxids(t.Context(), address, 1, 1000) {
		if err != nil {
			t.Fatal(err)
		}
		if len(part.ids) > txidPage && part.from != part.to {
			t.Errorf("%d txids of the heights %d to %d in one part", len(part.ids), part.from, part.to)
		}
		for _, id := range part.ids {
			if id != historyID(next) || dense[next] < part.from || dense[next] > part.to {
				t.Fatalf("txid %d of the heights %d to %d is %s", next, part.from, part.to, id)
			}
			next++
		}
	}
	if next != len(dense) {
		t.Errorf("%d txids, want %d", next, len(dense))
	}
	if len(f.asked) > 60 {
		t.Errorf("it took %d questions", len(f.asked))
	}
}

// The cap surfaces only when one height alone exceeds it.
func TestTooManyTxidsInOneBlock(t *testing.T) {
	t.Parallel()
	f := &fakeHistory{heights: slices.Concat(repeat(4, 5), repeat(7, 2_001), repeat(8, 1)), most: 2_000}
	c := fakeClient(t, Options{}, f.answer)
	_, address := payee()
	var ids []chain.TxID
	var err error
	for part, failure := range c.addressTxids(t.Context(), address, 1, 9) {
		ids, err = append(ids, part.ids...), failure
	}
	if !errors.Is(err, chain.ErrTooMany) || len(ids) != 5 {
		t.Errorf("%d txids and %v; want 5 and too many", len(ids), err)
	}
	wantError(t, err, Answerable, "getaddresstxids height 7 to 7 from "+fakeURL+
		": code -8: more than 2000 transactions match; narrow the height range: too many results in one block", chain.ErrTooMany)
}

func TestUtxoPages(t *testing.T) {
	t.Parallel()
	_, address := payee()
	for _, test := range []struct {
		name      string
		heights   []chain.Height
		from      chain.Height
		most      uint32
		want      int // outputs
		questions int
	}{
		{"none", nil, 0, 0, 0, 1},
		{"less than a page", repeat(5, 9_999), 0, 0, 9_999, 1},
		{"a page exactly", slices.Concat(repeat(5, 9_000), repeat(6, 1_000)), 0, 0, 10_000, 2},
		{"a block cut by the page's end", slices.Concat(repeat(5, 9_000), repeat(6, 3_000), repeat(7, 1)), 0, 0, 12_001, 2},
		{"many pages", slices.Concat(repeat(5, 6_000), repeat(6, 6_000), repeat(7, 6_000), repeat(8, 6_000), repeat(9, 6_000)), 0, 0, 30_000, 8},
		{"a block of more than a page", slices.Concat(repeat(5, 3), repeat(6, 35_000), repeat(9, 2)), 0, 0, 35_005, 4},
		{"one wanted", repeat(5, 100), 0, 1, 1, 1},
		{"a page wanted", repeat(5, 20_000), 0, 10_000, 10_000, 1},
		{"more than a page wanted", slices.Concat(repeat(5, 6_000), repeat(6, 6_000), repeat(7, 6_000)), 0, 12_500, 12_500, 2},
		{"start", slices.Concat(repeat(5, 10), repeat(6, 10)), 6, 0, 10, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := &fakeHistory{heights: test.heights}
			c := fakeClient(t, Options{}, f.answer)
			utxos, _, err := gather(c.AddressUtxos(t.Context(), []string{address}, test.from, test.most))
			if err != nil || len(utxos) != test.want {
				t.Fatalf("%d outputs, %v; want %d", len(utxos), err, test.want)
			}
			skipped := 0
			for skipped < len(test.heights) && test.heights[skipped] < test.from {
				skipped++
			}
			for i, u := range utxos {
				if i += skipped; u.TxID != historyID(i) || u.Index != uint32(i) || u.Height != test.heights[i] {
					t.Fatalf("output %d is %+v", i, u)
				}
			}
			if len(f.asked) > test.questions {
				t.Errorf("it took %d questions, want %d: %v", len(f.asked), test.questions, f.asked)
			}
		})
	}
	f := &fakeHistory{heights: repeat(6, maxAddressResults+1)}
	c := fakeClient(t, Options{}, f.answer)
	if _, _, err := gather(c.AddressUtxos(t.Context(), []string{address}, 0, 0)); !errors.Is(err, chain.ErrTooMany) {
		t.Errorf("too many outputs in one block: %v", err)
	}
}

// Outputs of addresses that nobody asked for are left out, and the log says so.
func TestForeignUtxos(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	_, address := payee()
	c := fakeClient(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(q question) (*http.Response, error) {
		utxo := func(a string, i int) string {
			return fmt.Sprintf(`{"address":"%s","txid":"%s","outputIndex":0,"script":"","satoshis":1,"height":4}`, a, historyID(i))
		}
		return q.result(`{"utxos":[` + utxo("t1VmmGiyjVNeCjxDZzg7vZmd99WyzVby9yC", 1) + "," + utxo(address, 2) + `],"hash":"` + chain.Hash{}.String() + `","height":4}`)
	})
	utxos, _, err := gather(c.AddressUtxos(t.Context(), []string{address}, 0, 0))
	if err != nil || len(utxos) != 1 || utxos[0].TxID != historyID(2) {
		t.Errorf("%+v, %v", utxos, err)
	}
	if text := log.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "outputs=1") || strings.Contains(text, address) {
		t.Errorf("the log says %q", text)
	}
}

func TestAddressNonsense(t *testing.T) {
	t.Parallel()
	_, address := payee()
	const utxo = `{"address":"x","txid":"` + "0100000000000000000000000000000000000000000000000000000000000000" + `","outputIndex":0,"script":"51","satoshis":1,"height":4}`
	object := func(list string) string {
		return `{"utxos":[` + list + `],"hash":"` + chain.Hash{}.String() + `","height":4}`
	}
	for _, test := range []struct{ method, result, want string }{
		{"getaddressbalance", `5`, "the reply is wrong: balance is missing: its parent is 5, not an object"},
		{"getaddressbalance", `{}`, "the reply is wrong: balance is missing"},
		{"getaddressbalance", `{"balance":-1}`, "the reply is wrong: balance is -1, not an integer between 0 and 9223372036854775807"},
		{"getaddressbalance", `{"balance":"5"}`, `the reply is wrong: balance is "5", not an integer between 0 and 9223372036854775807`},
		{"getaddresstxids", `{}`, "the reply is wrong: the result is {}, without a list"},
		{"getaddresstxids", `null`, "the reply is wrong: the result is null, without a list"},
		{"getaddresstxids", `[5]`, "the reply is wrong: txid 0: it is 5, not a string"},
		{"getaddresstxids", `["00"]`, `the reply is wrong: txid 0: txid "00": has 2 characters, not 64`},
		{"getaddresstxids", `["` + historyID(1).String() + `",]`, "the reply is wrong: txid 1: it is , not a string"},
		{"getaddresstxids", `["` + historyID(1).String() + `" 5]`, "the reply is wrong: txid 0: it is \"" + historyID(1).String() + "\" 5, not a string"},
		{"getaddressutxos", `[]`, "the reply is wrong: the result is [], without a list"},
		{"getaddressutxos", `{"utxos":[]}`, "the reply is wrong: height is missing"},
		{"getaddressutxos", `{"utxos":[],"height":5,"hash":"00"}`, `the reply is wrong: hash: block hash "00": has 2 characters, not 64`},
		{"getaddressutxos", object(`5`), "the reply is wrong: utxos[0]: address is missing: its parent is 5, not an object"},
		{"getaddressutxos", object(`{"a":{}}`), "the reply is wrong: utxos[0]: cannot parse JSON"},
		{"getaddressutxos", object(strings.Replace(utxo, `"01000`, `"0100`, 1)), "the reply is wrong: utxos[0]: txid "},
		{"getaddressutxos", object(strings.Replace(utxo, `"outputIndex":0`, `"outputIndex":2147483648`, 1)), "the reply is wrong: utxos[0]: outputIndex is 2147483648, not"},
		{"getaddressutxos", object(strings.Replace(utxo, `"satoshis":1`, `"satoshis":-1`, 1)), "the reply is wrong: utxos[0]: satoshis is -1, not"},
		{"getaddressutxos", object(strings.Replace(utxo, `"51"`, `"5"`, 1)), "the reply is wrong: utxos[0]: script: encoding/hex: odd length"},
		{"getaddressutxos", object(strings.Replace(utxo, `"height":4`, `"height":2147483648`, 1)), "the reply is wrong: utxos[0]: height is 2147483648, not"},
		{"getaddressutxos", object(utxo + utxo), "the reply is wrong: item 1: a comma is missing before {"},
		{"getaddressutxos", object(utxo + "," + strings.Replace(utxo, `"height":4`, `"height":3`, 1)), "the reply is wrong: utxos[1]: height 3 comes after height 4"},
		{"getaddressutxos", object(strings.Replace(utxo, `"height":4`, `"height":1`, 1)), "the reply is wrong: utxos[0]: height 1 comes after height 2"},
		{"getaddressutxos", object(utxo + "," + utxo + "," + utxo + "," + utxo), "the reply is wrong: there are 4 utxos, more than the 3 that were asked for"},
	} {
		c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
			if q.method == "getblockhash" {
				return q.result(`"` + chain.Hash{}.String() + `"`)
			}
			return q.result(test.result)
		})
		err := askAddresses(t.Context(), c, test.method, address)
		var e *Error
		if !errors.As(err, &e) || e.Class != Fatal || e.Method != test.method || !strings.Contains(err.Error(), test.want) || !errors.Is(err, chain.ErrNode) {
			t.Errorf("%s answering %s: %v; want %q", test.method, test.result, err, test.want)
		}
	}
}

// askAddresses asks about heights 2 to 9 through the method that puts the question.
func askAddresses(ctx context.Context, c *Client, method, address string) (err error) {
	switch method {
	case "getaddressbalance":
		_, err = c.AddressBalance(ctx, []string{address})
	case "getaddresstxids":
		_, _, err = gather(c.AddressTransactions(ctx, address, 2, 9))
	case "getaddressutxos":
		_, _, err = gather(c.AddressUtxos(ctx, []string{address}, 2, 3))
	}
	return err
}

// What Zebra refuses although it was checked is the node's fault; what it could not do for a moment passes.
func TestAddressRefusals(t *testing.T) {
	t.Parallel()
	_, address := payee()
	for _, method := range []string{"getaddressbalance", "getaddresstxids", "getaddressutxos"} {
		for _, test := range []struct {
			code    int
			message string
			class   ErrorClass
		}{
			{-5, "parse error: invalid Bech32 encoding", Fatal},
			{-1, "something else", Fatal},
			{-1, "unable to get UTXOs: state was committing a block, and non-finalized chain is empty", Passing},
			{-1, "No blocks in state", Passing},
			{-28, "warming up", Passing},
		} {
			c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
				if q.method == "getblockhash" {
					return q.result(`"` + chain.Hash{}.String() + `"`)
				}
				return q.failure(test.code, test.message)
			})
			err := askAddresses(t.Context(), c, method, address)
			var e *Error
			if !errors.As(err, &e) || e.Class != test.class || e.Code != test.code || e.Message != test.message {
				t.Errorf("%s, code %d %s: %v", method, test.code, test.message, err)
			}
		}
	}
}

// What was read does not belong together when the chain changes in between.
func TestAddressesDuringReorg(t *testing.T) {
	t.Parallel()
	_, address := payee()
	id := smallestID(t)
	const raw = `{"in_active_chain":true,"hex":"` + smallest + `","height":5,"x":{}}`
	for _, test := range []struct {
		name        string
		hashes      []chain.Hash // of getblockhash, one after the other
		transaction string
		want        error
	}{
		{"nothing happens", []chain.Hash{{1}, {1}}, raw, nil},
		{"the last block is replaced", []chain.Hash{{1}, {2}}, raw, chain.ErrReorged},
		{"the last block is gone", []chain.Hash{{1}, {}}, raw, chain.ErrReorged},
		{"the transaction is in the mempool again", []chain.Hash{{1}, {1}}, `{"in_active_chain":false,"hex":"` + smallest + `","x":{}}`, chain.ErrReorged},
		{"it is on a side chain", []chain.Hash{{1}, {1}}, `{"in_active_chain":false,"hex":"` + smallest + `","height":-1,"x":{}}`, chain.ErrReorged},
		{"it is below the range", []chain.Hash{{1}, {1}}, strings.Replace(raw, "5", "1", 1), chain.ErrReorged},
		{"it is above the range", []chain.Hash{{1}, {1}}, strings.Replace(raw, "5", "10", 1), chain.ErrReorged},
		{"it is unknown", []chain.Hash{{1}, {1}}, "", chain.ErrReorged},
		{"the node is behind", []chain.Hash{{}}, raw, chain.ErrUnavailable},
	} {
		hashes := test.hashes
		c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
			switch q.method {
			case "getblockhash":
				hash := hashes[0]
				if hashes = hashes[1:]; hash == (chain.Hash{}) {
					return q.failure(-1, "Provided index is greater than the current tip")
				}
				return q.result(`"` + hash.String() + `"`)
			case "getaddresstxids":
				return q.result(`["` + id.String() + `"]`)
			}
			if test.transaction == "" {
				return q.failure(-5, "Transaction not found in mempool or best chain")
			}
			return q.result(test.transaction)
		})
		_, _, err := gather(c.AddressTransactions(t.Context(), address, 2, 9))
		if !errors.Is(err, test.want) || errors.Is(err, chain.ErrNotFound) || errors.Is(err, chain.ErrAboveTip) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
	// The pages of outputs name the tip that they were read from.
	for name, test := range map[string]struct {
		hash chain.Hash
		want error
	}{"the chain grew": {chain.Hash{5}, nil}, "the chain changed": {chain.Hash{6}, chain.ErrReorged}} {
		f, pages := &fakeHistory{heights: slices.Concat(repeat(5, utxoPage), repeat(6, 1))}, 0
		c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
			if q.method == "getblockhash" {
				return q.result(`"` + test.hash.String() + `"`)
			}
			if pages++; pages == 2 {
				return q.result(`{"utxos":[],"hash":"` + chain.Hash{7}.String() + `","height":1001}`)
			}
			return f.answer(q)
		})
		if _, _, err := gather(c.AddressUtxos(t.Context(), []string{address}, 0, 0)); !errors.Is(err, test.want) || pages != 2 {
			t.Errorf("%s: %v after %d pages, want %v", name, err, pages, test.want)
		}
	}
}

// A flood of questions about addresses takes a fixed share of Zebra, and the blocks of ranges and of the build go on beside it.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, address := payee()
		var mu sync.Mutex
		asked, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			asked += n
			most = max(most, asked)
		}
		c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
			count(1)
			defer count(-1)
			q.sleep(time.Second)
			return q.result(`{"balance":1}`)
		})
		var late, busy int
		errs := make(chan error, 100)
		const flood = 100
		for range flood {
			go func() {
				_, err := c.AddressBalance(t.Context(), []string{address})
				errs <- err
			}()
		}
		synctest.Wait()
		if limit := c.permits.bulkLimitNow(); limit != DefaultInFlight {
			t.Errorf("bulk is cut to %d requests", limit)
		}
		for range flood {
			if err := <-errs; errors.Is(err, chain.ErrBusy) {
				busy++
			} else if err != nil {
				late++
				t.Error(err)
			}
		}
		// 8 a second; whoever has no turn within 10 s is told so.
		if most != patientInFlight || busy < flood-11*patientInFlight || busy > flood-10*patientInFlight || late != 0 {
			t.Errorf("%d at a time, %d were told to come back", most, busy)
		}
	})
}

func (p *permits) bulkLimitNow() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bulkLimit()
}
