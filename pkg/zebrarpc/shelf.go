package zebrarpc

import "sync/atomic"

const (
	// shelfBytes bounds what all readers of answers about addresses hold that is not passed on yet. A dozen who read on never get near it;
	// of a crowd that has stopped reading, each finds less to take.
	shelfBytes = 32 << 20

	// About what one takes in memory: an output with its text, its script and its outpoint; a txid.
	utxoBytes = 256
	txidBytes = 32
)

// shelf counts the bytes of parts of answers that were read and wait for whoever asked. A part is as large as it may be while there is
// room, and shrinks to half of what is left, but not below a size at which asking Zebra again and again would cost more than it saves.
// Nobody waits for room, so that readers who stop reading keep nobody else from theirs.
type shelf struct{ held atomic.Int64 }

// room is the size of the next part in items of so many bytes, between least and most.
func (s *shelf) room(itemBytes, least, most int) int {
	left := shelfBytes - s.held.Load()
	return min(max(int(left/2)/itemBytes, least), most)
}

// put notes that a part lies there; the returned function, that it does no more.
func (s *shelf) put(bytes int) (taken func()) {
	s.held.Add(int64(bytes))
	return func() { s.held.Add(-int64(bytes)) }
}
