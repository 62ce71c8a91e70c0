package window

import (
	"encoding/binary"
	"math"

	"github.com/cespare/xxhash/v2"

	"weir/internal/varint"
)

// The bytes of a state of blocks of members, version 6; numbers as in bytes.go, but that none is counted in seconds:
//
//	1 byte   version<<4
//	1 byte   flags: a block; whether there are blocks of the group; whether the first of these cannot change
//	newest   when the newest block of a member began
//	of       8 bytes, little endian: what the values are of
//	[block]  as in versions 1 and 2
//	[blocks] as in version 2, without a log
//	members  how many blocks of members; for each of them, oldest first
//	           2 x its distance to the one before (to 0 for the first), plus 1 if it is gone
//	           8 bytes each, little endian: the member, and the block's id, plus 2^61 for an end (MemberEnd)
//	8 bytes  the xxhash64 of all before, little endian

// flagBased is for blocks of members alone.
const flagBased = flagExact

func (p *Policy) appendMembers(b []byte, s *State) []byte {
	begin := len(b)
	w := writer{b: b, newest: s.newest, scale: 1, policy: p}
	var l memberLog
	if s.rare != nil && s.rare.members != nil {
		l = *s.rare.members
		if len(s.rare.unsettled.blocks) > 0 {
			w.unsettled = s.rare.unsettled
		}
	}

	flags := byte(0)
	if s.rare != nil && s.rare.until > 0 {
		flags |= flagBlock
	}
	if w.unsettled != nil {
		flags |= flagUnsettled
	}
	if l.based {
		flags |= flagBased
	}
	w.b = append(w.b, versionMembers<<4, flags)
	w.uint(s.newest)
	w.b = binary.LittleEndian.AppendUint64(w.b, p.members.of)
	if flags&flagBlock != 0 {
		w.block(s.rare)
	}
	if w.unsettled != nil {
		w.blockList()
	}
	w.members(l.hits)
	return binary.LittleEndian.AppendUint64(w.b, xxhash.Sum64(w.b[begin:]))
}

func (w *writer) members(hits []MemberBlock) {
	w.uint(int64(len(hits)))
	last := int64(0)
	for i := range hits {
		h := &hits[i]
		head := (h.At - last) << 1
		if h.Gone {
			head |= 1
		}
		last = h.At
		w.uint(head)
		w.b = binary.LittleEndian.AppendUint64(w.b, h.Value)
		w.b = binary.LittleEndian.AppendUint64(w.b, h.ID)
	}
}

// readMembers reads what appendMembers wrote, without the checksum. If p counts members of something else, or none, then it
// keeps the block only.
func (p *Policy) readMembers(b []byte, s *State) error {
	r := reader{Reader: varint.Reader{Left: b[2:]}, scale: 1}
	flags := b[1]
	if b[0] != versionMembers<<4 || flags&^(flagBlock|flagUnsettled|flagBased) != 0 {
		return ErrCorrupt
	}

	s.newest = r.AtMost(MaxTime)
	of := r.fixed()
	if flags&flagBlock != 0 {
		r.block(s)
	}
	u := &unsettled{}
	if flags&flagUnsettled != 0 {
		u = r.blocks(s)
	}
	l := &memberLog{hits: r.members(s.newest), based: flags&flagBased != 0}
	if r.Failed || len(r.Left) > 0 || l.based && len(u.blocks) == 0 {
		*s = State{}
		return ErrCorrupt
	}
	if p.members == nil || p.members.of != of || len(l.hits)+len(u.blocks) == 0 {
		return nil
	}

	s.needRare()
	if s.rare.members, s.rare.unsettled = l, u; len(u.blocks) == 0 && s.rare.until > 0 {
		l.based, u.blocks = true, append(u.blocks, s.rare.last())
	}
	return nil
}

// fixed reads a number of 8 bytes.
func (r *reader) fixed() uint64 {
	if b := r.Take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) members(newest int64) []MemberBlock {
	const bytes = 17 // of each at least
	n := r.AtMost(int64(len(r.Left)) / bytes)
	hits := make([]MemberBlock, 0, n)
	last := int64(0)
	for range n {
		head := r.AtMost(math.MaxInt64)
		if last += head >> 1; last > newest {
			r.Fail()
		}
		hits = append(hits, MemberBlock{last, r.fixed(), r.fixed(), head&1 == 1})
		if r.Failed {
			return nil
		}
	}
	return hits
}
