package lightwallet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// The same key on every network, and its TEX forms (ZIP 320).
const (
	mainAddress    = "t1VmmGiyjVNeCjxDZzg7vZmd99WyzVby9yC"
	mainTex        = "tex1s2rt77ggv6q989lr49rkgzmh5slsksa9khdgte"
	testAddress    = "tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNV"
	testScript     = "t27eWDgjFYJGVXmzrXeVjnb5J3uXDM9xH9v"
	wrongChecksum  = "tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNX"
	unifiedAddress = "uregtest1pszqlgxaf5w8mu2yd9uygg8cswp0ec4f7eejqnqc35tztw4tk0sxnt3pym2f3s2872cy2ruuc5n8y9cen5q6ngzlmzu8ztrjesv8zm9j"
	saplingAddress = "zregtestsapling1xl84ekz6stprmvrp39s77mf9t953nqjndwlcjtzfrr3cgjjez87639xm4u9pfuvylrhecx0c2j8"
)

// startOn serves 100 blocks beside a node of a network.
func startOn(t *testing.T, network chain.Network, options ...testOption) *testServer {
	t.Helper()
	s := start(t, &fakeSource{blocks: fakeBlocks(101)}, options...)
	name, genesis := "test", chain.Hash{1}
	switch network {
	case chain.MainNetwork:
		name = "main"
	case chain.RegtestNetwork:
		genesis = parseHash(t, "029f11d80ef9765602235e1bc9727e3eb6ba20839319f761fee920d63401e327")
	}
	s.node.answer.Store(&chain.NodeInfo{Chain: name, Genesis: genesis})
	return s
}

func parseHash(t *testing.T, s string) chain.Hash {
	t.Helper()
	h, err := chain.ParseHash(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// addressMethods are the six methods, each asked about some addresses, or the first of them, at any height.
func addressMethods(t *testing.T, client walletrpc.CompactTxStreamerClient) map[string]func(...string) error {
	ctx := t.Context()
	txids := func(open func(context.Context, *walletrpc.TransparentAddressBlockFilter, ...grpc.CallOption) (grpc.ServerStreamingClient[walletrpc.RawTransaction], error)) func(...string) error {
		return func(a ...string) error {
			stream, err := open(ctx, &walletrpc.TransparentAddressBlockFilter{Address: a[0], Range: &walletrpc.BlockRange{Start: &walletrpc.BlockID{Height: 1}}})
			if err != nil {
				return err
			}
			_, err = readAll(stream)
			return err
		}
	}
	return map[string]func(...string) error{
		"GetTaddressTxids":        txids(client.GetTaddressTxids),
		"GetTaddressTransactions": txids(client.GetTaddressTransactions),
		"GetTaddressBalance": func(a ...string) error {
			_, err := client.GetTaddressBalance(ctx, &walletrpc.AddressList{Addresses: a})
			return err
		},
		"GetTaddressBalanceStream": func(a ...string) error {
			_, err := balanceStream(ctx, client, a...)
			return err
		},
		"GetAddressUtxos": func(a ...string) error {
			_, err := client.GetAddressUtxos(ctx, &walletrpc.GetAddressUtxosArg{Addresses: a})
			return err
		},
		"GetAddressUtxosStream": func(a ...string) error {
			stream, err := client.GetAddressUtxosStream(ctx, &walletrpc.GetAddressUtxosArg{Addresses: a})
			if err != nil {
				return err
			}
			_, err = readAll(stream)
			return err
		},
	}
}

func readAll[T any](stream grpc.ServerStreamingClient[T]) (all []*T, err error) {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
}

func balanceStream(ctx context.Context, client walletrpc.CompactTxStreamerClient, addresses ...string) (*walletrpc.Balance, error) {
	stream, err := client.GetTaddressBalanceStream(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if stream.Send(&walletrpc.Address{Address: a}) != nil {
			break // CloseAndRecv says why
		}
	}
	return stream.CloseAndRecv()
}

// No address that is none reaches the node.
func TestAddressesRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		network       chain.Network
		address, want string
	}{
		{chain.RegtestNetwork, wrongChecksum, "the checksum is wrong"},
		{chain.RegtestNetwork, "", "it is empty"},
		{chain.RegtestNetwork, "nonsense", "it is no transparent address"},
		{chain.RegtestNetwork, mainAddress, "it is an address of the main network, and this is regtest"},
		{chain.TestNetwork, mainTex, "it is an address of the main network, and this is test"},
		{chain.MainNetwork, testAddress, "it is an address of the test network, and this is main"},
		{chain.MainNetwork, mainTex[:41] + "f", "the checksum is wrong"},
		{chain.RegtestNetwork, unifiedAddress, "it is a unified address: send the transparent address that it contains"},
		{chain.RegtestNetwork, saplingAddress, "it is a shielded address, and only transparent ones are looked up here"},
	} {
		s := startOn(t, test.network)
		for name, call := range addressMethods(t, s.dial(t)) {
			field := "address 1"
			if strings.HasPrefix(name, "GetTaddressT") {
				field = "address"
			}
			requireStatus(t, call(test.address), codes.InvalidArgument, field+": "+test.want)
		}
		if asked := s.node.questions(); len(asked) != 0 {
			t.Errorf("%q: the node was asked %v", test.address, asked)
		}
	}
	// Among good ones it is named by its place.
	s := startOn(t, chain.RegtestNetwork)
	for name, call := range addressMethods(t, s.dial(t)) {
		if !strings.HasPrefix(name, "GetTaddressT") {
			requireStatus(t, call(testAddress, testScript, wrongChecksum, ""), codes.InvalidArgument, "address 3: the checksum is wrong")
		}
	}
	if asked := s.node.questions(); len(asked) != 0 {
		t.Errorf("the node was asked %v", asked)
	}
}

