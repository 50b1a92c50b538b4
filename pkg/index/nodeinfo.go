package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// maxNodeRow bounds the row, which has some 500 bytes: it goes along with every block.
const maxNodeRow = 16 << 10

// nodeRow is what the node has said of itself, and its row, which is nil when there is none.
type nodeRow struct {
	info chain.NodeInfo
	row  []byte
}

// keptNode is what is committed, and what waits to be.
type keptNode struct{ saved, queued nodeRow }

// PutNodeInfo keeps what the node says of itself, so that NodeInfo tells it after a restart without the node. It is committed with the next
// block, or by Close, unless it is about another network than the index. It may be called by any goroutine.
func (s *Store) PutNodeInfo(info chain.NodeInfo) {
	row, err := encodeNode(&info)
	if err != nil {
		return
	}
	k := &s.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	k.node.queued = nodeRow{}
	if !bytes.Equal(row, k.node.saved.row) {
		k.node.queued = nodeRow{info, row}
	}
}

// NodeInfo returns what was committed last; false when there is nothing.
func (s *Store) NodeInfo() (chain.NodeInfo, bool) {
	k := &s.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.node.saved.info, k.node.saved.row != nil
}

// due returns what a commit to the index of that genesis block takes along.
func (n *keptNode) due(genesis chain.Hash) (nodeRow, bool) {
	return n.queued, n.queued.row != nil && n.queued.info.Genesis == genesis
}

// done notes that a row was committed.
func (n *keptNode) done(r nodeRow) {
	if n.saved = r; bytes.Equal(r.row, n.queued.row) {
		n.queued = nodeRow{}
	}
}

// load reads the row, and says what is wrong with it.
func (n *keptNode) load(txn *badger.Txn, genesis chain.Hash) error {
	err := readRow(txn, keyNode.bytes(), func(row []byte) error {
		info, err := decodeNode(row, genesis)
		if err == nil {
			n.saved = nodeRow{info, bytes.Clone(row)}
		}
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil
	}
	return err
}

const nodeHeaderLen = 4 + 32 + 4 + 32 + 4 + 4

// encodeNode encodes what the node says. It fails when that is longer than anything that a node says.
func encodeNode(info *chain.NodeInfo) ([]byte, error) {
	row := append(make([]byte, 4, 512), info.Genesis[:]...)
	row = binary.BigEndian.AppendUint32(row, uint32(info.Tip.Height))
	row = append(row, info.Tip.Hash[:]...)
	row = binary.BigEndian.AppendUint32(row, uint32(info.EstimatedHeight))
	row = binary.BigEndian.AppendUint32(row, info.BranchID)
	for _, text := range []string{info.Chain, info.Build, info.Subversion} {
		row = appendText(row, text)
	}
	for _, u := range info.Upgrades {
		row = binary.BigEndian.AppendUint32(row, u.BranchID)
		row = binary.BigEndian.AppendUint32(row, uint32(u.Height))
		var flags byte
		if u.Pending {
			flags |= flagPending
		}
		row = appendText(append(row, flags), u.Name)
	}
	if len(row) > maxNodeRow {
		return nil, fmt.Errorf("a row of %d bytes, more than %d", len(row), maxNodeRow)
	}
	return sealCRC(row), nil
}

const flagPending = 1

// appendText appends a text of less than maxNodeRow bytes with its length before it; a longer one makes the row too long.
func appendText(dst []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(min(len(text), maxNodeRow))), text...)
}

// decodeNode reads the row of an index whose first block is genesis.
func decodeNode(row []byte, genesis chain.Hash) (info chain.NodeInfo, err error) {
	if err := openCRC(row, nodeHeaderLen); err != nil {
		return info, err
	}
	info.Genesis = chain.Hash(row[4:36])
	if info.Genesis != genesis {
		return info, fmt.Errorf("it is about the chain of genesis %s: %w", info.Genesis, ErrOtherNetwork)
	}
	info.Tip = chain.BlockID{Height: chain.Height(binary.BigEndian.Uint32(row[36:])), Hash: chain.Hash(row[40:72])}
	info.EstimatedHeight = chain.Height(binary.BigEndian.Uint32(row[72:]))
	info.BranchID = binary.BigEndian.Uint32(row[76:])
	rest := row[nodeHeaderLen:]
	for _, text := range []*string{&info.Chain, &info.Build, &info.Subversion} {
		if *text, rest, err = cutText(rest); err != nil {
			return info, err
		}
	}
	for len(rest) > 0 {
		if len(rest) < 9 || rest[8]&^flagPending != 0 {
			return info, fmt.Errorf("%d bytes behind the upgrades: %w", len(rest), errTable)
		}
		u := chain.Upgrade{
			BranchID: binary.BigEndian.Uint32(rest), Height: chain.Height(binary.BigEndian.Uint32(rest[4:])), Pending: rest[8]&flagPending != 0,
		}
		if u.Name, rest, err = cutText(rest[9:]); err != nil {
			return info, err
		}
		info.Upgrades = append(info.Upgrades, u)
	}
	return info, nil
}

// cutText reads what appendText has written.
func cutText(b []byte) (text string, rest []byte, err error) {
	if len(b) < 2 || int(binary.BigEndian.Uint16(b)) > len(b)-2 {
		return "", nil, fmt.Errorf("a text where %d bytes are left: %w", len(b), errTable)
	}
	end := 2 + int(binary.BigEndian.Uint16(b))
	return string(b[2:end]), b[end:], nil
}
