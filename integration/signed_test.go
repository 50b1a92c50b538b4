package integration

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// stage is a block with one signed transaction of each version from each server, and Zebra's answer to versions that it does not take
// there.
type stage struct {
	name     string
	height   int
	versions []uint32
	refused  map[uint32]rpcError
}

// stages are blocks of three upgrades: the chain of stagedConfig takes version 6 from NU6.3 on, and version 4 until NU7.
func stages() []stage {
	return []stage{
		{"NU6.2", 121, []uint32{4, 5}, map[uint32]rpcError{6: {-22, "v6 transaction must have a NU6.3 or later consensus branch ID"}}},
		{"NU6.3", 131, []uint32{4, 5, 6}, nil},
		{"NU7", 141, []uint32{5, 6}, map[uint32]rpcError{4: {-25, "transaction version 4 not supported by the network upgrade Nu7"}}},
	}
}

// stagedConfig is zebradConfig with the last two upgrades after the first coinbases are mature.
func stagedConfig() string {
	return strings.NewReplacer(`"NU6.3" = 20`, `"NU6.3" = 131`, "NU7 = 40", "NU7 = 141").Replace(zebradConfig)
}

// TestSignedSpends sends signed transactions of every version through two servers beside one node, one without an index and one with a
// complete one, and follows each in both: in the mempool, in its block, and at the addresses. What is expected comes from what was
// signed, not from Zebra's replies; Zebra judges the signatures.
func TestSignedSpends(t *testing.T) {
	t.Parallel()
	n := newNodeOf(t, stagedConfig(), t.TempDir(), "")
	n.start()
	p := &payer{t: t, node: n, branches: &spender{node: n}, alice: newKey("alice"), bob: newKey("bob"), history: make(map[string][]string)}
	p.book(1, n.mine(stages()[0].height-1, p.alice.address()))
	for _, s := range []setup{passthrough, smallSegments} {
		c := newSidecar(t, n.url(), n.cookie(), s)
		c.start()
		p.servers = append(p.servers, server{s.name, c, c.wallet()})
	}
	for _, s := range stages() {
		p.run(s)
	}
	for _, s := range p.servers {
		s.stop()
	}
}

// server is a zsidecar and a client of it.
type server struct {
	name string
	*sidecar
	wallet *wallet
}

// payer owns two keys and keeps their books. Alice gets coinbases and change, Bob is paid.
type payer struct {
	t          *testing.T
	node       *node
	branches   *spender // knows the consensus branch id of the next block
	servers    []server
	alice, bob *key
	coins      []coin              // not spent and not in a pending transaction, in the order of the chain
	history    map[string][]string // by address: the transactions that touch it in the order of the chain, as "height txid"
	pending    []*sent
}

// sent is a transaction that Zebra has accepted.
type sent struct {
	*draft
	raw []byte
	id  []byte // internal order
}

// run mines up to the stage, sends its transactions, and mines them.
func (p *payer) run(s stage) {
	p.t.Helper()
	if tip, _ := p.node.tip(); tip < s.height-1 {
		p.node.mine(s.height-1-tip, keyHash)
	}
	p.settle()
	var streams []*mempoolStream
	for _, s := range p.servers {
		streams = append(streams, followMempool(p.t, s.wallet))
	}
	for _, version := range s.versions {
		for _, through := range p.servers {
			p.pay(version, through, streams)
		}
	}
	coins := slices.Clone(p.coins) // which a refused transaction does not spend
	for version, want := range s.refused {
		for _, through := range p.servers {
			p.requireRefused(through, fmt.Sprintf("version %d in %s", version, s.name), p.draft(version).signed(), want)
		}
	}
	p.coins = coins
	pending := p.pending
	height := p.node.mine(1, keyHash)
	p.book(height, height)
	p.settle()
	for i, server := range p.servers {
		streams[i].requireEndWithin(p.t, 10*time.Second)
		for _, tx := range pending {
			requireTransaction(p.t, server.wallet, tx.id, tx.raw, uint64(height))
			p.requireRefused(server, "a mined transaction", tx.raw, rpcError{-1, "transaction was committed to the best chain"})
		}
		p.requireInBlock(server, height, pending)
		for _, k := range []*key{p.alice, p.bob} {
			p.requireAddress(server, k)
		}
	}
}

// settle waits until every server has the node's tip, in the index too where there is one.
func (p *payer) settle() {
	p.t.Helper()
	tip, hash := p.node.tip()
	for _, s := range p.servers {
		await(p.t, fmt.Sprintf("%s: the tip is %d", s.name, tip), 30*time.Second, func() bool {
			id, err := s.wallet.latest(p.t.Context())
			return err == nil && bytes.Equal(id.Hash, reversed(hash))
		})
		if s.name != passthrough.name {
			awaitComplete(p.t, s.sidecar)
			s.awaitIndex(tip, time.Minute)
		}
	}
}

