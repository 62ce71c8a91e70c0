package past

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// fewEvents is how many events of the wanted kinds are looked at one by one, rather than those of the key.
const fewEvents = 10_000

// lists returns lists that together have all events that the query selects.
func (r *reader) lists() ([][]byte, error) {
	q := r.query
	var ofKinds [][]byte
	if wanted := r.wantedKinds(); wanted != nil {
		ofKinds = append(ofKinds, kindList(0))
		for number, is := range wanted {
			if is {
				ofKinds = append(ofKinds, kindList(uint64(number)))
			}
		}
	}
	if ofKinds != nil && (q.Key == "" || r.few(ofKinds)) {
		return ofKinds, nil
	}
	if q.Key != "" {
		lists, ok, err := r.listsOf(q.key())
		if ok || err != nil {
			return lists, err
		}
		if ofKinds != nil {
			return ofKinds, nil
		}
	}
	return [][]byte{{spaceEvent}}, nil
}

// few reports whether lists have at most fewEvents events together.
func (r *reader) few(lists [][]byte) bool {
	count := 0
	for _, list := range lists {
		from, to := place{at: r.query.Since}.append(slices.Clone(list)), r.last.append(slices.Clone(list))
		it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
		if err != nil {
			return false
		}
		for ok := it.First(); ok && count <= fewEvents; ok = it.Next() {
			count++
		}
		if it.Close() != nil || count > fewEvents {
			return false
		}
	}
	return true
}

// end is behind all places of a list.
func (r *reader) end(list []byte) []byte { return place{at: maxAt + 1}.append(slices.Clone(list)) }

// maxLists bounds the lists of one search. A search for more reads a longer list instead.
const maxLists = 600

// listsOf returns the lists for a key; false when they are too many.
func (r *reader) listsOf(s *sought) (lists [][]byte, ok bool, err error) {
	if s.begins {
		if s.text == "" {
			return nil, false, nil
		}
		begin := escapedBegin([]byte{spaceText}, s.text)
		return r.distinct(nil, begin, endOf(begin))
	}
	lists = append(lists, textList(s.text))
	if s.scope != "" && s.scope != "ip" {
		lists = append(lists, fieldList(s.scope, s.value))
	}
	if !s.prefix.IsValid() {
		return lists, true, nil
	}
	return r.overlapping(lists, s.prefix)
}

// endOf returns the first key behind all that begin with a prefix.
func endOf(prefix []byte) []byte {
	end := slices.Clone(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) > 0 {
		end[len(end)-1]++
	}
	return end
}

// distinct adds the lists whose names are in a range of keys.
func (r *reader) distinct(lists [][]byte, from, to []byte) (_ [][]byte, ok bool, err error) {
	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return nil, false, err
	}
	for ok := it.First(); ok; {
		if len(it.Key()) <= placeBytes {
			return nil, false, errors.Join(errDamaged, it.Close())
		}
		if len(lists) == maxLists {
			return nil, false, it.Close()
		}
		list := slices.Clone(it.Key()[:len(it.Key())-placeBytes])
		lists = append(lists, list)
		ok = it.SeekGE(r.end(list))
	}
	return lists, true, errors.Join(it.Error(), it.Close())
}

// overlapping adds the lists of the prefixes that contain a prefix, and of those within it.
func (r *reader) overlapping(lists [][]byte, p netip.Prefix) (_ [][]byte, ok bool, err error) {
	for bits := range p.Bits() {
		lists = append(lists, prefixList(spaceExact, netip.PrefixFrom(p.Addr(), bits).Masked()))
	}
	within, ok, err := r.within(p)
	if ok || err != nil {
		return append(lists, within...), ok, err
	}

	// The list of the level above has more, but is one.
	above := -1
	for _, bits := range levels(p) {
		if bits <= p.Bits() {
			above = bits
		}
	}
	if above < 0 {
		return nil, false, nil
	}
	return append(lists, prefixList(spaceLevel, netip.PrefixFrom(p.Addr(), above).Masked())), true, nil
}

// within returns the lists of a prefix and of those within it; false when they are too many.
func (r *reader) within(p netip.Prefix) (lists [][]byte, ok bool, err error) {
	between := func(space byte, bits int) bool {
		first, last := netip.PrefixFrom(p.Addr(), bits), netip.PrefixFrom(lastOf(p), bits).Masked()
		lists, ok, err = r.distinct(lists, prefixList(space, first), r.end(prefixList(space, last)))
		return ok && err == nil
	}
	for bits := p.Bits(); bits <= p.Addr().BitLen(); bits++ {
		if slices.Contains(levels(p), bits) {
			between(spaceLevel, bits) // it has all longer ones
			return lists, ok, err
		}
		if !between(spaceExact, bits) {
			return nil, false, err
		}
	}
	return lists, true, nil
}

// lastOf returns the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < p.Addr().BitLen(); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}
