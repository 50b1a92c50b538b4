package index

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

const (
	prefixTree    = "tree/"
	prefixSubtree = "subtree/"
)

// treeKey is the hash of the block at whose end the trees are.
type treeKey chain.Hash

func (k treeKey) bytes() []byte  { return append([]byte(prefixTree), k[:]...) }
func (k treeKey) String() string { return prefixTree + chain.Hash(k).String() }

func parseTreeKey(key []byte) (treeKey, error) {
	rest, ok := bytes.CutPrefix(key, []byte(prefixTree))
	if !ok || len(rest) != 32 {
		return treeKey{}, fmt.Errorf("key %q is not %s and a hash of 32 bytes", key, prefixTree)
	}
	return treeKey(rest), nil
}

// subtreeKey names a subtree by its pool and its index in the pool's tree.
type subtreeKey struct {
	pool  chain.Pool
	index uint32
}

func (k subtreeKey) bytes() []byte {
	return binary.BigEndian.AppendUint32(append([]byte(prefixSubtree), byte(k.pool)), k.index)
}

func (k subtreeKey) String() string { return fmt.Sprintf("%s%s/%d", prefixSubtree, k.pool, k.index) }

func parseSubtreeKey(key []byte) (subtreeKey, error) {
	rest, ok := bytes.CutPrefix(key, []byte(prefixSubtree))
	if !ok || len(rest) != 1+4 || chain.Pool(rest[0]) < chain.Sapling || chain.Pool(rest[0]) > chain.Ironwood {
		return subtreeKey{}, fmt.Errorf("key %q is not %s, a pool of one byte and an index of 4", key, prefixSubtree)
	}
	return subtreeKey{chain.Pool(rest[0]), binary.BigEndian.Uint32(rest[1:])}, nil
}

const treeHeaderLen = 4 + 4 + 4 + 3*2

// encodeTree encodes a tree state but for the hash, which is the key. It fails when a tree is no hex, or longer than trees are.
func encodeTree(s *chain.TreeState) ([]byte, error) {
	row := make([]byte, 4, treeHeaderLen+(len(s.Sapling)+len(s.Orchard)+len(s.Ironwood))/2)
	row = binary.BigEndian.AppendUint32(row, uint32(s.ID.Height))
	row = binary.BigEndian.AppendUint32(row, s.Time)
	trees := [...]string{s.Sapling, s.Orchard, s.Ironwood}
	for _, tree := range trees {
		if len(tree) > 2*math.MaxUint16 {
			return nil, fmt.Errorf("a tree of %d hex digits", len(tree))
		}
		row = binary.BigEndian.AppendUint16(row, uint16(len(tree)/2))
	}
	for _, tree := range trees {
		var err error
		if row, err = hex.AppendDecode(row, []byte(tree)); err != nil {
			return nil, err
		}
	}
	return sealCRC(row), nil
}

func decodeTree(key treeKey, row []byte) (chain.TreeState, error) {
	if err := openCRC(row, treeHeaderLen); err != nil {
		return chain.TreeState{}, err
	}
	s := chain.TreeState{
		ID:   chain.BlockID{Height: chain.Height(binary.BigEndian.Uint32(row[4:])), Hash: chain.Hash(key)},
		Time: binary.BigEndian.Uint32(row[8:]),
	}
	lengths, body := row[12:treeHeaderLen], row[treeHeaderLen:]
	for i, tree := range []*string{&s.Sapling, &s.Orchard, &s.Ironwood} {
		n := int(binary.BigEndian.Uint16(lengths[2*i:]))
		if n > len(body) {
			return chain.TreeState{}, fmt.Errorf("a tree of %d bytes where %d are left: %w", n, len(body), errTable)
		}
		*tree, body = hex.EncodeToString(body[:n]), body[n:]
	}
	if len(body) > 0 {
		return chain.TreeState{}, fmt.Errorf("%d bytes behind the trees: %w", len(body), errTable)
	}
	return s, nil
}

const subtreeRowLen = 4 + 4 + 32 + 32

func encodeSubtree(r chain.SubtreeRoot) []byte {
	row := make([]byte, 4, subtreeRowLen)
	row = binary.BigEndian.AppendUint32(row, uint32(r.Completing.Height))
	row = append(row, r.Completing.Hash[:]...)
	return sealCRC(append(row, r.Root[:]...))
}

func decodeSubtree(row []byte) (r chain.SubtreeRoot, err error) {
	if err := openCRC(row, subtreeRowLen); err != nil {
		return r, err
	}
	if len(row) != subtreeRowLen {
		return r, fmt.Errorf("a row of %d bytes, not %d: %w", len(row), subtreeRowLen, errTable)
	}
	r.Completing = chain.BlockID{Height: chain.Height(binary.BigEndian.Uint32(row[4:])), Hash: chain.Hash(row[8:40])}
	r.Root = [32]byte(row[40:])
	return r, nil
}