// draft spends two coins, one of Alice and one of Bob where he has any, and pays Bob a part.
func (p *payer) draft(version uint32) *draft {
	const fee = 20_000 // zatoshi, twice what ZIP 317 asks for two inputs and outputs
	p.t.Helper()
	second := p.alice
	if slices.ContainsFunc(p.coins, func(c coin) bool { return c.owner == p.bob }) {
		second = p.bob
	}
	d := &draft{version: version, branch: p.branches.branch(), in: []coin{p.take(p.alice), p.take(second)}}
	total := d.in[0].value + d.in[1].value
	d.out = []payment{{p.bob, total / 3}, {p.alice, total - total/3 - fee}}
	return d
}

// take removes the oldest coin of the owner: of Alice a coinbase, which is mature.
func (p *payer) take(owner *key) coin {
	p.t.Helper()
	i := slices.IndexFunc(p.coins, func(c coin) bool { return c.owner == owner })
	if i < 0 {
		p.t.Fatalf("%s has no coin", owner.address())
	}
	c := p.coins[i]
	p.coins = slices.Delete(p.coins, i, i+1)
	return c
}

// pay sends a signed transaction through one of the servers, after a copy with a wrong signature and before one that spends the same
// coins, and wants both servers to show it in the mempool.
func (p *payer) pay(version uint32, through server, streams []*mempoolStream) {
	p.t.Helper()
	d := p.draft(version)
	p.requireRefused(through, "a wrong signature", d.tampered(), rpcError{-25, "could not verify a transparent script"})
	raw := d.signed()
	want, err := parsedID(raw)
	if err != nil {
		p.t.Fatal(err)
	}
	tx := &sent{draft: d, raw: raw, id: reversed(want)}
	if got := requireAccepted(p.t, p.node, through.wallet, raw); !bytes.Equal(got, tx.id) {
		p.t.Errorf("SendTransaction answers %x, the parser says %s", reversedBytes(got), want)
	}
	p.pending = append(p.pending, tx)
	for i, s := range p.servers {
		streams[i].requireNextWithin(p.t, raw, 10*time.Second)
		requireTransaction(p.t, s.wallet, tx.id, raw, 0)
	}
	// The server that did not send it may show what it knew up to two seconds ago.
	for _, s := range p.servers {
		await(p.t, s.name+": GetMempoolTx shows the transaction", 10*time.Second, func() bool { return p.shown(s, tx) })
	}
	again := *d
	again.out = []payment{{p.alice, d.out[0].value + d.out[1].value}}
	p.requireRefused(through, "a double spend", again.signed(), rpcError{-25, "another transaction in the mempool has already spent some of its inputs"})
}

// shown tells whether GetMempoolTx has the transaction, which then has to be right.
func (p *payer) shown(s server, tx *sent) bool {
	p.t.Helper()
	for _, got := range mempoolTxs(p.t, s.wallet, &walletrpc.GetMempoolTxRequest{PoolTypes: []walletrpc.PoolType{walletrpc.PoolType_TRANSPARENT}}) {
		if bytes.Equal(got.Txid, tx.id) {
			p.requireCompact(s.name, got, tx.compact(0))
			return true
		}
	}
	return false
}

func (p *payer) requireCompact(where string, got, want *walletrpc.CompactTx) {
	p.t.Helper()
	if !proto.Equal(got, want) {
		p.t.Errorf("%s:\n got %s\nwant %s", where, prototext.Format(got), prototext.Format(want))
	}
}

// compact is how wallets see the transaction.
func (tx *sent) compact(index uint64) *walletrpc.CompactTx {
	c := &walletrpc.CompactTx{Index: index, Txid: tx.id}
	for _, in := range tx.in {
		c.Vin = append(c.Vin, &walletrpc.CompactTxIn{PrevoutTxid: reversed(in.txid), PrevoutIndex: in.index})
	}
	for _, out := range tx.out {
		c.Vout = append(c.Vout, &walletrpc.TxOut{Value: out.value, ScriptPubKey: out.to.script()})
	}
	return c
}

// requireRefused wants Zebra's code and words, of which want has some, from the server that is asked first. When it is asked again
// Zebra has another code, for a moment other words too, and every server has to say the same.
func (p *payer) requireRefused(first server, what string, raw []byte, want rpcError) {
	p.t.Helper()
	got := &walletrpc.SendResponse{}
	err := first.wallet.call(p.t.Context(), "SendTransaction", &walletrpc.RawTransaction{Data: raw}, got)
	if err != nil || int(got.ErrorCode) != want.Code || !strings.Contains(got.ErrorMessage, want.Message) {
		p.t.Errorf("%s, %s: %d %q, %v; want %v", first.name, what, got.ErrorCode, got.ErrorMessage, err, &want)
	}
	await(p.t, "zebra remembers why it refused "+what, 10*time.Second, func() bool {
		var refusal *rpcError
		err := p.node.rpc.call(p.t.Context(), nil, "sendrawtransaction", hex.EncodeToString(raw))
		return errors.As(err, &refusal) && strings.Contains(refusal.Message, want.Message)
	})
	for _, s := range p.servers {
		requireSameWords(p.t, p.node, s.wallet, raw)
	}
}

