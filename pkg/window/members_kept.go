package window

import (
	"cmp"
	"slices"
)

// memberLog is what a group keeps of its members.
type memberLog struct {
	hits  []MemberBlock // in the order of time, then of members and ids
	based bool          // the first of the blocks of the group cannot change any more

	passed []MemberBlock // by the last change
}

// ends are the ends of members' blocks.
func (l *memberLog) ends() map[memberID]int64 {
	var ends map[memberID]int64
	for i := range l.hits {
		if h := &l.hits[i]; h.isEnd() && !h.Gone {
			if ends == nil {
				ends = map[memberID]int64{}
			}
			ends[h.of()] = h.At
		}
	}
	return ends
}

// find is the place of a block; -1.
func (l *memberLog) find(m *MemberBlock) int {
	return slices.IndexFunc(l.hits, func(h MemberBlock) bool { return h.Value == m.Value && h.ID == m.ID })
}

// put adds a block, in place of the one at a place unless that is -1. It returns false if that is the same.
func (l *memberLog) put(at int, m MemberBlock) bool {
	if at >= 0 {
		if l.hits[at] == m {
			return false
		}
		l.hits = slices.Delete(l.hits, at, at+1)
	}
	place, _ := slices.BinarySearchFunc(l.hits, m, func(a, b MemberBlock) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Value, b.Value), cmp.Compare(a.ID, b.ID))
	})
	l.hits = slices.Insert(l.hits, place, m)
	return true
}

// after is the first place of the blocks that began after an instant.
func (l *memberLog) after(at int64) int {
	i, _ := slices.BinarySearchFunc(l.hits, at+1, func(h MemberBlock, at int64) int { return cmp.Compare(h.At, at) })
	return i
}

// before is how many of the blocks of the group cannot change.
func (l *memberLog) before() int {
	if l.based {
		return 1
	}
	return 0
}

// prune forgets what can change no answer, and where a key has more than it may have, what matters least.
func (g *members) prune(s *State) {
	l, u := s.rare.members, s.rare.unsettled
	g.fix(s, func(b *block) bool { return b.from < s.newest-g.late && b.until <= s.newest })
	if len(u.blocks) == l.before() {
		l.drop(s.newest - g.late - g.longest)
	}
	if len(l.hits) <= g.most {
		return
	}

	inside := map[memberID]bool{} // an end stays as long as what it ends
	for i := range l.hits {
		if h := &l.hits[i]; !h.isEnd() {
			inside[h.of()] = u.inside(h.At)
		}
	}
	l.hits = slices.DeleteFunc(l.hits, func(h MemberBlock) bool { return inside[h.of()] })
	if enough := g.most - g.most/4; len(l.hits) > enough {
		g.thin(s)
		if over := len(l.hits) - enough; over > 0 {
			g.dropTo(s, l.hits[over-1].At, func(*MemberBlock) bool { return true })
		}
	}
}

// thin drops the blocks of members that have later ones. So no member pushes out others by many blocks.
func (g *members) thin(s *State) {
	newest, last := map[uint64]uint64{}, int64(-1)
	for _, h := range slices.Backward(s.rare.members.hits) {
		if h.Gone || h.ID >= MemberEnd {
			continue
		}
		value := g.counted(h.Value)
		if _, later := newest[value]; later {
			last = max(last, h.At)
			continue
		}
		newest[value] = h.ID
	}
	g.dropTo(s, last, func(h *MemberBlock) bool { return !h.Gone && h.ID < MemberEnd && h.ID != newest[g.counted(h.Value)] })
}

// dropTo drops blocks of members that began up to an instant. The blocks that they led to stay as they are.
func (g *members) dropTo(s *State, last int64, drops func(*MemberBlock) bool) {
	g.fix(s, func(b *block) bool { return b.from-g.longest < last })
	l := s.rare.members
	l.hits = slices.DeleteFunc(l.hits, func(h MemberBlock) bool { return h.At <= last && drops(&h) })
}

// inside reports whether an instant is behind the beginning of a block and before its end.
func (u *unsettled) inside(at int64) bool {
	before := u.before(at)
	return before > 0 && at < u.blocks[before-1].until
}

// fix has the first blocks stay as they are for which done is true. Only the last of them is kept, for the next one
// follows from its end and level.
func (g *members) fix(s *State, done func(*block) bool) {
	l, u := s.rare.members, s.rare.unsettled
	n := l.before()
	for n < len(u.blocks) && done(&u.blocks[n]) {
		n++
	}
	if n == 0 {
		return
	}
	u.blocks, l.based = slices.Delete(u.blocks, 0, n-1), true
	l.drop(u.blocks[0].until - 1)
}

// drop drops the blocks of members up to an instant.
func (l *memberLog) drop(upTo int64) { l.hits = slices.Delete(l.hits, 0, l.after(upTo)) }
