package integration

import (
	"encoding/hex"
	"slices"
	"strconv"
)

// What getblock replies hold at verbosity 2, as far as compact blocks show it. Hashes are in display order.
type (
	zBlock struct {
		Hash              string
		PreviousBlockHash string
		Height            uint64
		Time              uint32
		Tx                []zTx
		Trees             zTrees
	}
	zTrees struct{ Sapling, Orchard, Ironwood struct{ Size uint32 } }
	zTx    struct {
		TxID            string
		Vin             []zInput
		Vout            []zOutput
		VShieldedSpend  []struct{ Nullifier string }
		VShieldedOutput []struct{ Cmu, EphemeralKey, EncCiphertext string }
		Orchard         zBundle
		Ironwood        zBundle
	}
	zInput struct {
		Coinbase *string
		TxID     string
		Vout     uint32
	}
	zOutput struct {
		ValueZat     uint64
		ScriptPubKey struct{ Hex string }
	}
	zBundle struct {
		Actions []struct{ Nullifier, Cmx, EphemeralKey, EncCiphertext string }
	}
)

// zebraBlock asks for one block with its transactions.
func zebraBlock(n *node, height int) zBlock {
	n.tb.Helper()
	var b zBlock
	n.call(&b, "getblock", strconv.Itoa(height), 2)
	return b
}

// unhex decodes hex that Zebra wrote. Anything else would show as a difference between the expectation and the answer.
func unhex(s string) []byte {
	b, _ := hex.DecodeString(s)
	return b
}

// reversed decodes hex in display order into internal order.
func reversed(s string) []byte {
	b := unhex(s)
	slices.Reverse(b)
	return b
}
