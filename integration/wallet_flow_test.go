package integration

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
)

// walletBirthday is the first block that the wallets look at. Somebody else's Sapling note lies below, so that the tree of that pool is
// not empty there.
const walletBirthday = 4

// paymentExpiry is the number of blocks after which a wallet's payment is void: 120 from NU7 on, 40 below.
const paymentExpiry = 120

// TestRealWallet lets wallet software live on zsidecar: it finds its money in every pool, pays, sees the payment in the mempool stream
// and mined, loses it to a reorg, and recovers. With ZSIDECAR_WALLET_ALL=1 the story is told in every combination, and also to the
// wallet server that Zebra itself has, which shows that the story is right.
func TestRealWallet(t *testing.T) { // not parallel: proofs take all cores
	type position struct {
		name     string
		aboveNU7 bool
		serve    func(*testing.T, recipe) (n *node, addr string)
	}
	positions := []position{
		{"no index, below NU7", false, walletsAt(passthrough)},
		{"index, above NU7", true, walletsAt(smallSegments)},
	}
	if os.Getenv("ZSIDECAR_WALLET_ALL") == "1" {
		positions = append(positions,
			position{"no index, above NU7", true, walletsAt(passthrough)},
			position{"index, below NU7", false, walletsAt(smallSegments)},
			position{"Zebra, below NU7", false, walletsAtZebra},
			position{"Zebra, above NU7", true, walletsAtZebra},
		)
	}
	for _, p := range positions {
		t.Run(p.name, func(t *testing.T) {
			n, addr := p.serve(t, walletChain(t, p.aboveNU7))
			testRealWallet(t, n, addr)
		})
	}
}

// walletsAt runs a zsidecar, with the index complete where it has one, and sees in the end that the right source served the blocks.
func walletsAt(s setup) func(*testing.T, recipe) (*node, string) {
	return func(t *testing.T, chain recipe) (*node, string) {
		n := recipeNode(t, chain, "")
		c := newSidecar(t, n.url(), n.cookie(), s)
		c.start()
		awaitAnswer(t, c.wallet())
		if tip, _ := n.tip(); !s.noIndex {
			c.awaitIndex(tip, time.Minute)
		}
		t.Cleanup(func() {
			if served := c.served("index"); (served > 0) == s.noIndex {
				t.Errorf("the index served %v blocks", served)
			}
			c.stop()
		})
		return n, c.grpcAddr
	}
}

func walletsAtZebra(t *testing.T, chain recipe) (*node, string) {
	addr := servertest.FreeAddr(t)
	n := recipeNode(t, chain, fmt.Sprintf("lightwalletd_listen_addr = %q\n", addr))
	await(t, "zebra's wallet server listens", 10*time.Second, func() bool { return listening(addr) })
	return n, addr
}

// walletChain pays the payer in every pool, and gives that ten confirmations. NU6.3 is active from 20 on and NU7 from 40 (zebradConfig).
func walletChain(t *testing.T, aboveNU7 bool) recipe {
	payer := offlineWallet(t, payerSeed)
	r := recipe{
		{saplingOnly, 1, 0},       // 1
		{keyHash, 4, 0},           // 2-5
		{payer.Sapling, 1, 0},     // 6
		{payer.Orchard, 1, 0},     // 7: Orchard
		{payer.Transparent, 1, 0}, // 8
		{keyHash, 11, 0},          // 9-19
		{payer.Orchard, 1, 0},     // 20: Ironwood
		{keyHash, 10, 0},          // up to 30
	}
	if aboveNU7 {
		r = append(r, recipe{
			{keyHash, 10, 0},      // 31-40
			{payer.Orchard, 1, 0}, // 41: Ironwood
			{keyHash, 20, 0},      // up to 61
		}...)
	}
	return r
}

// testRealWallet takes a payer and a payee through the whole story at one server.
func testRealWallet(t *testing.T, n *node, server string) {
	s := &walletStory{
		node: n, server: server,
		payer: newLightWallet(t, "payer", payerSeed, n, server, walletBirthday),
		payee: newLightWallet(t, "payee", payeeSeed, n, server, walletBirthday),
	}
	s.findMoney(t)
	first := s.pay(t)
	again := s.loseAndResend(t, first)
	s.loseForGood(t, again)
}

// walletStory is one payment and what it has to leave behind. Amounts are in zatoshi.
type walletStory struct {
	node         *node
	server       string
	payer, payee *lightWallet
	before       walletBalance // the payer's, before the payment
	mined        valueBalances // what coinbases have paid the payer
	payment      sentPayment
	amount, left uint64        // what the payee has after the payment, and the payer
	after        walletBalance // the payer's, when the change can be spent
}

