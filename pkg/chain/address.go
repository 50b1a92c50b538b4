package chain

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// Network is a Zcash network as far as addresses differ. The zero value is none.
type Network uint8

// The networks. Test and regtest share the prefixes of transparent addresses.
const (
	MainNetwork Network = 1 + iota
	TestNetwork
	RegtestNetwork
)

// String is the word for it in an error.
func (n Network) String() string {
	switch n {
	case MainNetwork:
		return "main"
	case TestNetwork:
		return "test"
	case RegtestNetwork:
		return "regtest"
	}
	return fmt.Sprintf("network(%d)", uint8(n))
}

// NetworkOf tells the network from getblockchaininfo "chain" and the hash of block 0; Zebra calls regtest "test" too. A chain of any
// other name is an error.
func NetworkOf(name string, genesis Hash) (Network, error) {
	// The hash of Zebra's, and zcashd's, regtest genesis block.
	const regtestGenesis = "029f11d80ef9765602235e1bc9727e3eb6ba20839319f761fee920d63401e327"
	switch {
	case name == "main":
		return MainNetwork, nil
	case name == "test" && genesis.String() == regtestGenesis:
		return RegtestNetwork, nil
	case name == "test":
		return TestNetwork, nil
	}
	return 0, fmt.Errorf("the node calls its chain %q, neither main nor test", name)
}

// TransparentAddress is what a transparent address stands for: the hash of a public key or of a script. It is comparable.
type TransparentAddress struct {
	Script bool // pay to script hash; else pay to public key hash
	Hash   [20]byte
}

// Why a text is no transparent address of the network.
var (
	errShielded    = errors.New("it is a shielded address, and only transparent ones are looked up here")
	errUnified     = errors.New("it is a unified address: send the transparent address that it contains")
	errChecksum    = errors.New("the checksum is wrong")
	errNotAddress  = errors.New("it is no transparent address")
	errMixedCase   = errors.New("upper and lower case are mixed")
	errNoAddress   = errors.New("it is empty")
	errTexContents = errors.New("it does not hold the 20 bytes of a public key hash")
)

// ParseTransparent reads a transparent address of the network: t1 and t3 on main, tm and t2 on test and regtest (protocol specification
// section 5.6.1.1), or a TEX address, tex1, textest1 or texregtest1, which stands for its P2PKH address (ZIP 320). Regtest takes both
// test forms. The error says why the text is none, and does not repeat it.
func ParseTransparent(network Network, text string) (TransparentAddress, error) {
	lower := strings.ToLower(text)
	switch {
	case text == "":
		return TransparentAddress{}, errNoAddress
	case hasAny(lower, "tex1", "textest1", "texregtest1"):
		return parseTex(network, text, lower)
	case hasAny(lower, "u1", "utest1", "uregtest1"):
		return TransparentAddress{}, errUnified
	case hasAny(lower, "zs1", "ztestsapling1", "zregtestsapling1") || hasAny(text, "zc", "zt"): // Sapling, Sprout
		return TransparentAddress{}, errShielded
	}
	payload, err := decodeBase58Check(text)
	if err != nil {
		return TransparentAddress{}, err
	}
	for _, known := range addressPrefixes() {
		if [2]byte(payload[:2]) != known.prefix {
			continue
		}
		if main := network == MainNetwork; main != known.main {
			return TransparentAddress{}, wrongNetwork(known.main, network)
		}
		return TransparentAddress{Script: known.script, Hash: [20]byte(payload[2:])}, nil
	}
	return TransparentAddress{}, errNotAddress
}

// String returns the address in Base58Check, as Zebra takes and names it.
func (a TransparentAddress) String(network Network) string {
	for _, known := range addressPrefixes() {
		if known.script == a.Script && known.main == (network == MainNetwork) {
			return encodeBase58Check(append(known.prefix[:], a.Hash[:]...))
		}
	}
	return "" // the four prefixes cover all cases
}

// addressPrefix is the two bytes that an address begins with before it is written in Base58.
type addressPrefix struct {
	prefix       [2]byte
	main, script bool
}

func addressPrefixes() [4]addressPrefix {
	return [...]addressPrefix{
		{[2]byte{0x1c, 0xb8}, true, false},  // t1
		{[2]byte{0x1c, 0xbd}, true, true},   // t3
		{[2]byte{0x1d, 0x25}, false, false}, // tm
		{[2]byte{0x1c, 0xba}, false, true},  // t2
	}
}

func wrongNetwork(main bool, network Network) error {
	if main {
		return fmt.Errorf("it is an address of the main network, and this is %s", network)
	}
	return fmt.Errorf("it is an address of the test network, and this is %s", network)
}

