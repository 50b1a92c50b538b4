package index

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Repaired says what Repair did. A row that was right has not been touched.
type Repaired struct {
	Segments int      `json:"segments"`         // of which one row or both were made again of the node's blocks
	Recent   int      `json:"recent"`           // recent blocks that were fetched again
	Dropped  int      `json:"dropped"`          // rows that were deleted
	Meta     []string `json:"meta"`             // keys of the meta rows that were written again
	CutTo    *int64   `json:"cut_to,omitempty"` // blocks that are left where the index was cut back: the next start builds on from there
	Failures []string `json:"failures"`         // what could not be repaired, and why
}

// maxRounds is how often Repair goes over what is wrong: some damage shows only when other damage is repaired.
const maxRounds = 4

// Repair is Check, and repairs what that finds, all by itself: sealed and recent blocks are fetched from the node, and verified like
// new ones; what was kept beside the blocks is deleted; the meta rows are made to say what the others do. Then everything is verified
// again: the Problems of the Report are those that are left.
//
// Each repair is one commit, so that a kill leaves the index better or as it was. The node may be nil when nothing is to be fetched; when
// it cannot be asked, or when the disk is full, what could not be repaired is left as it is and named in Report.Repair.
func Repair(ctx context.Context, dir string, node BestChain, o Options, c CheckOptions) (Report, error) {
	c = c.withDefaults()
	if c.Compare != nil {
		node = c.Compare
	}
	if err := exists(dir); err != nil {
		return Report{}, err
	}
	lock, err := lockDir(dir, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return Report{}, fmt.Errorf("repair index %s: %w", dir, notWritable(dir, err))
	}
	report, err := checkDir(ctx, dir, c)
	if err != nil || len(report.Problems) == 0 {
		lock.Close()
		return report, err
	}
	s, err := openForRepair(dir, lock, o)
	if err != nil {
		return report, err
	}
	r := repairer{ctx: ctx, store: s, node: node, report: report, done: &Repaired{Meta: []string{}, Failures: []string{}}}
	err = r.run(c)
	r.report.Dir, r.report.Recovered, r.report.DiskBytes, r.report.Node, r.report.Repair = dir, report.Recovered, allocatedBytes(dir), report.Node, r.done
	return r.report, errors.Join(err, s.Close())
}

// openForRepair opens the database with nothing in memory but the state, as far as it can be read.
func openForRepair(dir string, lock *os.File, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("repair index %s: %w", dir, err)
	}
	o.verifyValues = true
	s, err := openBadger(dir, lock, o)
	if err != nil {
		return nil, err
	}
	txn := s.db.NewTransactionAt(latest, false)
	defer txn.Discard()
	if s.state, err = loadState(txn); err != nil {
		s.state = state{seq: s.version}
	}
	s.net, _ = readNetwork(txn) // one that cannot be read is written again
	s.complete.Store(s.state.complete)
	s.publish(&snapshot{sealed: s.state.sealed, top: s.state.top}, nil)
	return s, nil
}

// repairer is one run of Repair.
type repairer struct {
	ctx    context.Context
	store  *Store
	node   BestChain
	report Report // of the last look
	done   *Repaired
	away   error // why the node is asked no more
	asked  bool  // the node is of the right network
	a      assembler
}

// run makes rounds of repairing and looking again, until nothing is wrong or a round has changed nothing.
func (r *repairer) run(c CheckOptions) error {
	c.Compare = nil // what was fetched needs no comparison
	for range maxRounds {
		before := r.store.state.seq
		r.done.Failures = r.done.Failures[:0]
		left := r.round()
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if r.store.state.seq == before {
			return nil
		}
		again, err := checkDB(r.ctx, r.store.db, c)
		if err != nil {
			return fmt.Errorf("check index %s after the repair: %w", r.store.dir, err)
		}
		again.Problems = append(again.Problems, left...)
		if r.report = again; len(again.Problems) == 0 {
			return nil
		}
	}
	return nil
}

