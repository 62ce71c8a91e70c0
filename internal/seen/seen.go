// Package seen remembers values of requests for a while, so that a request that comes a second time is recognised.
//
// A Memory is a ring of the last values, 16 bytes each, and an index by open addressing. A value is 64 bits of a hash. Two
// values with one hash are taken for one: with a hash that no client can predict that is one of 36 billion pairs in a memory of
// a million values, and a request that is not counted then lets through. When the ring is full the oldest value goes, so
// the memory is bounded whatever comes: 24 to 32 bytes a value, and while it grows twice that. Add allocates only when it
// grows.
//
// A Memory belongs to one goroutine at a time.
package seen

import "time"

// A Value is a value that was seen.
type Value struct {
	Hash uint64
	At   int64 // the newest time of a request that counted with it, Unix ms
}

// A Memory has the last values.
type Memory struct {
	within int64 // ms
	most   int
	newest int64 // time of all

	ring  []Value // grows up to most, and then its oldest value is written over
	next  int     // of a full ring: the oldest
	index []uint32
	live  int

	// Early counts the values that had to go while they could still have been seen.
	Early int64
}

const (
	firstIndex = 1 << 10
	none       = 0 // in the index, which has places in the ring plus 1
)

// New makes a memory of at most so many values, which are seen again within a time.
func New(most int, within time.Duration) *Memory {
	return &Memory{within: within.Milliseconds(), most: most, index: make([]uint32, firstIndex)}
}

// Add reports whether a value was seen within the time before or after. If not, it is seen from now on. Of a value that comes
// again later, the newest time counts.
func (m *Memory) Add(v Value) (seen bool) {
	slot := m.find(v.Hash)
	if at := m.index[slot]; at != none {
		known := m.ring[at-1].At
		if max(v.At-known, known-v.At) <= m.within {
			return true
		}
		v.At = max(v.At, known)
		m.remove(slot) // its place in the ring has no value then
	}

	m.newest = max(m.newest, v.At)
	if 2*(m.live+1) > len(m.index) {
		m.grow()
	}
	at := m.put(v)
	m.index[m.find(v.Hash)] = at + 1
	m.live++
	return false
}

// Forget removes a value, unless a newer request has counted with it.
func (m *Memory) Forget(v Value) {
	if slot := m.find(v.Hash); m.index[slot] != none && m.ring[m.index[slot]-1].At == v.At {
		m.remove(slot)
	}
}

// Len is the number of values.
func (m *Memory) Len() int { return m.live }

// Most is how many values there may be.
func (m *Memory) Most() int { return m.most }

// put puts a value into the ring, in the place of the oldest one if that is full.
func (m *Memory) put(v Value) (at uint32) {
	if len(m.ring) < m.most {
		m.ring = append(m.ring, v)
		return uint32(len(m.ring) - 1)
	}
	m.drop()
	at = uint32(m.next)
	m.ring[at] = v
	if m.next++; m.next == m.most {
		m.next = 0
	}
	return at
}

// drop takes the oldest value of a full ring out of the index, if it is in it.
func (m *Memory) drop() {
	old := m.ring[m.next]
	slot := m.find(old.Hash)
	if m.index[slot] != uint32(m.next)+1 {
		return
	}
	if m.newest-old.At <= m.within {
		m.Early++
	}
	m.remove(slot)
}

// find returns the slot of a hash, or the empty one where it belongs.
func (m *Memory) find(hash uint64) int {
	mask := uint64(len(m.index) - 1)
	slot := hash & mask
	for m.index[slot] != none && m.ring[m.index[slot]-1].Hash != hash {
		slot = (slot + 1) & mask
	}
	return int(slot)
}

// remove empties a slot, and moves those up that it has pushed away.
func (m *Memory) remove(slot int) {
	m.live--
	mask := len(m.index) - 1
	for next := (slot + 1) & mask; m.index[next] != none; next = (next + 1) & mask {
		home := int(m.ring[m.index[next]-1].Hash) & mask
		if (next-home)&mask >= (next-slot)&mask {
			m.index[slot], slot = m.index[next], next
		}
	}
	m.index[slot] = none
}

func (m *Memory) grow() {
	before := m.index
	m.index = make([]uint32, 2*len(before))
	for _, at := range before {
		if at != none {
			m.index[m.find(m.ring[at-1].Hash)] = at
		}
	}
}
