package window

import (
	"slices"
	"time"
)

// MostDistinct is the largest limit of different values that is exact.
const MostDistinct = 4096

// distinct counts how many different values the hits of a key have: a hit at t breaks N per W when the hits in (t-W, t],
// that one included, have more than N different values. Of several limits that hits of one instant break, the one that
// is written first is named. Values are numbers that the caller makes of them, and equal numbers are one value: an error
// of the caller's hash can only let through.
//
// For one pass in the order of time, the newest hit of each value is enough, of N + 1 values at most. Late hits need more:
// one that is late may be the first of its value in a window, and break a limit before the newest hit. So for Late and the
// longest limit the hits are kept, in the order of time, but for those that can change no answer: a hit that is followed by
// one of the same value before anything that can still come, and a hit between two of the same value that are less than
// the shortest window apart. Where blocks are shorter than Late, counting may begin again between two such hits, if they
// are newer than a block can end that begins before all that is late; these are kept until there is no room.
//
// A key keeps 4 times N + 1 hits at least, and more where Late is longer than W: seenMost says how many. Up to that, the
// blocks are those of the sorted log, in any order of arrival. Beyond it the blocks that there are stay where they are, the
// newest hit of each value is kept, and late hits are counted as far as hits are kept: the error can only let through. What
// comes in order is counted exactly all the same.
//
// A hit costs one lookup and a few comparisons a limit. A late hit of a key with more values than the smallest limit has
// all kept hits judged again, from the block before it on.
type distinct struct {
	limits     []slidingLimit // as Config.Limits has them
	of         uint64         // Config.Distinct
	least      int64          // the smallest limit
	late       int64
	longest    int64 // W
	shortest   int64 // W
	most       int   // hits that a key keeps
	lasts      int64 // a block, at least
	keepInside bool  // hits inside blocks may come to count when these move
}

func newDistinct(c *Config) (algorithm, error) {
	d := &distinct{of: c.Distinct, late: c.Late.Milliseconds()}
	for i, l := range c.Limits {
		sl := slidingLimit{i, l.Hits, l.Per.Milliseconds()}
		if i == 0 {
			d.least, d.shortest = sl.hits, sl.per
		}
		d.limits = append(d.limits, sl)
		d.least, d.shortest, d.longest = min(d.least, sl.hits), min(d.shortest, sl.per), max(d.longest, sl.per)
		d.most = max(d.most, seenMost(sl.hits, sl.per, d.late))
	}
	d.lasts = shortestOf(&c.Block)
	d.keepInside = d.lasts < d.late || d.lasts == d.late && d.late > 0 && len(d.limits) > 1
	return d, nil
}

// seenMost is how many hits a key keeps for a limit: two of each value in each window within the lateness, and room.
func seenMost(hits, per, late int64) int {
	windows := min((late+per-1)/per, MostDistinct)
	return int(max(leastSeen, min((hits+1)*(2*windows+4), 4*(MostDistinct+1))))
}

const leastSeen = 64

// BytesOfDistinct is the memory that a key may take with a limit of different values, without its blocks.
func BytesOfDistinct(l Limit, late time.Duration) int64 {
	return int64(seenMost(l.Hits, l.Per.Milliseconds(), late.Milliseconds())) * (bytesOfValue + 4*bytesOfPlace)
}

// HitValue counts a hit with a value, where the limits are of different values or of a share, and says what that did. Under
// another policy the hit is a plain one.
func (p *Policy) HitValue(s *State, at int64, value uint64) Outcome {
	d := p.distinct
	switch {
	case p.share != nil, p.sketch != nil:
		return p.hitPending(s, at, value)
	case d == nil:
		return p.Hit(s, at, 1)
	}
	if at < s.newest-p.late || at < 0 || at > MaxTime {
		return Outcome{Event: Late}
	}

	s.newest = max(s.newest, at)
	s.needRare()
	r := s.rare
	if r.seen == nil {
		r.seen = &seen{spans: make([]span, len(d.limits))}
	}
	movable := d.moves(s)
	if at < r.until {
		return p.valueInside(s, at, value, movable)
	}

	v := r.seen
	if n := len(v.values); n > 0 && at < v.values[n-1].at() {
		return p.valueLate(s, at, value)
	}
	if !d.append(s, at, value) {
		return Outcome{}
	}
	d.step(v, len(v.values)-1)
	if i := d.exceeded(v); i >= 0 {
		return p.beginDistinct(s, i, at)
	}
	return Outcome{}
}

