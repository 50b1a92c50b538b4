package zebratest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// transparentIndex is what Zebra's index of transparent addresses holds of one chain, in chain order. Genesis is left out, as there.
// Of a Base there are the newest blocks alone: nobody knows the addresses in its others, and they are too many to be held in memory.
// Once made it is not changed.
type transparentIndex struct {
	tip          chain.BlockID
	outputs      []*transparentOutput
	transactions []touchedTransaction
}

type transparentOutput struct {
	address chain.TransparentAddress
	id      chain.TxID
	index   uint32
	script  []byte
	value   int64
	height  chain.Height
	spent   bool
}

// touchedTransaction pays to addresses or spends from them.
type touchedTransaction struct {
	id        chain.TxID
	height    chain.Height
	addresses []chain.TransparentAddress
}

func (t touchedTransaction) touches(addresses map[chain.TransparentAddress]bool) bool {
	for _, a := range t.addresses {
		if addresses[a] {
			return true
		}
	}
	return false
}

func (o *transparentOutput) object(n Network) utxoObject {
	network := chain.TestNetwork
	if n == Main {
		network = chain.MainNetwork
	}
	return utxoObject{
		Address: o.address.String(network), TxID: o.id.String(), OutputIndex: o.index, Script: hex.EncodeToString(o.script),
		Satoshis: o.value, Height: o.height,
	}
}

// transparentIndex returns the index of the chain as it is now. It is made when it is asked for and kept until the chain changes.
func (c *Chain) transparentIndex() (*transparentIndex, error) {
	c.indexing.Lock()
	defer c.indexing.Unlock()
	if c.index != nil && c.index.tip == c.Tip() {
		return c.index, nil
	}
	index, err := buildTransparentIndex(c)
	if err != nil {
		return nil, err
	}
	c.index = index
	return index, nil
}

func buildTransparentIndex(c *Chain) (*transparentIndex, error) {
	c.script.Lock() // the chain shall not change meanwhile
	defer c.script.Unlock()
	b := transparentBuilder{index: &transparentIndex{tip: c.Tip()}, byOutpoint: make(map[string]*transparentOutput)}
	enc, work := chain.NewEncoder(chain.EncoderOptions{}), newWorkshop()
	var block chain.Block
	for h := chain.Height(max(1, c.first)); h <= b.index.tip.Height; h++ {
		f, err := c.find(h)
		if err != nil {
			return nil, err
		}
		if err := enc.Encode(&block, h, f.raw(work)); err != nil {
			return nil, err
		}
		if err := b.add(&block); err != nil {
			return nil, fmt.Errorf("index block %d: %w", h, err)
		}
	}
	return b.index, nil
}

type transparentBuilder struct {
	index      *transparentIndex
	byOutpoint map[string]*transparentOutput
}

// add indexes a block by its transparent column: one CompactTx as field 7 for each transaction.
func (b *transparentBuilder) add(block *chain.Block) error {
	for column := block.Transparent; len(column) > 0; {
		message, rest, err := nextBytes(column, 7)
		if err != nil {
			return err
		}
		column = rest
		if err := b.addTransaction(message, block.ID.Height); err != nil {
			return err
		}
	}
	return nil
}

// addTransaction reads a CompactTx: index 1, txid 2, vin 7 {prevoutTxid 1, prevoutIndex 2}, vout 8 {value 1, scriptPubKey 2}.
func (b *transparentBuilder) addTransaction(message []byte, h chain.Height) error {
	tx := touchedTransaction{height: h}
	var outputs uint32
	for len(message) > 0 {
		tag, number, value, rest, err := nextField(message)
		if err != nil {
			return err
		}
		message = rest
		switch tag {
		case 2:
			if len(value) != len(tx.id) {
				return fmt.Errorf("a txid of %d bytes", len(value))
			}
			tx.id = chain.TxID(value)
		case 7:
			if spent := b.byOutpoint[outpointOf(value)]; spent != nil {
				spent.spent = true
				tx.addresses = append(tx.addresses, spent.address)
			}
		case 8:
			o, ok, err := outputOf(value)
			if err != nil {
				return err
			}
			o.id, o.index, o.height = tx.id, outputs, h
			outputs++
			if ok {
				b.index.outputs = append(b.index.outputs, o)
				b.byOutpoint[string(binary.AppendUvarint(bytes.Clone(o.id[:]), uint64(o.index)))] = o
				tx.addresses = append(tx.addresses, o.address)
			}
		}
		_ = number // the index in the block
	}
	if len(tx.addresses) > 0 {
		b.index.transactions = append(b.index.transactions, tx)
	}
	return nil
}

// outpointOf is the key of what an input spends.
func outpointOf(vin []byte) string {
	var id []byte
	var index uint64
	for len(vin) > 0 {
		tag, number, value, rest, err := nextField(vin)
		if err != nil {
			return ""
		}
		switch tag {
		case 1:
			id = value
		case 2:
			index = number
		}
		vin = rest
	}
	return string(binary.AppendUvarint(bytes.Clone(id), index))
}

// outputOf reads an output, and tells whether its script is one of the two that have an address.
func outputOf(vout []byte) (o *transparentOutput, ok bool, err error) {
	o = &transparentOutput{}
	for len(vout) > 0 {
		tag, number, value, rest, err := nextField(vout)
		if err != nil {
			return o, false, err
		}
		switch tag {
		case 1:
			o.value = int64(number)
		case 2:
			o.script = bytes.Clone(value)
		}
		vout = rest
	}
	s := o.script
	switch {
	case len(s) == 25 && bytes.HasPrefix(s, []byte{0x76, 0xa9, 20}) && bytes.HasSuffix(s, []byte{0x88, 0xac}):
		o.address = chain.TransparentAddress{Hash: [20]byte(s[3:])}
	case len(s) == 23 && bytes.HasPrefix(s, []byte{0xa9, 20}) && s[22] == 0x87:
		o.address = chain.TransparentAddress{Script: true, Hash: [20]byte(s[2:])}
	default:
		return o, false, nil
	}
	return o, true, nil
}

// nextField cuts a protobuf field, a number or bytes, off the front of b.
func nextField(b []byte) (tag byte, number uint64, value, rest []byte, err error) {
	tag = b[0] >> 3
	number, n := binary.Uvarint(b[1:])
	if n <= 0 {
		return tag, 0, nil, nil, fmt.Errorf("field %d is cut off", tag)
	}
	rest = b[1+n:]
	if b[0]&7 == 0 {
		return tag, number, nil, rest, nil
	}
	if number > uint64(len(rest)) {
		return tag, 0, nil, nil, fmt.Errorf("field %d is cut off", tag)
	}
	return tag, 0, rest[:number], rest[number:], nil
}
