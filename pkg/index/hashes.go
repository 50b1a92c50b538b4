package index

import (
	"encoding/binary"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// hashTable finds the heights of sealed blocks by the first four bytes of their hashes. It is a list of sorted runs, each at least
// twice as long as the one after it; an entry is prefix<<32 | height, 8 bytes a block. A hashTable is immutable: with returns a new one
// that shares the runs.
type hashTable [][]uint64

func hashEntry(prefix []byte, h chain.Height) uint64 {
	return uint64(binary.BigEndian.Uint32(prefix))<<32 | uint64(h)
}

// appendEntries appends the entries of consecutive blocks from first, whose prefixes lie one after the other.
func appendEntries(dst []uint64, first chain.Height, prefixes []byte) []uint64 {
	for i := 0; i+hashPrefixLen <= len(prefixes); i += hashPrefixLen {
		dst = append(dst, hashEntry(prefixes[i:], first))
		first++
	}
	return dst
}

// newHashTable takes entries in any order, and owns them from then on.
func newHashTable(entries []uint64) hashTable {
	if len(entries) == 0 {
		return nil
	}
	return hashTable{sortEntries(entries)}
}

// with returns a table that has the given entries too. Runs are merged so that their number stays logarithmic.
func (t hashTable) with(entries []uint64) hashTable {
	slices.Sort(entries)
	runs := slices.Clone(t)
	for len(runs) > 0 && len(runs[len(runs)-1]) < 2*len(entries) {
		entries = mergeRuns(runs[len(runs)-1], entries)
		runs = runs[:len(runs)-1]
	}
	return append(runs, entries)
}

// candidates appends the heights below limit whose block hash starts like the given one.
func (t hashTable) candidates(dst []chain.Height, hash chain.Hash, limit chain.Height) []chain.Height {
	low := hashEntry(hash[:], 0)
	for _, run := range t {
		i, _ := slices.BinarySearch(run, low)
		for ; i < len(run) && run[i]>>32 == low>>32; i++ {
			if h := chain.Height(run[i]); h < limit {
				dst = append(dst, h)
			}
		}
	}
	return dst
}

func mergeRuns(a, b []uint64) []uint64 {
	out := make([]uint64, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0] <= b[0] {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// sortEntries sorts by prefix, keeping the order of equal ones: three passes over 11 bits each, several times faster than comparing
// for the millions of entries of a whole chain.
func sortEntries(entries []uint64) []uint64 {
	if len(entries) < 1<<12 {
		slices.Sort(entries)
		return entries
	}
	const bits, mask = 11, 1<<11 - 1
	other := make([]uint64, len(entries))
	for shift := 32; shift < 64; shift += bits {
		var starts [mask + 1]int
		for _, e := range entries {
			starts[e>>shift&mask]++
		}
		sum := 0
		for i, n := range starts {
			starts[i] = sum
			sum += n
		}
		for _, e := range entries {
			i := e >> shift & mask
			other[starts[i]] = e
			starts[i]++
		}
		entries, other = other, entries
	}
	return entries
}
