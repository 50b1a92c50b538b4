package lightwallet

import (
	"context"
	"iter"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// addressUtxosField is the number of GetAddressUtxosReplyList.addressUtxos.
const addressUtxosField = 1

// getAddressUtxos answers GetAddressUtxos. It has its turn until the list is complete, which bounds the memory of all such lists.
func (s *service) getAddressUtxos(ctx context.Context, req *walletrpc.GetAddressUtxosArg) (*rawMessage, error) {
	utxos, err := s.utxos(ctx, req)
	if err != nil {
		return nil, err
	}
	return costly(ctx, s.turns, func() (*rawMessage, error) { return s.listUtxos(utxos) })
}

// listUtxos puts a serialized GetAddressUtxosReplyList together, entry by entry.
func (s *service) listUtxos(utxos iter.Seq2[[]chain.Utxo, error]) (*rawMessage, error) {
	var list []byte
	for part, err := range utxos {
		if err != nil {
			return nil, err
		}
		for _, u := range part {
			m := utxoMessage(u)
			size := proto.Size(m)
			list = protowire.AppendTag(list, addressUtxosField, protowire.BytesType)
			list = protowire.AppendVarint(list, uint64(size))
			if len(list)+size > s.maxUnaryReply {
				return nil, tooLarge("the answer has more than %d bytes: use GetAddressUtxosStream", s.maxUnaryReply)
			}
			if list, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend(list, m); err != nil {
				return nil, err
			}
		}
	}
	return &rawMessage{mem.SliceBuffer(list)}, nil
}

// GetAddressUtxosStream sends the unspent outputs of distinct addresses in chain order.
func (s *service) GetAddressUtxosStream(req *walletrpc.GetAddressUtxosArg, stream grpc.ServerStreamingServer[walletrpc.GetAddressUtxosReply]) error {
	utxos, err := s.utxos(stream.Context(), req)
	if err != nil {
		return err
	}
	if err := sendHeader(stream); err != nil {
		return err
	}
	for part, err := range costlyParts(stream.Context(), s.turns, utxos) {
		if err != nil {
			return err
		}
		for _, u := range part {
			if err := stream.Send(utxoMessage(u)); err != nil {
				return gone(err)
			}
		}
	}
	return nil
}

// utxos checks the request and returns what answers it.
func (s *service) utxos(ctx context.Context, req *walletrpc.GetAddressUtxosArg) (iter.Seq2[[]chain.Utxo, error], error) {
	addresses, err := s.addresses.parseAll(ctx, req.Addresses)
	if err != nil {
		return nil, err
	}
	if len(addresses) == 0 {
		return func(func([]chain.Utxo, error) bool) {}, nil
	}
	if err := s.sameChain(ctx); err != nil {
		return nil, err
	}
	// No chain reaches beyond MaxHeight, so that the cut changes nothing.
	from := chain.Height(min(req.StartHeight, uint64(chain.MaxHeight)))
	return s.addresses.node.AddressUtxos(ctx, addresses, from, req.MaxEntries), nil
}

func utxoMessage(u chain.Utxo) *walletrpc.GetAddressUtxosReply {
	return &walletrpc.GetAddressUtxosReply{
		Address: u.Address, Txid: u.TxID[:], Index: int32(u.Index), Script: u.Script, ValueZat: u.Value, Height: uint64(u.Height),
	}
}