// book enters the blocks of these heights, which must have every pending transaction.
func (p *payer) book(from, to int) {
	p.t.Helper()
	for height := from; height <= to; height++ {
		for _, tx := range zebraBlock(p.node, height).Tx {
			if i := slices.IndexFunc(p.pending, func(s *sent) bool { return bytes.Equal(s.id, reversed(tx.TxID)) }); i >= 0 {
				p.enter(height, tx.TxID, p.pending[i].draft)
				p.pending = slices.Delete(slices.Clone(p.pending), i, i+1)
			} else if out := tx.Vout[0]; out.ScriptPubKey.Hex == hex.EncodeToString(p.alice.script()) {
				p.enter(height, tx.TxID, &draft{out: []payment{{p.alice, out.ValueZat}}})
			}
		}
	}
	if len(p.pending) > 0 {
		p.t.Fatalf("block %d lacks %d transactions that were sent", to, len(p.pending))
	}
}

func (p *payer) enter(height int, id string, d *draft) {
	touched := make(map[string]bool)
	for _, c := range d.in {
		touched[c.owner.address()] = true
	}
	for i, out := range d.out {
		touched[out.to.address()] = true
		p.coins = append(p.coins, coin{out.to, id, uint32(i), out.value, height})
	}
	for address := range touched {
		p.history[address] = append(p.history[address], fmt.Sprintf("%d %s", height, id))
	}
}

// requireInBlock wants the compact block to have exactly the coinbase and the transactions.
func (p *payer) requireInBlock(s server, height int, txs []*sent) {
	p.t.Helper()
	q := query{getBlockRange, []walletrpc.PoolType{walletrpc.PoolType_TRANSPARENT}}
	err := s.wallet.stream(p.t.Context(), q.method, q.blockRange(height, height), func(message []byte) error {
		block := &walletrpc.CompactBlock{}
		if err := proto.Unmarshal(message, block); err != nil {
			return err
		}
		if len(block.Vtx) != 1+len(txs) {
			return fmt.Errorf("%d transactions, want %d", len(block.Vtx), 1+len(txs))
		}
		for i, got := range block.Vtx[1:] {
			at := slices.IndexFunc(txs, func(tx *sent) bool { return bytes.Equal(tx.id, got.Txid) })
			if at < 0 {
				return fmt.Errorf("an unknown transaction %x", got.Txid)
			}
			p.requireCompact(s.name, got, txs[at].compact(uint64(i)+1))
		}
		return nil
	})
	if err != nil {
		p.t.Errorf("%s: block %d: %v", s.name, height, err)
	}
}

// requireAddress compares the balance, the outputs and the transactions of an address with the books.
func (p *payer) requireAddress(s server, k *key) {
	p.t.Helper()
	ctx, address := p.t.Context(), k.address()
	var balance int64
	var utxos []string
	for _, c := range p.coins {
		if c.owner == k {
			balance += int64(c.value)
			u := zebraUtxo{address, c.txid, hex.EncodeToString(k.script()), int32(c.index), int64(c.value), uint64(c.height)}
			utxos = append(utxos, u.String())
		}
	}
	if got, err := s.wallet.balanceOf(ctx, address); err != nil || got != balance || balance == 0 {
		p.t.Errorf("%s: balance of %s: %d, %v; want %d", s.name, address, got, err, balance)
	}
	list, err := s.wallet.client().GetAddressUtxos(ctx, &walletrpc.GetAddressUtxosArg{Addresses: []string{address}})
	if err != nil {
		p.t.Fatal(err)
	}
	var got []string
	for _, u := range list.AddressUtxos {
		got = append(got, replyString(u))
	}
	if !slices.Equal(got, utxos) {
		p.t.Errorf("%s: outputs of %s:\n got %v\nwant %v", s.name, address, got, utxos)
	}
	filter := &walletrpc.TransparentAddressBlockFilter{Address: address, Range: heights(1, 0)}
	txs, err := receiveAll(s.wallet.client().GetTaddressTxids(ctx, filter))
	if err != nil {
		p.t.Fatal(err)
	}
	got = nil
	for _, tx := range txs {
		id, err := parsedID(tx.Data)
		if err != nil {
			p.t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %s", tx.Height, id))
	}
	if !slices.Equal(got, p.history[address]) {
		p.t.Errorf("%s: transactions of %s:\n got %v\nwant %v", s.name, address, got, p.history[address])
	}
}
