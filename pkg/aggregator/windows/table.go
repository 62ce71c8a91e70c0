package windows

import "hash/maphash"

// A table finds the hot windows: by open addressing, with the hash next to each, so that only the right one is looked
// at. A client cannot choose keys that collide. It grows with what it holds, and never shrinks.
// ARCHITECTURE.md has the reason why it shares no code with the other tables of this kind.
type table struct {
	seed  maphash.Seed
	slots []slot // a power of two, at most three quarters of them taken
	taken int
}

type slot struct {
	hash   uint64
	window *Window // nil where the slot is free
}

const smallestTable = 64

func newTable() table {
	return table{seed: maphash.MakeSeed(), slots: make([]slot, smallestTable)}
}

// ofRule is what the hashes of a rule's windows have in common.
func (t *table) ofRule(name string) uint64 { return maphash.String(t.seed, name) }

func (t *table) hash(ofRule uint64, key []byte) uint64 { return ofRule + maphash.Bytes(t.seed, key) }

func (t *table) hashOf(w *Window) uint64 {
	return t.ofRule(w.Rule.Name) + maphash.String(t.seed, w.Key())
}

// next is the slot of the first window of a hash at or behind a slot; it is free where there is none.
func (t *table) next(at int, hash uint64) int {
	for mask := len(t.slots) - 1; ; at++ {
		s := &t.slots[at&mask]
		if s.window == nil || s.hash == hash {
			return at & mask
		}
	}
}

// likely is a window of a hash: all but certainly the one that is sought, if there is one.
func (t *table) likely(hash uint64) *Window {
	return t.slots[t.next(int(hash&uint64(len(t.slots)-1)), hash)].window
}

// find returns the window of a rule and a key, or nil.
func (t *table) find(hash uint64, rule string, key []byte) *Window {
	for at := int(hash & uint64(len(t.slots)-1)); ; at++ {
		at = t.next(at, hash)
		if w := t.slots[at].window; w == nil || w.is(rule, key) {
			return w
		}
	}
}

// add adds a window that is not there.
func (t *table) add(w *Window) {
	if t.taken++; 4*t.taken > 3*len(t.slots) {
		before := t.slots
		t.slots = make([]slot, 2*len(before))
		for _, s := range before {
			if s.window != nil {
				t.put(s)
			}
		}
	}
	t.put(slot{t.hashOf(w), w})
}

func (t *table) put(s slot) {
	mask := len(t.slots) - 1
	at := int(s.hash) & mask
	for t.slots[at].window != nil {
		at = (at + 1) & mask
	}
	t.slots[at] = s
}

// remove takes a window out that is there. Those behind it that stand there for want of room move up.
func (t *table) remove(w *Window) {
	mask := len(t.slots) - 1
	free := int(t.hashOf(w)) & mask
	for t.slots[free].window != w {
		free = (free + 1) & mask
	}

	for at := (free + 1) & mask; t.slots[at].window != nil; at = (at + 1) & mask {
		home := int(t.slots[at].hash) & mask
		if (at-home)&mask >= (at-free)&mask {
			t.slots[free] = t.slots[at]
			free = at
		}
	}

	t.slots[free] = slot{}
	t.taken--
}
