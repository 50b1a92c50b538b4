package chain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// The wallet protocol's messages, read and written the slow way: field by field, in structs. The JSON names are protobuf's, so that
// the expected blocks of the vectors read into them.
type (
	compactBlock struct {
		Height   uint64        `json:"height,string"`
		Hash     []byte        `json:"hash"`
		PrevHash []byte        `json:"prevHash"`
		Time     uint32        `json:"time"`
		Vtx      []compactTx   `json:"vtx"`
		Metadata chainMetadata `json:"chainMetadata"`
	}
	compactTx struct {
		Index    uint64          `json:"index,string"`
		TxID     []byte          `json:"txid"`
		Spends   []saplingSpend  `json:"spends"`
		Outputs  []saplingOutput `json:"outputs"`
		Actions  []action        `json:"actions"`
		Vin      []txIn          `json:"vin"`
		Vout     []txOut         `json:"vout"`
		Ironwood []action        `json:"ironwoodActions"`
	}
	saplingSpend struct {
		Nf []byte `json:"nf"`
	}
	saplingOutput struct {
		Cmu, EphemeralKey, Ciphertext []byte
	}
	action struct {
		Nullifier, Cmx, EphemeralKey, Ciphertext []byte
	}
	txIn struct {
		PrevoutTxid  []byte
		PrevoutIndex uint32
	}
	txOut struct {
		Value        uint64 `json:"value,string"`
		ScriptPubKey []byte
	}
	chainMetadata struct{ Sapling, Orchard, Ironwood uint32 }
)

