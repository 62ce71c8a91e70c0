package window

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"weir/internal/varint"
)

// The bytes of a state of different values, version 4; numbers as in bytes.go, but that none is counted in seconds:
//
//	1 byte   version<<4
//	1 byte   flags: a block, and whether late hits can still move blocks
//	newest   the newest hit
//	of       8 bytes, little endian: what the values are of
//	[block]  as in versions 1 and 2
//	[blocks] as in version 2, without a log
//	hits     how many; for each of them, oldest first
//	           2 x its distance to the one before (to 0 for the first), or 2 x distance + 1 if its value is that of one before
//	           8 bytes, little endian: the value; or how many hits back there is the newest one with it, less one
//	8 bytes  the xxhash64 of all before, little endian

// appendDistinct appends the bytes of s. Hits that can change no answer are dropped.
func (p *Policy) appendDistinct(b []byte, s *State) []byte {
	begin, d := len(b), p.distinct
	w := writer{b: b, newest: s.newest, scale: 1, policy: p}
	if s.rare != nil && s.rare.unsettled != nil && len(s.rare.unsettled.blocks) > 0 && d.moves(s) {
		w.unsettled = s.rare.unsettled
	}

	flags := byte(0)
	if s.rare != nil && s.rare.until > 0 {
		flags |= flagBlock
	}
	if w.unsettled != nil {
		flags |= flagUnsettled
	}
	w.b = append(w.b, versionDistinct<<4, flags)
	w.uint(s.newest)
	w.b = binary.LittleEndian.AppendUint64(w.b, d.of)
	if flags&flagBlock != 0 {
		w.block(s.rare)
	}
	if w.unsettled != nil {
		w.blockList()
	}

	if s.rare == nil || s.rare.seen == nil {
		w.uint(0)
	} else {
		d.drop(s, d.unmovedUntil(s))
		w.values(s.rare.seen)
	}
	return binary.LittleEndian.AppendUint64(w.b, xxhash.Sum64(w.b[begin:]))
}

func (w *writer) values(v *seen) {
	w.uint(int64(len(v.values)))
	last := int64(0)
	for j := range v.values {
		one := &v.values[j]
		distance := one.at() - last
		last = one.at()
		if back := one.back(); back > 0 {
			w.uint(distance<<1 | 1)
			w.uint(int64(back - 1))
			continue
		}
		w.uint(distance << 1)
		w.b = binary.LittleEndian.AppendUint64(w.b, one.value)
	}
}

// readDistinct reads what appendDistinct wrote, without the checksum. If p counts values of something else, or no values,
// then it keeps the block only.
func (p *Policy) readDistinct(b []byte, s *State) error {
	r := reader{Reader: varint.Reader{Left: b[2:]}, scale: 1}
	flags := b[1]
	if b[0] != versionDistinct<<4 || flags&^(flagBlock|flagUnsettled) != 0 {
		return ErrCorrupt
	}

	s.newest = r.AtMost(MaxTime)
	var of uint64
	if b := r.Take(8); b != nil {
		of = binary.LittleEndian.Uint64(b)
	}
	if flags&flagBlock != 0 {
		r.block(s)
	}
	var u *unsettled
	if flags&flagUnsettled != 0 {
		u = r.blocks(s)
	}

	v := r.values(s.newest)
	if r.Failed || len(r.Left) > 0 {
		*s = State{}
		return ErrCorrupt
	}
	if p.distinct == nil || p.distinct.of != of {
		return nil
	}

	s.needRare()
	s.rare.unsettled, s.rare.seen = u, v
	p.distinct.adopt(s)
	return nil
}

func (r *reader) values(newest int64) *seen {
	n := r.AtMost(int64(len(r.Left)) / 2) // each takes two bytes at least
	v := &seen{values: make([]seenValue, 0, n)}
	last := int64(0)
	for j := range int(n) {
		head := r.AtMost(2*MaxTime + 1)
		if last += head >> 1; last > newest {
			r.Fail()
		}
		one := newSeenValue(last, 0)
		if head&1 == 1 {
			back := r.AtMost(MaxTime) + 1
			if back > int64(j) {
				r.Fail()
				break
			}
			one.value = v.values[j-int(back)].value
		} else if b := r.Take(8); b != nil {
			one.value = binary.LittleEndian.Uint64(b)
		}
		if r.Failed {
			break
		}
		v.values = append(v.values, one)
	}
	return v
}

// adopt makes the rest of what was read. The bytes may come from before a change of the rule.
func (d *distinct) adopt(s *State) {
	v := s.rare.seen
	v.spans = make([]span, len(d.limits))
	if n := len(v.values); n > d.most {
		v.values = v.values[n-d.most:]
	}
	v.link()
	d.recount(s)
}