func hasAny(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

const (
	base58Digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

	checksumLen     = 4
	base58Payload   = 2 + 20                      // the prefix and the hash
	base58CheckLen  = base58Payload + checksumLen // bytes behind an address
	base58MaxDigits = 36                          // of so many bytes; t-addresses have 35
)

// decodeBase58Check reads base58CheckLen bytes and returns those before the checksum.
func decodeBase58Check(text string) ([]byte, error) {
	if len(text) > base58MaxDigits {
		return nil, errNotAddress
	}
	var number [base58CheckLen]byte // big-endian
	for i := range len(text) {
		carry := strings.IndexByte(base58Digits, text[i])
		if carry < 0 {
			return nil, errNotAddress
		}
		for j := len(number) - 1; j >= 0; j-- {
			carry += 58 * int(number[j])
			number[j] = byte(carry)
			carry >>= 8
		}
		if carry != 0 {
			return nil, errNotAddress
		}
	}
	// No prefix begins with a zero byte, and a leading digit 1 would be one.
	if number[0] == 0 || text[0] == base58Digits[0] {
		return nil, errNotAddress
	}
	payload, checksum := number[:base58Payload], number[base58Payload:]
	if !bytes.Equal(checksum, base58Checksum(payload)) {
		return nil, errChecksum
	}
	return payload, nil
}

// encodeBase58Check writes a payload of base58Payload bytes whose first is not zero.
func encodeBase58Check(payload []byte) string {
	number := append(bytes.Clone(payload), base58Checksum(payload)...)
	var digits [base58MaxDigits]byte
	at := len(digits)
	for i := 0; i < len(number); {
		remainder := 0
		for j := i; j < len(number); j++ {
			remainder = remainder<<8 | int(number[j])
			number[j] = byte(remainder / 58)
			remainder %= 58
		}
		at--
		digits[at] = base58Digits[remainder]
		for i < len(number) && number[i] == 0 {
			i++
		}
	}
	return string(digits[at:])
}

func base58Checksum(payload []byte) []byte {
	once := sha256.Sum256(payload)
	twice := sha256.Sum256(once[:])
	return twice[:checksumLen]
}

// parseTex reads a TEX address (ZIP 320), which is Bech32m (BIP 350).
func parseTex(network Network, text, lower string) (TransparentAddress, error) {
	if text != lower && text != strings.ToUpper(text) {
		return TransparentAddress{}, errMixedCase
	}
	prefix, data, _ := strings.Cut(lower, "1")
	hash, err := decodeBech32m(prefix, data)
	if err != nil {
		return TransparentAddress{}, err
	}
	isMain := prefix == "tex"
	if isMain != (network == MainNetwork) || prefix == "texregtest" && network != RegtestNetwork {
		if prefix == "texregtest" {
			return TransparentAddress{}, fmt.Errorf("it is an address of a regtest network, and this is %s", network)
		}
		return TransparentAddress{}, wrongNetwork(isMain, network)
	}
	return TransparentAddress{Hash: hash}, nil
}

const (
	bech32Digits   = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	bech32mResidue = 0x2bc830a3
	bech32Residue1 = 1 // of the older form, BIP 173
	bech32Checksum = 6 // digits
)

// decodeBech32m reads the digits after the separator, in lower case: 20 bytes and the checksum.
func decodeBech32m(prefix, data string) (hash [20]byte, err error) {
	const digits = 20 * 8 / 5 // no bits are left over
	if len(data) != digits+bech32Checksum {
		return hash, errTexContents
	}
	switch residue, ok := bech32Residue(prefix, data); {
	case !ok:
		return hash, errNotAddress
	case residue != bech32mResidue:
		return hash, errChecksum
	}
	var bitBuffer uint64
	for i := range digits {
		bitBuffer = bitBuffer<<5 | uint64(strings.IndexByte(bech32Digits, data[i]))
		if i%8 == 7 { // 40 bits are 5 bytes
			for j := range 5 {
				hash[i/8*5+j] = byte(bitBuffer >> (8 * (4 - j)))
			}
		}
	}
	return hash, nil
}

// bech32Residue is what the checksum comes to: a constant of its form when it is right. ok is false when something else than digits is there.
func bech32Residue(prefix, data string) (residue bech32Sum, ok bool) {
	sum := bech32Sum(1)
	for i := range len(prefix) {
		sum = sum.add(uint32(prefix[i] >> 5))
	}
	sum = sum.add(0)
	for i := range len(prefix) {
		sum = sum.add(uint32(prefix[i] & 31))
	}
	for i := range len(data) {
		digit := strings.IndexByte(bech32Digits, data[i])
		if digit < 0 {
			return 0, false
		}
		sum = sum.add(uint32(digit))
	}
	return sum, true
}

// bech32Sum is the checksum of BIP 173, a polynomial over GF(32) with 6 coefficients of 5 bits.
type bech32Sum uint32

func (s bech32Sum) add(value uint32) bech32Sum {
	generator := [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3}
	top := uint32(s) >> 25
	next := (uint32(s)&0x1ffffff)<<5 ^ value
	for ; top != 0; top &= top - 1 {
		next ^= generator[bits.TrailingZeros32(top)]
	}
	return bech32Sum(next)
}