// round tries to repair each problem. It returns those that it could not and that a look without the node does not find.
func (r *repairer) round() (left []Problem) {
	failed := func(p Problem, err error) {
		r.done.Failures = append(r.done.Failures, fmt.Sprintf("%s: %v", p.Key, err))
		if p.compared {
			left = append(left, p)
		}
	}
	blocks, recent := false, []Problem(nil)
	for _, p := range r.report.Problems {
		var err error
		switch p.fix {
		case fixDrop:
			err = r.drop(p.row)
		case fixNetwork:
			err = r.network()
		case fixBlocks:
			blocks = true
			err = r.blocks(p)
		case fixRecent:
			recent = append(recent, p)
		case fixNone:
			err = errors.New("the node has another chain")
		}
		if err != nil {
			failed(p, err)
		}
	}
	for _, p := range r.report.Problems {
		var err error
		switch {
		case p.fix == fixState && blocks:
			err = errors.New("the sealed blocks come first")
		case p.fix == fixState:
			err = r.state()
		case p.fix == fixRecent:
			if recent == nil {
				continue // repaired with the first one
			}
			err = r.recent(recent)
			recent = nil
		}
		if err != nil {
			failed(p, err)
		}
	}
	return left
}

// ask fails when the node cannot be asked or is of another network.
func (r *repairer) ask() error {
	if r.node == nil {
		return errors.New("no node is given that has these blocks")
	}
	if r.away == nil && !r.asked {
		r.away = sameGenesis(r.ctx, r.node, r.store.net)
		r.asked = true
	}
	return r.away
}

// lost remembers that the node cannot be asked any more.
func (r *repairer) lost(err error) error {
	if errors.Is(err, chain.ErrUnavailable) {
		r.away = err
	}
	return err
}

// commit writes b and the state that it leads to.
func (r *repairer) commit(b *batch, next state) error { return r.store.apply(b, next) }

func (r *repairer) drop(row []byte) error {
	err := r.commit(&batch{deletes: [][]byte{row}}, r.store.state)
	if err == nil {
		r.done.Dropped++
	}
	return err
}

// network writes the network row again, when the node agrees about the first block.
func (r *repairer) network() error {
	first, err := r.firstBlock()
	if err != nil {
		return fmt.Errorf("block 0 comes first: %w", err)
	}
	net := network{genesis: first, name: r.store.net.name}
	if net.name == "" {
		net.name = r.store.o.Network
	}
	if r.node == nil {
		return r.ask()
	}
	if err := sameGenesis(r.ctx, r.node, net); err != nil {
		return r.lost(err)
	}
	var b batch
	b.put(keyNetwork.bytes(), net.encode())
	if err := r.commit(&b, r.store.state); err != nil {
		return err
	}
	r.store.net, r.away = net, nil
	r.done.Meta = append(r.done.Meta, string(keyNetwork))
	return nil
}

// firstBlock reads the hash of block 0.
func (r *repairer) firstBlock() (hash chain.Hash, err error) {
	if len(r.report.spans) > 0 {
		err = r.segment(r.report.spans[0].last, func(row segmentRow) error {
			s, err := summarize(row, 0)
			hash = s.ID.Hash
			return err
		})
		return hash, err
	}
	txn := r.store.db.NewTransactionAt(latest, false)
	defer txn.Discard()
	for row, item := range rowsOf(txn, prefixRecent, true) {
		key, err := parseRecentKey(row)
		if err == nil && key.Height == 0 {
			err = item.Value(func(v []byte) error { _, err := decodeRecentRow(v); return err })
		}
		if err == nil {
			return key.Hash, nil
		}
	}
	return hash, errMissing
}

// segment reads a segment row that must be right.
func (r *repairer) segment(last chain.Height, fn func(segmentRow) error) error {
	txn := r.store.db.NewTransactionAt(latest, false)
	defer txn.Discard()
	err := readRow(txn, segmentKey(last).bytes(), func(v []byte) error {
		row, err := decodeSegment(v)
		if err == nil {
			err = errors.Join(row.verifyTables(), row.verifyFrames())
		}
		if err != nil {
			return err
		}
		return fn(row)
	})
	return missing(err)
}

// state makes the state row say what the other rows do. Where it said something else, the last segment is fetched again first, since it
// may be the wrong one.
func (r *repairer) state() error {
	rows := r.report.rows
	lost := r.store.state.top.blocks == 0
	if n := len(r.report.spans); n > 0 && !lost && rows.sealed != r.store.state.sealed {
		before := r.store.state.seq
		if err := r.rebuild(&r.report.spans[n-1]); err != nil || r.store.state.seq != before {
			return err
		}
	}
	cut := lost || rows.top.blocks < r.store.state.top.blocks
	if err := r.setState(rows, cut); err != nil {
		return err
	}
	r.done.Meta = append(r.done.Meta, string(keyState))
	return nil
}

// setState commits what the rows lead to; cut says that blocks are given up.
func (r *repairer) setState(next state, cut bool) error {
	if cut {
		r.store.complete.Store(false)
	}
	if err := r.commit(&batch{}, next); err != nil {
		return err
	}
	if cut {
		blocks := int64(next.top.blocks)
		r.done.CutTo = &blocks
	}
	return nil
}

