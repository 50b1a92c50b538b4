package zebrarpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/valyala/fastjson"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Client asks one Zebra node. It may be used by many goroutines.
type Client struct {
	options   Options
	url       string        // as shown in errors
	prototype *http.Request // copied for each request
	http      *retryablehttp.Client
	sender    *retryablehttp.Client               // of transactions
	idle      interface{ CloseIdleConnections() } // nil when a test brought its own transport
	auth      *authenticator
	permits   *permits
	patience  chain.Slots // of expensive questions
	shelf     shelf
	lastID    atomic.Uint64
	log       *slog.Logger

	parsers  fastjson.ParserPool
	buffers  buffers
	blocks   blocks
	encoders encoderPool

	refused atomic.Pointer[error] // see Refuse

	tip   tipWatcher
	stats counters
}

// New checks the options. It does no input or output: a node that cannot be reached shows at the first call.
func New(o Options) (*Client, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	kept := newWire(u, MaxInFlight+1)
	c, err := newClient(o, kept)
	if err != nil {
		return nil, err
	}
	c.idle = kept
	// A connection of its own for each transaction that is sent: one that was kept may turn out to be closed, and then nobody could
	// tell whether Zebra has read the request.
	c.sender = newHTTP(newWire(u, 0))
	return c, nil
}

func newClient(o Options, transport http.RoundTripper) (*Client, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	c := &Client{
		options:   o,
		url:       u.String(),
		prototype: &http.Request{Method: http.MethodPost, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1},
		http:      newHTTP(transport),
		sender:    newHTTP(transport),
		auth:      newAuthenticator(o.Auth),
		permits:   newPermits(o.InFlight, o.ReadAhead),
		patience:  make(chain.Slots, patientInFlight),
		log:       o.Logger,
	}
	c.encoders.options = o.Encoder
	c.tip.init()
	return c, nil
}

// Close closes the idle connections. Calls that still run end by their contexts, and new ones connect anew.
func (c *Client) Close() {
	if c.idle != nil {
		c.idle.CloseIdleConnections()
	}
}

// Refuse makes every question fail with err from now on, as if the node were away, but those with which one can see that it is the right
// one again: for its tip, and for the hash of a height. Nil ends that.
func (c *Client) Refuse(err error) {
	if err == nil {
		c.refused.Store(nil)
		return
	}
	c.refused.Store(&err)
}

// Refused returns what Refuse was given last.
func (c *Client) Refused() error {
	if err := c.refused.Load(); err != nil {
		return *err
	}
	return nil
}

// URL is the node's address, without any secret.
func (c *Client) URL() string { return c.url }

// BestBlock returns the tip of the node's best chain, read by Zebra in one go (getbestblockheightandhash). A node without any block
// is a passing error.
func (c *Client) BestBlock(ctx context.Context) (chain.BlockID, error) {
	q := query{method: getBestBlockHeightAndHash, limit: tipLimit, tries: 1, calm: true}
	return ask(ctx, c, &q, func(v *fastjson.Value) (id chain.BlockID, err error) {
		if id.Height, err = heightOf(v, "height"); err == nil {
			id.Hash, err = rawHashOf(v, "hash")
		}
		return id, err
	})
}

// BlockHash returns the hash of the best chain's block of that height (getblockhash). A height above the tip is an answerable error
// that matches chain.ErrAboveTip.
func (c *Client) BlockHash(ctx context.Context, h chain.Height) (chain.Hash, error) {
	return c.blockHash(ctx, h, false)
}

// blockHash is BlockHash, with or without precedence.
func (c *Client) blockHash(ctx context.Context, h chain.Height, patient bool) (chain.Hash, error) {
	q := query{method: getBlockHash, subject: atHeight(h), params: decimal(h), limit: callLimit, tries: callTries, patient: patient}
	if err := c.checkHeight(&q, h); err != nil {
		return chain.Hash{}, err
	}
	hash, err := ask(ctx, c, &q, func(v *fastjson.Value) (chain.Hash, error) {
		s, err := v.StringBytes()
		if err != nil {
			return chain.Hash{}, fmt.Errorf("the result is %s, not a string", text(v))
		}
		return chain.ParseHash(string(s))
	})
	return hash, about(err, chain.ErrAboveTip)
}