// Each address counts once, however it is written, and reaches the node in Base58Check.
func TestAddressForms(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		network   chain.Network
		addresses []string
		want      string
	}{
		{chain.MainNetwork, []string{mainTex, mainAddress, strings.ToUpper(mainTex)}, "[" + mainAddress + "]"},
		{chain.TestNetwork, []string{testScript, testAddress, testScript}, "[" + testScript + " " + testAddress + "]"},
		{chain.RegtestNetwork, []string{testAddress, regtestTex, testTex}, "[" + testAddress + "]"},
	} {
		s := startOn(t, test.network)
		for name, call := range addressMethods(t, s.dial(t)) {
			before := len(s.node.questions())
			if err := call(test.addresses...); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			asked := s.node.questions()[before:]
			want := map[byte]string{
				'T': "transactions " + strings.Fields(strings.Trim(test.want, "[]"))[0] + " 1 100",
				'B': "balance " + test.want, 'U': "utxos " + test.want + " 0 0",
			}[strings.TrimPrefix(strings.TrimPrefix(name, "GetTaddress"), "GetAddress")[0]]
			if len(asked) != 1 || asked[0] != want {
				t.Errorf("%s: the node was asked %q, want %q", name, asked, want)
			}
		}
	}
}

// The TEX forms of testAddress on regtest.
const (
	regtestTex = "texregtest1vk37d06xel8t7kjvl6htu8js0y6fhkqjnerx00"
	testTex    = "textest1vk37d06xel8t7kjvl6htu8js0y6fhkqje0ncqm"
)

func TestAddressCounts(t *testing.T) {
	t.Parallel()
	s := startOn(t, chain.TestNetwork)
	methods := addressMethods(t, s.dial(t))
	most := slices.Repeat([]string{testAddress}, maxAddresses)
	for _, name := range []string{"GetTaddressBalance", "GetTaddressBalanceStream", "GetAddressUtxos", "GetAddressUtxosStream"} {
		if err := methods[name](most...); err != nil {
			t.Errorf("%s with 10,000 addresses: %v", name, err)
		}
		before := len(s.node.questions())
		requireStatus(t, methods[name](append(most, testScript)...), codes.ResourceExhausted, "there are more than 10000 addresses")
		if asked := s.node.questions()[before:]; len(asked) != 0 {
			t.Errorf("%s: the node was asked %v", name, asked)
		}
		if err := methods[name](); err != nil {
			t.Errorf("%s without addresses: %v", name, err)
		}
		if asked := s.node.questions()[before:]; len(asked) != 0 {
			t.Errorf("%s: the node was asked about nobody: %v", name, asked)
		}
	}
}

