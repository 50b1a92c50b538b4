package zebratest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

var (
	errBlockNotFound = &rpcError{Code: -8, Message: "Block not found"}
	errBadBlockRef   = &rpcError{Code: -8, Message: "parse error: could not convert the input string to a hash or height"}
	errBadVerbosity  = &rpcError{Code: -8, Message: "invalid verbosity value"}
	errNotBestHeight = &rpcError{Code: -8, Message: "block height not in best chain"}
	errNotBestHash   = &rpcError{Code: -5, Message: "block height not in best chain"}
	errNotModelled   = &rpcError{Code: -32603, Message: "the simulated node has no transaction objects: use verbosity 0 or 1"}
)

// getBlock answers "getblock". Verbosity 0 is the path of bulk reads.
func (n *Node) getBlock(dst []byte, w *workshop, c Call, fault *Fault) ([]byte, *rpcError) {
	p := newParams(c.Params)
	id := p.text(argBlock)
	verbosity := p.verbosity(argVerbosity, 1)
	if p.err != nil {
		return dst, p.err
	}
	ref, ok := parseRef(id, c.chain.Tip().Height)
	if !ok {
		return dst, errBadBlockRef
	}
	if verbosity > 3 {
		return dst, errBadVerbosity
	}
	f, err := c.chain.lookup(ref)
	switch {
	case err == nil && verbosity == 0 && n.lacks(f.Height):
		return dst, errBlockNotFound
	case err != nil && verbosity == 0:
		return dst, errBlockNotFound
	case err != nil:
		return dst, notInBestChain(ref)
	case verbosity > 1:
		return dst, errNotModelled
	case verbosity == 0:
		raw := f.raw(w)
		if fault != nil && fault.Raw != nil {
			raw = fault.Raw(slices.Clone(raw))
		}
		dst = hex.AppendEncode(append(dst, '"'), raw)
		return append(dst, '"'), nil
	}
	if fault != nil && fault.Sizes != nil {
		f.sizes = fault.Sizes(f.sizes)
	}
	o, err := c.chain.blockObject(&f, f.raw(w))
	return appendObject(dst, o, err)
}

// getBlockHeader answers "getblockheader".
func (n *Node) getBlockHeader(dst []byte, w *workshop, c Call) ([]byte, *rpcError) {
	p := newParams(c.Params)
	id := p.text(argBlock)
	verbose := p.flag(argVerbose, true)
	if p.err != nil {
		return dst, p.err
	}
	ref, ok := parseRef(id, c.chain.Tip().Height)
	if !ok {
		return dst, errBadBlockRef
	}
	f, err := c.chain.lookup(ref)
	if err != nil {
		return dst, notInBestChain(ref)
	}
	h, err := parseHeader(f.raw(w))
	if err != nil {
		return appendObject(dst, nil, err)
	}
	if !verbose {
		return appendQuoted(dst, hex.EncodeToString(h.raw)), nil
	}
	return appendObject(dst, c.chain.headerObject(&f, h), nil)
}

// notInBestChain tells a missing height from a missing hash by its code alone.
func notInBestChain(ref blockRef) *rpcError {
	if ref.byHash {
		return errNotBestHash
	}
	return errNotBestHeight
}

// appendObject writes a result object.
func appendObject(dst []byte, o any, err error) ([]byte, *rpcError) {
	var text []byte
	if err == nil {
		text, err = json.Marshal(o)
	}
	if err != nil {
		return dst, &rpcError{Code: -32603, Message: "the simulated node cannot read its own block: " + err.Error()}
	}
	return append(dst, text...), nil
}

// header is the part of a raw block before the transactions.
type header struct {
	raw                           []byte
	version                       uint32
	merkleRoot, commitment, nonce []byte // 32 bytes each, as serialized
	time, bits                    uint32
	solution                      []byte
}

