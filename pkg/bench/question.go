package bench

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// question is a call that every target can be asked, with what is known of its answer beforehand.
type question struct {
	method  method
	request proto.Message
	encoded []byte // the request
	text    string // which, in words: "GetBlockRange 1 to 100"
	key     string // names it among all
	count   int64  // messages that have to come; below 0: any number
	blocks  bool   // the messages are blocks
	atTip   bool   // the answer may change with the tip
	passing bool   // the answer may change at any time: it is compared with no other
	checker func() func(proto.Message) error
	confirm func(context.Context, *target) error // what else has to hold when the answer is looked at; nil: nothing
}

func (q *question) String() string { return q.text }

// ask makes a question. The checker makes, for each call, what looks at its messages one by one.
func newQuestion(method, text string, request proto.Message, checker func() func(proto.Message) error) *question {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil { // only strings that are not UTF-8 make it fail, and there are none
		panic(err)
	}
	if text != "" {
		text = " " + text
	}
	q := &question{method: methodNamed(method), request: request, encoded: encoded, text: method + text, count: 1, checker: checker}
	q.key = method + "\x00" + string(encoded)
	if q.method.stream {
		q.count = -1
	}
	return q
}

// each makes a checker that looks at every message by itself.
func each[M proto.Message](check func(M) error) func() func(proto.Message) error {
	return func() func(proto.Message) error { return func(m proto.Message) error { return check(m.(M)) } }
}

// anything is a checker that is content with every message.
func anything() func(proto.Message) error { return func(proto.Message) error { return nil } }

// blockRange asks for the blocks from one height to another, ascending.
func blockRange(from, to uint64) *question {
	q := newQuestion("GetBlockRange", fmt.Sprintf("%d to %d", from, to), &walletrpc.BlockRange{
		Start: &walletrpc.BlockID{Height: from}, End: &walletrpc.BlockID{Height: to},
	}, func() func(proto.Message) error { return checkLinks(from) })
	q.count, q.blocks = int64(to-from+1), true
	return q
}

// checkLinks looks at blocks that have to follow one another from a height on.
func checkLinks(next uint64) func(proto.Message) error {
	var before []byte
	return func(m proto.Message) error {
		b := m.(*walletrpc.CompactBlock)
		if err := checkBlock(b, next); err != nil {
			return err
		}
		if before != nil && !bytes.Equal(b.PrevHash, before) {
			return fmt.Errorf("the link is broken: block %d names %x as the one before it, which came as %x", next, b.PrevHash, before)
		}
		before = b.Hash
		next++
		return nil
	}
}

// checkBlock looks at one block.
func checkBlock(b *walletrpc.CompactBlock, height uint64) error {
	switch {
	case b.Height != height:
		return fmt.Errorf("block %d came where %d should", b.Height, height)
	case len(b.Hash) != 32 || len(b.PrevHash) != 32:
		return fmt.Errorf("block %d has a hash of %d bytes and names one of %d", height, len(b.Hash), len(b.PrevHash))
	case b.ChainMetadata == nil:
		return fmt.Errorf("block %d has no chainMetadata: wallets cannot tell the positions of its notes", height)
	}
	return nil
}

// oneBlock asks for a block by its height.
func oneBlock(height uint64) *question {
	q := newQuestion("GetBlock", fmt.Sprint(height), &walletrpc.BlockID{Height: height},
		each(func(b *walletrpc.CompactBlock) error { return checkBlock(b, height) }))
	q.blocks = true
	return q
}

func blockNullifiers(height uint64) *question {
	q := newQuestion("GetBlockNullifiers", fmt.Sprint(height), &walletrpc.BlockID{Height: height},
		each(func(b *walletrpc.CompactBlock) error {
			if b.Height != height || len(b.Hash) != 32 {
				return fmt.Errorf("block %d with a hash of %d bytes came for %d", b.Height, len(b.Hash), height)
			}
			return nil
		}))
	q.blocks = true
	return q
}

func treeState(height uint64) *question {
	return newQuestion("GetTreeState", fmt.Sprint(height), &walletrpc.BlockID{Height: height},
		each(func(s *walletrpc.TreeState) error {
			if s.Height != height {
				return fmt.Errorf("the tree state of %d came for %d", s.Height, height)
			}
			return checkTreeState(s)
		}))
}