// HeightOf returns the height of a block of the best chain (getblockheader). A block that Zebra does not know, or that is on a side
// chain, is an answerable error that matches chain.ErrNotFound.
func (c *Client) HeightOf(ctx context.Context, hash chain.Hash) (chain.Height, error) {
	q := query{method: getBlockHeader, subject: withHash(hash), params: `"` + hash.String() + `",true`, limit: callLimit, tries: callTries}
	type header struct {
		height    chain.Height
		sideChain bool
	}
	h, err := ask(ctx, c, &q, func(v *fastjson.Value) (h header, err error) {
		confirmations, err := member(v, "confirmations")
		if err != nil {
			return h, err
		}
		n, err := confirmations.Int64()
		if err != nil {
			return h, fmt.Errorf("confirmations is %s, not an integer", text(confirmations))
		}
		if h.sideChain = n < 0; h.sideChain {
			return h, nil
		}
		if h.height, err = heightOf(v, "height"); err != nil {
			return h, err
		}
		return h, expectHash(v, hash)
	})
	if err == nil && h.sideChain {
		err = c.locate(&q, &Error{Class: Answerable, Err: fmt.Errorf("on a side chain: %w", chain.ErrNotFound)})
	}
	return h.height, about(err, chain.ErrNotFound)
}

// TreeSizes returns the sizes of the note commitment trees at the end of the block with that hash (getblock verbosity 1). A block that
// is not on the best chain is an answerable error that matches chain.ErrNotFound. It costs Zebra eight reads.
func (c *Client) TreeSizes(ctx context.Context, hash chain.Hash) (chain.TreeSizes, error) {
	q := query{method: getBlock, subject: withHash(hash), params: `"` + hash.String() + `",1`, limit: callLimit, tries: callTries}
	_, sizes, err := c.treeSizes(ctx, &q, func(v *fastjson.Value) error { return expectHash(v, hash) })
	return sizes, about(err, chain.ErrNotFound)
}

// TreeSizesAt is TreeSizes for the best chain's block of that height, and says which block that is. A height above the tip is an answerable error that matches
// chain.ErrAboveTip.
func (c *Client) TreeSizesAt(ctx context.Context, h chain.Height) (chain.BlockID, chain.TreeSizes, error) {
	q := query{method: getBlock, subject: atHeight(h), params: `"` + decimal(h) + `",1`, limit: callLimit, tries: callTries}
	if err := c.checkHeight(&q, h); err != nil {
		return chain.BlockID{}, chain.TreeSizes{}, err
	}
	id, sizes, err := c.treeSizes(ctx, &q, func(v *fastjson.Value) error {
		got, err := heightOf(v, "height")
		if err == nil && got != h {
			err = fmt.Errorf("the reply is about height %d", got)
		}
		return err
	})
	return id, sizes, about(err, chain.ErrAboveTip)
}

func (c *Client) treeSizes(ctx context.Context, q *query, check func(*fastjson.Value) error) (id chain.BlockID, s chain.TreeSizes, err error) {
	id, err = ask(ctx, c, q, func(v *fastjson.Value) (id chain.BlockID, err error) {
		if id.Height, err = heightOf(v, "height"); err != nil {
			return id, err
		}
		if id.Hash, err = hashOf(v, "hash"); err != nil {
			return id, err
		}
		if err = check(v); err != nil {
			return id, err
		}
		s, err = treeSizesOf(v)
		return id, err
	})
	return id, s, err
}

// RawBlock returns the serialized block with that hash (getblock verbosity 0), unchecked. A block that is not on the best chain is an
// answerable error that matches chain.ErrNotFound. The bytes are the caller's.
func (c *Client) RawBlock(ctx context.Context, hash chain.Hash) ([]byte, error) {
	q := query{method: getBlock, subject: withHash(hash), params: `"` + hash.String() + `",0`, limit: callLimit, tries: callTries}
	raw, err := c.rawBlock(ctx, &q)
	return raw, about(err, chain.ErrNotFound)
}

// RawBlockAt is RawBlock for the best chain's block of that height. A height above the tip is an answerable error that matches
// chain.ErrAboveTip.
func (c *Client) RawBlockAt(ctx context.Context, h chain.Height) ([]byte, error) {
	q := rawQuery(h)
	q.subject, q.tries = atHeight(h), callTries
	if err := c.checkHeight(&q, h); err != nil {
		return nil, err
	}
	raw, err := c.rawBlock(ctx, &q)
	return raw, about(err, chain.ErrAboveTip)
}

