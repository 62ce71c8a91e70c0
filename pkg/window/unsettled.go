package window

import (
	"math"
	"time"
)

// unsettled is what is kept of a key while late hits can still move its blocks: the blocks, and the hits that may come
// to count when these move. A hit that is late, and before the end of a block, has all blocks from then on judged again
// (replay): so after every hit the blocks are those of the textbook, which sorts the hits that came first.
//
// A block is settled when no hit can come any more that is as old as its from. Where every block lasts longer than
// Late, hits inside the last one never come to count, and are not kept.
type unsettled struct {
	blocks []block // those that can move, in their order, after one that cannot where there was one; the last is rare's
	past   log     // hits that do not count now: those before the last block's end; with Block.Clear those inside blocks
	others []Outcome
	gone   []Outcome // blocks that the last hit has shown never to have been
}

// A block is [from, until).
type block struct {
	from, until int64
	level       int
	limit       int
	count       int64
	first       int64 // from and level as they were found at first
	firstLevel  int
}

// beginUnsettled begins the block of the offence b, which late hits can still move. Where hits are known that come after
// it, or some of its instant are behind it, they are judged again: they may begin blocks of their own.
func (p *Policy) beginUnsettled(s *State, b broken, late bool) Outcome {
	r := s.rare
	if r.unsettled == nil {
		r.unsettled = &unsettled{}
	}

	u := r.unsettled
	// The last block cannot move any more, but the first of those that can needs it before itself: its end is where
	// counting starts, and its level is what the next one follows.
	kept := p.settle(s)
	if kept && !p.roomTogether(s, 0) {
		s.fix()
		kept = false
	}
	if !kept && r.until > 0 {
		u.blocks = append(u.blocks, r.last())
	}

	u.others = u.others[:0]
	before := len(u.blocks)
	// A late hit breaks a limit before hits that are in the log already: these may now lie inside the block, or behind
	// it.
	if late {
		var few [fewMoments]moment
		tail := p.group.moments(few[:0], s.first, b.at)
		s.first = p.group.until(s.first, b.at)
		p.judge(s, tail, nil)
	} else {
		u.blocks = append(u.blocks, p.next(s, r.last(), b))
		// The hits that led to the block do not count behind it, but they do if the block moves.
		if !p.block.Clear {
			p.group.move(&u.past, &s.first)
		}
	}

	r.set(*u.last())
	for _, other := range u.blocks[before : len(u.blocks)-1] {
		u.others = append(u.others, other.outcome(Broke))
	}
	return u.last().outcome(Broke)
}

// settle forgets what cannot move any more, and says whether anything still can.
func (p *Policy) settle(s *State) bool {
	u := s.rare.unsettled
	if u == nil || len(u.blocks) == 0 {
		return false
	}

	settled, n := s.newest-p.late, len(u.blocks)
	if u.blocks[n-1].from < settled {
		s.fix()
		return false
	}

	// One settled block stays as the first: the next one follows from its end and level.
	gone := 0
	for gone+1 < n && u.blocks[gone+1].from < settled {
		gone++
	}

	u.blocks = u.blocks[:copy(u.blocks, u.blocks[gone:])]
	if first := u.blocks[0]; first.from < settled {
		p.group.dropBefore(&u.past, first.until)
	}
	return true
}

// fix has the blocks stay where they are. The memory is used again.
func (s *State) fix() {
	u := s.rare.unsettled
	u.blocks, u.past = u.blocks[:0], u.past[:0]
	if cap(s.first) == 0 {
		s.first, u.past = u.past, nil
	}
}

// hitUnsettled is a hit of a key with blocks that can still move.
func (p *Policy) hitUnsettled(s *State, at, cost int64) Outcome {
	r := s.rare
	last := r.unsettled.last()
	switch {
	case at >= last.until:
		return p.hitOutside(s, at, cost)
	case at > last.from:
		p.keepInside(s, at, cost)
		return r.outcome(Blocked, unbroken)
	}

	// The hit is before the last block. Inside an earlier one it is only kept, in case that one moves; outside of all
	// it may break a limit earlier.
	u := r.unsettled
	before := u.before(at)
	if before > 0 && at < u.blocks[before-1].until {
		p.keepInside(s, at, cost)
		return r.outcome(Blocked, unbroken)
	}

	return p.replay(s, before, moment{at, cost})
}

func (u *unsettled) last() *block { return &u.blocks[len(u.blocks)-1] }

