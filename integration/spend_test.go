package integration

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// redeemOutput is the scriptPubKey of anyoneCanSpend: OP_HASH160 <hash of the one byte OP_1> OP_EQUAL.
const redeemOutput = "a914da1745e9b549bd0bfa1a569971c77eba30cd5a4b87"

// redeemInput pushes the redeem script, which is all that spending such an output takes.
var redeemInput = []byte{0x01, 0x51}

// spender makes transparent transactions out of the coinbases that pay anyoneCanSpend: two inputs each, by turns version 5 and 6.
type spender struct {
	node    *node
	next    int // height from which on coinbases were not looked at
	made    int
	pending []string // txids that have to be in the next block
}

// coinbaseMaturity is the number of blocks before a coinbase may be spent.
const coinbaseMaturity = 100

type prevout struct {
	txid  string // display order
	value uint64
}

// coin returns the next mature coinbase output that pays anyoneCanSpend.
func (s *spender) coin() prevout {
	s.node.tb.Helper()
	tip, _ := s.node.tip()
	for s.next+coinbaseMaturity <= tip {
		block := zebraBlock(s.node, s.next)
		s.next++
		coinbase := block.Tx[0]
		if len(coinbase.Vout) == 1 && coinbase.Vout[0].ScriptPubKey.Hex == redeemOutput {
			return prevout{coinbase.TxID, coinbase.Vout[0].ValueZat}
		}
	}
	s.node.tb.Fatalf("no mature coinbase pays %s at tip %d", anyoneCanSpend, tip)
	return prevout{}
}

// send puts one transaction into the mempool: two inputs, and outputs back to anyoneCanSpend, to a key hash and to a data script.
func (s *spender) send() {
	s.node.tb.Helper()
	in := []prevout{s.coin(), s.coin()}
	var info struct{ Consensus struct{ NextBlock string } }
	s.node.call(&info, "getblockchaininfo")
	branch, err := hex.DecodeString(info.Consensus.NextBlock)
	if err != nil {
		s.node.tb.Fatal(err)
	}
	s.made++
	raw := transparentTx(s.made%2 == 0, binary.BigEndian.Uint32(branch), in, s.made)
	var txid string
	s.node.call(&txid, "sendrawtransaction", hex.EncodeToString(raw))
	s.pending = append(s.pending, txid)
}

// requireMined fails unless the newest block with transactions holds everything that was sent.
func (s *spender) requireMined() {
	s.node.tb.Helper()
	if len(s.pending) == 0 {
		return
	}
	tip, _ := s.node.tip()
	for _, tx := range zebraBlock(s.node, tip).Tx {
		s.pending = slices.DeleteFunc(s.pending, func(txid string) bool { return txid == tx.TxID })
	}
	if len(s.pending) > 0 {
		s.node.tb.Fatalf("block %d lacks the transactions %v", tip, s.pending)
	}
}

// purse makes signed transactions out of coins of its own, two each, by turns version 5 and 6.
type purse struct {
	*spender // knows the consensus branch id of the next block
	owner    *key
	coins    []coin
}

// purse turns one coinbase into coins of a key, and mines that.
func (s *spender) purse(coins int) *purse {
	const fee = 5_000 // zatoshi for each output, as ZIP 317 wants it
	s.node.tb.Helper()
	p := &purse{spender: s, owner: newKey("purse")}
	from := s.coin()
	split := &draft{version: 6, branch: s.branch(), in: []coin{{txid: from.txid, value: from.value}}}
	for range coins {
		split.out = append(split.out, payment{p.owner, from.value/uint64(coins) - fee})
	}
	var txid string
	s.node.call(&txid, "sendrawtransaction", hex.EncodeToString(split.serialize([][]byte{redeemInput})))
	s.pending = append(s.pending, txid)
	height := s.node.mine(1, keyHash)
	s.requireMined()
	for i, out := range split.out {
		p.coins = append(p.coins, coin{p.owner, txid, uint32(i), out.value, height})
	}
	return p
}

// raw makes a transaction and sends it to nobody.
func (p *purse) raw() []byte {
	const fee = 20_000 // zatoshi
	p.node.tb.Helper()
	if len(p.coins) < 2 {
		p.node.tb.Fatal("the purse is empty: make it with more coins")
	}
	p.made++
	d := &draft{version: 5 + uint32(p.made%2), branch: p.branch(), in: p.coins[:2]}
	p.coins = p.coins[2:]
	d.out = []payment{{p.owner, d.in[0].value}, {newKey("shop"), d.in[1].value - fee}}
	return d.signed()
}

// transparentTx serializes a version 5 (ZIP 225) or version 6 transaction without shielded parts.
func transparentTx(v6 bool, branch uint32, in []prevout, salt int) []byte {
	const fee = 50_000 // zatoshi, well above what ZIP 317 asks for so few inputs and outputs
	version, group := uint32(5|1<<31), uint32(0x26A7270A)
	if v6 {
		version, group = 6|1<<31, 0xD884B698
	}
	le := binary.LittleEndian
	var b []byte
	for _, word := range []uint32{version, group, branch, 0, 0} { // lock time 0, no expiry
		b = le.AppendUint32(b, word)
	}
	total := uint64(0)
	b = append(b, byte(len(in)))
	for _, p := range in {
		total += p.value
		b = append(b, reversed(p.txid)...)
		b = le.AppendUint32(b, 0)
		b = append(append(b, byte(len(redeemInput))), redeemInput...)
		b = le.AppendUint32(b, 0xffff_ffff)
	}
	outputs := []struct {
		value  uint64
		script string
	}{
		{total/2 - fee, redeemOutput},
		{total - total/2, "76a914" + hex.EncodeToString(slices.Repeat([]byte{byte(salt)}, 20)) + "88ac"},
		{0, "6a04" + hex.EncodeToString(le.AppendUint32(nil, uint32(salt)))},
	}
	b = append(b, byte(len(outputs)))
	for _, out := range outputs {
		script, _ := hex.DecodeString(out.script) // built above
		b = le.AppendUint64(b, out.value)
		b = append(append(b, byte(len(script))), script...)
	}
	b = append(b, 0, 0, 0) // no Sapling spends, Sapling outputs, Orchard actions
	if v6 {
		b = append(b, 0) // no Ironwood actions
	}
	return b
}