func checkTreeState(s *walletrpc.TreeState) error {
	if hash, err := hex.DecodeString(s.Hash); err != nil || len(hash) != 32 {
		return fmt.Errorf("the tree state of %d names the block %q", s.Height, s.Hash)
	}
	return nil
}

func latestTreeState() *question {
	q := newQuestion("GetLatestTreeState", "", &walletrpc.Empty{}, each(checkTreeState))
	q.atTip = true
	return q
}

func latestBlock() *question {
	q := newQuestion("GetLatestBlock", "", &walletrpc.ChainSpec{}, each(func(b *walletrpc.BlockID) error {
		if len(b.Hash) != 32 {
			return fmt.Errorf("the newest block, %d, has a hash of %d bytes", b.Height, len(b.Hash))
		}
		return nil
	}))
	q.atTip = true
	q.confirm = func(ctx context.Context, t *target) error {
		_, err := t.confirmedTip(ctx)
		return err
	}
	return q
}

func lightdInfo() *question {
	q := newQuestion("GetLightdInfo", "", &walletrpc.Empty{}, each(func(i *walletrpc.LightdInfo) error {
		if i.BlockHeight == 0 || i.ChainName == "" {
			return fmt.Errorf("chain %q of height %d", i.ChainName, i.BlockHeight)
		}
		return nil
	}))
	q.passing = true
	return q
}

func subtreeRoots(pool walletrpc.ShieldedProtocol) *question {
	q := newQuestion("GetSubtreeRoots", pool.String(), &walletrpc.GetSubtreeRootsArg{ShieldedProtocol: pool},
		each(func(r *walletrpc.SubtreeRoot) error {
			if len(r.RootHash) != 32 {
				return fmt.Errorf("the root of the subtree that block %d completed has %d bytes", r.CompletingBlockHeight, len(r.RootHash))
			}
			return nil
		}))
	q.atTip = true
	return q
}

func mempoolTx() *question {
	q := newQuestion("GetMempoolTx", "", &walletrpc.GetMempoolTxRequest{}, anything)
	q.passing = true
	return q
}

func transaction(txid []byte, height uint64) *question {
	display := slices.Clone(txid)
	slices.Reverse(display)
	return newQuestion("GetTransaction", hex.EncodeToString(display), &walletrpc.TxFilter{Hash: txid},
		each(func(tx *walletrpc.RawTransaction) error {
			if tx.Height != height || len(tx.Data) == 0 {
				return fmt.Errorf("%d bytes of height %d, and it was mined at %d", len(tx.Data), tx.Height, height)
			}
			return nil
		}))
}

// addressTxids asks for the transactions of an address in the blocks of a range.
func addressTxids(address string, from, to uint64) *question {
	return newQuestion("GetTaddressTxids", fmt.Sprintf("%s %d to %d", address, from, to), &walletrpc.TransparentAddressBlockFilter{
		Address: address, Range: &walletrpc.BlockRange{Start: &walletrpc.BlockID{Height: from}, End: &walletrpc.BlockID{Height: to}},
	}, func() func(proto.Message) error {
		last := from
		return func(m proto.Message) error {
			tx := m.(*walletrpc.RawTransaction)
			if tx.Height < last || tx.Height > to || len(tx.Data) == 0 {
				return fmt.Errorf("%d bytes of height %d came after one of %d", len(tx.Data), tx.Height, last)
			}
			last = tx.Height
			return nil
		}
	})
}

func addressBalance(address string) *question {
	q := newQuestion("GetTaddressBalance", address, &walletrpc.AddressList{Addresses: []string{address}}, anything)
	q.atTip = true
	return q
}

func addressUtxos(address string) *question {
	q := newQuestion("GetAddressUtxos", address, &walletrpc.GetAddressUtxosArg{Addresses: []string{address}},
		each(func(l *walletrpc.GetAddressUtxosReplyList) error {
			for _, u := range l.AddressUtxos {
				if u.Address != address {
					return errors.New("an output of " + u.Address + ", which was not asked for")
				}
			}
			return nil
		}))
	q.atTip = true
	return q
}
