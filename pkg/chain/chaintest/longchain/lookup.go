package longchain

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// runEntries is how many entries are sorted at one time, which bounds the memory of the pass.
const runEntries = 1 << 20

// An entry leads from a hash or a txid to a height: its first four bytes, above the height.
func entryOf(id []byte, h chain.Height) uint64 {
	return uint64(binary.BigEndian.Uint32(id))<<32 | uint64(h)
}

// run is a sorted list of entries in the file.
type run struct {
	what  uint32
	at    int64 // of the first entry
	count int
}

func (r run) end() int64 { return r.at + int64(r.count)*entrySize + sumSize }

// encodeRun sorts entries.
func encodeRun(what uint32, entries []uint64) []byte {
	slices.Sort(entries)
	b := make([]byte, 0, runHead+len(entries)*entrySize+sumSize)
	b = binary.LittleEndian.AppendUint32(b, what)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(entries)))
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint64(b, e)
	}
	return seal(b, 0)
}

// heights calls found with the heights of a run's entries that begin like id, until it returns true or an error.
func (r run) heights(file *os.File, id []byte, found func(chain.Height) (bool, error)) (bool, error) {
	const window = 512
	least, most := entryOf(id, 0), entryOf(id, chain.MaxHeight)
	low, high := 0, r.count // the first entry that is not below least is in between, or it is the one at high
	var buf [window * entrySize]byte
	for high-low > window {
		middle := low + (high-low)/2
		if _, err := file.ReadAt(buf[:entrySize], r.at+int64(middle)*entrySize); err != nil {
			return false, fmt.Errorf("read entry %d of a run: %w", middle, err)
		}
		if binary.LittleEndian.Uint64(buf[:]) < least {
			low = middle + 1
		} else {
			high = middle
		}
	}
	for low < r.count {
		n := min(window, r.count-low)
		if _, err := file.ReadAt(buf[:n*entrySize], r.at+int64(low)*entrySize); err != nil {
			return false, fmt.Errorf("read entries %d on of a run: %w", low, err)
		}
		for b := buf[:n*entrySize]; len(b) > 0; b = b[entrySize:] {
			e := binary.LittleEndian.Uint64(b)
			if e > most {
				return false, nil
			}
			if e < least {
				continue
			}
			if yes, err := found(chain.Height(uint32(e))); yes || err != nil {
				return yes, err
			}
		}
		low += n
	}
	return false, nil
}
