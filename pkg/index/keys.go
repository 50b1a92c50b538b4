package index

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// FormatVersion is the version of the layouts in docs/format.md that this release reads and writes.
const FormatVersion = 1

// Every key of the database is one of the following types. Heights are big-endian, so that Badger's order is height order.

// metaKey is the key of a single row.
type metaKey string

const (
	keyFormat  metaKey = "meta/format"  // format version
	keyNetwork metaKey = "meta/network" // genesis hash and network name
	keyState   metaKey = "meta/state"   // tip, tree sizes, sealed height: moves with every commit
	keyNode    metaKey = "meta/node"    // what the node has said of itself
)

func (k metaKey) bytes() []byte { return []byte(k) }

// segmentKey is the LAST height of a segment.
type segmentKey chain.Height

// transparentKey is the LAST height of the segment whose transparent part the row holds.
type transparentKey chain.Height

// recentKey names one recent block. Its hash is part of the key, so that blocks of two chains can share a height.
type recentKey chain.BlockID

const (
	prefixMeta        = "meta/"
	prefixSegment     = "segment/"
	prefixTransparent = "transparent/"
	prefixRecent      = "recent/"
)

func heightKey(prefix string, h chain.Height) []byte {
	return binary.BigEndian.AppendUint32(append(make([]byte, 0, len(prefix)+4), prefix...), uint32(h))
}

func (k segmentKey) bytes() []byte     { return heightKey(prefixSegment, chain.Height(k)) }
func (k segmentKey) String() string    { return fmt.Sprintf("%s%d", prefixSegment, chain.Height(k)) }
func (k transparentKey) bytes() []byte { return heightKey(prefixTransparent, chain.Height(k)) }
func (k transparentKey) String() string {
	return fmt.Sprintf("%s%d", prefixTransparent, chain.Height(k))
}

const recentKeyLen = len(prefixRecent) + 4 + 32

func (k recentKey) bytes() []byte { return k.append(make([]byte, 0, recentKeyLen)) }

func (k recentKey) append(dst []byte) []byte {
	dst = append(dst, prefixRecent...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(k.Height))
	return append(dst, k.Hash[:]...)
}

func (k recentKey) String() string { return fmt.Sprintf("%s%d/%s", prefixRecent, k.Height, k.Hash) }

// parseHeightKey reads back what heightKey wrote.
func parseHeightKey(prefix string, key []byte) (chain.Height, error) {
	rest, ok := bytes.CutPrefix(key, []byte(prefix))
	if !ok || len(rest) != 4 {
		return 0, fmt.Errorf("key %q is not %s and a height of 4 bytes", key, prefix)
	}
	return chain.Height(binary.BigEndian.Uint32(rest)), nil
}

func parseRecentKey(key []byte) (recentKey, error) {
	rest, ok := bytes.CutPrefix(key, []byte(prefixRecent))
	if !ok || len(rest) != 4+32 {
		return recentKey{}, fmt.Errorf("key %q is not %s, a height of 4 bytes and a hash of 32", key, prefixRecent)
	}
	return recentKey{Height: chain.Height(binary.BigEndian.Uint32(rest)), Hash: chain.Hash(rest[4:])}, nil
}
