package integration

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// env is what the rows of the conformance table run in: a server in one position, and the node behind it. Rows run one after the other.
type env struct {
	tb       testing.TB
	position setup
	place    place

	server *sidecar // nil beside Zebra's own wallet server
	*wallet
	rpc *rpcClient
	sim *zebratest.Node // nil beside a real node

	tip    uint64
	newest []byte // hash of the tip in internal order
	middle uint64 // a height whose block pays keyHash
	hash   []byte // of that block

	pay  func() []byte                   // a transaction that the node will take
	mine func(ctx context.Context) error // a block on the tip
}

// conformanceConfig makes sealed segments of a short chain, and a limit that a test can reach.
const conformanceConfig = smallConfig + "max_unary_reply_bytes = 1048576\n"

// texAddress is keyHash as TEX (ZIP 320).
const texAddress = "textest1vk37d06xel8t7kjvl6htu8js0y6fhkqje0ncqm"

// newSimulatedEnv runs the program beside a simulated node whose chain has every pool and one complete Sapling subtree.
func newSimulatedEnv(t *testing.T, s setup) *env {
	t.Helper()
	c := newSimulatedChain(t)
	extend(t, c, 33, wideSapling)
	extend(t, c, 1, zebratest.Paying(transparentAddress(t, anyoneCanSpend), 14_999)) // more than fit into one answer
	extend(t, c, 66, zebratest.Paying(transparentAddress(t, keyHash), 3))
	n := newSimulatedNode(t, c)
	seed := uint64(0)
	e := &env{tb: t, position: s, place: simulated, rpc: newRPCClient(hostOf(t, n.URL()), n.CookieFile()), sim: n, middle: 100}
	e.pay = func() []byte {
		seed++
		return chaintest.Tx{Version: 5, BranchID: chaintest.NU7, Inputs: 1, Outputs: 2, Seed: seed}.Append(nil)
	}
	e.mine = func(context.Context) error { return n.Chain().Extend(1, zebratest.Small) }
	for range 40 {
		n.AddTransactions(e.pay())
	}
	e.begin(n.URL(), n.CookieFile())
	return e
}

// newSimulatedChain has 50 blocks of every kind.
func newSimulatedChain(tb testing.TB) *zebratest.Chain {
	tb.Helper()
	c, err := zebratest.NewChain(zebratest.ChainOptions{Network: zebratest.Test})
	if err != nil {
		tb.Fatal(err)
	}
	extend(tb, c, 30, zebratest.Mixed)
	extend(tb, c, 20, zebratest.Paying(transparentAddress(tb, keyHash), 2))
	return c
}

func extend(tb testing.TB, c *zebratest.Chain, blocks int, kind zebratest.Kind) {
	tb.Helper()
	if err := c.Extend(blocks, kind); err != nil {
		tb.Fatal(err)
	}
}

// wideSapling is a block of 2,000 Sapling outputs: 33 of them complete a subtree.
func wideSapling(b *chaintest.Builder, dst []byte, h chain.Height, prev chain.Hash, seed uint64) []byte {
	coinbase := chaintest.Tx{Version: 5, BranchID: chaintest.NU7, Coinbase: true, Height: h, Outputs: 1, Seed: seed + uint64(h)}
	wide := chaintest.Tx{Version: 4, SaplingOutputs: 2000, Seed: seed ^ uint64(h)<<20}
	dst, _ = b.Block(dst, prev, chaintest.BlockTime(h), seed, coinbase.Append(nil), wide.Append(nil)) // both are well formed
	return dst
}