// beginDistinct begins the block of the newest hit, which broke limit i.
func (p *Policy) beginDistinct(s *State, i int, at int64) Outcome {
	d, r := p.distinct, s.rare
	if r.unsettled == nil {
		r.unsettled = &unsettled{}
	}
	u := r.unsettled
	if len(u.blocks) >= d.most/4 {
		d.fix(s)
	}
	// The last block cannot move any more, but the one that begins needs it before itself.
	if len(u.blocks) == 0 && r.until > 0 {
		u.blocks = append(u.blocks, r.last())
	}

	u.blocks, u.others = append(u.blocks, p.next(s, r.last(), d.broken(i, at))), u.others[:0]
	r.set(*u.last())
	r.seen.begin(len(r.seen.values))
	return u.last().outcome(Broke)
}

// broken is the offence at limit i: the first value too many begins it.
func (d *distinct) broken(i int, at int64) broken { return broken{i, at, d.limits[i].hits + 1} }

// valueInside is a hit before the end of the last block.
func (p *Policy) valueInside(s *State, at int64, value uint64, movable bool) Outcome {
	d, r := p.distinct, s.rare
	if !movable {
		return r.outcome(Blocked, unbroken)
	}

	// Hits of the instant of a block may show that another limit was broken too.
	u := r.unsettled
	before := u.before(at)
	inside := before > 0 && at < u.blocks[before-1].until
	if inside || len(d.limits) == 1 && u.blocks[before].from == at {
		if d.keepInside && at >= s.newest-p.late+p.shortest {
			d.keep(s, at, value)
		}
		return r.outcome(Blocked, unbroken)
	}

	if !d.insert(s, at, value) {
		return r.outcome(Blocked, unbroken)
	}
	if len(u.blocks) == 0 { // there was no room, and they stay where they are
		d.recount(s)
		return r.outcome(Blocked, unbroken)
	}
	return p.replayValues(s, before)
}

// valueLate is a hit outside of all blocks that others behind the last one are newer than.
func (p *Policy) valueLate(s *State, at int64, value uint64) Outcome {
	d, r := p.distinct, s.rare
	if !d.insert(s, at, value) {
		return Outcome{}
	}
	if int64(r.seen.different) <= d.least { // so no window has too many
		d.recount(s)
		return Outcome{}
	}

	if r.unsettled == nil {
		r.unsettled = &unsettled{}
	}
	return p.replayValues(s, len(r.unsettled.blocks))
}

// replayValues judges all hits again that are behind the first blocks.
func (p *Policy) replayValues(s *State, before int) Outcome {
	d, r := p.distinct, s.rare
	u := r.unsettled
	var few [4]block
	old := append(few[:0], u.blocks[before:]...)
	last := r.last()
	switch {
	case before > 0:
		last = u.blocks[before-1]
	case len(old) > 0:
		last = block{}
	}

	u.blocks = u.blocks[:before]
	if before == 0 && last.until > 0 {
		u.blocks = append(u.blocks, last)
		before = 1
	}
	p.judgeValues(s, last, old)

	// More hits cannot break a limit later than fewer did, if all were kept.
	if len(old) > 0 && (len(u.blocks) == before || u.blocks[before].from > old[0].from) || len(u.blocks) > d.most/4+2 {
		u.blocks = append(u.blocks[:before], old...)
		d.recount(s)
		d.fix(s)
		return r.outcome(Blocked, unbroken)
	}
	if len(u.blocks) == before {
		if len(u.blocks) == 1 && !d.canMove(s, &u.blocks[0]) {
			u.blocks = u.blocks[:0]
		}
		return Outcome{}
	}

	r.set(*u.last())
	return p.moved(s, before, old)
}

// judgeValues judges the hits behind the block now. Of the blocks that begin, the i-th keeps the identity of the i-th that
// there was.
func (p *Policy) judgeValues(s *State, now block, old []block) {
	d, v, u := p.distinct, s.rare.seen, s.rare.unsettled
	before := len(u.blocks)
	n := len(v.values)
	v.begin(v.after(now.until - 1))
	for j := v.start; j < n; j++ {
		at := v.values[j].at()
		if at < now.until {
			v.begin(j + 1)
			continue
		}
		d.step(v, j)
		if j+1 < n && v.values[j+1].at() == at {
			continue // all hits of an instant are judged together
		}
		i := d.exceeded(v)
		if i < 0 {
			continue
		}

		now = p.next(s, now, d.broken(i, at))
		if k := len(u.blocks) - before; k < len(old) {
			now.first, now.firstLevel = old[k].first, old[k].firstLevel
		}
		u.blocks = append(u.blocks, now)
		v.begin(j + 1)
	}
}

