package window

import "slices"

// A passing is what a group above counts of a member's block.
type passing struct {
	from, end int64 // end is 0 for none
	gone      bool  // it counts nothing
}

// A passingBefore is what there was before a change.
type passingBefore struct {
	of     memberID // whose block changes
	was    passing
	known  bool    // there was such a block
	blocks []block // of the group
}

// passing is what a change finds, if there is a group above.
func (g *members) passing(s *State, m *MemberBlock) (before passingBefore) {
	if !g.passes {
		return before
	}
	l := s.rare.members
	before.of, before.blocks = m.of(), slices.Clone(s.rare.unsettled.blocks)
	for i := range l.hits {
		if h := &l.hits[i]; !h.isEnd() && h.of() == before.of {
			before.was, before.known = g.passingOf(h, l.ends(), before.blocks, l.before()), true
		}
	}
	return before
}

// passingOf is what a group above counts of a member's block where the group has these blocks; the first so many cannot
// change.
func (g *members) passingOf(h *MemberBlock, ends map[memberID]int64, blocks []block, fixed int) passing {
	end, outside := g.outside(h.At, blocks, fixed)
	if own := ends[h.of()]; own != 0 && (end == 0 || own < end) {
		end = own
	}
	if h.Gone || !outside || end != 0 && end <= h.At {
		return passing{gone: true}
	}
	return passing{from: h.At, end: end}
}

// outside reports whether a member's block that began at an instant lies outside of all blocks of the group. If it led to
// one, end is when that begins; else 0.
func (g *members) outside(at int64, blocks []block, fixed int) (end int64, outside bool) {
	for i, b := range blocks {
		switch {
		case at < b.until && (at > b.from || i < fixed):
			return 0, false
		case at > b.from:
			continue
		}
		per := g.longest
		if b.limit < len(g.limits) { // the limits may be others by now
			per = g.limits[b.limit].per
		}
		if at > b.from-per {
			return b.from, true
		}
		return 0, true
	}
	return 0, true
}

// pass notes what is to be passed on of a change. A change that makes a group above count less comes first: so between the two it
// counts nothing that it would not count in the end.
func (g *members) pass(s *State, before passingBefore) {
	if !g.passes {
		return
	}
	l, blocks := s.rare.members, s.rare.unsettled.blocks
	ends, moved := l.ends(), !slices.EqualFunc(before.blocks, blocks, block.same)
	var less, more []MemberBlock
	for i := range l.hits {
		h := &l.hits[i]
		if h.isEnd() || !moved && h.of() != before.of {
			continue
		}
		was, known := before.was, before.known
		if h.of() != before.of {
			was, known = g.passingOf(h, ends, before.blocks, l.before()), true
		}
		is := g.passingOf(h, ends, blocks, l.before())
		if is == was && known || !known && is.gone && !h.Gone {
			continue
		}
		less, more = h.pass(less, more, was, is, known)
	}
	l.passed = slices.Concat(less, more)
}

// pass appends what is passed on of one member's block.
func (m *MemberBlock) pass(less, more []MemberBlock, was, is passing, known bool) (newLess, newMore []MemberBlock) {
	switch {
	case is.gone:
		less = append(less, MemberBlock{At: m.At, Value: m.Value, ID: m.ID, Gone: true})
	case !known || was.gone || is.from != was.from:
		more = append(more, MemberBlock{At: is.from, Value: m.Value, ID: m.ID})
	}
	switch end := m.ID | MemberEnd; {
	case is.end == was.end:
	case is.end == 0:
		more = append(more, MemberBlock{At: was.end, Value: m.Value, ID: end, Gone: true})
	case was.end == 0 || is.end < was.end:
		less = append(less, MemberBlock{At: is.end, Value: m.Value, ID: end})
	default:
		more = append(more, MemberBlock{At: is.end, Value: m.Value, ID: end})
	}
	return less, more
}

// Passed are the members' blocks and ends that the last HitMember passes on to the groups above, in their order.
func (s *State) Passed() []MemberBlock {
	if s.rare == nil || s.rare.members == nil {
		return nil
	}
	return s.rare.members.passed
}
