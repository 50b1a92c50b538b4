package index

import (
	"errors"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// errOtherChain: the node's block is not the one that the index names.
var errOtherChain = errors.New("the node has another block there")

// repairedRecent is one recent block: a stored row that is right as far as it tells, or a block of the node.
type repairedRecent struct {
	id      chain.BlockID
	prev    chain.Hash
	added   chain.TreeSizes
	sizes   chain.TreeSizes // of a stored row
	fetched *chain.Block    // nil: the row stays
}

// recent fetches the recent blocks whose rows are wrong. When the node has others by now, or none, the recent blocks are given up, as
// the next start would do.
func (r *repairer) recent(problems []Problem) error {
	wrong := make(map[string]bool)
	for _, p := range problems {
		wrong[string(p.row)] = true
	}
	blocks, err := r.recentBlocks(wrong)
	if err == nil {
		err = r.putRecent(blocks)
	}
	if errors.Is(err, errOtherChain) {
		sealed := r.store.state.sealed
		return r.setState(state{sealed: sealed, top: sealed}, true)
	}
	return err
}

// recentBlocks walks from the tip down to the sealed blocks, and asks the node for what it does not find. The lowest block comes last.
func (r *repairer) recentBlocks(wrong map[string]bool) ([]repairedRecent, error) {
	st := r.store.state
	var blocks []repairedRecent
	id := st.top.tip()
	for n := st.top.blocks; n > st.sealed.blocks; n-- {
		b, err := r.storedRecent(id)
		if err != nil || wrong[string(recentKey(id).bytes())] {
			b, err = r.fetchRecent(id)
		}
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
		id = chain.BlockID{Height: id.Height - 1, Hash: b.prev}
	}
	if id.Hash != st.sealed.hash {
		return nil, fmt.Errorf("the recent blocks do not stand on the sealed ones: %w", errOtherChain)
	}
	return blocks, nil
}

func (r *repairer) storedRecent(id chain.BlockID) (b repairedRecent, err error) {
	txn := r.store.db.NewTransactionAt(latest, false)
	defer txn.Discard()
	err = readRow(txn, recentKey(id).bytes(), func(v []byte) error {
		row, err := decodeRecentRow(v)
		if err != nil {
			return err
		}
		_, added, err := inspectRecent(id, row)
		b = repairedRecent{id: id, prev: row.prev, added: added, sizes: row.sizes}
		return err
	})
	return b, err
}

func (r *repairer) fetchRecent(id chain.BlockID) (repairedRecent, error) {
	if err := r.ask(); err != nil {
		return repairedRecent{}, err
	}
	if r.store.net.genesis == (chain.Hash{}) { // any node might be asked, and would have another block
		return repairedRecent{}, fmt.Errorf("%s comes first", keyNetwork)
	}
	for f, err := range r.node.Blocks(r.ctx, id.Height, id.Height) {
		if errors.Is(err, chain.ErrAboveTip) {
			err = errOtherChain
		}
		if err != nil {
			return repairedRecent{}, r.lost(fmt.Errorf("fetch block %s: %w", id, err))
		}
		if f.ID != id {
			return repairedRecent{}, fmt.Errorf("block %s: %w", id, errOtherChain)
		}
		b := *f.Block // its bytes are lent
		b.Shielded, b.Transparent = append([]byte(nil), b.Shielded...), append([]byte(nil), b.Transparent...)
		return repairedRecent{id: id, prev: b.Prev, added: b.Added, fetched: &b}, nil
	}
	return repairedRecent{}, fmt.Errorf("fetch block %s: the node sent none: %w", id, chain.ErrUnavailable)
}

// putRecent commits the rows that were fetched, from the lowest block up, since sizes count up.
func (r *repairer) putRecent(blocks []repairedRecent) error {
	end := r.store.state.sealed
	var b batch
	fetched := 0
	for i := len(blocks) - 1; i >= 0; i-- {
		block := &blocks[i]
		sizes, err := end.sizes.Plus(block.added)
		if err == nil && block.fetched == nil && sizes != block.sizes {
			if *block, err = r.fetchRecent(block.id); err == nil {
				sizes, err = end.sizes.Plus(block.added)
			}
		}
		if err != nil {
			return err
		}
		end = chainEnd{blocks: block.id.Height + 1, hash: block.id.Hash, sizes: sizes}
		if block.fetched != nil {
			b.put(recentKey(block.id).bytes(), appendRecentRow(nil, block.fetched, sizes))
			fetched++
		}
		if b.bytes < commitBytes && len(b.keys) < commitRows && i > 0 || len(b.keys) == 0 {
			continue
		}
		if i == 0 {
			if err := r.checkSizes(end); err != nil {
				return err
			}
		}
		if err := r.commit(&b, r.store.state); err != nil {
			return err
		}
		r.done.Recent += fetched
		b, fetched = batch{}, 0
	}
	return nil
}
