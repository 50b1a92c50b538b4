package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc/envelope"
	"github.com/zsidecar/zsidecar/pkg/passthrough"
)

// blockDeltas is zcashd's answer to getblockdeltas, but for "chainwork", which Zebra does not tell. What is taken over from Zebra's
// block keeps its spelling.
type blockDeltas struct {
	Hash          string          `json:"hash"`
	Confirmations json.RawMessage `json:"confirmations"`
	Size          json.RawMessage `json:"size"`
	Height        json.RawMessage `json:"height"`
	Version       json.RawMessage `json:"version"`
	MerkleRoot    string          `json:"merkleroot"`
	Deltas        []txDeltas      `json:"deltas"`
	Time          int64           `json:"time"`
	MedianTime    int64           `json:"mediantime"`
	Nonce         string          `json:"nonce"`
	Bits          string          `json:"bits"`
	Difficulty    json.RawMessage `json:"difficulty"`
	Previous      string          `json:"previousblockhash,omitempty"`
	Next          string          `json:"nextblockhash,omitempty"`
}

type txDeltas struct {
	TxID    string        `json:"txid"`
	Index   int           `json:"index"`
	Inputs  []inputDelta  `json:"inputs"`
	Outputs []outputDelta `json:"outputs"`
}

type inputDelta struct {
	Address  string `json:"address,omitempty"`
	Satoshis int64  `json:"satoshis"` // what leaves the address: not above 0
	Index    int    `json:"index"`
	PrevTxID string `json:"prevtxid"`
	PrevOut  uint32 `json:"prevout"`
}

type outputDelta struct {
	Address  string `json:"address,omitempty"`
	Satoshis int64  `json:"satoshis"`
	Index    int    `json:"index"`
}

// nodeTx is a transaction in Zebra's getblock of verbosity 3.
type nodeTx struct {
	TxID string `json:"txid"`
	Vin  []struct {
		Coinbase *string `json:"coinbase"`
		TxID     string  `json:"txid"`
		Vout     uint32  `json:"vout"`
		Prevout  *struct {
			Value  float64    `json:"value"` // ZEC
			Script nodeScript `json:"scriptPubKey"`
		} `json:"prevout"`
	} `json:"vin"`
	Vout []struct {
		ValueZat int64      `json:"valueZat"`
		Script   nodeScript `json:"scriptPubKey"`
	} `json:"vout"`
}

type nodeScript struct {
	Type      string   `json:"type"`
	Addresses []string `json:"addresses"`
}

// address is the script's address; empty unless it pays to one key's hash or to a script's.
func (s *nodeScript) address() string {
	if len(s.Addresses) == 1 && (s.Type == "pubkeyhash" || s.Type == "scripthash") {
		return s.Addresses[0]
	}
	return ""
}

var (
	errDeltaParams = &envelope.Error{Code: -1, Message: "Invalid params", Data: "expected the hash of a block, 64 hex digits, as the only parameter"}
	errNoSpentInfo = &envelope.Error{Code: -32603, Message: "Spent information not available"}
)

// medianBlocks is how many blocks the median time is taken of (consensus rule).
const medianBlocks = 11

// getBlockDeltas makes zcashd's answer of Zebra's getblock with verbosity 3, which names what each input spends.
func (s *Server) getBlockDeltas(ctx context.Context, params json.RawMessage) (*passthrough.Answer, error) {
	var list []string
	if json.Unmarshal(params, &list) != nil || len(list) != 1 {
		return nil, errDeltaParams
	}
	if _, err := chain.ParseHash(list[0]); err != nil {
		return nil, errDeltaParams
	}
	answer, err := s.options.Node.Ask(ctx, "getblock", fmt.Appendf(nil, `["%s",3]`, list[0]), true)
	if err != nil || answer.Failed {
		return answer, err
	}
	defer answer.Body.Close()
	var d blockDeltas
	if err := d.read(json.NewDecoder(answer.Body)); err != nil {
		return nil, err
	}
	if string(d.Height) == "0" {
		d.Previous = "" // Zebra gives zeros
	}
	if d.MedianTime, err = s.medianTime(ctx, &d); err != nil {
		return nil, err
	}
	text, err := json.Marshal(&d)
	if err != nil {
		return nil, err
	}
	return result(text)
}

