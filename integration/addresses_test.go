package integration

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/zsidecar/zsidecar/proto/indexrpc"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// Addresses beside those that the fixture pays.
const (
	unusedAddress = "t27eWDgjFYJGVXmzrXeVjnb5J3uXDM9xH9v"
	wrongAddress  = "tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNX" // keyHash with a wrong checksum
)

// zebraUtxo is one entry of Zebra's getaddressutxos.
type zebraUtxo struct {
	Address, TxID, Script string
	OutputIndex           int32
	Satoshis              int64
	Height                uint64
}

// message is the reply that the entry has to become.
func (u zebraUtxo) String() string {
	return fmt.Sprintf("%s %s:%d %s %d at %d", u.Address, u.TxID, u.OutputIndex, u.Script, u.Satoshis, u.Height)
}

func replyString(u *walletrpc.GetAddressUtxosReply) string {
	return fmt.Sprintf("%s %s:%d %x %d at %d", u.Address, hex.EncodeToString(reversedBytes(u.Txid)), u.Index, u.Script, u.ValueZat, u.Height)
}

// client is the generated one.
func (w *wallet) client() walletrpc.CompactTxStreamerClient {
	return walletrpc.NewCompactTxStreamerClient(w.conn)
}

func receiveAll[T any](stream grpc.ServerStreamingClient[T], err error) (all []*T, _ error) {
	for err == nil {
		var m *T
		if m, err = stream.Recv(); err == nil {
			all = append(all, m)
		}
	}
	if errors.Is(err, io.EOF) {
		return all, nil
	}
	return all, err
}

// balanceOf asks both methods and wants the same from them.
func (w *wallet) balanceOf(ctx context.Context, addresses ...string) (int64, error) {
	unary, err := w.client().GetTaddressBalance(ctx, &walletrpc.AddressList{Addresses: addresses})
	if err != nil {
		return 0, err
	}
	streamed, err := w.balanceStream(ctx, addresses...)
	if err == nil && streamed.ValueZat != unary.ValueZat {
		err = fmt.Errorf("the stream gives %d, the list %d", streamed.ValueZat, unary.ValueZat)
	}
	return unary.ValueZat, err
}

func (w *wallet) balanceStream(ctx context.Context, addresses ...string) (*walletrpc.Balance, error) {
	stream, err := w.client().GetTaddressBalanceStream(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if stream.Send(&walletrpc.Address{Address: a}) != nil {
			break // the answer says why
		}
	}
	return stream.CloseAndRecv()
}

func (w *wallet) addressTransactions(ctx context.Context, address string, r *walletrpc.BlockRange) ([]*walletrpc.RawTransaction, error) {
	return receiveAll(w.client().GetTaddressTransactions(ctx, &walletrpc.TransparentAddressBlockFilter{Address: address, Range: r}))
}

// sixMethods ask about one address each.
func (w *wallet) sixMethods(ctx context.Context, address string) map[string]error {
	filter := &walletrpc.TransparentAddressBlockFilter{Address: address, Range: heights(1, 0)}
	utxos := &walletrpc.GetAddressUtxosArg{Addresses: []string{address}}
	got := make(map[string]error)
	_, got["GetTaddressTransactions"] = receiveAll(w.client().GetTaddressTransactions(ctx, filter))
	_, got["GetTaddressTxids"] = receiveAll(w.client().GetTaddressTxids(ctx, filter))
	_, got["GetTaddressBalance"] = w.client().GetTaddressBalance(ctx, &walletrpc.AddressList{Addresses: []string{address}})
	_, got["GetTaddressBalanceStream"] = w.balanceStream(ctx, address)
	_, got["GetAddressUtxos"] = w.client().GetAddressUtxos(ctx, utxos)
	_, got["GetAddressUtxosStream"] = receiveAll(w.client().GetAddressUtxosStream(ctx, utxos))
	return got
}

func heights(from, to uint64) *walletrpc.BlockRange {
	return &walletrpc.BlockRange{Start: id(from, nil), End: id(to, nil)}
}

// TestAddresses compares what wallets are told about transparent addresses with Zebra's own answers, before and after a reorg, and lets
// Zebra die.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, s := range []setup{passthrough, smallSegments} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			n := fixtureNode(t, "")
			tip, _ := n.tip()
			p := newProxy(t, n)
			c := newSidecar(t, p.url(), n.cookie(), s)
			c.start()
			w := c.wallet()
			awaitAnswer(t, w)
			if !s.noIndex {
				c.awaitIndex(tip, time.Minute)
			}
			testBalances(t, n, w)
			testUtxos(t, n, w)
			testAddressRanges(t, n, w, uint64(tip))
			testRefusedAddresses(t, p, w)

			n.invalidate(tip - 2) // all three paid keyHash
			tip = n.mine(4, unusedAddress)
			await(t, "the other branch is served", 10*time.Second, func() bool {
				now, err := w.latest(t.Context())
				return err == nil && now.Height == uint64(tip) && string(now.Hash) == string(reversed(n.hashAt(tip)))
			})
			testBalances(t, n, w)
			testUtxos(t, n, w)
			testAddressRanges(t, n, w, uint64(tip))

			n.proc.kill()
			for name, err := range w.sixMethods(t.Context(), keyHash) {
				requireCode(t, name+" without Zebra", err, codes.Unavailable)
			}
			for name, err := range w.sixMethods(t.Context(), wrongAddress) {
				requireCode(t, name+" with a wrong address and without Zebra", err, codes.InvalidArgument)
			}
		})
	}
}

