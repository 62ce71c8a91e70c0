package backtest

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
)

// A keyTable numbers the keys of a set's rules: 0, 1, 2 … in the order of their first hits.
//
// It is a hash table with linear probing. A slot contains 24 bits of the hash and the place of the key's record; the
// records lie one after the other on pages, so that a key costs its bytes, a 16-byte head and about 14 bytes of slots,
// and nothing that the garbage collector must follow. Nothing is allocated for a known key.
// ARCHITECTURE.md has the reason why it shares no code with the other tables of this kind.
type keyTable struct {
	slots []uint64 // tag<<40 | place+1 of the record; 0 is free
	pages [][]byte // of records: newest hit, number, rule, length of the key, the key
	keys  int
}

const (
	pageBits   = 20
	recordHead = 16
	placeBits  = 40
	placeMask  = 1<<placeBits - 1
)

var hashSeed = maphash.MakeSeed()

// hashKey is the hash that find needs.
func hashKey(rule int, key []byte) uint64 {
	return maphash.Bytes(hashSeed, key) ^ uint64(rule)*0x9e3779b97f4a7c15
}

func newKeyTable() *keyTable { return &keyTable{slots: make([]uint64, 1<<10)} }

// find returns the number of a rule's key and its newest hit before this one, then stores at if it is newer. For a new
// key newest is at.
func (t *keyTable) find(hash uint64, rule int, key []byte, at int64) (number int, newest int64, isNew bool) {
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		slot := t.slots[i]
		if slot == 0 {
			break
		}
		if slot>>placeBits != hash>>placeBits {
			continue
		}

		place := slot&placeMask - 1
		if n, r, k := t.record(place); r == rule && bytes.Equal(k, key) {
			return n, t.newest(place, at), false
		}
	}

	// Above that, probing takes too many steps. It is checked only for a new key.
	if t.keys >= len(t.slots)*5/8 {
		t.grow()
	}
	t.put(hash, t.store(rule, key, at))
	t.keys++
	return t.keys - 1, at, true
}

// lookup returns the number of a rule's key, if it is known.
func (t *keyTable) lookup(hash uint64, rule int, key []byte) (number int, known bool) {
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; t.slots[i] != 0; i = (i + 1) & mask {
		if t.slots[i]>>placeBits != hash>>placeBits {
			continue
		}
		if n, r, k := t.record(t.slots[i]&placeMask - 1); r == rule && bytes.Equal(k, key) {
			return n, true
		}
	}
	return 0, false
}

// newest returns the newest hit of a record before at, and stores at if it is newer.
func (t *keyTable) newest(place uint64, at int64) int64 {
	b := t.pages[place>>pageBits][place&(1<<pageBits-1):]
	newest := int64(binary.LittleEndian.Uint64(b))
	if at > newest {
		binary.LittleEndian.PutUint64(b, uint64(at))
	}
	return newest
}

// each calls do for every key, by number.
func (t *keyTable) each(do func(number, rule int, key []byte)) {
	for p, page := range t.pages {
		for at := 0; at < len(page); {
			number, rule, key := t.record(uint64(p<<pageBits | at))
			do(number, rule, key)
			at += recordHead + len(key)
		}
	}
}

func (t *keyTable) record(place uint64) (number, rule int, key []byte) {
	b := t.pages[place>>pageBits][place&(1<<pageBits-1):]
	length := int(binary.LittleEndian.Uint16(b[14:]))
	return int(binary.LittleEndian.Uint32(b[8:])), int(binary.LittleEndian.Uint16(b[12:])), b[recordHead : recordHead+length]
}

// store appends a record and returns its place.
func (t *keyTable) store(rule int, key []byte, newest int64) uint64 {
	last := len(t.pages) - 1
	// A record never crosses a page, so that it can be read in one piece.
	if last < 0 || len(t.pages[last])+recordHead+len(key) > 1<<pageBits {
		t.pages = append(t.pages, make([]byte, 0, 1<<pageBits))
		last++
	}

	page := t.pages[last]
	place := uint64(last<<pageBits | len(page))
	page = binary.LittleEndian.AppendUint64(page, uint64(newest))
	page = binary.LittleEndian.AppendUint32(page, uint32(t.keys))
	page = binary.LittleEndian.AppendUint16(page, uint16(rule))
	page = binary.LittleEndian.AppendUint16(page, uint16(len(key)))
	t.pages[last] = append(page, key...)
	return place
}

func (t *keyTable) put(hash, place uint64) {
	mask := uint64(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = hash&^placeMask | (place + 1)
}

func (t *keyTable) grow() {
	t.slots = make([]uint64, 2*len(t.slots))
	for p, page := range t.pages {
		for at := 0; at < len(page); {
			place := uint64(p<<pageBits | at)
			_, rule, key := t.record(place)
			t.put(hashKey(rule, key), place)
			at += recordHead + len(key)
		}
	}
}