// before is how many blocks begin before an instant.
func (u *unsettled) before(at int64) int {
	n := len(u.blocks)
	for n > 0 && u.blocks[n-1].from >= at {
		n--
	}
	return n
}

// keepInside keeps a hit inside a block that would count if the block moved. Where too many would be kept, the blocks
// stay where they are.
func (p *Policy) keepInside(s *State, at, cost int64) {
	u := s.rare.unsettled
	ends := s.newest - p.late + p.shortest // a block that moves does not end before
	if at < ends {
		return
	}

	// Time has moved on since these hits were kept: those before ends cannot come to count any more, and make room.
	last := u.last()
	from, until := p.group.after(u.past, last.from), p.group.after(u.past, ends-1)
	if p.block.Clear {
		from, until = 0, 0
	}
	if until > from {
		p.group.cut(&u.past, from, until)
	}

	if !p.room(&u.past, s.newest, cost) {
		s.fix()
		return
	}

	p.group.add(&u.past, p.group.slotOf(at), s.newest, cost)
}

// room says whether there is some for one more cell, with all that matters kept.
func (p *Policy) room(l *log, newest, cost int64) bool {
	g := p.group
	n := g.len(*l)
	if n > 0 && g.wide == 0 && g.total(*l)+min(cost, g.most) >= 8*narrowHits {
		return false
	}
	return n < g.mostCells() || g.startingAfter(*l, newest-g.keep) > n/4
}

// roomTogether says whether there is some for all hits that are kept, and one more, in the log of those that do not
// count now: a block may move them there. Cells too old to answer a question go where that makes the room.
func (p *Policy) roomTogether(s *State, cost int64) bool {
	g, u := p.group, s.rare.unsettled
	switch {
	case len(u.blocks) >= g.cells:
		return false
	case p.block.Clear: // hits that counted stay where they are
		return true
	case g.wide == 0 && g.total(u.past)+g.total(s.first)+min(cost, g.most) >= 8*narrowHits:
		return false
	case g.len(u.past)+g.len(s.first) < g.mostCells():
		return true
	}

	// Dropping moves all that stays, so it has to free a fixed part.
	from := s.newest - g.keep + 1
	matter := g.len(u.past) - g.startingAfter(u.past, from-1) + g.len(s.first) - g.startingAfter(s.first, from-1)
	if matter > g.cells {
		return false
	}
	g.dropBefore(&u.past, from)
	g.dropBefore(&s.first, from)
	return true
}

// replay judges again all hits from an instant on, with one more that is late. The blocks before stay.
func (p *Policy) replay(s *State, before int, more moment) Outcome {
	g, r := p.group, s.rare
	u := r.unsettled
	// An attacker chooses how many hits come late. Where they exceed what a key may keep, its blocks stay as they are,
	// and none is lost.
	if !p.room(&u.past, s.newest, more.cost) || !p.room(&s.first, s.newest, more.cost) || !p.roomTogether(s, more.cost) {
		s.fix()
		return r.outcome(Blocked, unbroken)
	}

	var few [fewMoments]moment
	var fewBlocks [4]block

	// The hits from the late one on are copied out before the logs are cut back, for they share their memory.
	tail := g.tail(few[:0], u.past, s.first, more)
	old := append(fewBlocks[:0], u.blocks[before:]...)
	if p.block.Clear {
		u.past, s.first = g.until(u.past, more.at), g.until(s.first, more.at)
	} else {
		var end int64
		if before > 0 {
			end = u.blocks[before-1].until
		}
		u.past, s.first = g.split(g.until(u.past, more.at), end)
	}

	u.blocks = u.blocks[:before]
	p.judge(s, tail, old)
	// More hits cannot break a limit later than fewer did, if all were kept.
	if len(u.blocks) == before || len(old) > 0 && u.blocks[before].from > old[0].from {
		// Some hits were not kept: the last block stays where it is.
		p.forgetBlocked(s)
		s.fix()
		return r.outcome(Blocked, unbroken)
	}

	r.set(*u.last())
	return p.moved(s, before, old)
}

