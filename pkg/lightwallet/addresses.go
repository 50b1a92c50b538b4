package lightwallet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// AddressNode answers what the node knows of transparent addresses, which are given in Base58Check, at most maxAddresses of them.
type AddressNode interface {
	// AddressBalance is the sum of the unspent outputs in zatoshis.
	AddressBalance(ctx context.Context, addresses []string) (int64, error)
	// AddressTransactions yields the transactions of the blocks from..to that touch the address, in chain order, some at a time.
	// ErrReorged when they turn out not to belong to one chain, ErrUnavailable when the node does not have block to.
	AddressTransactions(ctx context.Context, address string, from, to chain.Height) iter.Seq2[[]chain.LocatedTransaction, error]
	// AddressUtxos yields the unspent outputs from height from on, in chain order, some at a time, most of them at most; 0 means all.
	AddressUtxos(ctx context.Context, addresses []string, from chain.Height, most uint32) iter.Seq2[[]chain.Utxo, error]
}

// addressReader is what the address methods have in common: which network's addresses are the right ones. Once known it stays; a node
// of another network is refused elsewhere.
type addressReader struct {
	node  AddressNode
	info  *nodeInfo
	known atomic.Uint32 // chain.Network, 0 until the node has told
}

// network returns the network, asking the node as long as it is not known.
func (r *addressReader) network(ctx context.Context) (chain.Network, error) {
	if n := r.known.Load(); n != 0 {
		return chain.Network(n), nil
	}
	info, err := r.info.lasting(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask the node for its network: %w", err)
	}
	n, err := chain.NetworkOf(info.Chain, info.Genesis)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", err, chain.ErrNode)
	}
	r.known.Store(uint32(n))
	return n, nil
}

// parse returns the address as the node takes it. field names it in the refusal of what is none.
func (r *addressReader) parse(ctx context.Context, field, text string) (string, error) {
	network, err := r.network(ctx)
	if err != nil {
		return "", refuseAnywhere(field, text, err)
	}
	a, err := chain.ParseTransparent(network, text)
	if err != nil {
		return "", invalidArgument("%s: %v", field, err)
	}
	return a.String(network), nil
}

// refuseAnywhere refuses what is no address of any network; for all else it depends on the network, which is not known for the reason
// unknown.
func refuseAnywhere(field, text string, unknown error) error {
	var refusal error
	for _, n := range []chain.Network{chain.MainNetwork, chain.TestNetwork, chain.RegtestNetwork} {
		_, err := chain.ParseTransparent(n, text)
		if err == nil {
			return unknown
		}
		refusal = err
	}
	return invalidArgument("%s: %v", field, refusal)
}

// addressSet collects addresses, each of which counts once, however it is written.
type addressSet struct {
	reader *addressReader
	list   []string
	known  map[string]struct{}
	count  int // with repetitions
}

func (s *addressSet) add(ctx context.Context, text string) error {
	if s.count++; s.count > maxAddresses {
		return tooManyAddresses()
	}
	address, err := s.reader.parse(ctx, fmt.Sprintf("address %d", s.count), text)
	if err != nil {
		return err
	}
	if _, repeated := s.known[address]; repeated {
		return nil
	}
	if s.known == nil {
		s.known = make(map[string]struct{})
	}
	s.known[address] = struct{}{}
	s.list = append(s.list, address)
	return nil
}

func tooManyAddresses() error { return tooLarge("there are more than %d addresses", maxAddresses) }

// parseAll checks a list as a whole before its first address.
func (r *addressReader) parseAll(ctx context.Context, texts []string) ([]string, error) {
	if len(texts) > maxAddresses {
		return nil, tooManyAddresses()
	}
	set := addressSet{reader: r}
	for _, text := range texts {
		if err := set.add(ctx, text); err != nil {
			return nil, err
		}
	}
	return set.list, nil
}

// GetTaddressBalance adds up the confirmed unspent outputs of distinct addresses.
func (s *service) GetTaddressBalance(ctx context.Context, req *walletrpc.AddressList) (*walletrpc.Balance, error) {
	addresses, err := s.addresses.parseAll(ctx, req.Addresses)
	if err != nil {
		return nil, err
	}
	return s.balance(ctx, addresses)
}

