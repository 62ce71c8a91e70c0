package blocklist

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"
)

// A table finds packed records by rule and key. One goroutine at a time writes; readers take no lock.
//
// It is a hash table of open addressing with linear probing. A slot is one word, the record's hash above its ref, so
// one atomic load reads all of it. The slots, the chunks and the rules belong together in a view; the writer replaces
// the view when one of them grows. A ref is valid in the view that is still the table's after the slot was read: a view
// with a new chunk is stored before any slot names that chunk, and a view without a chunk after no slot names it any
// more. ARCHITECTURE.md has the reason why the table shares no code with the others of this kind.
type table struct {
	view    atomic.Pointer[view]
	used    int   // slots that are not empty
	current int   // the chunk that is being written
	free    []int // numbers of chunks that were given up
	numbers map[string]int
}

type view struct {
	slots  []atomic.Uint64
	chunks []*chunk // nil where one was given up
	rules  []*ruleState
}

const (
	removed    = 1 << 32 // a slot that had a record; probing continues past it
	firstSlots = 1 << 10
)

func newTable() *table {
	t := &table{numbers: map[string]int{}}
	t.view.Store(&view{slots: make([]atomic.Uint64, firstSlots), chunks: []*chunk{newChunk()}})
	return t
}

var seed = maphash.MakeSeed()

func hashOf(rule string, key []byte) uint32 {
	h := maphash.String(seed, rule) + bits.RotateLeft64(maphash.Bytes(seed, key), 32)
	return uint32(h^h>>32) | 1 // never 0, so that no slot of a record looks removed
}

func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// find returns the record of a rule and key, or nil when there is none.
func (t *table) find(rule string, key []byte) (*ruleState, packed) {
	hash := hashOf(rule, key)
again:
	v := t.view.Load()
	mask := uint32(len(v.slots) - 1)
	for i := spread(hash) & mask; ; i = (i + 1) & mask {
		slot := v.slots[i].Load()
		if slot == 0 {
			return nil, nil
		}
		if uint32(slot>>32) != hash || ref(slot) == 0 {
			continue
		}

		// The chunk may have been given up since the view was loaded. After this check the ref is valid in v, whatever
		// happens next: the garbage collector keeps the chunk.
		if t.view.Load() != v {
			goto again
		}

		p := v.at(ref(slot))
		if state := v.rules[p.rule()]; state.name == rule && string(p.key()) == string(key) {
			return state, p
		}
	}
}

// spread turns a hash, whose lowest bit is always set, into a place.
func spread(hash uint32) uint32 { return hash >> 1 }

func (v *view) at(r ref) packed { return packed(v.chunks[r.chunk()].bytes[r.byte():]) }

// slotOf returns the slot of a rule and key, or the slot that it would take. Only the writer calls it and the methods
// below.
func (t *table) slotOf(hash uint32, rule string, key []byte) (slot *atomic.Uint64, found packed) {
	v := t.view.Load()
	mask := uint32(len(v.slots) - 1)
	var free *atomic.Uint64
	for i := spread(hash) & mask; ; i = (i + 1) & mask {
		slot := &v.slots[i]
		word := slot.Load()
		switch {
		case word == 0 && free != nil:
			return free, nil
		case word == 0:
			return slot, nil
		// A removed slot can be used again, but only if the key does not come behind it.
		case ref(word) == 0 && free == nil:
			free = slot
		case ref(word) != 0 && uint32(word>>32) == hash:
			p := v.at(ref(word))
			if v.rules[p.rule()].name == rule && string(p.key()) == string(key) {
				return slot, p
			}
		}
	}
}

// put sets the record of a rule and key.
func (t *table) put(h head, rule string, key, value []byte) {
	t.makeRoom(need(key, value))
	r := t.write(h, key, value)

	// The record is complete in its chunk before the slot names it: readers see the old one or the new one.
	slot, old := t.slotOf(h.hash, rule, key)
	word := slot.Load()
	if word == 0 {
		t.used++
	}
	slot.Store(uint64(h.hash)<<32 | uint64(r))
	if old != nil {
		t.kill(ref(word), old.long())
	}
}

func (t *table) write(h head, key, value []byte) ref {
	unit := t.view.Load().chunks[t.current].pack(h, key, value)
	return ref(t.current<<unitBits | unit)
}

// remove removes a record, if it is there.
func (t *table) remove(rule string, key []byte) {
	slot, old := t.slotOf(hashOf(rule, key), rule, key)
	if old == nil {
		return
	}
	at := ref(slot.Load())
	slot.Store(removed)
	t.kill(at, old.long())
}

// kill counts a record's bytes as dead. A chunk that is half dead is given up, and its living records are written
// again.
func (t *table) kill(r ref, long int) {
	c := t.view.Load().chunks[r.chunk()]
	c.dead += long
	if r.chunk() != t.current && c.dead > c.used/2 {
		t.giveUp(r.chunk())
	}
}

