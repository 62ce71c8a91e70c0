package past

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// A merge yields the places of several lists, the newest first and each once.
type merge struct {
	heads []head // a heap
	all   []*pebble.Iterator
	now   head
	begun bool
	value []byte
	err   error
}

// A head is the next place of a list. The first lists have iterators of their own; the others share the last one.
type head struct {
	place
	kind  uint64
	list  []byte
	it    *pebble.Iterator
	share bool
}

// ownIterators is how many lists of a merge have an iterator of their own.
const ownIterators = 32

func newMerge(db pebble.Reader, lists [][]byte, first place) (*merge, error) {
	m := &merge{}
	var shared *pebble.Iterator
	for n, list := range lists {
		h := head{list: list, it: shared, share: n >= ownIterators}
		if h.it == nil {
			o := &pebble.IterOptions{}
			if !h.share {
				o.LowerBound, o.UpperBound = list, first.append(slices.Clone(list))
			}
			it, err := db.NewIter(o)
			if err != nil {
				return nil, errors.Join(err, m.close())
			}
			m.all = append(m.all, it)
			if h.it = it; h.share {
				shared = it
			}
		}
		var ok bool
		if h.share {
			ok = h.it.SeekLT(first.append(slices.Clone(list)))
		} else {
			ok = h.it.Last()
		}
		if err := m.push(h, ok); err != nil {
			return nil, errors.Join(err, m.close())
		}
	}
	return m, nil
}

// push adds a list whose iterator has moved.
func (m *merge) push(h head, ok bool) error {
	if !ok {
		return h.it.Error()
	}
	key := h.it.Key()
	if !bytes.HasPrefix(key, h.list) {
		return nil // only a shared iterator leaves its list
	}
	p, placed := placeOf(key)
	if !placed || len(key) != len(h.list)+placeBytes {
		return errDamaged
	}
	h.place = p
	if h.list[0] == spaceKind {
		h.kind = uint64(binary.BigEndian.Uint32(h.list[1:]))
	} else {
		h.kind, _ = binary.Uvarint(h.it.Value())
	}
	heap.Push(m, h)
	return nil
}

// next moves to the next place.
func (m *merge) next() bool {
	for len(m.heads) > 0 {
		h := heap.Pop(m).(head)
		known := m.begun && h.place == m.now.place
		m.now, m.begun, m.value = h, true, nil
		if h.list[0] == spaceEvent {
			m.value = bytes.Clone(h.it.Value())
		}
		var ok bool
		if h.share {
			ok = h.it.SeekLT(h.place.append(slices.Clone(h.list)))
		} else {
			ok = h.it.Prev()
		}
		if m.err = m.push(h, ok); m.err != nil {
			return false
		}
		if !known {
			return true
		}
	}
	return false
}

func (m *merge) at() (p place, kind uint64, value []byte) { return m.now.place, m.now.kind, m.value }

func (m *merge) close() error {
	errs := []error{m.err}
	for _, it := range m.all {
		errs = append(errs, it.Error(), it.Close())
	}
	return errors.Join(errs...)
}

// Len, Less, Swap, Push and Pop are of container/heap.

func (m *merge) Len() int           { return len(m.heads) }
func (m *merge) Less(i, j int) bool { return m.heads[j].before(m.heads[i].place) }
func (m *merge) Swap(i, j int)      { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }
func (m *merge) Push(x any)         { m.heads = append(m.heads, x.(head)) }

// Pop removes the last.
func (m *merge) Pop() any {
	last := m.heads[len(m.heads)-1]
	m.heads = m.heads[:len(m.heads)-1]
	return last
}