// parseHeader reads the header of a raw block (protocol specification section 7.6).
func parseHeader(raw []byte) (header, error) {
	const fixed = 4 + 32 + 32 + 32 + 4 + 4 + 32
	if len(raw) < fixed+3 {
		return header{}, fmt.Errorf("a block of %d bytes has no header", len(raw))
	}
	// The solution is 36 bytes with one length byte on regtest, 1344 with three elsewhere.
	length, start := int(raw[fixed]), fixed+1
	if raw[fixed] == 0xfd {
		length, start = int(binary.LittleEndian.Uint16(raw[fixed+1:])), fixed+3
	}
	if len(raw) < start+length {
		return header{}, fmt.Errorf("a block of %d bytes ends inside its solution of %d", len(raw), length)
	}
	return header{
		raw:        raw[:start+length],
		version:    binary.LittleEndian.Uint32(raw),
		merkleRoot: raw[36:68],
		commitment: raw[68:100],
		time:       binary.LittleEndian.Uint32(raw[100:]),
		bits:       binary.LittleEndian.Uint32(raw[104:]),
		nonce:      raw[108:140],
		solution:   raw[start : start+length],
	}, nil
}

// blockHead is what getblock's object begins with after its size, and most of getblockheader's.
type blockHead struct {
	Height           chain.Height `json:"height"`
	Version          uint32       `json:"version"`
	MerkleRoot       string       `json:"merkleroot"`
	BlockCommitments string       `json:"blockcommitments"`
	FinalSaplingRoot string       `json:"finalsaplingroot"`
}

// blockTail is what both objects have between the roots (or the transactions) and the links.
type blockTail struct {
	Time       uint32          `json:"time"`
	Nonce      string          `json:"nonce"`
	Solution   string          `json:"solution"`
	Bits       string          `json:"bits"`
	Difficulty json.RawMessage `json:"difficulty"`
}

// blockLinks end both objects.
type blockLinks struct {
	Previous string `json:"previousblockhash"`
	Next     string `json:"nextblockhash,omitempty"`
}

type headerObject struct {
	Hash          string `json:"hash"`
	Confirmations int    `json:"confirmations"`
	blockHead
	blockTail
	blockLinks
}

type blockObject struct {
	Hash          string `json:"hash"`
	Confirmations int    `json:"confirmations"`
	Size          int    `json:"size"`
	blockHead
	FinalOrchardRoot string   `json:"finalorchardroot,omitempty"`
	TxCount          int      `json:"nTx"`
	Tx               []string `json:"tx"`
	blockTail
	ChainSupply balance   `json:"chainSupply"`
	ValuePools  []balance `json:"valuePools"`
	Trees       trees     `json:"trees"`
	blockLinks
}

// trees leaves out the pools whose tree is empty.
type trees struct {
	Sapling  *treeSize `json:"sapling,omitempty"`
	Orchard  *treeSize `json:"orchard,omitempty"`
	Ironwood *treeSize `json:"ironwood,omitempty"`
}

type treeSize struct {
	Size uint32 `json:"size"`
}

func newTreeSize(size uint32) *treeSize {
	if size == 0 {
		return nil
	}
	return &treeSize{size}
}

func (c *Chain) headerObject(f *found, h header) headerObject {
	head, tail, links := c.parts(f, h)
	return headerObject{
		Hash: f.Hash.String(), Confirmations: int(f.tip-f.Height) + 1,
		blockHead: head, blockTail: tail, blockLinks: links,
	}
}