func testBalances(t *testing.T, n *node, w *wallet) {
	t.Helper()
	var tex string
	n.call(&tex, "z_converttex", keyHash)
	for _, addresses := range [][]string{{keyHash}, {anyoneCanSpend}, {unusedAddress}, {anyoneCanSpend, unusedAddress, keyHash}} {
		var want struct{ Balance int64 }
		n.call(&want, "getaddressbalance", map[string]any{"addresses": addresses})
		if got, err := w.balanceOf(t.Context(), addresses...); err != nil || got != want.Balance {
			t.Errorf("balance of %v: %d, %v; Zebra says %d", addresses, got, err, want.Balance)
		}
		if addresses[0] == keyHash && want.Balance == 0 {
			t.Error("the fixture pays nothing")
		}
		// The TEX form is the same address, and each counts once.
		repeated := append(slices.Clone(addresses), addresses...)
		if addresses[0] == keyHash {
			repeated = append(repeated, tex)
		}
		if got, err := w.balanceOf(t.Context(), repeated...); err != nil || got != want.Balance {
			t.Errorf("balance of %v: %d, %v; Zebra says %d", repeated, got, err, want.Balance)
		}
	}
	if got, err := w.balanceOf(t.Context()); err != nil || got != 0 {
		t.Errorf("balance of nobody: %d, %v", got, err)
	}
}

func testUtxos(t *testing.T, n *node, w *wallet) {
	t.Helper()
	var tex string
	n.call(&tex, "z_converttex", keyHash)
	for _, arg := range []*walletrpc.GetAddressUtxosArg{
		{Addresses: []string{keyHash}},
		{Addresses: []string{tex, keyHash}},
		{Addresses: []string{anyoneCanSpend}},
		{Addresses: []string{unusedAddress}},
		{Addresses: []string{keyHash, anyoneCanSpend}, StartHeight: 1000},
		{Addresses: []string{keyHash, anyoneCanSpend}, StartHeight: 1000, MaxEntries: 7},
		{Addresses: []string{keyHash, anyoneCanSpend}, MaxEntries: 1},
		{Addresses: []string{keyHash}, StartHeight: 100_000},
		{Addresses: []string{keyHash}, StartHeight: 1 << 63},
		{},
	} {
		var all []zebraUtxo
		asked := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(arg.Addresses), keyHash))))
		asked = slices.DeleteFunc(asked, func(a string) bool {
			return a == tex || a == keyHash && !slices.ContainsFunc(arg.Addresses, func(b string) bool { return b == tex || b == keyHash })
		})
		if asked == nil {
			asked = []string{}
		}
		n.call(&all, "getaddressutxos", map[string]any{"addresses": asked})
		var want []string
		for _, u := range all {
			if u.Height >= arg.StartHeight && (arg.MaxEntries == 0 || len(want) < int(arg.MaxEntries)) {
				want = append(want, u.String())
			}
		}
		list, err := w.client().GetAddressUtxos(t.Context(), arg)
		if err != nil {
			t.Fatalf("GetAddressUtxos %v: %v", arg, err)
		}
		streamed, err := receiveAll(w.client().GetAddressUtxosStream(t.Context(), arg))
		if err != nil {
			t.Fatalf("GetAddressUtxosStream %v: %v", arg, err)
		}
		for _, replies := range [][]*walletrpc.GetAddressUtxosReply{list.AddressUtxos, streamed} {
			var got []string
			for _, u := range replies {
				got = append(got, replyString(u))
			}
			if !slices.Equal(got, want) {
				t.Errorf("outputs of %v: got %d, Zebra has %d\n got %.600v\nwant %.600v", arg, len(got), len(want), got, want)
			}
		}
	}
}