// judge judges moments in their order, behind the blocks and the hits that there are.
func (p *Policy) judge(s *State, tail []moment, old []block) {
	g, u := p.group, s.rare.unsettled
	before := len(u.blocks)
	var now block
	if before > 0 {
		now = u.blocks[before-1]
	}
	ends := s.newest - p.late + p.shortest
	for _, m := range tail {
		if m.at < now.until {
			// A hit before ends would be inside even if the block moved as far as it can, so it need not be kept.
			if m.at >= ends {
				g.add(&u.past, g.slotOf(m.at), s.newest, m.cost)
			}
			continue
		}

		// Of single hits at one instant those behind the one that breaks a limit are inside the block.
		var b broken
		var inside int64
		if p.ones && m.cost > 1 {
			b, inside = g.hitSingly(&s.first, m.at, m.cost)
		} else {
			b = g.hitNewest(&s.first, m.at, m.cost)
		}
		if b.limit < 0 {
			continue
		}

		// The i-th block now stands for the i-th that was published: it keeps its identity, wherever it moved.
		now = p.next(s, now, b)
		if i := len(u.blocks) - before; i < len(old) {
			now.first, now.firstLevel = old[i].first, old[i].firstLevel
		}
		u.blocks = append(u.blocks, now)

		if !p.block.Clear {
			g.move(&u.past, &s.first)
		}
		if inside > 0 && m.at >= ends {
			g.add(&u.past, g.slotOf(m.at), s.newest, inside)
		}
	}
}

// next is the block that the offence b begins after another; a zero block where there was none.
func (p *Policy) next(s *State, now block, b broken) block {
	level := 1
	if now.until > 0 && b.at < later(now.until, p.block.Forget) {
		level = now.level + 1
	}
	until := later(b.at, p.block.lasts(level))
	if p.block.Clear {
		for i := range p.limits {
			until = max(until, p.sliding.admits(s, i, b.at, 1))
		}
	}
	return block{b.at, until, level, b.limit, p.counted(b), b.at, level}
}

// counted is the count at the hit that broke a limit: where a hit is one request, that of the first that did.
func (p *Policy) counted(b broken) int64 {
	if p.ones && (p.kind == Sliding || p.kind == Fixed) {
		return min(b.count, p.limits[b.limit]+1)
	}
	return b.count
}

// moved is the outcome of a replay.
func (p *Policy) moved(s *State, before int, old []block) Outcome {
	r := s.rare
	u := r.unsettled
	event := Blocked
	u.others, u.gone = u.others[:0], u.gone[:0]
	for i, b := range u.blocks[before:] {
		e := Moved
		switch {
		case i >= len(old):
			e = Broke
		case b.same(old[i]):
			continue
		}

		// The outcome has room for the last block only; the others are read with State.Others.
		if before+i < len(u.blocks)-1 {
			u.others = append(u.others, b.outcome(e))
			continue
		}

		event = e
	}

	if now := len(u.blocks) - before; now < len(old) {
		event = Moved // the last one never was
		for _, b := range old[now:] {
			u.gone = append(u.gone, b.outcome(Undone))
		}
	}
	if event == Blocked {
		o := r.outcome(Blocked, unbroken)
		o.Others = len(u.others) > 0
		return o
	}

	return u.last().outcome(event)
}

func (b block) same(as block) bool {
	return b.from == as.from && b.until == as.until && b.level == as.level && b.limit == as.limit && b.count == as.count
}

func (b block) outcome(e Event) Outcome {
	return Outcome{Event: e, Limit: b.limit, From: b.from, Until: b.until, Count: b.count, Level: b.level, First: b.first, FirstLevel: b.firstLevel}
}

// set makes a block the last one.
func (r *rare) set(b block) { r.from, r.until, r.level = b.from, b.until, b.level }

// last is the last block; zero where there was none.
func (r *rare) last() block {
	return block{from: r.from, until: r.until, level: r.level, first: r.from, firstLevel: r.level}
}

// Others are the blocks before the last one that the last hit moved or began; of one whose event is Broke or Moved.
func (s *State) Others() []Outcome {
	if s.rare == nil || s.rare.unsettled == nil {
		return nil
	}
	return s.rare.unsettled.others
}

// Gone are the blocks that the last hit has shown never to have been, where its event is Moved.
func (s *State) Gone() []Outcome {
	if s.rare == nil || s.rare.unsettled == nil {
		return nil
	}
	return s.rare.unsettled.gone
}

// shortestOf is how long a block lasts at least.
func shortestOf(b *Block) int64 {
	shortest := b.For
	for _, d := range b.Then {
		shortest = min(shortest, d)
	}
	if shortest == Forever {
		return math.MaxInt64 / 4
	}
	return int64(shortest / time.Millisecond)
}