// A client stream is refused at the address that is wrong, not at its end.
func TestBalanceStreamRefusesAtOnce(t *testing.T) {
	t.Parallel()
	s := startOn(t, chain.TestNetwork)
	for _, test := range []struct {
		good int
		last string
		code codes.Code
		text string
	}{
		{0, wrongChecksum, codes.InvalidArgument, "address 1: the checksum is wrong"},
		{5, wrongChecksum, codes.InvalidArgument, "address 6: the checksum is wrong"},
		{maxAddresses, testAddress, codes.ResourceExhausted, "there are more than 10000 addresses"},
	} {
		stream, err := s.dial(t).GetTaddressBalanceStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Header(); err != nil { // they come before the first address
			t.Fatal(err)
		}
		for range test.good {
			if err := stream.Send(&walletrpc.Address{Address: testAddress}); err != nil {
				t.Fatal(err)
			}
		}
		if err := stream.Send(&walletrpc.Address{Address: test.last}); err != nil {
			t.Fatal(err)
		}
		requireStatus(t, stream.RecvMsg(&walletrpc.Balance{}), test.code, test.text) // the stream is still open on our side
	}
}

func TestBalance(t *testing.T) {
	t.Parallel()
	s := startOn(t, chain.TestNetwork)
	client := s.dial(t)
	for n, addresses := range [][]string{{}, {testAddress}, {testAddress, testScript}, {testAddress, testScript, testAddress}} {
		want := int64(0)
		if n > 0 {
			want = int64(1000 + min(n, 2))
		}
		unary, err := client.GetTaddressBalance(t.Context(), &walletrpc.AddressList{Addresses: addresses})
		if err != nil || unary.ValueZat != want {
			t.Errorf("%v: %v, %v; want %d", addresses, unary, err, want)
		}
		if streamed, err := balanceStream(t.Context(), client, addresses...); err != nil || streamed.ValueZat != want {
			t.Errorf("%v as a stream: %v, %v; want %d", addresses, streamed, err, want)
		}
	}
}

func TestAddressRange(t *testing.T) {
	t.Parallel()
	s := startOn(t, chain.TestNetwork) // the tip is 100
	client := s.dial(t)
	id := func(h uint64) *walletrpc.BlockID { return &walletrpc.BlockID{Height: h} }
	for _, test := range []struct {
		name string
		r    *walletrpc.BlockRange
		code codes.Code
		want string // the question, or the text of the refusal
	}{
		{"no range", nil, codes.InvalidArgument, "range is missing"},
		{"no start", &walletrpc.BlockRange{End: id(5)}, codes.InvalidArgument, "range: start is missing"},
		{"empty", &walletrpc.BlockRange{}, codes.InvalidArgument, "range: start is missing"},
		{"no end", &walletrpc.BlockRange{Start: id(5)}, codes.OK, "5 100"},
		{"end 0", &walletrpc.BlockRange{Start: id(5), End: id(0)}, codes.OK, "5 100"},
		{"start 0, end 0", &walletrpc.BlockRange{Start: id(0), End: id(0)}, codes.OK, "0 100"},
		{"all", &walletrpc.BlockRange{Start: id(0), End: id(100)}, codes.OK, "0 100"},
		{"one block", &walletrpc.BlockRange{Start: id(7), End: id(7)}, codes.OK, "7 7"},
		{"the tip", &walletrpc.BlockRange{Start: id(100), End: id(100)}, codes.OK, "100 100"},
		{"across the tip", &walletrpc.BlockRange{Start: id(90), End: id(200)}, codes.OK, "90 100"},
		{"end below start", &walletrpc.BlockRange{Start: id(7), End: id(6)}, codes.InvalidArgument, "range: the end 6 is below the start 7"},
		{"end below start, above the tip", &walletrpc.BlockRange{Start: id(700), End: id(600)}, codes.InvalidArgument, "range: the end 600 is below the start 700"},
		{"above the tip", &walletrpc.BlockRange{Start: id(101), End: id(200)}, codes.OK, ""},
		{"start above the tip, no end", &walletrpc.BlockRange{Start: id(101)}, codes.OK, ""},
		{"2^31", &walletrpc.BlockRange{Start: id(1 << 31), End: id(1<<31 + 5)}, codes.OK, ""},
		{"2^32", &walletrpc.BlockRange{Start: id(1 << 32), End: id(1<<32 + 5)}, codes.OK, ""},
		{"2^63", &walletrpc.BlockRange{Start: id(1 << 63)}, codes.OK, ""},
		{"2^64-1", &walletrpc.BlockRange{Start: id(math.MaxUint64), End: id(math.MaxUint64)}, codes.OK, ""},
		{"the longest span", &walletrpc.BlockRange{Start: id(1), End: id(10_000_000)}, codes.OK, "1 100"},
		{"too long a span", &walletrpc.BlockRange{Start: id(1), End: id(10_000_001)}, codes.InvalidArgument, "range: 1 to 10000001 are more than 10000000 blocks"},
		{"all heights there are", &walletrpc.BlockRange{End: id(math.MaxUint64), Start: id(0)}, codes.InvalidArgument, "range: 0 to 18446744073709551615 are more than 10000000 blocks"},
		{"pools do not count", &walletrpc.BlockRange{Start: id(7), End: id(7), PoolTypes: []walletrpc.PoolType{99}}, codes.OK, "7 7"},
	} {
		for name, open := range map[string]func(context.Context, *walletrpc.TransparentAddressBlockFilter, ...grpc.CallOption) (grpc.ServerStreamingClient[walletrpc.RawTransaction], error){
			"GetTaddressTxids": client.GetTaddressTxids, "GetTaddressTransactions": client.GetTaddressTransactions,
		} {
			before := len(s.node.questions())
			stream, err := open(t.Context(), &walletrpc.TransparentAddressBlockFilter{Address: testAddress, Range: test.r})
			if err != nil {
				t.Fatal(err)
			}
			got, err := readAll(stream)
			asked := s.node.questions()[before:]
			if test.code != codes.OK {
				requireStatus(t, err, test.code, test.want)
				test.want = ""
			} else if err != nil || len(got) != 0 {
				t.Errorf("%s, %s: %v, %v", name, test.name, got, err)
			}
			want := []string{"transactions " + testAddress + " " + test.want}
			if test.want == "" {
				want = nil
			}
			if !slices.Equal(asked, want) {
				t.Errorf("%s, %s: the node was asked %q, want %q", name, test.name, asked, want)
			}
			if test.code != codes.OK {
				break // the text is used up
			}
		}
	}
}