// findMoney syncs both wallets from their birthday.
func (s *walletStory) findMoney(t *testing.T) {
	t.Helper()
	tip, _ := s.node.tip()
	s.before, s.mined = s.payer.sync(), minedFor(s.node, tip)
	requireMoney(t, s.before, s.mined)
	var transparent struct{ Balance uint64 }
	s.node.call(&transparent, "getaddressbalance", s.payer.Transparent)
	if got := s.before.Transparent.total(); got != transparent.Balance || got == 0 {
		t.Errorf("the wallet has %d transparent, Zebra says %d", got, transparent.Balance)
	}
	if b := s.payee.sync(); b.Total != 0 {
		t.Errorf("the payee has %d before anything was paid", b.Total)
	}
}

// pay makes the payment, shows it in the mempool stream, and returns the height at which it was mined, with four blocks above.
func (s *walletStory) pay(t *testing.T) (height int) {
	t.Helper()
	const memo = "for the tests"
	// More than any two pools hold, so that the payment spends in all three.
	s.amount = s.before.Sapling.Spendable + s.before.Orchard.Spendable + s.before.Ironwood.Spendable - 98_765_432
	watch := s.payee.watchMempool()
	s.payment = s.payer.send(s.payee.Unified, s.amount, memo)
	seen := watch.await("transaction", s.payment.TxID, 10*time.Second)
	want := []walletNote{{"ironwood", s.amount, "Incoming", memo}}
	if !slices.Equal(seen.Notes, want) || seen.Height != 0 {
		t.Errorf("the payee sees %+v in the mempool stream, want %v at height 0", seen, want)
	}
	s.requireStatus(t, walletStatus{Server: "unmined"})

	height = s.node.mine(1, keyHash)
	watch.await("end", "", 10*time.Second)
	s.requireSpends(t, height)
	s.left = s.before.Total - s.amount - s.payment.Fee
	s.requirePaid(t, height)
	s.node.mine(4, keyHash)
	s.after = s.requirePaid(t, height)
	if s.after.Orchard.Spendable == 0 {
		t.Errorf("the payer cannot spend the change after five blocks: %+v", s.after)
	}
	return height
}

// loseAndResend replaces five blocks that both wallets have scanned, the payment's among them, and sends the payment again. It returns
// the new height.
func (s *walletStory) loseAndResend(t *testing.T, first int) (height int) {
	t.Helper()
	s.node.invalidate(first)
	s.node.mine(6, keyHash)
	s.requireLost(t)

	s.payer.resend(s.payment.TxID)
	height = s.node.mine(1, keyHash)
	s.requireSpends(t, height)
	s.requirePaid(t, height)

	s.node.mine(9, keyHash) // ten confirmations, which strangers' money needs
	if b := s.requirePaid(t, height); b.Orchard.Spendable != s.after.Orchard.Spendable {
		t.Errorf("the payer can spend %d of the change, want %d", b.Orchard.Spendable, s.after.Orchard.Spendable)
	}
	if b := s.payee.balance(); b.Ironwood.Spendable != s.amount {
		t.Errorf("the payee can spend %d, want %d", b.Ironwood.Spendable, s.amount)
	}
	return height
}

// loseForGood replaces ten blocks, after which nobody sends the payment again: it expires, and the payer has the money back.
func (s *walletStory) loseForGood(t *testing.T, again int) {
	t.Helper()
	s.node.invalidate(again)
	s.node.mine(paymentExpiry+1, keyHash)
	payer, payee := s.sync(t)
	want := s.before
	want.Tip, want.Scanned = payer.Tip, payer.Scanned
	if payer != want || payee.Total != 0 {
		t.Errorf("after the payment has expired the payer has %+v, want %+v; the payee has %+v", payer, want, payee)
	}
}

// requirePaid syncs both wallets, wants each to hold its money to the zatoshi, and returns the payer's.
func (s *walletStory) requirePaid(t *testing.T, height int) walletBalance {
	t.Helper()
	payer, payee := s.sync(t)
	if payer.Total != s.left {
		t.Errorf("the payer has %d, want %d: %+v", payer.Total, s.left, payer)
	}
	if payee.Total != s.amount || payee.Ironwood.total() != s.amount {
		t.Errorf("the payee has %d, want %d in Ironwood: %+v", payee.Total, s.amount, payee)
	}
	s.requireStatus(t, walletStatus{"mined", height, height})
	return payer
}

