package zebrarpc

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// sendLimit is how long Zebra may take to verify a transaction, proofs and all, before it answers.
const sendLimit = 60 * time.Second

// Transaction returns a transaction and where Zebra has it: in its mempool, in the best chain, or in a side chain alone
// (getrawtransaction verbosity 1). One that it does not have is an answerable error that matches chain.ErrNotFound.
func (c *Client) Transaction(ctx context.Context, id chain.TxID) (chain.LocatedTransaction, error) {
	q := transactionQuery(id, 1)
	tx, err := c.locatedTransaction(ctx, &q, id)
	return tx, aboutTransaction(err)
}

// RawTransaction returns the bytes of a transaction (getrawtransaction verbosity 0), which are the caller's. It fails as Transaction
// does. Nobody is thought to wait for it: bulk need not make way.
func (c *Client) RawTransaction(ctx context.Context, id chain.TxID) ([]byte, error) {
	q := transactionQuery(id, 0)
	q.calm = true
	raw, err := c.rawBlock(ctx, &q)
	return raw, aboutTransaction(err)
}

func transactionQuery(id chain.TxID, verbosity int) query {
	return query{
		method: getRawTransaction, subject: "txid " + id.String(), params: fmt.Sprintf(`"%s",%d`, id, verbosity),
		limit: callLimit, tries: callTries,
	}
}

// aboutTransaction gives err the meaning chain.ErrNotFound when it is Zebra's word for a transaction that it does not have. The same
// code stands for other things, so its text decides.
func aboutTransaction(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Class == Answerable && e.Code == -5 && strings.Contains(strings.ToLower(e.Message), "transaction not found") {
		e.Err = chain.ErrNotFound
	}
	return err
}

func (c *Client) locatedTransaction(ctx context.Context, q *query, id chain.TxID) (chain.LocatedTransaction, error) {
	a, err := c.interactive(ctx, q)
	if err != nil {
		return chain.LocatedTransaction{}, c.locate(q, err)
	}
	var tx chain.LocatedTransaction
	err = c.read(q, a, func(p *fastjson.Parser) (err error) {
		if tx, err = locatedResult(p, *a.body, a.id); err != nil {
			return err
		}
		return c.checkID(tx.Raw, id)
	})
	if err != nil {
		return chain.LocatedTransaction{}, err
	}
	return tx, nil
}

// checkID returns a fatal error unless raw is the transaction that was asked for. What a later upgrade brings cannot be checked, and is
// taken at Zebra's word.
func (c *Client) checkID(raw []byte, id chain.TxID) error {
	encoder := c.encoders.get()
	defer c.encoders.put(encoder)
	tx, err := encoder.Transaction(raw)
	switch {
	case errors.Is(err, chain.ErrUnknownVersion):
		return nil
	case err != nil:
		return fatal(hintReply, "the reply is wrong: %w", err)
	case tx.ID != id:
		return fatal(hintReply, "the reply is wrong: it is transaction %s", tx.ID)
	}
	return nil
}

// locatedResult reads a reply of getrawtransaction with verbosity 1. Of its many members the first three are all that is needed; the
// others say the same once more and can make dozens of MB of JSON of one transaction, so that they are not parsed when the three stand
// where Zebra writes them.
func locatedResult(p *fastjson.Parser, body []byte, id uint64) (chain.LocatedTransaction, error) {
	tx, found, err := firstMembers(body, id)
	if !found {
		v, failure := parseReply(p, body, id)
		if failure != nil {
			return tx, failure
		}
		tx, err = allMembers(v)
	}
	if err != nil {
		return tx, fatal(hintReply, "the reply is wrong: %w", err)
	}
	return tx, nil
}

// firstMembers reads in_active_chain, hex and height when body is written exactly as Zebra does it.
func firstMembers(body []byte, id uint64) (tx chain.LocatedTransaction, found bool, err error) {
	var space [128]byte
	head := strconv.AppendUint(append(space[:0], `{"jsonrpc":"2.0","id":`...), id, 10)
	rest, ok := bytes.CutPrefix(body, append(head, `,"result":{"in_active_chain":`...))
	if !ok || !bytes.HasSuffix(bytes.TrimSpace(rest), []byte("}}")) {
		return tx, false, nil
	}
	rest, active := bytes.CutPrefix(rest, []byte(`true`))
	if !active {
		rest, ok = bytes.CutPrefix(rest, []byte(`false`))
	}
	digits, isHex := bytes.CutPrefix(rest, []byte(`,"hex":"`))
	end := bytes.IndexByte(digits, '"')
	if !ok || !isHex || end < 0 {
		return tx, false, nil
	}
	rest = digits[end+1:]
	var height *int64
	number, mined := bytes.CutPrefix(rest, []byte(`,"height":`))
	switch {
	case mined:
		stop := bytes.IndexAny(number[:min(len(number), 24)], ",}")
		n, err := strconv.ParseInt(string(number[:max(stop, 0)]), 10, 64)
		if err != nil {
			return tx, false, nil
		}
		height = &n
	case !bytes.HasPrefix(rest, []byte(`,"vin":`)): // what follows in the mempool
		return tx, false, nil
	}
	raw, err := hex.DecodeString(string(digits[:end]))
	if err != nil {
		return tx, true, fmt.Errorf("hex: %w", err)
	}
	tx, err = located(raw, active, height)
	return tx, true, err
}