func TestAddressTransactions(t *testing.T) {
	t.Parallel()
	s := startOn(t, chain.TestNetwork)
	for i := range 50 {
		s.node.txs = append(s.node.txs, chain.LocatedTransaction{Raw: bytes.Repeat([]byte{byte(i)}, i+1), Place: chain.Mined, Height: chain.Height(i / 3)})
	}
	s.node.part = 16
	stream, err := s.dial(t).GetTaddressTxids(t.Context(), &walletrpc.TransparentAddressBlockFilter{
		Address: testAddress, Range: &walletrpc.BlockRange{Start: &walletrpc.BlockID{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := readAll(stream)
	if err != nil || len(got) != len(s.node.txs) {
		t.Fatalf("%d transactions, %v", len(got), err)
	}
	for i, tx := range got {
		if want := s.node.txs[i]; !bytes.Equal(tx.Data, want.Raw) || tx.Height != uint64(want.Height) {
			t.Errorf("transaction %d is %v, want %+v", i, tx, want)
		}
	}
}

func TestAddressUtxos(t *testing.T) {
	t.Parallel()
	s := startOn(t, chain.TestNetwork)
	client := s.dial(t)
	for i := range 25 {
		s.node.utxos = append(s.node.utxos, chain.Utxo{
			Address: testAddress, TxID: chain.TxID{byte(i), 31: 1}, Index: uint32(i), Script: bytes.Repeat([]byte{7}, i), Value: int64(i) * 1000, Height: chain.Height(i / 2),
		})
	}
	s.node.part = 10
	for _, arg := range []struct {
		req  *walletrpc.GetAddressUtxosArg
		want string
	}{
		{&walletrpc.GetAddressUtxosArg{}, "0 0"},
		{&walletrpc.GetAddressUtxosArg{StartHeight: 50, MaxEntries: 7}, "50 7"},
		{&walletrpc.GetAddressUtxosArg{StartHeight: 1 << 31, MaxEntries: math.MaxUint32}, "2147483647 4294967295"},
		{&walletrpc.GetAddressUtxosArg{StartHeight: math.MaxUint64}, "2147483647 0"},
	} {
		arg.req.Addresses = []string{testAddress}
		before := len(s.node.questions())
		list, err := client.GetAddressUtxos(t.Context(), arg.req)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := client.GetAddressUtxosStream(t.Context(), arg.req)
		if err != nil {
			t.Fatal(err)
		}
		streamed, err := readAll(stream)
		if err != nil {
			t.Fatal(err)
		}
		want := "utxos [" + testAddress + "] " + arg.want
		if asked := s.node.questions()[before:]; !slices.Equal(asked, []string{want, want}) {
			t.Errorf("the node was asked %q, want %q", asked, want)
		}
		for _, got := range [][]*walletrpc.GetAddressUtxosReply{list.AddressUtxos, streamed} {
			if len(got) != len(s.node.utxos) {
				t.Fatalf("%d outputs", len(got))
			}
			for i, u := range got {
				w := s.node.utxos[i]
				if u.Address != w.Address || !bytes.Equal(u.Txid, w.TxID[:]) || u.Index != int32(w.Index) || !bytes.Equal(u.Script, w.Script) ||
					u.ValueZat != w.Value || u.Height != uint64(w.Height) {
					t.Errorf("output %d is %v, want %+v", i, u, w)
				}
			}
		}
	}
}

// A unary answer has a limit; the stream has none.
func TestUtxosTooLarge(t *testing.T) {
	t.Parallel()
	utxos := make([]chain.Utxo, 1000)
	var whole walletrpc.GetAddressUtxosReplyList
	for i := range utxos {
		utxos[i] = chain.Utxo{Address: testAddress, Script: make([]byte, 1000), Index: uint32(i)}
		whole.AddressUtxos = append(whole.AddressUtxos, utxoMessage(utxos[i]))
	}
	exact := proto.Size(&whole)
	limit := func(n int) testOption { return func(o *Options, _ *bool) { o.MaxUnaryReply = n } }
	for _, test := range []struct {
		limit int
		fits  bool
	}{{10_000, false}, {exact - 1, false}, {exact, true}} {
		s := startOn(t, chain.TestNetwork, limit(test.limit))
		s.node.utxos = utxos
		req := &walletrpc.GetAddressUtxosArg{Addresses: []string{testAddress}}
		list, err := s.dial(t).GetAddressUtxos(t.Context(), req)
		if test.fits {
			if err != nil || !proto.Equal(list, &whole) {
				t.Errorf("limit %d: %v", test.limit, err)
			}
		} else {
			requireStatus(t, err, codes.ResourceExhausted, fmt.Sprintf("the answer has more than %d bytes: use GetAddressUtxosStream", test.limit))
		}
		stream, err := s.dial(t).GetAddressUtxosStream(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if all, err := readAll(stream); err != nil || len(all) != len(utxos) {
			t.Errorf("limit %d: %d outputs in the stream, %v", test.limit, len(all), err)
		}
	}
}

// Whatever is wrong at the node, no method answers OK with nothing.
func TestAddressOutages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		code codes.Code
		text string
	}{
		{"away", fmt.Errorf("connection refused: %w", chain.ErrUnavailable), codes.Unavailable, textUnavailable},
		{"slow", context.DeadlineExceeded, codes.Unavailable, textUnavailable},
		{"nonsense", fmt.Errorf("an HTML page: %w", chain.ErrNode), codes.Unavailable, textUnavailable},
		{"reorg", fmt.Errorf("block 5: %w", chain.ErrReorged), codes.Aborted, textReorged},
		{"busy", chain.ErrBusy, codes.ResourceExhausted, textBusy},
		{"too many in one block", fmt.Errorf("height 5: %w", chain.ErrTooMany), codes.ResourceExhausted, textTooMany},
		{"a bug of ours", errFake, codes.Internal, textInternal},
	} {
		s := startOn(t, chain.TestNetwork)
		s.node.err = test.err
		for name, call := range addressMethods(t, s.dial(t)) {
			t.Run(test.name+" "+name, func(t *testing.T) { requireStatus(t, call(testAddress), test.code, test.text) })
		}
	}
	t.Run("from the start", func(t *testing.T) {
		s := start(t, &fakeSource{blocks: fakeBlocks(3)})
		methods := addressMethods(t, s.dial(t))
		for name, call := range methods {
			requireStatus(t, call(testAddress), codes.Unavailable, textUnavailable)
			// What is wrong on every network is so without the node.
			field := "address 1: "
			if strings.HasPrefix(name, "GetTaddressT") {
				field = "address: "
			}
			requireStatus(t, call(wrongChecksum), codes.InvalidArgument, field+"the checksum is wrong")
		}
	})
	t.Run("after the start", func(t *testing.T) {
		s := startOn(t, chain.TestNetwork)
		if _, err := s.AskNode(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.node.answer.Store(nil)
		for _, call := range addressMethods(t, s.dial(t)) {
			if err := call(testAddress); err != nil { // the network is known, and the fake still answers
				t.Error(err)
			}
		}
	})
	t.Run("as an earlier run has left it", func(t *testing.T) {
		s := startOn(t, chain.TestNetwork)
		s.node.answer.Store(nil)
		s.Remember(chain.NodeInfo{Chain: "test", Genesis: chain.Hash{1}})
		for _, call := range addressMethods(t, s.dial(t)) {
			if err := call(testAddress); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("an unknown chain", func(t *testing.T) {
		s := startOn(t, chain.TestNetwork)
		s.node.answer.Store(&chain.NodeInfo{Chain: "signet"})
		for _, call := range addressMethods(t, s.dial(t)) {
			requireStatus(t, call(testAddress), codes.Unavailable, textUnavailable)
		}
	})
	t.Run("no tip", func(t *testing.T) {
		s := startOn(t, chain.TestNetwork)
		s.source.noTip = true
		methods := addressMethods(t, s.dial(t))
		for _, name := range []string{"GetTaddressTxids", "GetTaddressTransactions"} {
			requireStatus(t, methods[name](testAddress), codes.Unavailable, textUnavailable)
		}
		s.source.noTip, s.source.viewErr = false, chain.ErrUnavailable
		for _, name := range []string{"GetTaddressTxids", "GetTaddressTransactions"} {
			requireStatus(t, methods[name](testAddress), codes.Unavailable, textUnavailable)
		}
	})
}

// Headers come at once, also when the node takes its time.
func TestAddressHeaders(t *testing.T) {
	t.Parallel()
	s := startOn(t, chain.TestNetwork)
	s.node.fakeAddresses.wait = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	s.node.utxos, s.node.txs = make([]chain.Utxo, 1), make([]chain.LocatedTransaction, 1)
	client := s.dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	txids, err := client.GetTaddressTxids(ctx, &walletrpc.TransparentAddressBlockFilter{Address: testAddress, Range: &walletrpc.BlockRange{Start: &walletrpc.BlockID{}}})
	if err != nil {
		t.Fatal(err)
	}
	utxos, err := client.GetAddressUtxosStream(ctx, &walletrpc.GetAddressUtxosArg{Addresses: []string{testAddress}})
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range []grpc.ClientStream{txids, utxos} {
		if _, err := stream.Header(); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "both are asking", func() bool { return len(s.node.questions()) == 2 })
	cancel()
	eventually(t, "both have ended", func() bool { return s.Stats().Calls == 0 })
}

// While the node follows another chain than the one that is served, nothing is taken from it, and the text says so.
func TestNodeOfAnotherChain(t *testing.T) {
	t.Parallel()
	s := startOn(t, chain.TestNetwork)
	s.source.apart = true
	client := s.dial(t)
	for name, call := range addressMethods(t, client) {
		t.Log(name)
		requireStatus(t, call(testAddress), codes.Unavailable, textApart)
	}
	if n := len(s.node.questions()); n != 0 {
		t.Errorf("the node was asked %v", s.node.questions())
	}
	stream, err := client.GetMempoolTx(t.Context(), &walletrpc.GetMempoolTxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	requireStatus(t, err, codes.Unavailable, textApart)
	_, err = client.GetLatestBlock(t.Context(), &walletrpc.ChainSpec{})
	requireStatus(t, err, codes.Unavailable, textApart)
	if block, err := client.GetBlock(t.Context(), &walletrpc.BlockID{Height: 3}); err != nil || block.Height != 3 {
		t.Errorf("a block of the index: %v, %v", block, err)
	}
}