// canMove says whether late hits can still move a block.
func (d *distinct) canMove(s *State, b *block) bool {
	oldest := s.newest - d.late // that can still come
	if len(d.limits) == 1 {
		oldest++ // another hit of the block's first instant changes nothing
	}
	return b.from >= oldest
}

// moves forgets the blocks that cannot move any more, but for one before the others, and says whether any still can.
func (d *distinct) moves(s *State) bool {
	u := s.rare.unsettled
	if u == nil || len(u.blocks) == 0 {
		return false
	}
	if !d.canMove(s, u.last()) {
		d.fix(s)
		return false
	}
	gone := 0
	for gone+1 < len(u.blocks) && !d.canMove(s, &u.blocks[gone+1]) {
		gone++
	}
	u.blocks = u.blocks[:copy(u.blocks, u.blocks[gone:])]
	return true
}

// fix has the blocks stay where they are. Hits before the end of the last one count no more.
func (d *distinct) fix(s *State) {
	if u := s.rare.unsettled; u != nil {
		u.blocks = u.blocks[:0]
	}
	if v := s.rare.seen; v.start == len(v.values) {
		v.values = v.values[:0]
		v.link()
		v.begin(0)
	}
}

// dropBlocks has no block move any more, and drops the hits before the end of the last one.
func (d *distinct) dropBlocks(s *State) {
	if u := s.rare.unsettled; u != nil {
		u.blocks = u.blocks[:0]
	}
	if v := s.rare.seen; v != nil && v.start > 0 {
		v.values = slices.Delete(v.values, 0, v.start)
		v.link()
		d.recount(s)
	}
}

// step counts the hit at a place behind all that were counted.
func (d *distinct) step(v *seen, j int) {
	one := &v.values[j]
	one.word &^= valueAgain
	at, before := one.at(), v.before(j)
	for i := range v.spans {
		sp := &v.spans[i]
		for leaves := at - d.limits[i].per; v.values[sp.from].at() <= leaves; sp.from++ {
			// A value leaves with its newest hit.
			if v.values[sp.from].word&valueAgain == 0 {
				sp.different--
			}
		}
		if before < int(sp.from) {
			sp.different++
		}
	}
	if before >= v.start {
		v.values[before].word |= valueAgain
	}
}

// exceeded is the first limit that has too many values; -1.
func (d *distinct) exceeded(v *seen) int {
	for i := range v.spans {
		if int64(v.spans[i].different) > d.limits[i].hits {
			return i
		}
	}
	return -1
}

// recount counts the hits behind the last block again, when their places have changed.
func (d *distinct) recount(s *State) {
	v := s.rare.seen
	v.begin(v.after(s.rare.until - 1))
	for j := v.start; j < len(v.values); j++ {
		d.step(v, j)
	}
}

// touch reads what the next hit of s begins with.
func (d *distinct) touch(s *State) int64 {
	if s.rare == nil || s.rare.seen == nil || len(s.rare.seen.values) == 0 {
		return 0
	}
	v := s.rare.seen
	return v.values[len(v.values)-1].at() + int64(v.index[0])
}

// hit counts nothing: Hit leaves hits to HitValue.
func (d *distinct) hit(*State, int64, int64) broken { return unbroken }

func (d *distinct) count(s *State, i int, at int64) (different int64) {
	if s.rare == nil || s.rare.seen == nil {
		return 0
	}
	v, leaves := s.rare.seen, at-d.limits[i].per
	for j := v.start; j < len(v.values) && v.values[j].at() <= at; j++ {
		before := v.before(j)
		if v.values[j].at() > leaves && (before < v.start || v.values[before].at() <= leaves) {
			different++
		}
	}
	return different
}

func (d *distinct) clear(s *State) int64 {
	if s.rare == nil || s.rare.seen == nil || len(s.rare.seen.values) == 0 {
		return 0
	}
	v := s.rare.seen
	return v.values[len(v.values)-1].at() + d.longest
}

func (d *distinct) forget(s *State, _ int64) {
	if s.rare != nil {
		s.rare.seen = nil
	}
}

func (d *distinct) room(s *State, i int, at int64) int64 { return d.limits[i].hits - d.count(s, i, at) }

// Different values are not taken: New refuses limits at once, and pkg/rule inline rules.
func (d *distinct) admits(*State, int, int64, int64) int64    { return Never }
func (d *distinct) settle(*State, int64, int64, int64, int64) {}
func (d *distinct) shapes() []shape                           { return nil }
