package window

import "time"

// waivedFrom is when a block begins that was waived: it is older than all that can move. No hit is as old.
const waivedFrom = 1

// begin starts the block of the offence b, which a late hit may have shown, and lets the window start empty at its end.
func (p *Policy) begin(s *State, b broken, late bool) Outcome {
	s.needRare()
	if p.group != nil {
		return p.beginUnsettled(s, b, late)
	}
	now := p.next(s, s.rare.last(), b)
	s.rare.set(now)
	p.forgetBlocked(s)
	return now.outcome(Broke)
}

// forgetBlocked lets the window start empty at the end of the last block, unless the hits before count behind it.
func (p *Policy) forgetBlocked(s *State) {
	if !p.block.Extend && !p.block.Clear {
		p.algorithm.forget(s, s.rare.until)
	}
}

// hitInside is a hit older than the end of the last block.
func (p *Policy) hitInside(s *State, at, cost int64) Outcome {
	r := s.rare
	if !p.block.Extend || r.from == 0 { // an unblock
		return r.outcome(Blocked, unbroken)
	}

	b := p.algorithm.hit(s, at, cost)
	if b.limit < 0 || b.at < r.from || r.until == Never || r.from == waivedFrom {
		return r.outcome(Blocked, unbroken)
	}
	lasts := p.block.lasts(r.level)
	if 2*(r.until-b.at) >= lasts.Milliseconds() {
		return r.outcome(Blocked, unbroken)
	}

	b.count = p.counted(b)
	r.until = later(b.at, lasts)
	return r.outcome(Extended, b)
}

func (r *rare) outcome(e Event, b broken) Outcome {
	return Outcome{Event: e, Limit: max(b.limit, 0), From: r.from, Until: r.until, Count: b.count, Level: r.level}
}

// lasts is how long an offence of a level lasts.
func (b *Block) lasts(level int) time.Duration {
	if level == 1 || len(b.Then) == 0 {
		return b.For
	}
	return b.Then[min(level-2, len(b.Then)-1)]
}

// Unblock forgets the hits and the blocks of s, and hits up to the instant at that come later do not count. With
// Block.Extend such a hit may extend a block that has begun since.
func (p *Policy) Unblock(s *State, at int64) {
	*s = State{}
	// It is kept as a block of level 0 from the instant 0. So hits before its end do not count, it is older than all that
	// can move, and the next block is a first offence.
	if at >= 0 && at < MaxTime {
		s.rare = &rare{until: at + 1}
	}
}

// Waive takes the last block of s back, for it refused no one: it ends at an instant and is no offence, so the next block
// has its level. From that instant on hits count again that come later, and those that count already, behind the end that
// the block had. Hits before that instant count no more, and no late hit moves the block. With Block.Clear the hits before
// the block still count, and with Block.Extend all hits do.
func (p *Policy) Waive(s *State, until int64) {
	r := s.rare
	if r == nil || r.level == 0 || r.from == waivedFrom {
		return
	}
	switch {
	case p.distinct != nil:
		p.distinct.dropBlocks(s)
	case r.unsettled != nil:
		s.fix()
	}
	r.from, r.until, r.level = waivedFrom, until, r.level-1
	if r.members != nil {
		r.members.based, r.unsettled.blocks = true, append(r.unsettled.blocks[:0], r.last())
		r.members.drop(until - 1)
	}
}

// Block is the last block of s, over or not; ok is false where s broke no limit since it was unblocked, and where the block
// was waived.
func (s *State) Block() (from, until int64, level int, ok bool) {
	if s.rare == nil || s.rare.from <= waivedFrom {
		return 0, 0, 0, false
	}
	return s.rare.from, s.rare.until, s.rare.level, true
}
