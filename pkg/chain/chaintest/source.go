package chaintest

import "encoding/binary"

// source is the SplitMix64 generator: fast, and good enough for bytes that nobody will look at.
type source uint64

func (s *source) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// append appends n random bytes.
func (s *source) append(dst []byte, n int) []byte {
	for ; n >= 8; n -= 8 {
		dst = binary.LittleEndian.AppendUint64(dst, s.next())
	}
	for last := s.next(); n > 0; n-- {
		dst = append(dst, byte(last))
		last >>= 8
	}
	return dst
}