func (c *Chain) blockObject(f *found, raw []byte) (*blockObject, error) {
	h, err := parseHeader(raw)
	if err != nil {
		return nil, err
	}
	txids, err := transactionIDs(f.Height, raw)
	if err != nil {
		return nil, err
	}
	head, tail, links := c.parts(f, h)
	o := &blockObject{
		Hash: f.Hash.String(), Confirmations: int(f.tip-f.Height) + 1, Size: len(raw),
		blockHead: head, TxCount: len(txids), Tx: txids, blockTail: tail,
		ChainSupply: newBalance("", false), ValuePools: valuePools(true),
		Trees:      trees{newTreeSize(f.sizes.Sapling), newTreeSize(f.sizes.Orchard), newTreeSize(f.sizes.Ironwood)},
		blockLinks: links,
	}
	if reached(c.upgrades, "NU5", f.Height) {
		o.FinalOrchardRoot = hex.EncodeToString(madeUpRoot(chain.Orchard, f.sizes.Orchard))
	}
	return o, nil
}

// parts fills what the two objects share.
func (c *Chain) parts(f *found, h header) (blockHead, blockTail, blockLinks) {
	head := blockHead{
		Height: f.Height, Version: h.version, MerkleRoot: reversedHex(h.merkleRoot),
		// The header field before Sapling is reserved, and Zebra shows it as it is.
		BlockCommitments: hex.EncodeToString(h.commitment),
		FinalSaplingRoot: hex.EncodeToString(make([]byte, 32)),
	}
	if reached(c.upgrades, "Sapling", f.Height) {
		head.BlockCommitments = reversedHex(h.commitment)
		head.FinalSaplingRoot = hex.EncodeToString(madeUpRoot(chain.Sapling, f.sizes.Sapling))
		if !reached(c.upgrades, "Heartwood", f.Height) {
			head.FinalSaplingRoot = head.BlockCommitments // the field holds the root
		}
	}
	tail := blockTail{
		Time: h.time, Nonce: reversedHex(h.nonce), Solution: hex.EncodeToString(h.solution),
		Bits: fmt.Sprintf("%08x", h.bits), Difficulty: json.RawMessage(difficulty),
	}
	links := blockLinks{Previous: reversedHex(h.raw[4:36])}
	if f.next != nil {
		links.Next = f.next.String()
	}
	return head, tail, links
}

// madeUpRoot stands for the root of a tree of that size: the right length, the same for the same size, another for another.
func madeUpRoot(p chain.Pool, size uint32) []byte {
	return element(sha256.Sum256(fmt.Appendf(nil, "root of the %s tree with %d leaves", p, size)))
}

func reversedHex(b []byte) string {
	r := slices.Clone(b)
	slices.Reverse(r)
	return hex.EncodeToString(r)
}

// transactionIDs returns the txids of a raw block in display order.
func transactionIDs(h chain.Height, raw []byte) ([]string, error) {
	var b chain.Block
	if err := chain.NewEncoder(chain.EncoderOptions{}).Encode(&b, h, raw); err != nil {
		return nil, err
	}
	ids := make([]string, 0, b.TxCount)
	for column := b.Transparent; len(column) > 0; {
		message, rest, err := nextBytes(column, 7) // CompactBlock.vtx
		if err != nil {
			return nil, fmt.Errorf("transaction %d: %w", len(ids), err)
		}
		if len(message) > 0 && message[0] == 1<<3 { // CompactTx.index, absent when 0
			_, n := binary.Uvarint(message[1:])
			message = message[1+max(n, 0):]
		}
		id, _, err := nextBytes(message, 2) // CompactTx.txid
		if err != nil || len(id) != 32 {
			return nil, fmt.Errorf("transaction %d has a txid of %d bytes: %w", len(ids), len(id), err)
		}
		ids = append(ids, chain.TxID(id).String())
		column = rest
	}
	return ids, nil
}

// nextBytes cuts a protobuf field of bytes off the front of b.
func nextBytes(b []byte, field byte) (value, rest []byte, err error) {
	body, ok := bytes.CutPrefix(b, []byte{field<<3 | 2})
	length, n := binary.Uvarint(body)
	if !ok || n <= 0 || length > uint64(len(body)-n) {
		return nil, nil, fmt.Errorf("field %d is missing or cut off", field)
	}
	body = body[n:]
	return body[:length], body[length:], nil
}
