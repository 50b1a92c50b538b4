package zebrarpc

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"math"

	"github.com/valyala/fastjson"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// AddressUtxos yields the unspent outputs of the addresses from height from on, in chain order, some at a time, and ends after most of
// them; 0 means all (getaddressutxos). The addresses, at most 10,000, are in Base58Check. What is yielded is the caller's.
//
// It ends with chain.ErrReorged when the chain changes so that what was read does not belong together.
func (c *Client) AddressUtxos(ctx context.Context, addresses []string, from chain.Height, most uint32) iter.Seq2[[]chain.Utxo, error] {
	return func(yield func([]chain.Utxo, error) bool) {
		r := newUtxoReader(c, addresses, from, most)
		for !r.done {
			utxos, err := r.next(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(utxos) == 0 {
				continue
			}
			taken := c.shelf.put(len(utxos) * utxoBytes)
			more := yield(utxos, nil)
			if taken(); !more {
				return
			}
		}
	}
}

// utxoReader pages through outputs. A page may end within a block, whose outputs are then read again, and those that were seen left out.
type utxoReader struct {
	client *Client
	asked  map[string]string // the addresses, to recognize and to share their text
	list   []string

	from chain.Height
	most int                   // outputs that are still wanted; below 0: all
	page int                   // outputs to ask for, above what the shelf has room for when a height has more
	seen map[outpoint]struct{} // of height from
	tip  chain.BlockID         // of the chain that the last page was read from
	done bool
}

type outpoint struct {
	id    chain.TxID
	index uint32
}

func newUtxoReader(c *Client, addresses []string, from chain.Height, most uint32) *utxoReader {
	r := &utxoReader{client: c, asked: make(map[string]string, len(addresses)), list: addresses, from: from, most: int(most)}
	for _, a := range addresses {
		r.asked[a] = a
	}
	if most == 0 {
		r.most = -1
	}
	r.done = len(addresses) == 0 // Zebra would take it for a question about nothing too
	return r
}

// next returns the outputs of the next page that were not seen before.
func (r *utxoReader) next(ctx context.Context) ([]chain.Utxo, error) {
	page := max(r.page, r.client.shelf.room(utxoBytes, leastUtxos, utxoPage))
	if r.most >= 0 {
		page = min(page, r.most+len(r.seen))
	}
	utxos, tip, err := r.ask(ctx, page)
	if err != nil {
		return nil, err
	}
	if err := r.follow(ctx, tip); err != nil {
		return nil, err
	}
	full := len(utxos) == page
	if len(utxos) == 0 {
		r.done = true
		return nil, nil
	}
	last := utxos[len(utxos)-1].Height
	fresh, seen := r.sort(utxos, last)
	if r.most >= 0 {
		fresh = fresh[:min(len(fresh), r.most)]
		r.most -= len(fresh)
	}
	switch {
	case !full || r.most == 0:
		r.done = true
	case last > r.from:
		r.from, r.page = last, 0
	case page >= maxAddressResults:
		return nil, fmt.Errorf("read the unspent outputs of height %d: %w", last, chain.ErrTooMany)
	default: // all of the page is of one height
		r.page = min(2*page, maxAddressResults)
	}
	r.seen = seen
	return fresh, nil
}

// sort returns the outputs that are new and of an asked address, in the same memory, and all outpoints of height last.
func (r *utxoReader) sort(utxos []chain.Utxo, last chain.Height) (fresh []chain.Utxo, seen map[outpoint]struct{}) {
	seen = make(map[outpoint]struct{})
	fresh, foreign := utxos[:0], 0
	for _, u := range utxos {
		key := outpoint{u.TxID, u.Index}
		if u.Height == last {
			seen[key] = struct{}{}
		}
		_, old := r.seen[key]
		switch {
		case u.Address == "":
			foreign++
		case !old:
			fresh = append(fresh, u)
		}
	}
	if foreign > 0 {
		r.client.log.Error("zebra named unspent outputs of addresses that were not asked for: they were left out",
			"url", r.client.url, "outputs", foreign)
	}
	return fresh, seen
}

// follow checks that the page was read from the chain of the page before it, or from one that grew out of that.
func (r *utxoReader) follow(ctx context.Context, tip chain.BlockID) error {
	old := r.tip
	r.tip = tip
	if old == (chain.BlockID{}) || old == tip {
		return nil
	}
	return r.client.stillHas(ctx, old)
}

// ask reads one page. Outputs of addresses that were not asked for have an empty address.
func (r *utxoReader) ask(ctx context.Context, page int) (utxos []chain.Utxo, tip chain.BlockID, err error) {
	q := query{
		method: getAddressUtxos, subject: "from height " + decimal(r.from),
		params: addressObject(r.list, fmt.Sprintf(`,"chainInfo":true,"startHeight":%d,"maxEntries":%d`, r.from, page)),
		limit:  addressLimit, tries: callTries, patient: true,
	}
	p := r.client.parsers.Get()
	defer r.client.parsers.Put(p)
	at := r.from
	err = askList(ctx, r.client, &q, `"utxos":[`, func(i int, item []byte) error {
		u, err := r.utxo(p, item)
		if err == nil && u.Height < at {
			err = fmt.Errorf("height %d comes after height %d", u.Height, at)
		}
		if err != nil {
			return fmt.Errorf("utxos[%d]: %w", i, err)
		}
		at = u.Height
		utxos = append(utxos, u)
		return nil
	}, func(result *fastjson.Value) (err error) {
		if tip.Height, err = heightOf(result, "height"); err == nil {
			tip.Hash, err = hashOf(result, "hash")
		}
		if err == nil && len(utxos) > page {
			err = fmt.Errorf("there are %d utxos, more than the %d that were asked for", len(utxos), page)
		}
		return err
	})
	return utxos, tip, tooMany(err)
}

func (r *utxoReader) utxo(p *fastjson.Parser, item []byte) (u chain.Utxo, err error) {
	v, err := p.ParseBytes(item)
	if err != nil {
		return u, err
	}
	address, err := member(v, "address")
	if err != nil {
		return u, err
	}
	u.Address = r.asked[string(address.GetStringBytes())]
	id, err := stringOf(v, "txid")
	if err != nil {
		return u, err
	}
	if u.TxID, err = chain.ParseTxID(id); err != nil {
		return u, err
	}
	index, err := unsigned(v, "outputIndex", math.MaxInt32)
	if err != nil {
		return u, err
	}
	value, err := unsigned(v, "satoshis", math.MaxInt64)
	if err != nil {
		return u, err
	}
	script, err := member(v, "script")
	if err != nil {
		return u, err
	}
	if u.Script, err = hex.AppendDecode(nil, script.GetStringBytes()); err != nil {
		return u, fmt.Errorf("script: %w", err)
	}
	u.Index, u.Value = uint32(index), int64(value)
	u.Height, err = heightOf(v, "height")
	return u, err
}
