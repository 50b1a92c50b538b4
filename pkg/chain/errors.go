package chain

import (
	"errors"
	"fmt"
)

// What a caller of the parser may branch on. Malformed bytes are a ParseError; it wraps ErrUnknownVersion where that is the reason.
var (
	// ErrMerkleRoot: the transactions of the block do not hash to the Merkle root in its header, or they contain the duplicated
	// pair with which a changed block can keep its root (CVE-2012-2459).
	ErrMerkleRoot = errors.New("merkle root mismatch")
	// ErrUnknownVersion: the transaction has a format that this program does not know, most likely one of a newer network upgrade.
	ErrUnknownVersion = errors.New("unknown transaction version")
)

// ParseError says where in a serialized block, transaction or compact block the parser stopped, and why.
type ParseError struct {
	What   string // the field that was being read
	Offset int    // of its first byte, in the bytes that were given to the parser
	Err    error  // what is wrong with it
}

func (e *ParseError) Error() string { return fmt.Sprintf("%s at byte %d: %v", e.What, e.Offset, e.Err) }

// Unwrap returns the reason.
func (e *ParseError) Unwrap() error { return e.Err }