// blocks makes the segments of a problem again.
func (r *repairer) blocks(p Problem) error {
	for i := range r.report.spans {
		g := &r.report.spans[i]
		if g.last < p.First || g.first > p.Last || g.rebuilt {
			continue
		}
		if err := r.rebuild(g); err != nil {
			return err
		}
		g.rebuilt, g.bad = true, false
	}
	return nil
}

// rebuild makes the rows of a span of the node's blocks. Blocks without a row are divided into segments anew.
func (r *repairer) rebuild(g *span) error {
	if err := r.ask(); err != nil {
		return err
	}
	end, err := r.endBelow(g.first)
	if err != nil {
		return fmt.Errorf("block %d comes first: %w", g.first-1, err)
	}
	r.a.reset()
	for f, err := range r.node.Blocks(r.ctx, g.first, g.last) {
		if err != nil {
			return r.lost(fmt.Errorf("fetch block %d: %w", end.blocks, err))
		}
		if err := checkBlock(end, f.Block); err != nil {
			return fmt.Errorf("the node's blocks are not those of this index: %w", err)
		}
		sizes, err := end.sizes.Plus(f.Added)
		if err != nil {
			return fmt.Errorf("block %s: %w", f.ID, err)
		}
		r.a.add(f.Block, sizes)
		end = r.a.end()
		if end.blocks > g.last {
			if err := r.fitsAbove(end); err != nil {
				return err
			}
		}
		if end.blocks > g.last || g.missing && r.a.full(&r.store.o) {
			if err := r.putSegment(end); err != nil {
				return err
			}
			r.a.reset()
		}
	}
	if end.blocks <= g.last {
		return fmt.Errorf("fetch block %d: the node sent none: %w", end.blocks, chain.ErrUnavailable)
	}
	return nil
}

// endBelow is where the sealed blocks below a height end, by their rows.
func (r *repairer) endBelow(first chain.Height) (end chainEnd, err error) {
	if first == 0 {
		return end, nil
	}
	err = r.segment(first-1, func(row segmentRow) error {
		s, err := summarize(row, first-1)
		end = chainEnd{blocks: first, hash: s.ID.Hash, sizes: s.Sizes}
		return err
	})
	return end, err
}

// fitsAbove fails when a chain that ends there is not what the blocks above, as far as they are right, stand on.
func (r *repairer) fitsAbove(end chainEnd) error {
	spans := r.report.spans
	i := slices.IndexFunc(spans, func(g span) bool { return g.first == end.blocks })
	if i < 0 || spans[i].bad || spans[i].missing {
		return nil
	}
	return r.segment(spans[i].last, func(row segmentRow) error {
		if row.prev != end.hash {
			return fmt.Errorf("block %s of the node is not the parent of the stored block %d, which is %s", end.tip(), end.blocks, row.prev)
		}
		return nil
	})
}

// putSegment commits what the assembler holds, as far as it is not what the rows hold already.
func (r *repairer) putSegment(end chainEnd) error {
	if err := r.checkSizes(end); err != nil {
		return err
	}
	segment, transparent := r.a.rows()
	var b batch
	r.putChanged(&b, segmentKey(end.blocks-1).bytes(), segment)
	r.putChanged(&b, transparentKey(end.blocks-1).bytes(), transparent)
	if len(b.keys) == 0 {
		return nil
	}
	if err := r.commit(&b, r.store.state); err != nil {
		return err
	}
	r.done.Segments++
	return nil
}

// checkSizes compares the tree sizes at the end of a chain with the node's, before it is committed.
func (r *repairer) checkSizes(end chainEnd) error {
	sizes, err := r.node.TreeSizes(r.ctx, end.hash)
	if err != nil {
		return r.lost(fmt.Errorf("ask the node for the tree sizes of block %s: %w", end.tip(), err))
	}
	if sizes != end.sizes {
		return &TreeSizeError{Block: end.tip(), Ours: end.sizes, Node: sizes}
	}
	return nil
}

// putChanged adds a row to a batch, unless it is stored already.
func (r *repairer) putChanged(b *batch, key, value []byte) {
	txn := r.store.db.NewTransactionAt(latest, false)
	defer txn.Discard()
	same := false
	if err := readRow(txn, key, func(v []byte) error { same = slices.Equal(v, value); return nil }); err != nil || !same {
		b.put(key, value)
	}
}