// GetTaddressBalanceStream is the same for addresses that come one by one; a wrong one is refused when it arrives.
func (s *service) GetTaddressBalanceStream(stream grpc.ClientStreamingServer[walletrpc.Address, walletrpc.Balance]) error {
	ctx := stream.Context()
	if err := sendHeader(stream); err != nil {
		return err
	}
	set := addressSet{reader: s.addresses}
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := set.add(ctx, req.Address); err != nil {
			return err
		}
	}
	balance, err := s.balance(ctx, set.list)
	if err != nil {
		return err
	}
	return gone(stream.SendAndClose(balance))
}

func (s *service) balance(ctx context.Context, addresses []string) (*walletrpc.Balance, error) {
	if len(addresses) == 0 {
		return &walletrpc.Balance{}, nil
	}
	if err := s.sameChain(ctx); err != nil {
		return nil, err
	}
	value, err := costly(ctx, s.turns, func() (int64, error) { return s.addresses.node.AddressBalance(ctx, addresses) })
	if err != nil {
		return nil, err
	}
	return &walletrpc.Balance{ValueZat: value}, nil
}

// GetTaddressTxids is the old name of GetTaddressTransactions.
func (s *service) GetTaddressTxids(req *walletrpc.TransparentAddressBlockFilter, stream grpc.ServerStreamingServer[walletrpc.RawTransaction]) error {
	return s.GetTaddressTransactions(req, stream)
}

// GetTaddressTransactions sends the mined transactions that touch an address, in chain order. Nothing lies above the tip, so that a
// range there is answered with nothing.
func (s *service) GetTaddressTransactions(req *walletrpc.TransparentAddressBlockFilter, stream grpc.ServerStreamingServer[walletrpc.RawTransaction]) error {
	ctx := stream.Context()
	from, to, err := parseAddressRange(req.Range)
	if err != nil {
		return err
	}
	address, err := s.addresses.parse(ctx, "address", req.Address)
	if err != nil {
		return err
	}
	if err := sendHeader(stream); err != nil {
		return err
	}
	tip, err := tipOf(ctx, s.source)
	if err != nil {
		return err
	}
	if from > uint64(tip.Height) {
		return nil
	}
	last := tip.Height
	if to != 0 && to < uint64(last) {
		last = chain.Height(to)
	}
	for txs, err := range costlyParts(ctx, s.turns, s.addresses.node.AddressTransactions(ctx, address, chain.Height(from), last)) {
		if err != nil {
			return err
		}
		for _, tx := range txs {
			if err := stream.Send(&walletrpc.RawTransaction{Data: tx.Raw, Height: uint64(tx.Height)}); err != nil {
				return gone(err)
			}
		}
	}
	return nil
}

// parseAddressRange checks a range as far as that goes without a chain. A to of 0 is the tip.
func parseAddressRange(r *walletrpc.BlockRange) (from, to uint64, err error) {
	switch {
	case r == nil:
		return 0, 0, invalidArgument("range is missing")
	case r.Start == nil:
		return 0, 0, invalidArgument("range: start is missing")
	case r.End == nil || r.End.Height == 0:
		return r.Start.Height, 0, nil
	}
	from, to = r.Start.Height, r.End.Height
	switch {
	case to < from:
		return 0, 0, invalidArgument("range: the end %d is below the start %d", to, from)
	case to-from >= maxAddressSpan:
		return 0, 0, invalidArgument("range: %d to %d are more than %d blocks", from, to, maxAddressSpan)
	}
	return from, to, nil
}

// tipOf is the tip of a view that is opened for it.
func tipOf(ctx context.Context, source chain.Source) (chain.BlockID, error) {
	view, err := source.View(ctx)
	if err != nil {
		return chain.BlockID{}, err
	}
	defer view.Close()
	return view.Tip()
}

// sameChain refuses what the node alone would answer while it is known to follow another chain than the one that is served. That it is
// away shows when it is asked.
func (s *service) sameChain(ctx context.Context) error {
	if _, err := tipOf(ctx, s.source); errors.Is(err, chain.ErrApart) {
		return err
	}
	return nil
}

// gone marks an error of sending as what it means.
func gone(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("send: %w: %w", errClientGone, err)
}
