package index

import (
	"bytes"
	"encoding/binary"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// damageSegment is done to the segment of blocks 12 to 15 and its transparent row.
func damageSegment(blocks []testBlock) []damage {
	key, columns := segmentKey(15).bytes(), transparentKey(15).bytes()
	const frames = segmentHeaderLen + 4*(4+hashPrefixLen)
	const height = frames + chain.FramePrefixLen + 1 // of block 12: tag and number, then tag, length and hash, then the same of the parent
	inFrame := func(h int, what []byte) func([]byte) {
		return func(row []byte) {
			i := bytes.Index(row, blocks[h].frame())
			row[i+bytes.Index(row[i:], what)+len(what)-1] ^= 1
		}
	}
	sizes := blocks[13].frame()
	sizes = sizes[len(sizes)-6:] // the end of the chain metadata
	var d []damage
	add := func(name string, change func(rowSet)) {
		d = append(d, damage{name: name, change: change, key: "segment/15"})
	}
	for name, i := range map[string]int{
		"tables checksum": 0, "frames checksum": 4, "first height": 11, "count": 15, "parent": 20, "last hash": 50,
		"an end": segmentHeaderLen + 3, "a hash prefix": segmentHeaderLen + 4*4 + 1, "a frame": frames + 100, "the last byte": -1,
	} {
		add(name+" flipped", at(key, false, flip(i)))
	}
	for name, i := range map[string]int{
		"first height": 11, "count": 15, "parent": 20, "last hash": 50, "an end": segmentHeaderLen + 7, "a hash prefix": segmentHeaderLen + 4*4 + 1,
		"compression flag": frames, "frame length": frames + 4, "height": height, "hash": height + 3, "parent in the frame": height + 3 + 32 + 2,
	} {
		add(name+" and checksum", at(key, true, flip(i)))
	}
	add("tree size and checksum", at(key, true, inFrame(13, sizes)))
	add("last tree size and checksum", at(key, true, flip(-1)))
	add("all but the header cut off", cutShort(key, segmentHeaderLen))
	add("the last byte cut off", func(rows rowSet) { rows[string(key)] = rows[string(key)][:len(rows[string(key)])-1] })
	add("empty", put(key, []byte{}))
	add("a byte more", longer(key))
	add("gone", gone(key))
	add("swapped with the next", swap(key, segmentKey(19).bytes()))
	add("both rows swapped with the next", func(rows rowSet) {
		swap(key, segmentKey(19).bytes())(rows)
		swap(columns, transparentKey(19).bytes())(rows)
	})
	add("at another height", move(key, segmentKey(14).bytes()))
	d[len(d)-1].other = true
	add("garbage", put(key, bytes.Repeat([]byte{0xa5}, 500)))
	add("three in a row gone", func(rows rowSet) {
		for _, h := range []segmentKey{11, 15, 19} {
			gone(h.bytes())(rows)
			gone(transparentKey(h).bytes())(rows)
		}
	})
	d[len(d)-1].key = "segment/19"
	d = append(d,
		damage{name: "one too many, below a right one", change: put(segmentKey(13).bytes(), []byte("row")), key: `"segment/\x00\x00\x00\r"`},
		damage{name: "a segment key too long", change: put(append(key, 1), []byte("row")), key: `"segment/\x00\x00\x00\x0f\x01"`},
		damage{name: "the lowest gone", change: gone(segmentKey(3).bytes()), key: "segment/3"},
		damage{name: "the highest gone", change: gone(segmentKey(32).bytes()), key: "segment/32"},
		damage{name: "the highest, last hash and checksum", change: at(segmentKey(32).bytes(), true, flip(50)), key: "segment/32"},
		damage{name: "what the transaction says, and checksum", change: at(key, true, inFrame(13, blocks[13].Shielded)), key: "segment/15", node: true},
	)
	return append(d, damageColumns(columns)...)
}

func damageColumns(key []byte) []damage {
	const columns = transparentHeaderLen + 4*4
	var d []damage
	add := func(name string, change func(rowSet)) {
		d = append(d, damage{name: "transparent row, " + name, change: change, key: "transparent/15"})
	}
	for name, i := range map[string]int{"checksum": 1, "first height": 7, "count": 11, "an end": transparentHeaderLen + 3, "a column": columns + 20, "the last byte": -1} {
		add(name+" flipped", at(key, false, flip(i)))
	}
	for name, i := range map[string]int{"first height": 7, "count": 11} {
		add(name+" and checksum", at(key, true, flip(i)))
	}
	add("cut short", cutShort(key, transparentHeaderLen+3))
	add("a byte more", longer(key))
	add("gone", gone(key))
	add("swapped with the next", swap(key, transparentKey(19).bytes()))
	add("at another height", move(key, transparentKey(14).bytes()))
	add("empty", put(key, nil))
	// What the columns say of a block can be held against its frame alone, so that it may be the one or the other.
	for name, i := range map[string]int{"an end": transparentHeaderLen + 3, "a txid": columns + 10} {
		d = append(d, damage{name: "transparent row, " + name + " and checksum", change: at(key, true, flip(i)), key: "segment/15"})
	}
	return append(d,
		damage{name: "transparent row without a segment", change: put(transparentKey(13).bytes(), []byte("row")), key: `"transparent/\x00\x00\x00\r"`},
		damage{name: "a transparent key too short", change: put([]byte("transparent/x"), []byte("row")), key: `"transparent/x"`},
		damage{name: "transparent row, an output and checksum", change: at(key, true, flip(-1)), key: "transparent/15", node: true},
	)
}

// damageRecent is done to recent block 36 of 33 to 39.
func damageRecent(blocks []testBlock) []damage {
	id := blocks[36].ID
	key := recentKey(id).bytes()
	var d []damage
	add := func(name string, cut bool, change func(rowSet)) {
		d = append(d, damage{name: "recent row, " + name, change: change, key: recentKey(id).String(), cut: cut})
	}
	for name, i := range map[string]int{"checksum": 0, "parent": 10, "sizes": 39, "frame length": 51, "frame": 100, "the last byte": -1} {
		add(name+" flipped", false, at(key, false, flip(i)))
	}
	for name, i := range map[string]int{
		"parent": 10, "sizes": 39, "frame length": 51, "compression flag": recentHeaderLen, "length in the frame": recentHeaderLen + 4,
		"height": recentHeaderLen + 6, "hash": recentHeaderLen + 10, "parent in the frame": recentHeaderLen + 50,
	} {
		add(name+" and checksum", false, at(key, true, flip(i)))
	}
	add("gone", false, gone(key))
	add("cut short", false, cutShort(key, 60))
	add("garbage", false, put(key, []byte("no row of a recent block, but long enough to be one of them")))
	add("swapped with another", false, swap(key, recentKey(blocks[34].ID).bytes()))
	d[len(d)-1].key = recentKey(blocks[36].ID).String()
	add("the column's last byte and checksum", false, at(key, true, flip(-1)))
	d[len(d)-1].node = true
	// Sizes that are wrong in all three places where the block has them.
	add("sizes in row and frame, and checksum", false, at(key, true, func(row []byte) {
		wrong := blocks[36].sizes
		wrong.Sapling ^= 1
		frame := chain.AppendFrame(nil, blocks[36].Shielded, wrong)
		copy(row[36:], appendSizes(nil, wrong))
		copy(row[recentHeaderLen:], frame)
	}))
	d = append(d,
		damage{name: "the tip's row gone", change: gone(recentKey(blocks[39].ID).bytes()), key: recentKey(blocks[39].ID).String()},
		damage{name: "the lowest recent row gone", change: gone(recentKey(blocks[33].ID).bytes()), key: recentKey(blocks[33].ID).String()},
		damage{name: "all recent rows gone", change: func(rows rowSet) {
			for _, b := range blocks[33:] {
				gone(recentKey(b.ID).bytes())(rows)
			}
		}, key: recentKey(blocks[39].ID).String()},
		damage{name: "a recent key too long", change: put(append(key, 1), []byte("row")), key: `"recent/`},
	)
	return d
}

func damageMeta() []damage {
	state := keyState.bytes()
	var d []damage
	add := func(name, key string, cut bool, change func(rowSet)) {
		d = append(d, damage{name: name, change: change, key: key, cut: cut})
	}
	for name, i := range map[string]int{"checksum": 0, "count": 8, "sealed blocks": 15, "tip": 70, "flags": stateLen - 1} {
		add("state, "+name+" flipped", "meta/state", true, at(state, false, flip(i)))
	}
	for name, i := range map[string]int{"sealed hash": 20, "sealed sapling": 51, "sealed orchard": 55, "sealed ironwood": 59} {
		add("state, "+name+" and checksum", "meta/state", false, at(state, true, flip(i)))
	}
	for name, i := range map[string]int{"sapling": stateLen - 10, "orchard": stateLen - 6, "ironwood": stateLen - 2} {
		add("state, "+name+" and checksum", "meta/state", false, at(state, true, flip(i)))
	}
	add("state, tip hash and checksum", "recent/39/", true, at(state, true, flip(70)))
	add("state, flags and checksum", "meta/state", true, at(state, true, flip(stateLen-1)))
	add("state gone", "meta/state", true, gone(state))
	add("state cut short", "meta/state", true, cutShort(state, 50))
	add("state a byte more", "meta/state", true, longer(state))
	add("state with one sealed block less", "segment/31", true, at(state, true, func(row []byte) { binary.BigEndian.PutUint32(row[12:], 32) }))
	d[len(d)-1].key = "meta/state"
	add("state with one sealed block more", "segment/33", false, at(state, true, func(row []byte) { binary.BigEndian.PutUint32(row[12:], 34) }))
	d[len(d)-1].other = true
	add("state with one block more", "recent/40/", true, at(state, true, func(row []byte) { binary.BigEndian.PutUint32(row[12+chainEndLen:], 41) }))
	add("state with one block less", "recent/38/", true, at(state, true, func(row []byte) { binary.BigEndian.PutUint32(row[12+chainEndLen:], 39) }))
	network := keyNetwork.bytes()
	add("network, genesis flipped", "meta/network", false, at(network, false, flip(5)))
	add("network, genesis and checksum", "meta/network", false, at(network, true, flip(5)))
	add("network gone", "meta/network", false, gone(network))
	add("network cut short", "meta/network", false, cutShort(network, 9))
	add("node flipped", "meta/node", false, at(keyNode.bytes(), false, flip(9)))
	add("node of another chain", "meta/node", false, at(keyNode.bytes(), true, flip(9)))
	add("a row that nobody knows", `"zzz/unknown"`, false, put([]byte("zzz/unknown"), []byte("row")))
	add("a meta row that nobody knows", `"meta/unknown"`, false, put([]byte("meta/unknown"), []byte("row")))
	return d
}

func damageTrees(b testBlock) []damage {
	key := treeKey(b.ID.Hash)
	var d []damage
	for name, change := range map[string]func(rowSet){
		"flipped":                at(key.bytes(), false, flip(40)),
		"height and checksum":    at(key.bytes(), true, flip(7)),
		"time and checksum":      at(key.bytes(), true, flip(11)),
		"a length and checksum":  at(key.bytes(), true, flip(13)),
		"no leaf and checksum":   at(key.bytes(), true, func(row []byte) { row[treeHeaderLen] = 0 }),
		"the tree of other size": put(key.bytes(), mustEncodeTree(chain.TreeState{ID: b.ID, Time: b.Time, Sapling: treeOf(b.sizes.Sapling+1, hashOf(1)), Orchard: treeOf(b.sizes.Orchard, hashOf(1)), Ironwood: treeOf(b.sizes.Ironwood, hashOf(1))})),
		"cut short":              cutShort(key.bytes(), 20),
		"a byte more":            longer(key.bytes()),
	} {
		d = append(d, damage{name: "tree state, " + name, change: change, key: key.String()})
	}
	return append(d, damage{name: "a tree key too short", change: put([]byte("tree/x"), []byte("row")), key: `"tree/x"`})
}

func mustEncodeTree(t chain.TreeState) []byte {
	row, err := encodeTree(&t)
	if err != nil {
		panic(err)
	}
	return row
}
