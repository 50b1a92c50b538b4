package integration

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// An address of the main network, and addresses of other kinds.
const (
	mainAddress    = "t1VmmGiyjVNeCjxDZzg7vZmd99WyzVby9yC"
	mainTexAddress = "tex1s2rt77ggv6q989lr49rkgzmh5slsksa9khdgte"
)

const (
	getTaddressTransactions  = "GetTaddressTransactions"
	getTaddressTxids         = "GetTaddressTxids"
	getTaddressBalance       = "GetTaddressBalance"
	getTaddressBalanceStream = "GetTaddressBalanceStream"
	getAddressUtxos          = "GetAddressUtxos"
	getAddressUtxosStream    = "GetAddressUtxosStream"
)

// aboutAddresses asks one of the six methods about addresses; those that take one are asked about the first. It returns how much there
// is: transactions, zatoshis or outputs.
func (e *env) aboutAddresses(ctx context.Context, method string, addresses ...string) (int, error) {
	switch method {
	case getTaddressTransactions, getTaddressTxids:
		messages, err := e.read(ctx, method, &walletrpc.TransparentAddressBlockFilter{Address: addresses[0], Range: heightRange(e.middle, e.tip)})
		return len(messages), err
	case getTaddressBalance:
		got := &walletrpc.Balance{}
		err := e.call(ctx, method, &walletrpc.AddressList{Addresses: addresses}, got)
		return int(got.ValueZat), err
	case getTaddressBalanceStream:
		return e.streamBalance(ctx, true, addresses...)
	case getAddressUtxos:
		got := &walletrpc.GetAddressUtxosReplyList{}
		err := e.call(ctx, method, &walletrpc.GetAddressUtxosArg{Addresses: addresses}, got)
		return len(got.AddressUtxos), err
	}
	messages, err := e.read(ctx, getAddressUtxosStream, &walletrpc.GetAddressUtxosArg{Addresses: addresses})
	return len(messages), err
}

// streamBalance sends the addresses one by one, and closes its side or waits for the answer without.
func (e *env) streamBalance(ctx context.Context, closing bool, addresses ...string) (int, error) {
	if !closing {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
	}
	s, err := e.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, "/"+serviceName+"/"+getTaddressBalanceStream, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return 0, err
	}
	for _, a := range addresses {
		if s.SendMsg(&walletrpc.Address{Address: a}) != nil {
			break // the answer says why
		}
	}
	if closing {
		if err := s.CloseSend(); err != nil {
			return 0, err
		}
	}
	got := &walletrpc.Balance{}
	err = s.RecvMsg(got)
	return int(got.ValueZat), err
}

func heightRange(from, to uint64) *walletrpc.BlockRange {
	return &walletrpc.BlockRange{Start: id(from, nil), End: id(to, nil)}
}

func sixMethods() []string {
	return []string{
		getTaddressTransactions, getTaddressTxids, getTaddressBalance, getTaddressBalanceStream, getAddressUtxos, getAddressUtxosStream,
	}
}

// addressRows are what the six methods about addresses have in common.
func addressRows() (rows []row) {
	for _, method := range sixMethods() {
		add := func(name string, code codes.Code, run func(ctx context.Context, e *env) error) {
			rows = append(rows, row{method, name, always(code), "", anywhere, run})
		}
		for _, c := range []struct {
			name, address string
		}{
			{"wrong checksum", keyHash[:len(keyHash)-1] + "X"},
			{"no address", ""},
			{"address of another network", mainAddress},
			{"TEX of another network", mainTexAddress},
			{"Sapling address", saplingOnly},
			{"unified address", orchardOnly},
			{"something else", "\xf0\x9f\x92\xb0 0OIl"},
		} {
			add(c.name, codes.InvalidArgument, func(ctx context.Context, e *env) error {
				_, err := e.aboutAddresses(ctx, method, c.address)
				return err
			})
		}
		add("TEX address: as the address that it contains", codes.OK, func(ctx context.Context, e *env) error {
			return e.requireSame(ctx, method, []string{texAddress}, []string{keyHash})
		})
		add("address that was never used: nothing", codes.OK, func(ctx context.Context, e *env) error {
			if n, err := e.aboutAddresses(ctx, method, distinctAddresses(1)...); err != nil || n != 0 {
				return wrong("%d, %v", n, err)
			}
			return nil
		})
		if method == getTaddressTransactions || method == getTaddressTxids {
			continue // they take one address
		}
		add("no addresses: nothing", codes.OK, func(ctx context.Context, e *env) error {
			if n, err := e.aboutAddresses(ctx, method); err != nil || n != 0 {
				return wrong("%d, %v", n, err)
			}
			return nil
		})
		add("address repeated, also as TEX: counts once", codes.OK, func(ctx context.Context, e *env) error {
			return e.requireSame(ctx, method, []string{keyHash, texAddress, keyHash}, []string{keyHash})
		})
		add("10,000 addresses", codes.OK, func(ctx context.Context, e *env) error {
			_, err := e.aboutAddresses(ctx, method, distinctAddresses(10_000)...)
			return err
		})
		add("10,001 addresses", codes.ResourceExhausted, func(ctx context.Context, e *env) error {
			_, err := e.aboutAddresses(ctx, method, distinctAddresses(10_001)...)
			return err
		})
		add("one address 10,001 times", codes.ResourceExhausted, func(ctx context.Context, e *env) error {
			_, err := e.aboutAddresses(ctx, method, slices.Repeat([]string{keyHash}, 10_001)...)
			return err
		})
	}
	return rows
}

