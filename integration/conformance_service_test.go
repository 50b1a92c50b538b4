package integration

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/zsidecar/zsidecar/proto/indexrpc"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// everyMethod names all of them, as the document orders them, with a request that is answered.
func everyMethod(e *env) []exchange {
	filter := &walletrpc.TransparentAddressBlockFilter{Address: keyHash, Range: heightRange(e.middle, e.middle)}
	list := &walletrpc.AddressList{Addresses: []string{keyHash}}
	utxos := &walletrpc.GetAddressUtxosArg{Addresses: []string{keyHash}, MaxEntries: 1}
	block := id(e.middle, nil)
	return []exchange{
		{"GetLatestBlock", &walletrpc.ChainSpec{}},
		{getBlock, block},
		{getBlockNullifiers, block},
		{getBlockRange, &walletrpc.BlockRange{Start: block, End: block}},
		{getBlockRangeNullifiers, &walletrpc.BlockRange{Start: block, End: block}},
		{getTransaction, &walletrpc.TxFilter{Hash: wrongHash}},
		{sendTransaction, &walletrpc.RawTransaction{Data: []byte{1}}},
		{getTaddressTransactions, filter},
		{getTaddressTxids, filter},
		{getTaddressBalance, list},
		{getTaddressBalanceStream, &walletrpc.Address{Address: keyHash}},
		{getAddressUtxos, utxos},
		{getAddressUtxosStream, utxos},
		{"GetMempoolTx", &walletrpc.GetMempoolTxRequest{}},
		{getMempoolStream, &walletrpc.Empty{}},
		{getTreeState, block},
		{getLatestTreeState, &walletrpc.Empty{}},
		{getSubtreeRoots, &walletrpc.GetSubtreeRootsArg{}},
		{"GetLightdInfo", &walletrpc.Empty{}},
		{"Ping", &walletrpc.Duration{}},
	}
}

type exchange struct {
	method  string
	request proto.Message
}

// methodNames is the order of the document.
func methodNames() (names []string) {
	for _, s := range everyMethod(&env{}) {
		names = append(names, s.method)
	}
	return names
}

func streamed(method string) bool {
	return slices.ContainsFunc(walletrpc.CompactTxStreamer_ServiceDesc.Streams, func(d grpc.StreamDesc) bool { return d.StreamName == method })
}

// raw is a request of these bytes.
func raw(b []byte) proto.Message {
	m := &emptypb.Empty{}
	m.ProtoReflect().SetUnknown(b)
	return m
}

// put sends a request of any method and reads its answer to the end.
func (e *env) put(ctx context.Context, method string, request proto.Message) error {
	if streamed(method) {
		_, err := e.read(ctx, method, request)
		return err
	}
	return e.ask(ctx, method, request)
}

// requestRows are about requests as such.
func requestRows() (rows []row) {
	for _, method := range methodNames() {
		tooLarge := protowire.AppendBytes(protowire.AppendTag(nil, 1000, protowire.BytesType), make([]byte, 1<<20))
		if method == sendTransaction {
			tooLarge = append(tooLarge, bytes.Repeat(tooLarge, 3)...)
		}
		rows = append(rows,
			row{method, "a request that does not decode", always(codes.InvalidArgument), "", anywhere, func(ctx context.Context, e *env) error {
				return e.put(ctx, method, raw([]byte{0x0a, 100, 1}))
			}},
			row{method, "a request above the limit of its size", always(codes.ResourceExhausted), "", anywhere, func(ctx context.Context, e *env) error {
				return e.put(ctx, method, raw(tooLarge))
			}},
		)
		if method == "Ping" || method == getMempoolStream {
			continue // the one is switched off, the other does not end
		}
		code := codes.OK
		if method == getTransaction {
			code = codes.NotFound
		}
		rows = append(rows, row{method, "unknown fields are ignored", always(code), "", anywhere, func(ctx context.Context, e *env) error {
			i := slices.IndexFunc(everyMethod(e), func(s exchange) bool { return s.method == method })
			request := proto.Clone(everyMethod(e)[i].request)
			request.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1))
			return e.put(ctx, method, request)
		}})
	}
	return rows
}

func infoRows() []row {
	return []row{{"GetLightdInfo", "this server and its chain", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
		info := &walletrpc.LightdInfo{}
		if err := e.call(ctx, "GetLightdInfo", &walletrpc.Empty{}, info); err != nil {
			return err
		}
		branch := regexp.MustCompile("^[0-9a-f]{8}$").MatchString(info.ConsensusBranchId) && info.ConsensusBranchId != "00000000"
		if info.Version == "" || info.Vendor != "zsidecar" || !info.TaddrSupport || info.ChainName != "test" || !branch ||
			info.SaplingActivationHeight != 1 || info.BlockHeight != e.tip || info.EstimatedHeight < info.BlockHeight ||
			info.ZcashdBuild == "" || info.ZcashdSubversion == "" || info.UpgradeName != "" || info.UpgradeHeight != 0 ||
			info.LightwalletProtocolVersion != "v0.5.0" {
			return wrong("%v", info)
		}
		return nil
	}}}
}

func pingRows() []row {
	ping := func(ctx context.Context, e *env, microseconds int64, limit time.Duration) error {
		got := &walletrpc.PingResponse{}
		w := e.another("--ping-very-insecure")
		ctx, cancel := context.WithTimeout(ctx, limit) // of the call alone
		defer cancel()
		err := w.call(ctx, "Ping", &walletrpc.Duration{IntervalUs: microseconds}, got)
		if err == nil && (got.Entry != 1 || got.Exit != 0) {
			return wrong("%v", got)
		}
		return err
	}
	return []row{
		{"Ping", "switched off", always(codes.FailedPrecondition), "--ping-very-insecure", anywhere, func(ctx context.Context, e *env) error {
			return e.ask(ctx, "Ping", &walletrpc.Duration{IntervalUs: 1})
		}},
		{"Ping", "allowed", always(codes.OK), "", simulated, func(ctx context.Context, e *env) error { return ping(ctx, e, 1000, rowLimit) }},
		{"Ping", "allowed, less than nothing", always(codes.OK), "", simulated, func(ctx context.Context, e *env) error { return ping(ctx, e, -1<<63, rowLimit) }},
		{"Ping", "allowed, the client's deadline is earlier", always(codes.DeadlineExceeded), "", simulated, func(ctx context.Context, e *env) error {
			return ping(ctx, e, 1<<63-1, 500*time.Millisecond)
		}},
	}
}

const subscribeIndexedTips = "SubscribeIndexedTips"

func subscriptionRows() []row {
	return []row{{subscribeIndexedTips, "the tip, then each change", always(codes.OK), "", anywhere, func(ctx context.Context, e *env) error {
		stream, err := indexrpc.NewIndexedTipServiceClient(e.conn).SubscribeIndexedTips(ctx, &indexrpc.SubscribeIndexedTipsRequest{})
		if err != nil {
			return err
		}
		for range 2 {
			got, err := stream.Recv()
			if err != nil {
				return err
			}
			if got.Height != uint32(e.tip) || !bytes.Equal(got.Hash, e.newest) {
				return wrong("%v, want %d %x", got, e.tip, e.newest)
			}
			if err := e.mine(ctx); err != nil {
				return err
			}
			if err := e.settle(ctx); err != nil {
				return err
			}
		}
		return nil
	}}}
}
