package index

import (
	"encoding/binary"
	"runtime"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// hashTable finds the heights of sealed blocks by the first hashBits bits of their hashes. It is immutable: with and below return new
// ones that share what they can.
//
// It is what grows in memory with the chain, so whole pages of heights are packed (4.25 bytes a block). Above the last page lie sorted
// runs of entries, each at least twice as long as the one after it; an entry is a block's hashKey << 32 | its height.
type hashTable struct {
	pages []*hashPage
	runs  [][]uint64
}

// A page has the heights of which all bits but the last pageBits are its place in the list. Its blocks lie in buckets by the first
// bits of their keys, some sixteen in each; lowBits of a key and pageBits of a height share 32 bits.
const (
	pageBits   = 18
	pageBlocks = 1 << pageBits
	lowBits    = 32 - pageBits
	bucketBits = 14
	hashBits   = bucketBits + lowBits
)

// hashKey is the first hashBits bits of a hash, or of the prefix of one. In internal order that is its random end.
func hashKey(prefix []byte) uint64 { return uint64(binary.BigEndian.Uint32(prefix) >> (32 - hashBits)) }

// appendEntries appends the entries of consecutive blocks from first, whose prefixes lie one after the other.
func appendEntries(dst []uint64, first chain.Height, prefixes []byte) []uint64 {
	for i := 0; i+hashPrefixLen <= len(prefixes); i += hashPrefixLen {
		dst = append(dst, hashKey(prefixes[i:])<<32|uint64(first))
		first++
	}
	return dst
}

// with returns a table that has the given entries too, which it takes over. Their heights ascend, and are above those of the table.
func (t hashTable) with(entries []uint64) hashTable {
	if len(entries) == 0 {
		return t
	}
	next := chain.Height(entries[len(entries)-1]) + 1
	runs := slices.Clone(t.runs)
	for entries = sortEntries(entries); len(runs) > 0 && len(runs[len(runs)-1]) < 2*len(entries); runs = runs[:len(runs)-1] {
		entries = mergeRuns(runs[len(runs)-1], entries)
	}
	t.runs = append(runs, entries)
	for next>>pageBits > chain.Height(len(t.pages)) {
		t = t.withPage()
	}
	return t
}

// withPage returns a table in which the next page is packed; all its blocks are in the runs.
func (t hashTable) withPage() hashTable {
	last := len(t.runs) - 1
	all := t.runs[last]
	for _, run := range slices.Backward(t.runs[:last]) {
		all = mergeRuns(all, run)
	}
	page := chain.Height(len(t.pages))
	rest := make([]uint64, 0, max(0, len(all)-pageBlocks))
	for _, e := range all {
		if chain.Height(e)>>pageBits != page {
			rest = append(rest, e)
		}
	}
	t.pages = append(slices.Clip(t.pages), newHashPage(all, page, len(all)-len(rest)))
	t.runs = [][]uint64{rest}
	return t
}

// below returns a table of the entries below a height.
func (t hashTable) below(n chain.Height) hashTable {
	var kept []uint64
	whole := min(int(n>>pageBits), len(t.pages))
	if whole < len(t.pages) {
		kept = t.pages[whole].appendBelow(nil, chain.Height(whole)<<pageBits, n)
	} else {
		for _, run := range t.runs {
			for _, e := range run {
				if chain.Height(e) < n {
					kept = append(kept, e)
				}
			}
		}
	}
	return hashTable{t.pages[:whole:whole], [][]uint64{sortEntries(kept)}}
}

// candidates appends the heights below limit whose block hash starts like the given one.
func (t hashTable) candidates(dst []chain.Height, hash chain.Hash, limit chain.Height) []chain.Height {
	key := hashKey(hash[:])
	for i, page := range t.pages {
		dst = page.candidates(dst, key, chain.Height(i)<<pageBits, limit)
	}
	for _, run := range t.runs {
		i, _ := slices.BinarySearch(run, key<<32)
		for ; i < len(run) && run[i]>>32 == key; i++ {
			if h := chain.Height(run[i]); h < limit {
				dst = append(dst, h)
			}
		}
	}
	return dst
}

// hashPage is a packed page, words of 32 bits in the machine's byte order: where each bucket begins and the last one ends, then the blocks.
// The memory is not of Go's heap and lives as long as the page: who reads it keeps that alive.
type hashPage struct{ memory []byte }

const bucketWords = 1<<bucketBits + 1

func (p *hashPage) word(i int) uint32 { return binary.NativeEndian.Uint32(p.memory[4*i:]) }

func (p *hashPage) setWord(i int, w uint32) { binary.NativeEndian.PutUint32(p.memory[4*i:], w) }

// newHashPage packs those of the sorted entries that are of a page, which are n.
func newHashPage(entries []uint64, page chain.Height, n int) *hashPage {
	p := emptyPage(4 * (bucketWords + n))
	begun, at := 0, 0 // buckets, blocks
	for _, e := range entries {
		if chain.Height(e)>>pageBits != page {
			continue
		}
		for bucket := int(e >> (32 + lowBits)); begun <= bucket; begun++ {
			p.setWord(begun, uint32(at))
		}
		p.setWord(bucketWords+at, uint32(e>>32)<<pageBits|uint32(e)&(pageBlocks-1))
		at++
	}
	for ; begun < bucketWords; begun++ {
		p.setWord(begun, uint32(n))
	}
	return p
}

// candidates appends the heights below limit of the blocks with this key; the page's heights begin at first.
func (p *hashPage) candidates(dst []chain.Height, key uint64, first, limit chain.Height) []chain.Height {
	bucket, low := int(key>>lowBits), uint32(key)<<pageBits
	for i := p.word(bucket); i < p.word(bucket+1); i++ {
		block := p.word(bucketWords + int(i))
		if h := first + chain.Height(block&(pageBlocks-1)); block&^(pageBlocks-1) == low && h < limit {
			dst = append(dst, h)
		}
	}
	runtime.KeepAlive(p)
	return dst
}

// appendBelow appends the entries of the heights below n; the page's begin at first.
func (p *hashPage) appendBelow(dst []uint64, first, n chain.Height) []uint64 {
	for bucket := range 1 << bucketBits {
		for i := p.word(bucket); i < p.word(bucket+1); i++ {
			block := p.word(bucketWords + int(i))
			if h := first + chain.Height(block&(pageBlocks-1)); h < n {
				dst = append(dst, (uint64(bucket)<<lowBits|uint64(block>>pageBits))<<32|uint64(h))
			}
		}
	}
	runtime.KeepAlive(p)
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

// sortEntries sorts by key, keeping the order of equal ones, which have ascending heights: passes over 10 bits each, several times
// faster than comparing for the entries of a whole page.
func sortEntries(entries []uint64) []uint64 {
	if len(entries) < 1<<12 {
		slices.Sort(entries)
		return entries
	}
	const bits, mask = 10, 1<<10 - 1
	other := make([]uint64, len(entries))
	starts := make([]int, mask+1)
	for shift := 32; shift < 32+hashBits; shift += bits {
		clear(starts)
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