// number, bytesField and message append a field as proto3 does: zero and empty ones not at all, but messages always.
func number(b []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func bytesField(b []byte, field protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return message(b, field, v)
}

func message(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func (c *compactBlock) encode() []byte {
	var b []byte
	b = number(b, 2, c.Height)
	b = bytesField(b, 3, c.Hash)
	b = bytesField(b, 4, c.PrevHash)
	b = number(b, 5, uint64(c.Time))
	for _, tx := range c.Vtx {
		b = message(b, 7, tx.encode())
	}
	var m []byte
	m = number(m, 1, uint64(c.Metadata.Sapling))
	m = number(m, 2, uint64(c.Metadata.Orchard))
	m = number(m, 3, uint64(c.Metadata.Ironwood))
	return message(b, 8, m)
}

func (c *compactTx) encode() []byte {
	var b []byte
	b = number(b, 1, c.Index)
	b = bytesField(b, 2, c.TxID)
	for _, s := range c.Spends {
		b = message(b, 4, bytesField(nil, 1, s.Nf))
	}
	for _, o := range c.Outputs {
		b = message(b, 5, bytesField(bytesField(bytesField(nil, 1, o.Cmu), 2, o.EphemeralKey), 3, o.Ciphertext))
	}
	for _, a := range c.Actions {
		b = message(b, 6, a.encode())
	}
	for _, in := range c.Vin {
		b = message(b, 7, number(bytesField(nil, 1, in.PrevoutTxid), 2, uint64(in.PrevoutIndex)))
	}
	for _, out := range c.Vout {
		b = message(b, 8, bytesField(number(nil, 1, out.Value), 2, out.ScriptPubKey))
	}
	for _, a := range c.Ironwood {
		b = message(b, 9, a.encode())
	}
	return b
}

func (a *action) encode() []byte {
	return bytesField(bytesField(bytesField(bytesField(nil, 1, a.Nullifier), 2, a.Cmx), 3, a.EphemeralKey), 4, a.Ciphertext)
}

// fields calls f for every field of a message; n is the value of a number, v that of bytes or a message.
func fields(b []byte, f func(field protowire.Number, n uint64, v []byte) error) error {
	for len(b) > 0 {
		field, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		var n uint64
		var v []byte
		switch kind {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v, size = protowire.ConsumeBytes(b)
		default:
			return fmt.Errorf("wire type %d", kind)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		if err := f(field, n, v); err != nil {
			return err
		}
	}
	return nil
}

var errField = errors.New("unexpected field")

func decodeBlock(b []byte) (*compactBlock, error) {
	c := new(compactBlock)
	err := fields(b, func(field protowire.Number, n uint64, v []byte) error {
		switch field {
		case 2:
			c.Height = n
		case 3:
			c.Hash = v
		case 4:
			c.PrevHash = v
		case 5:
			c.Time = uint32(n)
		case 7:
			tx, err := decodeTx(v)
			c.Vtx = append(c.Vtx, tx)
			return err
		case 8:
			return fields(v, func(field protowire.Number, n uint64, v []byte) error {
				switch field {
				case 1:
					c.Metadata.Sapling = uint32(n)
				case 2:
					c.Metadata.Orchard = uint32(n)
				case 3:
					c.Metadata.Ironwood = uint32(n)
				default:
					return errField
				}
				return nil
			})
		default:
			return errField
		}
		return nil
	})
	return c, err
}

func decodeTx(b []byte) (c compactTx, err error) {
	err = fields(b, func(field protowire.Number, n uint64, v []byte) error {
		parts := make([][]byte, 5) // bytes fields of the nested message
		var nested uint64          // its last number field
		if field >= 4 {
			if err := fields(v, func(f protowire.Number, n uint64, v []byte) error {
				if f > 4 {
					return errField
				}
				parts[f], nested = v, max(nested, n)
				return nil
			}); err != nil {
				return err
			}
		}
		switch field {
		case 1:
			c.Index = n
		case 2:
			c.TxID = v
		case 4:
			c.Spends = append(c.Spends, saplingSpend{parts[1]})
		case 5:
			c.Outputs = append(c.Outputs, saplingOutput{parts[1], parts[2], parts[3]})
		case 6:
			c.Actions = append(c.Actions, action{parts[1], parts[2], parts[3], parts[4]})
		case 7:
			c.Vin = append(c.Vin, txIn{parts[1], uint32(nested)})
		case 8:
			c.Vout = append(c.Vout, txOut{nested, parts[2]})
		case 9:
			c.Ironwood = append(c.Ironwood, action{parts[1], parts[2], parts[3], parts[4]})
		default:
			return errField
		}
		return nil
	})
	return c, err
}

// cut returns what p leaves of a full block, by the words of the protocol rather than by bytes.
func (c *compactBlock) cut(p chain.Projection) *compactBlock {
	cut := *c
	cut.Vtx = nil
	for _, tx := range c.Vtx {
		if !p.Pools.Has(chain.Sapling) {
			tx.Spends, tx.Outputs = nil, nil
		}
		if !p.Pools.Has(chain.Orchard) {
			tx.Actions = nil
		}
		if !p.Pools.Has(chain.Ironwood) {
			tx.Ironwood = nil
		}
		if !p.Pools.Has(chain.Transparent) {
			tx.Vin, tx.Vout = nil, nil
		}
		parts := len(tx.Spends) + len(tx.Outputs) + len(tx.Actions) + len(tx.Ironwood) + len(tx.Vin) + len(tx.Vout)
		if parts == 0 && !p.KeepEmpty {
			continue
		}
		if p.NullifiersOnly {
			tx.Outputs, tx.Vin, tx.Vout = nil, nil, nil
			tx.Actions, tx.Ironwood = onlyNullifiers(tx.Actions), onlyNullifiers(tx.Ironwood)
		}
		cut.Vtx = append(cut.Vtx, tx)
	}
	if p.NullifiersOnly {
		cut.Metadata = chainMetadata{}
	}
	return &cut
}

func onlyNullifiers(actions []action) []action {
	actions = slices.Clone(actions)
	for i, a := range actions {
		actions[i] = action{Nullifier: a.Nullifier}
	}
	return actions
}

// allProjections are all that the type can express, the senseless ones too.
func allProjections() []chain.Projection {
	var all []chain.Projection
	for pools := range 16 {
		for flags := range 4 {
			all = append(all, chain.Projection{
				Pools: chain.Pools(pools << 1), NullifiersOnly: flags&1 != 0, KeepEmpty: flags&2 != 0,
			})
		}
	}
	return all
}

// frame is the gRPC frame of a message.
func frame(message []byte) []byte {
	n := len(message)
	return append([]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, message...)
}

// full returns the block with all pools, put together from the two parts that the encoder makes.
func full(t testing.TB, b *chain.Block, sizes chain.TreeSizes) *compactBlock {
	t.Helper()
	shielded := chain.AppendFrame(nil, b.Shielded, sizes)[chain.FramePrefixLen:]
	stored, err := decodeBlock(shielded)
	if err != nil {
		t.Fatalf("decode the shielded part: %v", err)
	}
	return merged(t, stored, b.Transparent)
}

// merged returns a stored block with all that its transparent column has.
func merged(t testing.TB, stored *compactBlock, column []byte) *compactBlock {
	t.Helper()
	whole, err := decodeBlock(column)
	if err != nil {
		t.Fatalf("decode the transparent column: %v", err)
	}
	for _, tx := range stored.Vtx {
		all := &whole.Vtx[tx.Index]
		all.Spends, all.Outputs, all.Actions, all.Ironwood = tx.Spends, tx.Outputs, tx.Actions, tx.Ironwood
	}
	c := *stored
	c.Vtx = whole.Vtx
	return &c
}

// asJSON shows a block in a failure.
func asJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