// allMembers reads the same from a parsed result.
func allMembers(v *fastjson.Value) (tx chain.LocatedTransaction, err error) {
	digits, err := stringOf(v, "hex")
	if err != nil {
		return tx, err
	}
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return tx, fmt.Errorf("hex: %w", err)
	}
	m, err := member(v, "in_active_chain")
	if err != nil {
		return tx, err
	}
	active, err := m.Bool()
	if err != nil {
		return tx, fmt.Errorf("in_active_chain is %s, not a boolean", text(m))
	}
	var height *int64
	if m := v.Get("height"); m != nil {
		n, err := m.Int64()
		if err != nil {
			return tx, fmt.Errorf("height is %s, not an integer", text(m))
		}
		height = &n
	}
	return located(raw, active, height)
}

// located reads the place from what Zebra says of it: no height in the mempool, -1 in a side chain.
func located(raw []byte, active bool, height *int64) (chain.LocatedTransaction, error) {
	tx := chain.LocatedTransaction{Raw: raw}
	switch {
	case len(raw) == 0:
		return tx, errors.New("hex is empty")
	case height == nil && active:
		return tx, errors.New("height is missing, and the transaction is mined")
	case height == nil:
		tx.Place = chain.InMempool
	case *height > int64(chain.MaxHeight):
		return tx, fmt.Errorf("height is %d, more than %d", *height, chain.MaxHeight)
	case !active || *height < 0:
		tx.Place = chain.OnSideChain
	default:
		tx.Place, tx.Height = chain.Mined, chain.Height(*height)
	}
	return tx, nil
}

// MempoolIDs returns the ids of the transactions in Zebra's mempool (getrawmempool). There are none while Zebra itself is behind.
func (c *Client) MempoolIDs(ctx context.Context) ([]chain.TxID, error) {
	q := query{method: getRawMempool, limit: callLimit, tries: 1, calm: true}
	return ask(ctx, c, &q, func(v *fastjson.Value) ([]chain.TxID, error) {
		list, err := v.Array()
		if err != nil {
			return nil, fmt.Errorf("the result is %s, not an array", text(v))
		}
		ids := make([]chain.TxID, len(list))
		for i, item := range list {
			s, err := item.StringBytes()
			if err != nil {
				return nil, fmt.Errorf("entry %d is %s, not a string", i, text(item))
			}
			if ids[i], err = chain.ParseTxID(string(s)); err != nil {
				return nil, fmt.Errorf("entry %d: %w", i, err)
			}
		}
		return ids, nil
	})
}

// SendTransaction gives Zebra a transaction (sendrawtransaction) and returns what it said, a refusal too: that is data for whoever made
// the transaction, and no error. An error means that the transaction may or may not have arrived. It is sent once, whatever happens.
//
// Bytes that we do not understand are Zebra's to judge. A transaction that we do must be accepted under its own id: an answer that names
// another one is about something else, and no consent.
func (c *Client) SendTransaction(ctx context.Context, raw []byte) (chain.SendResult, error) {
	q := query{
		method: sendRawTransaction, subject: fmt.Sprintf("of %d bytes", len(raw)), params: `"` + hex.EncodeToString(raw) + `"`,
		limit: sendLimit, tries: 1, calm: true,
	}
	if err := c.proveCredentials(ctx); err != nil {
		return chain.SendResult{}, err
	}
	result, err := ask(ctx, c, &q, func(v *fastjson.Value) (r chain.SendResult, err error) {
		s, err := v.StringBytes()
		if err != nil {
			return r, fmt.Errorf("the result is %s, not a string", text(v))
		}
		if r.ID, err = chain.ParseTxID(string(s)); err != nil {
			return r, err
		}
		return r, c.checkAccepted(raw, r.ID)
	})
	var e *Error
	if errors.As(err, &e) && e.Class == Answerable && e.Code != 0 {
		return chain.SendResult{Code: e.Code, Message: e.Message}, nil
	}
	return result, err
}

// checkAccepted wants id to be that of raw, if raw is a transaction as far as we can tell.
func (c *Client) checkAccepted(raw []byte, id chain.TxID) error {
	encoder := c.encoders.get()
	defer c.encoders.put(encoder)
	tx, err := encoder.Transaction(raw)
	if err != nil || tx.ID == id {
		return nil
	}
	c.log.Error("zebra has answered a transaction with the id of another one: who sent it is told that there is no answer", "url", c.url)
	return fmt.Errorf("it is about transaction %s, and %s was sent", id, tx.ID)
}

// proveCredentials has credentials that Zebra has not accepted yet tried by a question that may be repeated: what Zebra does with wrong
// ones cannot be told from a node that died after it took the transaction.
func (c *Client) proveCredentials(ctx context.Context) error {
	if creds, err := c.auth.get(); err == nil && creds.accepted.Load() {
		return nil
	}
	_, err := c.BestBlock(ctx)
	var e *Error
	if errors.As(err, &e) && e.Code != 0 {
		return nil // it answered
	}
	return err
}
