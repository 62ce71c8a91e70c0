package window

import "slices"

// members counts how many different members of a group were blocked: a block that begins at t breaks N per W when the
// blocks that began in (t-W, t], that one included, are of more than N members. Of numbers from 2^32 on, those that differ
// in their last bits alone count as one (Config.Shift). These may change afterwards: late hits move a member's block or show
// that it never was, and a person may lift it. So the blocks of members are kept with their ids, and with each change all
// blocks of the group are judged again, from the first that can still change. They are those of the sorted log of the
// members' blocks as these are now, in any order of arrival.
//
// A key keeps 1024 blocks of members, or 4 times N + 1. Beyond that those go that lie inside a block of the group, then those
// of members that have later ones, then the oldest, and the blocks that these led to stay as they are: the error can only let
// through.
//
// A change costs microseconds and grows with the kept blocks. It is for what happens rarely, and not for hits of requests.
//
// One group may stand above others. Of a member's block it counts what no block of the group below has: nothing of one that
// began inside such a block, and one that led to it until that begins. So the group below passes on its members' blocks and
// their ends (Config.Passes), and again what changes of these. An end is kept as another MemberBlock (MemberEnd).
type members struct {
	passes  bool           // Config.Passes
	shift   uint           // Config.Shift
	limits  []slidingLimit // as Config.Limits has them
	of      uint64         // Config.Distinct
	least   int64          // the smallest limit
	late    int64
	longest int64 // W
	most    int   // blocks of members that a key keeps
}

const leastMembers = 1024

func newMembers(c *Config) (algorithm, error) {
	g := &members{passes: c.Passes, shift: c.Shift, of: c.Distinct, late: c.Late.Milliseconds(), most: leastMembers}
	for i, l := range c.Limits {
		sl := slidingLimit{i, l.Hits, l.Per.Milliseconds()}
		if i == 0 {
			g.least = sl.hits
		}
		g.limits = append(g.limits, sl)
		g.least, g.longest = min(g.least, sl.hits), max(g.longest, sl.per)
		g.most = max(g.most, 4*int(min(sl.hits, MostDistinct)+1))
	}
	return g, nil
}

// A MemberBlock is the block of a member of a group. Value names the member, and ID its block: of two with both the same,
// the one that comes last replaces the other.
type MemberBlock struct {
	At        int64 // when it began
	Value, ID uint64
	Gone      bool // it never was, or was lifted
}

// MemberEnd in an ID makes it that of an end: the block that the rest of the ID names does not count from At on.
const MemberEnd uint64 = 1 << 61

// A memberID is that of a member's block.
type memberID struct{ value, id uint64 }

// of is the block that m is, or is the end of.
func (m *MemberBlock) of() memberID { return memberID{m.Value, m.ID &^ MemberEnd} }

func (m *MemberBlock) isEnd() bool { return m.ID&MemberEnd != 0 }

// counted is the number by which a member counts.
func (g *members) counted(value uint64) uint64 {
	if value < 1<<32 {
		return value
	}
	return value >> g.shift << g.shift
}

// CountsMembers reports whether the policy counts blocks of members, by HitMember.
func (p *Policy) CountsMembers() bool { return p.members != nil }

// HitMember counts the block of a member of the group s. With Undone, the last block of the group never was: the outcome
// has that one.
func (p *Policy) HitMember(s *State, m MemberBlock) Outcome {
	at := -1
	if s.rare != nil && s.rare.members != nil {
		s.rare.members.passed = nil
		at = s.rare.members.find(&m)
	}
	if m.At < s.newest-p.late && (at < 0 || !m.Gone) || m.At < 0 || m.At > MaxTime {
		return Outcome{Event: Late}
	}

	s.newest = max(s.newest, m.At)
	s.needRare()
	r := s.rare
	if r.members == nil {
		r.members, r.unsettled = &memberLog{based: r.until > 0}, &unsettled{}
		if r.until > 0 {
			r.unsettled.blocks = append(r.unsettled.blocks, r.last())
		}
	}

	was := p.members.passing(s, &m)
	if !r.members.put(at, m) {
		return Outcome{}
	}
	o := p.judgeGroup(s)
	p.members.pass(s, was)
	p.members.prune(s)
	return o
}

// judgeGroup judges all blocks of the group again that can change, and says what is different.
func (p *Policy) judgeGroup(s *State) Outcome {
	r := s.rare
	u, before := r.unsettled, r.members.before()
	old := slices.Clone(u.blocks[before:])
	u.blocks, u.others, u.gone = u.blocks[:before], u.others[:0], u.gone[:0]
	p.judgeMembers(s, old)

	var last block
	if len(u.blocks) > 0 {
		last = *u.last()
	}
	r.set(last)
	// Where fewer are left, the last of them may have moved to where the others were.
	switch now := len(u.blocks) - before; {
	case now == 0 && len(old) == 0:
		return Outcome{}
	case now >= len(old), now > 0 && last.until > old[len(old)-1].from:
		return p.moved(s, before, old)
	}

	for i, b := range u.blocks[before:] {
		if !b.same(old[i]) {
			u.others = append(u.others, b.outcome(Moved))
		}
	}
	return old[len(old)-1].outcome(Undone)
}