func transparentAddress(tb testing.TB, text string) chain.TransparentAddress {
	tb.Helper()
	a, err := chain.ParseTransparent(chain.TestNetwork, text)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// newSimulatedNode starts a node that serves the chain.
func newSimulatedNode(tb testing.TB, c *zebratest.Chain) *zebratest.Node {
	tb.Helper()
	n := zebratest.NewNode(c, zebratest.NodeOptions{CookieDir: tb.TempDir()})
	if err := n.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := n.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return n
}

func hostOf(tb testing.TB, url string) string {
	tb.Helper()
	host := strings.TrimPrefix(url, "http://")
	if _, _, err := net.SplitHostPort(host); err != nil {
		tb.Fatal(err)
	}
	return host
}

// newZebradEnv runs the program beside a real node with the fixture chain and two signed transactions in its mempool.
func newZebradEnv(t *testing.T, s setup) *env {
	t.Helper()
	n := fixtureNode(t, "")
	e := signedFacts(t, n)
	e.position = s
	e.begin(n.url(), n.cookie())
	return e
}

// firstCoinbase is the height of the first coinbase of the fixture chain that the chain itself does not spend.
const firstCoinbase = 300

// zebradFacts pays without signatures and leaves the tip where it is.
func zebradFacts(t *testing.T, n *node) *env {
	t.Helper()
	return payingFacts(t, n, (&spender{node: n, next: firstCoinbase}).raw)
}

// signedFacts mines one block, with the coins that signed transactions spend.
func signedFacts(t *testing.T, n *node) *env {
	t.Helper()
	return payingFacts(t, n, (&spender{node: n, next: firstCoinbase}).purse(100).raw)
}

// payingFacts fills the mempool with two transactions of the kind that the rows will send.
func payingFacts(t *testing.T, n *node, pay func() []byte) *env {
	t.Helper()
	for range 2 {
		requireSent(t, n, pay())
	}
	return &env{
		tb: t, place: onZebrad, rpc: n.rpc, middle: 1000, pay: pay,
		mine: func(ctx context.Context) error { return n.rpc.call(ctx, nil, "generatetoaddress", 1, keyHash) },
	}
}

// begin starts the server and waits until it is in its position.
func (e *env) begin(url, cookie string) {
	e.tb.Helper()
	e.server = startConforming(e.tb, url, cookie, e.position)
	e.wallet = e.server.wallet()
	awaitAnswer(e.tb, e.wallet)
	if !e.position.noIndex {
		awaitComplete(e.tb, e.server)
	}
	if err := e.look(e.tb.Context()); err != nil {
		e.tb.Fatal(err)
	}
}

// startConforming starts a server; more are more arguments.
func startConforming(tb testing.TB, url, cookie string, s setup, more ...string) *sidecar {
	tb.Helper()
	c := newSidecar(tb, url, cookie, s)
	config := filepath.Join(tb.TempDir(), "zsidecar.toml")
	if err := os.WriteFile(config, []byte(conformanceConfig), 0o600); err != nil {
		tb.Fatal(err)
	}
	c.args = append(append(c.args, "--config", config), more...)
	c.start()
	return c
}

func awaitComplete(tb testing.TB, c *sidecar) {
	tb.Helper()
	await(tb, "the index is complete", time.Minute, func() bool { return c.metric("zsidecar_index_complete") == 1 })
}

// another starts one more server in the same position, which nobody has asked anything yet.
func (e *env) another(more ...string) *wallet {
	e.tb.Helper()
	w := startConforming(e.tb, e.rpc.url, e.rpc.cookie, e.position, more...).wallet()
	awaitAnswer(e.tb, w)
	return w
}

// look reads the node's tip.
func (e *env) look(ctx context.Context) error {
	if err := e.rpc.call(ctx, &e.tip, "getblockcount"); err != nil {
		return err
	}
	var err error
	if e.newest, err = e.hashAt(ctx, e.tip); err != nil {
		return err
	}
	e.hash, err = e.hashAt(ctx, e.middle)
	return err
}

// settle waits until the server serves the node's tip, after that has changed.
func (e *env) settle(ctx context.Context) error {
	if err := e.look(ctx); err != nil {
		return err
	}
	for {
		id, err := e.latest(ctx)
		if err == nil && bytes.Equal(id.Hash, e.newest) && e.indexed() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server does not reach the tip %d: it is at %v (%v)", e.tip, id, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// indexed tells whether the index has the whole chain, where there is one: after a reorg it is incomplete for a moment.
func (e *env) indexed() bool {
	return e.position.noIndex || e.server.indexHeight() == int(e.tip) && e.server.metric("zsidecar_index_complete") == 1
}

// hashAt is the hash of a block in internal order.
func (e *env) hashAt(ctx context.Context, height uint64) ([]byte, error) {
	var hash string
	err := e.rpc.call(ctx, &hash, "getblockhash", height)
	return reversed(hash), err
}

// pooled are the ids of the node's mempool in internal order.
func (e *env) pooled(ctx context.Context) ([][]byte, error) {
	var list []string
	if err := e.rpc.call(ctx, &list, "getrawmempool"); err != nil {
		return nil, err
	}
	var ids [][]byte
	for _, txid := range list {
		ids = append(ids, reversed(txid))
	}
	return ids, nil
}

// minedTxid is the id of the coinbase of the block in the middle.
func (e *env) minedTxid(ctx context.Context) ([]byte, error) {
	var block struct{ Tx []string }
	if err := e.rpc.call(ctx, &block, "getblock", fmt.Sprint(e.middle), 1); err != nil {
		return nil, err
	}
	return reversed(block.Tx[0]), nil
}

// ask sends a unary request whose answer does not matter.
func (e *env) ask(ctx context.Context, method string, request proto.Message) error {
	return e.call(ctx, method, request, new([]byte))
}

// read reads a stream to its end and returns its messages.
func (e *env) read(ctx context.Context, method string, request proto.Message) (messages [][]byte, err error) {
	err = e.stream(ctx, method, request, func(m []byte) error {
		messages = append(messages, bytes.Clone(m))
		return nil
	})
	return messages, err
}

// requireCount reads a stream and wants so many messages.
func (e *env) requireCount(ctx context.Context, method string, request proto.Message, want int) error {
	messages, err := e.read(ctx, method, request)
	if len(messages) != want {
		return fmt.Errorf("%d messages (%v), want %d", len(messages), err, want)
	}
	return err
}

// displayed is a hash as RPC writes it.
func displayed(hash []byte) string { return hex.EncodeToString(reversedBytes(hash)) }

// wrong is what a row returns when the answer is not the right one.
func wrong(format string, args ...any) error { return fmt.Errorf(format, args...) }

// hugeHeight is above every tip, and a trap for smaller integers.
type hugeHeight struct {
	name   string
	height uint64
}

func hugeHeights() []hugeHeight {
	return []hugeHeight{{"2^31-1", 1<<31 - 1}, {"2^31", 1 << 31}, {"2^32", 1 << 32}, {"2^32+1", 1<<32 + 1}, {"2^63", 1 << 63}, {"2^64-1", 1<<64 - 1}}
}
