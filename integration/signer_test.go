package integration

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/blake2b"
	//lint:ignore SA1019 an address is a hash of this kind
	"golang.org/x/crypto/ripemd160"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// key is the secret behind one address of the pay-to-public-key-hash kind.
type key struct{ secret *secp256k1.PrivateKey }

// newKey makes the same key of the same name each time.
func newKey(name string) *key {
	seed := sha256.Sum256([]byte(name))
	return &key{secp256k1.PrivKeyFromBytes(seed[:])}
}

func (k *key) public() []byte { return k.secret.PubKey().SerializeCompressed() }

func (k *key) hash() [20]byte {
	once := sha256.Sum256(k.public())
	h := ripemd160.New()
	h.Write(once[:])
	return [20]byte(h.Sum(nil))
}

func (k *key) address() string {
	return chain.TransparentAddress{Hash: k.hash()}.String(chain.RegtestNetwork)
}

// script is the scriptPubKey: OP_DUP OP_HASH160 <hash> OP_EQUALVERIFY OP_CHECKSIG.
func (k *key) script() []byte {
	hash := k.hash()
	return append(append([]byte{0x76, 0xa9, 20}, hash[:]...), 0x88, 0xac)
}

// unlock is the scriptSig that a digest asks of the owner: the signature (DER, low S, with the byte of SIGHASH_ALL) and the public key.
func (k *key) unlock(digest []byte) []byte {
	signature := append(ecdsa.Sign(k.secret, digest).Serialize(), sighashAll)
	return append(withLength(signature), withLength(k.public())...)
}

// coin is an output that one of our keys can spend.
type coin struct {
	owner  *key
	txid   string // display order
	index  uint32
	value  uint64 // zatoshi
	height int
}

// payment is an output to make.
type payment struct {
	to    *key
	value uint64 // zatoshi
}

// draft is a transaction of version 4, 5 or 6 that spends coins and has no shielded parts, no lock time and no expiry.
type draft struct {
	version, branch uint32 // branch is the consensus branch id of the block that it is for
	in              []coin
	out             []payment
}

const (
	sighashAll    = 1
	finalSequence = 0xffff_ffff
)

// signed is the serialized transaction.
func (d *draft) signed() []byte { return d.serialize(d.unlocked()) }

// tampered is signed with one bit of the last signature changed.
func (d *draft) tampered() []byte {
	scripts := d.unlocked()
	last := scripts[len(scripts)-1]
	last[last[0]-1] ^= 1 // byte 0 is the length of signature and hash type
	return d.serialize(scripts)
}

func (d *draft) unlocked() (scripts [][]byte) {
	for i, c := range d.in {
		digest := d.zip244Digest(i)
		if d.version == 4 {
			digest = d.zip243Digest(i)
		}
		scripts = append(scripts, c.owner.unlock(digest))
	}
	return scripts
}

// serialize writes the transaction with these scriptSigs: version 4 as in the protocol specification, section 7.1, the others as in
// ZIP 225, after which version 6 has one more count.
func (d *draft) serialize(scripts [][]byte) []byte {
	b := d.header()
	b = append(b, byte(len(d.in)))
	for i, c := range d.in {
		b = append(b, c.prevout()...)
		b = append(b, withLength(scripts[i])...)
		b = words(b, finalSequence)
	}
	b = append(append(b, byte(len(d.out))), d.outputs()...)
	switch d.version {
	case 4:
		b = words(b, 0, 0, 0, 0)  // lock time, expiry height, Sapling balance
		return append(b, 0, 0, 0) // Sapling spends and outputs, JoinSplits
	case 5:
		return append(b, 0, 0, 0) // Sapling spends and outputs, Orchard actions
	}
	return append(b, 0, 0, 0, 0) // and Ironwood actions
}

// header is what stands before the inputs.
func (d *draft) header() []byte {
	word := 1<<31 | d.version
	switch d.version {
	case 4:
		return words(nil, word, 0x892f2085)
	case 5:
		return words(nil, word, 0x26a7270a, d.branch, 0, 0)
	}
	return words(nil, word, 0xd884b698, d.branch, 0, 0)
}

func (d *draft) prevouts() (b []byte) {
	for _, c := range d.in {
		b = append(b, c.prevout()...)
	}
	return b
}