// rawQuery asks for the block of a height once; getblock takes heights as strings. The subject is left out, since most of these
// queries never need it.
func rawQuery(h chain.Height) query {
	return query{method: getBlock, params: `"` + decimal(h) + `",0`, limit: callLimit, tries: 1}
}

func (c *Client) rawBlock(ctx context.Context, q *query) ([]byte, error) {
	a, err := c.interactive(ctx, q)
	if err != nil {
		return nil, c.locate(q, err)
	}
	var raw []byte
	err = c.read(q, a, func(p *fastjson.Parser) error {
		hex, err := rawResult(p, *a.body, a.id)
		raw = bytes.Clone(hex)
		return err
	})
	return raw, err
}

// ask puts a question with the precedence of interactive calls and gives its result to decode, whose errors are fatal: they are about
// a result that no Zebra gives.
func ask[T any](ctx context.Context, c *Client, q *query, decode func(*fastjson.Value) (T, error)) (T, error) {
	var none T
	a, err := c.interactive(ctx, q)
	if err != nil {
		return none, c.locate(q, err)
	}
	result := none
	err = c.read(q, a, func(p *fastjson.Parser) error {
		v, err := parseReply(p, *a.body, a.id)
		if err != nil {
			return err
		}
		if result, err = decode(v); err != nil {
			return fatal(hintReply, "the reply is wrong: %w", err)
		}
		return nil
	})
	if err != nil {
		return none, err
	}
	return result, nil
}

// read lends decode a parser for the body of an answer, counts how that went, and completes the error. Whatever we read of Zebra is read
// in here, in goroutines of all kinds: a panic of decode becomes the error of this one answer.
func (c *Client) read(q *query, a *call, decode func(*fastjson.Parser) error) error {
	defer a.drop()
	p := c.parsers.Get()
	defer c.parsers.Put(p)
	err := chain.Guard(func() error { return decode(p) })
	if err == nil {
		return c.answered(q, nil)
	}
	var bug *chain.Panic
	if !errors.As(err, &bug) {
		return c.answered(q, err)
	}
	err = c.answered(q, &Error{Class: Fatal, Err: bug})
	c.log.Error("an answer of zebra made us panic", "err", err, "stack", string(bug.Stack))
	return err
}

// interactive sends the query as soon as it gets a permit.
func (c *Client) interactive(ctx context.Context, q *query) (*call, error) {
	urgency := urgent
	switch {
	case q.calm:
		urgency = poll
	case q.patient:
		urgency = patient
		if err := c.patience.Take(ctx, permitWait); err != nil {
			return nil, err
		}
		defer c.patience.Give()
	}
	if err := c.permits.acquire(ctx, urgency, q.limit); err != nil {
		return nil, err
	}
	defer c.permits.release(urgency)
	a, err := c.send(ctx, q, nil)
	if err != nil {
		c.stats.failed(q.method, err)
	}
	return a, err
}

// answered counts a reply and completes its error.
func (c *Client) answered(q *query, err error) error {
	if errors.Is(err, errOtherRequest) {
		c.Close() // the connection may be a reply behind for good, and is among those that are kept
	}
	if err != nil {
		err = c.locate(q, err)
		c.stats.failed(q.method, err)
		return err
	}
	c.stats.succeeded(q.method)
	return nil
}

// locate completes an error with what was asked of whom.
func (c *Client) locate(q *query, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.URL, e.Method, e.Subject = c.url, q.method.String(), q.subject
		return err
	}
	asked := q.method.String()
	if q.subject != "" {
		asked += " " + q.subject
	}
	return fmt.Errorf("%s from %s: %w", asked, c.url, err)
}

// checkHeight refuses heights that Zebra's parameters cannot express.
func (c *Client) checkHeight(q *query, h chain.Height) error {
	if h > chain.MaxHeight {
		return c.locate(q, &Error{Class: Answerable, Err: fmt.Errorf("%w: no height is above %d", chain.ErrAboveTip, chain.MaxHeight)})
	}
	return nil
}

func expectHash(v *fastjson.Value, want chain.Hash) error {
	got, err := hashOf(v, "hash")
	if err == nil && got != want {
		err = fmt.Errorf("the reply is about block %s", got)
	}
	return err
}

func atHeight(h chain.Height) string  { return "height " + decimal(h) }
func withHash(hash chain.Hash) string { return "hash " + hash.String() }
func decimal(h chain.Height) string   { return strconv.FormatUint(uint64(h), 10) }