func (t *table) giveUp(number int) {
	c := t.view.Load().chunks[number]
	for at := unitBytes; at < c.used; {
		p := packed(c.bytes[at:])
		t.move(ref(number<<unitBits|at/unitBytes), p)
		at += p.long()
	}

	// Every slot names other chunks by now, so the view may lose this one. Loaded only here, because move may have
	// replaced the view.
	v := *t.view.Load()
	v.chunks = append([]*chunk(nil), v.chunks...)
	v.chunks[number] = nil
	t.free = append(t.free, number)
	t.view.Store(&v)
}

// move writes a record again if it is still in its slot.
func (t *table) move(from ref, p packed) {
	t.newChunkFor(p.long())
	v := t.view.Load()
	mask := uint32(len(v.slots) - 1)
	for i := spread(p.hash()) & mask; ; i = (i + 1) & mask {
		word := v.slots[i].Load()
		if word == 0 {
			return
		}
		if ref(word) == from {
			r := t.write(head{p.until(), p.hash(), uint16(p.rule()), p.flags()}, p.key(), p.value())
			v.slots[i].Store(uint64(p.hash())<<32 | uint64(r))
			return
		}
	}
}

// bytes returns how many bytes the chunks have.
func (t *table) bytes() int { return (len(t.view.Load().chunks) - len(t.free)) * chunkBytes }

// makeRoom makes sure that there is a free slot, and room for a record.
func (t *table) makeRoom(bytes int) {
	t.newChunkFor(bytes)
	if v := t.view.Load(); t.used >= len(v.slots)/4*3 {
		t.grow()
	}
}

func (t *table) newChunkFor(bytes int) {
	v := t.view.Load()
	if v.chunks[t.current].used+bytes <= chunkBytes {
		return
	}

	// The view gets the chunk before any slot names it.
	next := *v
	next.chunks = append([]*chunk(nil), v.chunks...)
	if n := len(t.free); n > 0 {
		t.current, t.free = t.free[n-1], t.free[:n-1]
		next.chunks[t.current] = newChunk()
	} else {
		t.current = len(next.chunks)
		next.chunks = append(next.chunks, newChunk())
	}

	t.view.Store(&next)
}

// grow rebuilds the table without the removed slots, and doubles it when it is still half full then.
func (t *table) grow() {
	v := *t.view.Load()
	living := 0
	for i := range v.slots {
		if ref(v.slots[i].Load()) != 0 {
			living++
		}
	}

	// After many removals the slots are mostly removed ones: then a rebuild in the same size is enough.
	size := len(v.slots)
	if living > size/2 {
		size *= 2
	}

	slots := make([]atomic.Uint64, size)
	for i := range v.slots {
		if word := v.slots[i].Load(); ref(word) != 0 {
			insert(slots, word)
		}
	}

	t.used, v.slots = living, slots
	t.view.Store(&v)
}

func insert(slots []atomic.Uint64, word uint64) {
	mask := uint32(len(slots) - 1)
	i := spread(uint32(word>>32)) & mask
	for slots[i].Load() != 0 {
		i = (i + 1) & mask
	}
	slots[i].Store(word)
}

// A frozen is a copy of a table's refs at one instant. It takes four bytes a record.
type frozen struct {
	view *view
	refs []ref
}

func (t *table) freeze() frozen {
	v := t.view.Load()
	f := frozen{v, make([]ref, 0, t.used)}
	for i := range v.slots {
		if r := ref(v.slots[i].Load()); r != 0 {
			f.refs = append(f.refs, r)
		}
	}
	return f
}

// each yields the records in the order of memory: in the order of the slots each record would be a cache miss.
func (f frozen) each(yield func(*ruleState, packed) bool) {
	sortRefs(f.refs, len(f.view.chunks))
	for _, r := range f.refs {
		p := f.view.at(r)
		if !yield(f.view.rules[p.rule()], p) {
			return
		}
	}
}

// sortRefs sorts refs by two passes of a radix sort, which takes a fraction of the time of comparing a million of them.
func sortRefs(refs []ref, chunks int) {
	const few = 1 << 13 // that cost less than the passes
	if len(refs) < few {
		slices.Sort(refs)
		return
	}
	spare := make([]ref, len(refs))
	scatter(spare, refs, 1<<unitBits, func(r ref) int { return int(r & (1<<unitBits - 1)) })
	scatter(refs, spare, chunks, ref.chunk)
}

// scatter writes refs in the order of a digit, and keeps the order of those that share it.
func scatter(to, from []ref, digits int, digit func(ref) int) {
	next := make([]int, digits+1)
	for _, r := range from {
		next[digit(r)+1]++
	}
	for i := range digits {
		next[i+1] += next[i]
	}
	for _, r := range from {
		d := digit(r)
		to[next[d]] = r
		next[d]++
	}
}