func (d *draft) sequences() (b []byte) {
	for range d.in {
		b = words(b, finalSequence)
	}
	return b
}

func (d *draft) outputs() (b []byte) {
	for _, p := range d.out {
		b = binary.LittleEndian.AppendUint64(b, p.value)
		b = append(b, withLength(p.to.script())...)
	}
	return b
}

func (c coin) prevout() []byte { return words(reversed(c.txid), c.index) }

// zip243Digest is what the signature of input i of a version 4 transaction signs.
func (d *draft) zip243Digest(i int) []byte {
	b := d.header()
	b = append(b, personal("ZcashPrevoutHash", d.prevouts())...)
	b = append(b, personal("ZcashSequencHash", d.sequences())...)
	b = append(b, personal("ZcashOutputsHash", d.outputs())...)
	b = append(b, make([]byte, 3*32)...) // no JoinSplits, no Sapling spends, no Sapling outputs
	b = words(b, 0, 0, 0, 0, sighashAll) // lock time, expiry height, Sapling balance
	b = append(b, d.in[i].prevout()...)
	b = append(b, withLength(d.in[i].owner.script())...)
	b = binary.LittleEndian.AppendUint64(b, d.in[i].value)
	return personal(d.branded("ZcashSigHash"), words(b, finalSequence))
}

// zip244Digest is the same of versions 5 and 6: the tree of the transaction id (ZIP 244), with the transparent part as in section S.2.
func (d *draft) zip244Digest(i int) []byte {
	b := personal("ZTxIdHeadersHash", d.header())
	b = append(b, d.transparentDigest(i)...)
	b = append(b, personal("ZTxIdSaplingHash", nil)...)
	if d.version == 5 {
		b = append(b, personal("ZTxIdOrchardHash", nil)...)
	} else {
		b = append(b, personal("ZTxIdOrchardH_v6", nil)...)
		b = append(b, personal("ZTxIdIronwd_H_v6", nil)...)
	}
	return personal(d.branded("ZcashTxHash_"), b)
}

func (d *draft) transparentDigest(i int) []byte {
	var amounts, scripts []byte
	for _, c := range d.in {
		amounts = binary.LittleEndian.AppendUint64(amounts, c.value)
		scripts = append(scripts, withLength(c.owner.script())...)
	}
	signed := d.in[i]
	input := binary.LittleEndian.AppendUint64(signed.prevout(), signed.value)
	input = words(append(input, withLength(signed.owner.script())...), finalSequence)

	b := []byte{sighashAll}
	b = append(b, personal("ZTxIdPrevoutHash", d.prevouts())...)
	b = append(b, personal("ZTxTrAmountsHash", amounts)...)
	b = append(b, personal("ZTxTrScriptsHash", scripts)...)
	b = append(b, personal("ZTxIdSequencHash", d.sequences())...)
	b = append(b, personal("ZTxIdOutputsHash", d.outputs())...)
	b = append(b, personal("Zcash___TxInHash", input)...)
	return personal("ZTxIdTranspaHash", b)
}

// branded is a personalisation of 12 letters and the consensus branch id.
func (d *draft) branded(name string) string { return string(words([]byte(name), d.branch)) }

// personal is BLAKE2b-256 with a personalisation of 16 bytes, which belongs into the last two of the eight words that the state begins
// with. The library takes none, but it can be given a state.
func personal(personalisation string, input []byte) []byte {
	const lastWords = len("b2b") + 6*8 // where the two are in a stored state
	h, err := blake2b.New256(nil)
	if err != nil {
		panic(err) // a key that is too long
	}
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic(err) // a key
	}
	for i, letter := range []byte(personalisation) {
		state[lastWords+i/8*8+7-i%8] ^= letter // stored big-endian
	}
	if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		panic(err) // no state of this hash
	}
	h.Write(input)
	return h.Sum(nil)
}

// words appends numbers of four bytes.
func words(b []byte, list ...uint32) []byte {
	for _, w := range list {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// withLength puts the length before fewer than 253 bytes; in a script it pushes fewer than 76.
func withLength(b []byte) []byte { return append([]byte{byte(len(b))}, b...) }

// parsedID is what the program's parser says of a serialized transaction, in display order.
func parsedID(raw []byte) (string, error) {
	tx, err := chain.NewEncoder(chain.EncoderOptions{}).Transaction(raw)
	return tx.ID.String(), err
}
