package past

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// maxActive bounds the entries that are looked at for a key at an instant.
const maxActive = 1 << 20

// active collects the last events of the entries that were active at an instant.
func (r *reader) active(first place) error {
	found, err := r.spansAt(r.query.At, first)
	if err != nil {
		return err
	}
	if r.query.Key != "" {
		if found, err = r.ofKey(found); err != nil {
			return err
		}
	}
	slices.SortFunc(found, newestFirst)
	for n, p := range found {
		if len(r.found) == r.most || r.late() {
			r.more = n < len(found)
			return nil
		}
		if err := r.look(p, nil); err != nil {
			return err
		}
		r.last = p
	}
	return nil
}

// ofKey drops places that are in no list of the key. Where its lists are long, all stay, and are compared when they are
// read.
func (r *reader) ofKey(found []place) ([]place, error) {
	lists, ok, err := r.listsOf(r.query.key())
	if !ok || err != nil {
		return found, err
	}
	places, err := newMerge(r.db, lists, place{at: r.query.At + 1})
	if err != nil {
		return nil, err
	}
	listed := map[place]bool{}
	for places.next() && len(listed) <= fewEvents {
		p, _, _ := places.at()
		listed[p] = true
	}
	if len(listed) <= fewEvents {
		found = slices.DeleteFunc(found, func(p place) bool { return !listed[p] })
	}
	return found, places.close()
}

func newestFirst(a, b place) int {
	switch {
	case a.before(b):
		return 1
	case b.before(a):
		return -1
	}
	return 0
}

// spansAt returns the places, before first, of the events whose spans contain an instant. Without a key it returns the
// newest, and one more than a page has.
func (r *reader) spansAt(at int64, first place) (found []place, err error) {
	wanted := r.wantedKinds()
	most, cut := maxActive, r.query.Key == ""
	if cut {
		most = r.most + 1
	}
	add := func(key, value []byte) error {
		p, ok := placeOf(key)
		kind, n := binary.Uvarint(value)
		if !ok || n <= 0 {
			return errDamaged
		}
		if !p.before(first) || !isWanted(wanted, kind) {
			return nil
		}
		if found = append(found, p); len(found) < 2*most {
			return nil
		}
		if !cut {
			return ErrTooMany
		}
		slices.SortFunc(found, newestFirst)
		found = found[:most]
		return nil
	}

	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: []byte{spaceActive}, UpperBound: []byte{spaceActive + 1}})
	if err != nil {
		return nil, err
	}
	for level := 0; level <= maxLevel && err == nil; level++ {
		from, to := spansOf(level, at)
		it.SetBounds(from, to)
		for ok := it.First(); ok && err == nil; ok = it.Next() {
			err = add(it.Key(), it.Value())
		}
	}
	return found, errors.Join(err, it.Error(), it.Close())
}

// spansOf returns the range of keys that has the spans of the block of a level around an instant that contain it.
func spansOf(level int, at int64) (from, to []byte) {
	number := uint64(at) >> level
	if level > 0 && uint64(at)>>(level-1)&1 == 1 { // behind the middle: those that end later
		list := nodeList(level, number, byLast)
		return binary.BigEndian.AppendUint64(slices.Clone(list), uint64(at)), endOf(list)
	}
	list := nodeList(level, number, byStart)
	return list, binary.BigEndian.AppendUint64(slices.Clone(list), uint64(at)+1)
}

// ErrTooMany refuses a question for a key at an instant at which too many entries were active.
var ErrTooMany = errors.New("too many entries were active then to look for a key; name a rule or a person, too")