// requireLost syncs both wallets and wants them to know that the payment is in no block any more. They still expect it, because it
// has not expired, but none of its money can be spent.
func (s *walletStory) requireLost(t *testing.T) {
	t.Helper()
	payer, payee := s.sync(t)
	if payer.Orchard.Spendable != 0 || payer.Orchard.ChangePending == 0 || payer.Total != s.left {
		t.Errorf("after the reorg the payer has %+v, want the change to be pending", payer)
	}
	if payee.Ironwood.Spendable != 0 || payee.Ironwood.Pending != s.amount {
		t.Errorf("after the reorg the payee has %+v, want %d to be pending", payee, s.amount)
	}
	s.requireStatus(t, walletStatus{Server: "unknown"})
}

// sync waits until the server has followed the node, and brings both wallets there.
func (s *walletStory) sync(t *testing.T) (payer, payee walletBalance) {
	t.Helper()
	tip, hash := s.node.tip()
	w := dial(t, s.server)
	await(t, "the server names the node's tip", 5*time.Second, func() bool {
		id, err := w.latest(t.Context())
		return err == nil && id.Height == uint64(tip) && slices.Equal(id.Hash, reversed(hash))
	})
	payer, payee = s.payer.sync(), s.payee.sync()
	if payer.Scanned != tip || payee.Scanned != tip {
		t.Errorf("the wallets have scanned up to %d and %d, the tip is %d", payer.Scanned, payee.Scanned, tip)
	}
	return payer, payee
}

// requireStatus asks the server and both wallets where the payment is.
func (s *walletStory) requireStatus(t *testing.T, want walletStatus) {
	t.Helper()
	for _, w := range []*lightWallet{s.payer, s.payee} {
		if got := w.transaction(s.payment.TxID); got != want {
			t.Errorf("%s: the payment is %+v, want %+v", w.name, got, want)
		}
	}
}

// valueBalances is what a transaction takes out of each shielded pool, in zatoshi: Zebra's own account of it.
type valueBalances struct {
	TxID              string
	Vout              []zOutput
	ValueBalanceZat   int64
	Orchard, Ironwood struct{ ValueBalanceZat int64 }
}

// blockValues asks Zebra for the value balances of a block's transactions.
func blockValues(n *node, height int) []valueBalances {
	n.tb.Helper()
	var block struct{ Tx []valueBalances }
	n.call(&block, "getblock", strconv.Itoa(height), 2)
	return block.Tx
}

// minedFor adds up what the coinbases above the birthday put into each shielded pool: nobody but the payer is paid there.
func minedFor(n *node, tip int) valueBalances {
	n.tb.Helper()
	var sum valueBalances
	for height := walletBirthday; height <= tip; height++ {
		coinbase := blockValues(n, height)[0]
		sum.ValueBalanceZat -= coinbase.ValueBalanceZat
		sum.Orchard.ValueBalanceZat -= coinbase.Orchard.ValueBalanceZat
		sum.Ironwood.ValueBalanceZat -= coinbase.Ironwood.ValueBalanceZat
	}
	return sum
}

// requireMoney wants the wallet to hold what was mined for it, spendable, in each of the three pools.
func requireMoney(t *testing.T, b walletBalance, mined valueBalances) {
	t.Helper()
	for _, pool := range []struct {
		name string
		got  uint64
		want int64
	}{
		{"Sapling", b.Sapling.Spendable, mined.ValueBalanceZat},
		{"Orchard", b.Orchard.Spendable, mined.Orchard.ValueBalanceZat},
		{"Ironwood", b.Ironwood.Spendable, mined.Ironwood.ValueBalanceZat},
	} {
		if pool.want <= 0 || pool.got != uint64(pool.want) {
			t.Errorf("the wallet can spend %d in %s, the blocks paid it %d", pool.got, pool.name, pool.want)
		}
	}
}

// requireSpends wants the payment to be in a block, to spend all that was mined in the three pools, and to have the fee that the wallet
// says.
func (s *walletStory) requireSpends(t *testing.T, height int) {
	t.Helper()
	for _, tx := range blockValues(s.node, height) {
		if tx.TxID != s.payment.TxID {
			continue
		}
		sapling, orchard, ironwood := tx.ValueBalanceZat, tx.Orchard.ValueBalanceZat, tx.Ironwood.ValueBalanceZat
		if sapling != s.mined.ValueBalanceZat || orchard <= 0 || ironwood != s.mined.Ironwood.ValueBalanceZat-int64(s.amount) {
			t.Errorf("the payment takes %d out of Sapling, %d out of Orchard, %d out of Ironwood", sapling, orchard, ironwood)
		}
		// What leaves the pools and enters none is the fee.
		if fee := sapling + orchard + ironwood; fee != int64(s.payment.Fee) {
			t.Errorf("the wallet says that the fee is %d, the chain says %d", s.payment.Fee, fee)
		}
		return
	}
	t.Fatalf("block %d lacks the payment %s", height, s.payment.TxID)
}