// requireSame asks about two lists, and wants the same from both, and not nothing.
func (e *env) requireSame(ctx context.Context, method string, list, other []string) error {
	n, err := e.aboutAddresses(ctx, method, list...)
	if err != nil {
		return err
	}
	m, err := e.aboutAddresses(ctx, method, other...)
	if err == nil && (n != m || n == 0) {
		return wrong("%d for %q, %d for %q", n, list, m, other)
	}
	return err
}

// distinctAddresses are so many addresses that nobody has used.
func distinctAddresses(n int) []string {
	list := make([]string, n)
	for i := range list {
		a := chain.TransparentAddress{}
		binary.BigEndian.PutUint64(a.Hash[:], uint64(i)+1<<40)
		list[i] = a.String(chain.TestNetwork)
	}
	return list
}

// addressRangeRows are the ranges of the two methods that have one.
func addressRangeRows() (rows []row) {
	type request = walletrpc.BlockRange
	for _, method := range []string{getTaddressTransactions, getTaddressTxids} {
		add := func(name string, code codes.Code, some bool, r func(e *env) *request) {
			rows = append(rows, row{method, name, always(code), "", anywhere, func(ctx context.Context, e *env) error {
				messages, err := e.read(ctx, method, &walletrpc.TransparentAddressBlockFilter{Address: keyHash, Range: r(e)})
				if err == nil && some != (len(messages) > 0) {
					return wrong("%d transactions", len(messages))
				}
				return err
			}})
		}
		fixed := func(r *request) func(*env) *request { return func(*env) *request { return r } }
		add("range absent", codes.InvalidArgument, false, fixed(nil))
		add("start absent", codes.InvalidArgument, false, fixed(&request{End: id(9, nil)}))
		add("end absent: up to the tip", codes.OK, true, func(e *env) *request { return &request{Start: id(e.middle, nil)} })
		add("end 0: up to the tip", codes.OK, true, func(e *env) *request { return heightRange(e.middle, 0) })
		add("end below start", codes.InvalidArgument, false, fixed(heightRange(9, 8)))
		add("10,000,000 blocks", codes.OK, true, fixed(heightRange(1, 10_000_000)))
		add("10,000,001 blocks", codes.InvalidArgument, false, fixed(heightRange(1, 10_000_001)))
		add("0 to 2^64-1", codes.InvalidArgument, false, fixed(heightRange(0, 1<<64-1)))
		add("above the tip: nothing", codes.OK, false, func(e *env) *request { return heightRange(e.tip+1, e.tip+9) })
		add("from above the tip, end 0: nothing", codes.OK, false, func(e *env) *request { return heightRange(e.tip+1, 0) })
		for _, h := range hugeHeights() {
			add("from "+h.name+", end 0: nothing", codes.OK, false, fixed(heightRange(h.height, 0)))
		}
		add("poolTypes are ignored", codes.OK, true, func(e *env) *request {
			r := heightRange(e.middle, e.tip)
			r.PoolTypes = []walletrpc.PoolType{99}
			return r
		})
		rows = append(rows, row{method, "mined heights, ascending, within the range", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			return e.requireAscending(ctx, method)
		}})
	}
	return rows
}

func (e *env) requireAscending(ctx context.Context, method string) error {
	messages, err := e.read(ctx, method, &walletrpc.TransparentAddressBlockFilter{Address: keyHash, Range: heightRange(e.middle-5, e.middle+20)})
	if err != nil {
		return err
	}
	last := e.middle - 5
	for _, m := range messages {
		tx := &walletrpc.RawTransaction{}
		if err := proto.Unmarshal(m, tx); err != nil {
			return wrong("%v", err)
		}
		if tx.Height < last || tx.Height > e.middle+20 || len(tx.Data) == 0 {
			return wrong("height %d after %d", tx.Height, last)
		}
		last = tx.Height
	}
	if len(messages) < 15 {
		return wrong("%d transactions", len(messages))
	}
	return nil
}

