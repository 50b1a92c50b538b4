package chain

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// reader walks over bytes that somebody else wrote. Its first failure is kept, and from then on there is nothing left to read: whoever
// reads a structure looks at err once at its end, and in each round of a loop.
type reader struct {
	buf []byte
	pos int
	err error // a *ParseError
}

// fail keeps the first failure, of what starts at byte at.
func (r *reader) fail(what string, at int, reason error) {
	if r.err != nil {
		return
	}
	r.err = &ParseError{What: what, Offset: at, Err: reason}
	r.buf = r.buf[:r.pos]
}

// take returns the next n bytes, or nil after a failure. A negative n is one too.
func (r *reader) take(n int, what string) []byte {
	if uint(n) > uint(len(r.buf)-r.pos) {
		r.short(n, what)
		return nil
	}
	b := r.buf[r.pos : r.pos+n]
	r.pos += n
	return b
}

func (r *reader) short(n int, what string) {
	r.fail(what, r.pos, fmt.Errorf("%d bytes needed, %d left", n, len(r.buf)-r.pos))
}

// uint32 reads a little-endian number; 0 after a failure.
func (r *reader) uint32(what string) uint32 {
	b := r.take(4, what)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

// compactSize reads Bitcoin's variable-length count in its one canonical form; 0 after a failure.
func (r *reader) compactSize(what string) uint64 {
	at := r.pos
	first := r.take(1, what)
	if first == nil {
		return 0
	}
	if first[0] < 0xfd {
		return uint64(first[0])
	}
	var n, least uint64
	switch rest := r.take(1<<(first[0]-0xfc), what); {
	case rest == nil:
		return 0
	case len(rest) == 2:
		n, least = uint64(binary.LittleEndian.Uint16(rest)), 0xfd
	case len(rest) == 4:
		n, least = uint64(binary.LittleEndian.Uint32(rest)), 1<<16
	default:
		n, least = binary.LittleEndian.Uint64(rest), 1<<32
	}
	if n < least {
		r.fail(what, at, fmt.Errorf("the size %d is not in its shortest form", n))
		return 0
	}
	return n
}

// count reads how many elements follow, each of at least size bytes. A count that the rest of the input cannot hold is a failure, so
// that nobody loops or allocates for it.
func (r *reader) count(size int, what string) int {
	at := r.pos
	n := r.compactSize(what)
	if left := len(r.buf) - r.pos; n > uint64(left/size) {
		r.fail(what, at, fmt.Errorf("%d elements of at least %d bytes do not fit into the %d bytes left", n, size, left))
		return 0
	}
	return int(n)
}

// script reads bytes that follow their CompactSize length.
func (r *reader) script(what string) []byte {
	at := r.pos
	n := r.compactSize(what)
	if left := len(r.buf) - r.pos; n > uint64(left) {
		r.fail(what, at, fmt.Errorf("%d bytes needed, %d left", n, left))
		return nil
	}
	return r.take(int(n), what)
}

// at tells whether a byte is left before end and is tag.
func (r *reader) at(end int, tag byte) bool {
	return r.pos < min(end, len(r.buf)) && r.buf[r.pos] == tag
}

// varint reads a protobuf number that is not zero, in its shortest form: the only way in which the encoder writes one.
func (r *reader) varint(what string) uint64 {
	n, size := protowire.ConsumeVarint(r.buf[r.pos:])
	switch {
	case size < 0 && len(r.buf)-r.pos < binary.MaxVarintLen64:
		r.fail(what, r.pos, errors.New("the number is cut off"))
		return 0
	case size < 0:
		r.fail(what, r.pos, errors.New("the number has more than 64 bits"))
		return 0
	case n == 0 || size != protowire.SizeVarint(n):
		r.fail(what, r.pos, fmt.Errorf("the number %d is not in its shortest form", n))
		return 0
	}
	r.pos += size
	return n
}

// length reads the length of a nested protobuf message that may be empty, and returns where the message ends.
func (r *reader) length(what string) int {
	if r.at(len(r.buf), 0) {
		r.pos++
		return r.pos
	}
	at := r.pos
	n := r.varint(what)
	if left := len(r.buf) - r.pos; n > uint64(left) {
		r.fail(what, at, fmt.Errorf("%d bytes needed, %d left", n, left))
		return r.pos
	}
	return r.pos + int(n)
}

// bytes32 reads a protobuf field of 32 bytes with its tag.
func (r *reader) bytes32(tag byte, what string) []byte {
	r.expect(what, tag, 32)
	return r.take(32, what)
}

// expect reads bytes that can only be the given ones: a tag, or a tag and a length.
func (r *reader) expect(what string, want ...byte) {
	at := r.pos
	if got := r.take(len(want), what); got != nil && string(got) != string(want) {
		r.pos = at
		r.fail(what, at, fmt.Errorf("bytes %x where %x belong", got, slices.Clone(want))) // want itself shall not escape
	}
}

// end checks that what was read ends at byte end: a nested message whose length is known, or the whole input.
func (r *reader) end(end int, what string) {
	switch {
	case r.err != nil:
	case r.pos < end:
		r.fail(what, r.pos, fmt.Errorf("%d bytes too many", end-r.pos))
	case r.pos > end:
		r.fail(what, end, fmt.Errorf("it ends %d bytes after its length", r.pos-end))
	}
}

// since returns what was read from start on; nothing after a failure.
func (r *reader) since(start int) []byte {
	if r.err != nil {
		return nil
	}
	return r.buf[start:r.pos]
}