// read reads Zebra's block, one transaction at a time. An error of the answer's body is Zebra's silence.
func (d *blockDeltas) read(dec *json.Decoder) error {
	d.Deltas = []txDeltas{}
	err := eachMember(dec, func(name string) error {
		if name == "tx" {
			return d.readTransactions(dec)
		}
		var ignored json.RawMessage
		into, wanted := map[string]any{
			"hash": &d.Hash, "confirmations": &d.Confirmations, "size": &d.Size, "height": &d.Height, "version": &d.Version,
			"merkleroot": &d.MerkleRoot, "time": &d.Time, "nonce": &d.Nonce, "bits": &d.Bits, "difficulty": &d.Difficulty,
			"previousblockhash": &d.Previous, "nextblockhash": &d.Next,
		}[name]
		if !wanted {
			into = &ignored
		}
		return dec.Decode(into)
	})
	var refusal *envelope.Error
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil || errors.As(err, &refusal):
		return err
	case errors.As(err, &syntax), errors.As(err, &kind), errors.Is(err, errNotObject):
		return fmt.Errorf("read zebra's block: %w: %w", err, chain.ErrNode)
	}
	return fmt.Errorf("read zebra's block: %w: %w", err, chain.ErrUnavailable)
}

var errNotObject = errors.New("it is no object with an array of transactions")

// eachMember calls fn for each member of the object that comes next, which fn has to read.
func eachMember(dec *json.Decoder, fn func(name string) error) error {
	if open, err := dec.Token(); err != nil {
		return err
	} else if open != json.Delim('{') {
		return errNotObject
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		if err := fn(name.(string)); err != nil { // a name is a string, or there was an error
			return err
		}
	}
	_, err := dec.Token()
	return noEOF(err)
}

// noEOF makes an end that comes too early one that no reader takes for the right one.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (d *blockDeltas) readTransactions(dec *json.Decoder) error {
	if open, err := dec.Token(); err != nil {
		return err
	} else if open != json.Delim('[') {
		return errNotObject
	}
	for dec.More() {
		var tx nodeTx
		if err := dec.Decode(&tx); err != nil {
			return noEOF(err)
		}
		delta, err := tx.deltas(len(d.Deltas))
		if err != nil {
			return err
		}
		d.Deltas = append(d.Deltas, delta)
	}
	_, err := dec.Token()
	return noEOF(err)
}

// deltas lists every input and output, those without an address too.
func (tx *nodeTx) deltas(index int) (txDeltas, error) {
	d := txDeltas{TxID: tx.TxID, Index: index, Inputs: []inputDelta{}, Outputs: []outputDelta{}}
	for i := range tx.Vin {
		in := &tx.Vin[i]
		if in.Coinbase != nil {
			continue
		}
		if in.Prevout == nil {
			return d, errNoSpentInfo
		}
		const zatoshis = 100_000_000
		d.Inputs = append(d.Inputs, inputDelta{
			Address: in.Prevout.Script.address(), Satoshis: -int64(math.Round(in.Prevout.Value * zatoshis)),
			Index: i, PrevTxID: in.TxID, PrevOut: in.Vout,
		})
	}
	for i := range tx.Vout {
		out := &tx.Vout[i]
		d.Outputs = append(d.Outputs, outputDelta{Address: out.Script.address(), Satoshis: out.ValueZat, Index: i})
	}
	return d, nil
}

// medianTime is the median of the times of the block and of those before it. It walks from parent to parent, so that all are of one chain.
func (s *Server) medianTime(ctx context.Context, d *blockDeltas) (int64, error) {
	times, parent := []int64{d.Time}, d.Previous
	for len(times) < medianBlocks && parent != "" {
		var header struct {
			Time     int64
			Height   int64
			Previous string `json:"previousblockhash"`
		}
		answer, err := s.options.Node.Ask(ctx, "getblockheader", fmt.Appendf(nil, `["%s"]`, parent), false)
		if err != nil {
			return 0, err
		}
		failed := answer.Failed
		err = json.NewDecoder(answer.Body).Decode(&header)
		answer.Body.Close()
		switch {
		case failed:
			return 0, fmt.Errorf("block %s, a parent of %s, left the best chain: %w", parent, d.Hash, chain.ErrReorged)
		case err != nil:
			return 0, fmt.Errorf("read the header of block %s: %w: %w", parent, err, chain.ErrNode)
		}
		times = append(times, header.Time)
		if parent = header.Previous; header.Height == 0 {
			break
		}
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
