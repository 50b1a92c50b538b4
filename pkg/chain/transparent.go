package chain

import "errors"

// ErrTooMany: one block alone holds more of what was asked for than the node gives in one answer.
var ErrTooMany = errors.New("too many results in one block")

// Utxo is one unspent output of a transparent address, from getaddressutxos.
type Utxo struct {
	Address string // in Base58Check
	TxID    TxID
	Index   uint32 // of the output in its transaction
	Script  []byte
	Value   int64 // zatoshis
	Height  Height
}