// balanceRows are what is particular to the balances.
func balanceRows() []row {
	return []row{
		{getTaddressBalance, "confirmed only: as Zebra says", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
			var want struct{ Balance int }
			if err := e.rpc.call(ctx, &want, "getaddressbalance", map[string]any{"addresses": []string{keyHash, anyoneCanSpend}}); err != nil {
				return err
			}
			got, err := e.aboutAddresses(ctx, getTaddressBalance, keyHash, anyoneCanSpend)
			if err == nil && (got != want.Balance || got == 0) {
				return wrong("%d, Zebra says %d", got, want.Balance)
			}
			return err
		}},
		{getTaddressBalanceStream, "wrong address: refused when it arrives, the stream still open", always(codes.InvalidArgument), "", anywhere, func(ctx context.Context, e *env) error {
			_, err := e.streamBalance(ctx, false, keyHash, mainAddress)
			return err
		}},
		{getTaddressBalanceStream, "the 10,001st address: refused when it arrives, the stream still open", always(codes.ResourceExhausted), "", anywhere, func(ctx context.Context, e *env) error {
			_, err := e.streamBalance(ctx, false, slices.Repeat([]string{keyHash}, 10_001)...)
			return err
		}},
	}
}

func utxoRows() (rows []row) {
	for _, method := range []string{getAddressUtxos, getAddressUtxosStream} {
		for _, c := range []struct {
			name string
			from func(e *env) uint64
			most uint32
			want func(count int) bool
		}{
			{"maxEntries 0: all", func(*env) uint64 { return 0 }, 0, func(n int) bool { return n > 20 }},
			{"maxEntries 1", func(*env) uint64 { return 0 }, 1, func(n int) bool { return n == 1 }},
			{"maxEntries 7 from a height", func(e *env) uint64 { return e.middle }, 7, func(n int) bool { return n == 7 }},
			{"maxEntries 2^32-1", func(*env) uint64 { return 0 }, 1<<32 - 1, func(n int) bool { return n > 20 }},
			{"startHeight above the tip: nothing", func(e *env) uint64 { return e.tip + 1 }, 0, func(n int) bool { return n == 0 }},
			{"startHeight 2^32: nothing", func(*env) uint64 { return 1 << 32 }, 0, func(n int) bool { return n == 0 }},
			{"startHeight 2^63: nothing", func(*env) uint64 { return 1 << 63 }, 0, func(n int) bool { return n == 0 }},
			{"startHeight 2^64-1: nothing", func(*env) uint64 { return 1<<64 - 1 }, 0, func(n int) bool { return n == 0 }},
		} {
			rows = append(rows, row{method, c.name, always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
				from := c.from(e)
				utxos, err := e.utxos(ctx, method, &walletrpc.GetAddressUtxosArg{Addresses: []string{keyHash}, StartHeight: from, MaxEntries: c.most})
				if err != nil {
					return err
				}
				for _, u := range utxos {
					if u.Height < from || u.Address != keyHash || len(u.Txid) != 32 {
						return wrong("%v", u)
					}
					from = u.Height // ascending
				}
				if !c.want(len(utxos)) {
					return wrong("%d outputs", len(utxos))
				}
				return nil
			}})
		}
	}
	flood := &walletrpc.GetAddressUtxosArg{Addresses: []string{anyoneCanSpend}}
	return append(rows,
		row{getAddressUtxos, "an answer above the limit", always(codes.ResourceExhausted), "GetAddressUtxosStream", simulated, func(ctx context.Context, e *env) error {
			return e.ask(ctx, getAddressUtxos, flood)
		}},
		row{getAddressUtxosStream, "an answer of any length", always(codes.OK), "", simulated, func(ctx context.Context, e *env) error {
			return e.requireCount(ctx, getAddressUtxosStream, flood, 15_000)
		}},
	)
}

// utxos asks either method.
func (e *env) utxos(ctx context.Context, method string, arg *walletrpc.GetAddressUtxosArg) (utxos []*walletrpc.GetAddressUtxosReply, err error) {
	if method == getAddressUtxos {
		list := &walletrpc.GetAddressUtxosReplyList{}
		err = e.call(ctx, method, arg, list)
		return list.AddressUtxos, err
	}
	messages, err := e.read(ctx, method, arg)
	for _, m := range messages {
		u := &walletrpc.GetAddressUtxosReply{}
		if err := proto.Unmarshal(m, u); err != nil {
			return nil, wrong("%v", err)
		}
		utxos = append(utxos, u)
	}
	return utxos, err
}
