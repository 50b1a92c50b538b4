package chain

import (
	"errors"
	"strings"
)

var errNoKnownAddress = errors.New("it is no unified, Sapling, TEX or transparent address of any network")

// CheckAddress tells whether a text is an address of whichever network and kind that is still in use: unified, TEX, Sapling or
// transparent. Of the long ones it looks at prefix and checksum (ZIP 316, ZIP 320, protocol specification section 5.6), not at what they
// hold. The error does not repeat the text.
func CheckAddress(text string) error {
	lower := strings.ToLower(text)
	i := strings.LastIndexByte(lower, '1')
	if i < 0 {
		return checkBase58(text)
	}
	prefix, data := lower[:i], lower[i+1:]
	var want bech32Sum
	switch prefix {
	case "u", "utest", "uregtest", "tex", "textest", "texregtest":
		want = bech32mResidue
	case "zs", "ztestsapling", "zregtestsapling":
		want = bech32Residue1
	default:
		return checkBase58(text)
	}
	if text != lower && text != strings.ToUpper(text) {
		return errMixedCase
	}
	residue, ok := bech32Residue(prefix, data)
	switch {
	case !ok || len(data) <= bech32Checksum:
		return errNoKnownAddress
	case residue != want:
		return errChecksum
	}
	return nil
}

// checkBase58 is CheckAddress for t1, t3, tm and t2.
func checkBase58(text string) error {
	payload, err := decodeBase58Check(text)
	if errors.Is(err, errChecksum) {
		return err
	}
	if err == nil {
		for _, known := range addressPrefixes() {
			if [2]byte(payload[:2]) == known.prefix {
				return nil
			}
		}
	}
	return errNoKnownAddress
}