// judgeMembers appends the blocks that the members lead to behind those that cannot change. The i-th keeps the identity of
// the i-th that there was.
func (p *Policy) judgeMembers(s *State, old []block) {
	g, u, hits := p.members, s.rare.unsettled, s.rare.members.hits
	before := len(u.blocks)
	var now block
	if before > 0 {
		now = *u.last()
	}

	var in []inWindow
	ends := slices.ContainsFunc(hits, func(h MemberBlock) bool { return h.isEnd() })
	start := s.rare.members.after(now.until - 1)
	for j := start; j < len(hits); j++ {
		at := hits[j].At
		if at < now.until {
			start, in = j+1, nil
			continue
		}
		if int64(len(hits)-start) <= g.least { // so no window has too many
			return
		}
		if in == nil {
			in = g.windows(start, ends)
		}
		i := g.add(in, hits, j)
		if i < 0 || j+1 < len(hits) && hits[j+1].At == at {
			continue // all blocks of an instant are judged together
		}

		now = p.next(s, now, broken{i, at, g.limits[i].hits + 1})
		if k := len(u.blocks) - before; k < len(old) {
			now.first, now.firstLevel = old[k].first, old[k].firstLevel
		}
		u.blocks = append(u.blocks, now)
		start, in = j+1, nil
	}
}

// inWindow is the window of a limit that ends with the newest counted block of a member.
type inWindow struct {
	from int               // its first
	of   map[uint64]int    // how many each counted member has
	live map[memberID]bool // those that count; nil where no block of a member has an end
}

// leaves has a member's block count no more.
func (g *members) leaves(w *inWindow, id memberID) {
	if w.live != nil && !w.live[id] {
		return
	}
	delete(w.live, id)
	value := g.counted(id.value)
	if w.of[value]--; w.of[value] == 0 {
		delete(w.of, value)
	}
}

func (g *members) windows(start int, ends bool) []inWindow {
	in := make([]inWindow, len(g.limits))
	for i := range in {
		if in[i] = (inWindow{from: start, of: map[uint64]int{}}); ends {
			in[i].live = map[memberID]bool{}
		}
	}
	return in
}

// add counts the block at a place, and returns the first limit that has too many members; -1.
func (g *members) add(in []inWindow, hits []MemberBlock, j int) (exceeded int) {
	exceeded = -1
	for i := range in {
		w := &in[i]
		switch h := &hits[j]; {
		case h.Gone:
		case h.isEnd():
			g.leaves(w, h.of())
		default:
			if w.of[g.counted(h.Value)]++; w.live != nil {
				w.live[h.of()] = true
			}
		}
		for ; hits[w.from].At <= hits[j].At-g.limits[i].per; w.from++ {
			if h := &hits[w.from]; !h.isEnd() && !h.Gone {
				g.leaves(w, h.of())
			}
		}
		if exceeded < 0 && int64(len(w.of)) > g.limits[i].hits {
			exceeded = i
		}
	}
	return exceeded
}

// HasMembers reports whether any block of a member is known.
func (s *State) HasMembers() bool {
	return s.rare != nil && s.rare.members != nil && len(s.rare.members.hits) > 0
}

// Members are the members whose blocks began within (at-per, at] and had not ended by then, each once in the order of their
// first, as far as they are known.
func (s *State) Members(at, per int64) (values []uint64) {
	if s.rare == nil || s.rare.members == nil {
		return nil
	}
	seen, ends := map[uint64]bool{}, s.rare.members.ends()
	for i := range s.rare.members.hits {
		h := &s.rare.members.hits[i]
		if end, ended := ends[h.of()]; h.isEnd() || ended && end <= at {
			continue
		}
		if h.At > at-per && h.At <= at && !h.Gone && !seen[h.Value] {
			seen[h.Value] = true
			values = append(values, h.Value)
		}
	}
	return values
}

// Members are those of the state that count, the first of several that count as one.
func (p *Policy) Members(s *State, at, per int64) []uint64 { return p.members.different(s, at, per) }

func (g *members) different(s *State, at, per int64) (values []uint64) {
	seen := map[uint64]bool{}
	for _, value := range s.Members(at, per) {
		if one := g.counted(value); !seen[one] {
			seen[one] = true
			values = append(values, value)
		}
	}
	return values
}

func (g *members) count(s *State, i int, at int64) int64 {
	if s.rare == nil || s.rare.members == nil {
		return 0
	}
	return int64(len(g.different(s, at, min(g.limits[i].per, at-s.rare.until+1))))
}

// clear is when all that is known of members is too old for late ones, too: it is needed for as long.
func (g *members) clear(s *State) int64 {
	if s.rare == nil || s.rare.members == nil || len(s.rare.members.hits) == 0 {
		return 0
	}
	return s.newest + g.longest + g.late
}

func (g *members) forget(s *State, _ int64) {
	if s.rare != nil {
		s.rare.members = nil
	}
}

// Members are counted by HitMember only.
func (g *members) hit(*State, int64, int64) broken { return unbroken }

func (g *members) room(s *State, i int, at int64) int64 { return g.limits[i].hits - g.count(s, i, at) }

func (g *members) admits(*State, int, int64, int64) int64 { return Never }

func (g *members) settle(*State, int64, int64, int64, int64) {}

func (g *members) shapes() []shape { return nil }
