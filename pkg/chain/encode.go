package chain

import "errors"

var errTODO = errors.New("not written yet")

// EncoderOptions adapt an Encoder to a network; the zero value is for the real ones.
type EncoderOptions struct {
	// V6GroupID replaces the version group id of version 6 transactions, 0xD884B698, when not 0.
	V6GroupID uint32
}

// Encoder parses.
type Encoder struct{}

// NewEncoder returns an Encoder.
func NewEncoder(o EncoderOptions) *Encoder { return &Encoder{} }

// Encode parses raw.
func (e *Encoder) Encode(b *Block, h Height, raw []byte) error { return errTODO }

// Transaction parses one serialized transaction.
func (e *Encoder) Transaction(raw []byte) (Transaction, error) { return Transaction{}, errTODO }

// Transaction is one parsed transaction.
type Transaction struct {
	ID      TxID
	Version uint32

	Inputs, Outputs                 int
	SaplingSpends, SaplingOutputs   int
	OrchardActions, IronwoodActions int
}

// AppendCompactTx appends the CompactTx message.
func (tx *Transaction) AppendCompactTx(dst []byte, index int, p Projection) []byte { return dst }

// AppendFrame appends one gRPC frame.
func AppendFrame(dst, shielded []byte, sizes TreeSizes) []byte { return dst }

// Project appends one gRPC frame.
func Project(dst, message, transparent []byte, p Projection) ([]byte, error) { return dst, errTODO }

// Summary holds a stored message's own fields.
type Summary struct {
	ID      BlockID
	Prev    Hash
	Time    uint32
	Sizes   TreeSizes
	TxCount int
}

// Summarize reads a complete stored CompactBlock message.
func Summarize(message []byte) (Summary, error) { return Summary{}, errTODO }
