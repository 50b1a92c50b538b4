package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// canonical takes out of an answer what servers may do differently without a wallet noticing, so that what is left has to be equal at all
// of them. It changes the message.
//
//   - Fields that the protocol does not have are left out, such as protoVersion, which it had once.
//   - Blocks: header and fees are filled in by some. Which pools GetBlock shows beside the shielded ones, and whether
//     transactions are listed of which nothing is left, is the server's choice. Nullifier blocks may carry chainMetadata or not.
//   - Tree states: the network has two names on regtest; an empty tree is written in two ways.
//   - Outputs of an address have no order.
func canonical(method string, m proto.Message) {
	m.ProtoReflect().SetUnknown(nil)
	switch m := m.(type) {
	case *walletrpc.CompactBlock:
		m.Header = nil
		if method == "GetBlockNullifiers" || method == "GetBlockRangeNullifiers" {
			m.ChainMetadata = nil
		}
		for _, tx := range m.Vtx {
			canonicalTx(tx)
		}
		m.Vtx = slices.DeleteFunc(m.Vtx, func(tx *walletrpc.CompactTx) bool {
			return len(tx.Spends)+len(tx.Outputs)+len(tx.Actions)+len(tx.IronwoodActions) == 0
		})
	case *walletrpc.CompactTx:
		canonicalTx(m)
	case *walletrpc.TreeState:
		m.Network = ""
		for _, tree := range []*string{&m.SaplingTree, &m.OrchardTree, &m.IronwoodTree} {
			if *tree == emptyTree {
				*tree = ""
			}
		}
	case *walletrpc.GetAddressUtxosReplyList:
		slices.SortFunc(m.AddressUtxos, func(a, b *walletrpc.GetAddressUtxosReply) int {
			return cmp.Or(cmp.Compare(a.Height, b.Height), bytes.Compare(a.Txid, b.Txid), cmp.Compare(a.Index, b.Index))
		})
	}
}

// emptyTree is how a commitment tree without notes is written by those that do not leave it out.
const emptyTree = "000000"

func canonicalTx(tx *walletrpc.CompactTx) { tx.Fee, tx.Vin, tx.Vout = 0, nil, nil }

// digest sums up what has to be equal.
func digest(seed maphash.Seed, m proto.Message) uint64 {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil { // it has been decoded just now
		panic(err)
	}
	return maphash.Bytes(seed, encoded)
}

// difference names the first field in which two messages of one type differ, empty when they are equal.
func difference(a, b protoreflect.Message) string {
	fields := a.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		va, vb := a.Get(f), b.Get(f)
		if va.Equal(vb) && a.Has(f) == b.Has(f) {
			continue
		}
		name := string(f.Name())
		switch {
		case f.IsList():
			return name + differentLists(f, va.List(), vb.List())
		case f.Message() == nil:
			return fmt.Sprintf("%s is %s here and %s there", name, shown(f, va), shown(f, vb))
		case a.Has(f) != b.Has(f):
			return fmt.Sprintf("%s is %s here and %s there", name, presence(a.Has(f)), presence(b.Has(f)))
		}
		return name + "." + difference(va.Message(), vb.Message())
	}
	return ""
}

func differentLists(f protoreflect.FieldDescriptor, a, b protoreflect.List) string {
	for i := range min(a.Len(), b.Len()) {
		switch va, vb := a.Get(i), b.Get(i); {
		case va.Equal(vb):
		case f.Message() != nil:
			return fmt.Sprintf("[%d].%s", i, difference(va.Message(), vb.Message()))
		default:
			return fmt.Sprintf("[%d] is %s here and %s there", i, shown(f, va), shown(f, vb))
		}
	}
	return fmt.Sprintf(" has %d entries here and %d there", a.Len(), b.Len())
}

// shown writes a value, cut to what fits into a line.
func shown(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	text := fmt.Sprint(v.Interface())
	switch f.Kind() {
	case protoreflect.BytesKind:
		text = fmt.Sprintf("%x", v.Bytes())
	case protoreflect.StringKind:
		text = fmt.Sprintf("%q", v.String())
	}
	if len(text) > 80 {
		text = text[:80] + "…"
	}
	return text
}

func presence(there bool) string {
	if there {
		return "set"
	}
	return "not set"
}
