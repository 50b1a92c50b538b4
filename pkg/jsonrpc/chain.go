package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc/envelope"
	"github.com/zsidecar/zsidecar/pkg/passthrough"
)

// result is an answer that was made here.
func result(json []byte) (*passthrough.Answer, error) {
	return &passthrough.Answer{Size: int64(len(json)), Body: io.NopCloser(bytes.NewReader(json))}, nil
}

// missing answers a method that cannot be answered yet.
func missing(why string) func(*Server, context.Context, json.RawMessage) (*passthrough.Answer, error) {
	err := &envelope.Error{Code: -1, Message: why + ", which this version does not build"}
	return func(*Server, context.Context, json.RawMessage) (*passthrough.Answer, error) { return nil, err }
}

// tip is the tip that wallets are told. While nothing is known of it there is none, and Zebra may have something to say.
func (s *Server) tip(ctx context.Context) (tip chain.BlockID, known bool, err error) {
	view, err := s.options.Source.View(ctx)
	if err == nil {
		defer view.Close()
		tip, err = view.Tip()
	}
	if errors.Is(err, chain.ErrUnavailable) {
		return tip, false, nil
	}
	return tip, err == nil, err
}

func (s *Server) getBlockCount(ctx context.Context, _ json.RawMessage) (*passthrough.Answer, error) {
	tip, known, err := s.tip(ctx)
	if !known {
		return nil, err
	}
	return result(strconv.AppendUint(nil, uint64(tip.Height), 10))
}

func (s *Server) getBestBlockHash(ctx context.Context, _ json.RawMessage) (*passthrough.Answer, error) {
	tip, known, err := s.tip(ctx)
	if !known {
		return nil, err
	}
	return result([]byte(`"` + tip.Hash.String() + `"`))
}

// getBestBlockHeightAndHash writes the hash as Zebra does: an array of numbers in internal order.
func (s *Server) getBestBlockHeightAndHash(ctx context.Context, _ json.RawMessage) (*passthrough.Answer, error) {
	tip, known, err := s.tip(ctx)
	if !known {
		return nil, err
	}
	text := fmt.Appendf(nil, `{"height":%d,"hash":[`, tip.Height)
	for i, b := range tip.Hash {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendUint(text, uint64(b), 10)
	}
	return result(append(text, "]}"...))
}

// getChainTips knows the best chain alone: the index keeps no other, and Zebra tells of none.
func (s *Server) getChainTips(ctx context.Context, _ json.RawMessage) (*passthrough.Answer, error) {
	tip, known, err := s.tip(ctx)
	if err == nil && !known {
		err = fmt.Errorf("getchaintips: the tip is not known: %w", chain.ErrUnavailable)
	}
	if err != nil {
		return nil, err
	}
	return result(fmt.Appendf(nil, `[{"height":%d,"hash":"%s","branchlen":0,"status":"active"}]`, tip.Height, tip.Hash))
}

// What Zebra says of heights that it does not have.
var (
	errAboveTip  = &envelope.Error{Code: -1, Message: "Provided index is greater than the current tip"}
	errBelowZero = &envelope.Error{Code: -1, Message: "Provided negative index ends up with a negative height"}
	errVanished  = &envelope.Error{Code: -8, Message: "Block not found"}
)

// getBlockHash takes a height, or a negative number that counts from the tip, which is -1. What is wrong with other parameters is
// Zebra's to say.
func (s *Server) getBlockHash(ctx context.Context, params json.RawMessage) (*passthrough.Answer, error) {
	var list []json.RawMessage
	if json.Unmarshal(params, &list) != nil || len(list) == 0 {
		return nil, nil
	}
	index, err := strconv.ParseInt(string(list[0]), 10, 32)
	if err != nil || string(list[0]) == "-0" { // which is no integer to Zebra
		return nil, nil
	}
	view, err := s.options.Source.View(ctx)
	if errors.Is(err, chain.ErrUnavailable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer view.Close()
	tip, err := view.Tip()
	switch {
	case errors.Is(err, chain.ErrUnavailable) && index < 0:
		return nil, nil
	case err != nil && !errors.Is(err, chain.ErrUnavailable):
		return nil, err
	case index < 0:
		index += int64(tip.Height) + 1
	}
	if index < 0 {
		return nil, errBelowZero
	}
	hash, err := view.HashAt(ctx, chain.Height(index))
	switch {
	case errors.Is(err, chain.ErrAboveTip):
		return nil, errAboveTip
	case errors.Is(err, chain.ErrReorged):
		return nil, errVanished
	case err != nil:
		return nil, err
	}
	return result([]byte(`"` + hash.String() + `"`))
}