func testAddressRanges(t *testing.T, n *node, w *wallet, tip uint64) {
	t.Helper()
	for _, address := range []string{anyoneCanSpend, keyHash, unusedAddress} {
		for _, r := range []struct{ from, to uint64 }{{0, 0}, {1, 0}, {1, tip}, {2, 2}, {150, 151}, {1002, 1003}, {tip - 5, tip}, {tip, tip}, {tip - 5, tip + 100}} {
			params := map[string]any{"addresses": []string{address}, "start": r.from, "end": r.to}
			var ids []string
			n.call(&ids, "getaddresstxids", params)
			got, err := w.addressTransactions(t.Context(), address, heights(r.from, r.to))
			if err != nil || len(got) != len(ids) {
				t.Errorf("%s from %d to %d: %d transactions, %v; Zebra has %d", address, r.from, r.to, len(got), err, len(ids))
				continue
			}
			step := 1 + len(ids)/20 // some of a long list
			for i := 0; i < len(ids); i += step {
				var want struct {
					Hex    string
					Height uint64
				}
				n.call(&want, "getrawtransaction", ids[i], 1)
				if hex.EncodeToString(got[i].Data) != want.Hex || got[i].Height != want.Height {
					t.Errorf("%s from %d to %d: transaction %d is not %s", address, r.from, r.to, i, ids[i])
				}
			}
		}
		// Zebra answers for its tip here.
		for _, r := range []*walletrpc.BlockRange{heights(tip+1, tip+9), heights(tip+1, 0), heights(1<<31, 1<<31), heights(1<<63, 0)} {
			if got, err := w.addressTransactions(t.Context(), address, r); err != nil || len(got) != 0 {
				t.Errorf("%s above the tip, %v: %d transactions, %v", address, r, len(got), err)
			}
		}
	}
	for name, r := range map[string]*walletrpc.BlockRange{
		"no range": nil, "no start": {End: id(5, nil)}, "backwards": heights(9, 8), "too long": heights(1, 10_000_001), "all heights": heights(0, 1<<64-1),
	} {
		_, err := w.addressTransactions(t.Context(), keyHash, r)
		requireCode(t, name, err, codes.InvalidArgument)
	}
}

// testRefusedAddresses wants that nothing which is no address reaches Zebra.
func testRefusedAddresses(t *testing.T, p *proxy, w *wallet) {
	t.Helper()
	before := p.addressCalls()
	for _, address := range []string{wrongAddress, "", "t1VmmGiyjVNeCjxDZzg7vZmd99WyzVby9yC", saplingOnly, orchardOnly} {
		for name, err := range w.sixMethods(t.Context(), address) {
			requireCode(t, fmt.Sprintf("%s of %q", name, address), err, codes.InvalidArgument)
		}
	}
	many := slices.Repeat([]string{keyHash}, 10_001)
	_, err := w.client().GetTaddressBalance(t.Context(), &walletrpc.AddressList{Addresses: many})
	requireCode(t, "a balance of 10,001", err, codes.ResourceExhausted)
	_, err = w.balanceStream(t.Context(), many...)
	requireCode(t, "a balance stream of 10,001", err, codes.ResourceExhausted)
	_, err = w.client().GetAddressUtxos(t.Context(), &walletrpc.GetAddressUtxosArg{Addresses: many})
	requireCode(t, "outputs of 10,001", err, codes.ResourceExhausted)
	_, err = receiveAll(w.client().GetAddressUtxosStream(t.Context(), &walletrpc.GetAddressUtxosArg{Addresses: many}))
	requireCode(t, "an output stream of 10,001", err, codes.ResourceExhausted)
	if after := p.addressCalls(); after != before {
		t.Errorf("Zebra was asked about addresses %d times", after-before)
	}
	if _, err := w.balanceOf(t.Context(), many[:10_000]...); err != nil {
		t.Errorf("a balance of 10,000: %v", err)
	}
	if after := p.addressCalls(); after != before+2 {
		t.Errorf("the proxy counts %d calls of 2", after-before)
	}
}

// TestIndexedTips follows the tip through a new block and a reorg.
func TestIndexedTips(t *testing.T) {
	t.Parallel()
	n := fixtureNode(t, "")
	tip, _ := n.tip()
	c := newSidecar(t, n.url(), n.cookie(), smallSegments)
	c.start()
	w := c.wallet()
	awaitAnswer(t, w)
	c.awaitIndex(tip, time.Minute)
	stream, err := indexrpc.NewIndexedTipServiceClient(w.conn).SubscribeIndexedTips(t.Context(), &indexrpc.SubscribeIndexedTipsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	require := func(height int) {
		t.Helper()
		want := reversed(n.hashAt(height))
		for {
			got, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if got.Height == uint32(height) && string(got.Hash) == string(want) {
				return
			}
			t.Logf("on the way: %d", got.Height) // the node may show the branch block by block
		}
	}
	require(tip)
	require(n.mine(1, keyHash))
	n.invalidate(tip)
	require(n.mine(2, keyHash))
	c.stop() // within 10 s, although a subscription is open
}

// TestPing is off unless the operator allows it.
func TestPing(t *testing.T) {
	t.Parallel()
	n := fixtureNode(t, "")
	c := newSidecar(t, n.url(), n.cookie(), passthrough)
	c.start()
	_, err := c.wallet().client().Ping(t.Context(), &walletrpc.Duration{})
	requireCode(t, "Ping", err, codes.FailedPrecondition)
	c.stop()
	c.args = append(c.args, "--ping-very-insecure")
	c.start()
	if got, err := c.wallet().client().Ping(t.Context(), &walletrpc.Duration{IntervalUs: 1000}); err != nil || got.Entry != 1 || got.Exit != 0 {
		t.Errorf("Ping: %v, %v", got, err)
	}
}
