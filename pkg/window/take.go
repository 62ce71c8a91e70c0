package window

import (
	"math"
	"sort"
)

// A Taken is the answer to an attempt.
type Taken struct {
	Admitted  bool
	Limit     int   // the one that refuses; of an admitted attempt the one with the fewest hits left
	Remaining int64 // so many hits Limit admits now, after this attempt; what is refused takes none
	At        int64 // the instant that it was decided at: now, or the newest one that was known
	Again     int64 // the first instant at which such an attempt is admitted, where none comes before; Never
}

// Take admits cost hits if every limit then still holds, and counts them; otherwise it counts nothing. So at no instant
// have more hits been admitted than the limits allow by the algorithm's definition, and refused attempts delay nothing.
// The exceptions are those of Hit: a sliding limit above Config.Remember is up to 1/64 of its window generous.
//
// Nothing is late here: an instant before the newest is taken for the newest, as when a clock was set back. A cost of 0
// counts nothing, and asks how many remain. A State is used with either Take or Hit, for Take knows no blocks.
func (p *Policy) Take(s *State, now, cost int64) Taken {
	now = max(s.newest, min(max(now, 0), MaxTime))
	cost = max(cost, 0)
	t := Taken{Admitted: true, At: now, Again: now, Remaining: math.MaxInt64}
	for i := range p.limits {
		room := p.algorithm.room(s, i, now)
		switch {
		case room < cost:
			if again := p.algorithm.admits(s, i, now, cost); t.Admitted || again > t.Again {
				t.Limit, t.Remaining, t.Again = i, max(room, 0), again
			}
			t.Admitted = false
		case t.Admitted && room-cost < t.Remaining:
			t.Limit, t.Remaining = i, room-cost
		}
	}

	if !t.Admitted {
		return t
	}
	s.newest = now
	if cost > 0 {
		p.algorithm.hit(s, now, cost)
	}
	if t.Remaining < cost {
		for i := range p.limits {
			t.Again = max(t.Again, p.algorithm.admits(s, i, now, cost))
		}
	}
	return t
}

// Settle sets the cost of an attempt that Take admitted to what it really was: at and cost are those of the attempt. If
// that is less, the difference is admitted again. If it is more, the difference counts, whether the limits hold or not.
//
// Limits of Config.AtOnce are left alone: End frees them.
//
// A bucket does not know which of its drops have drained. It returns what would be left of the attempt by now if it had
// been alone in the bucket, which is never more than what is left of it.
func (p *Policy) Settle(s *State, now, at, cost, actual int64) {
	now = max(s.newest, min(max(now, 0), MaxTime))
	cost, actual = max(cost, 0), max(actual, 0)
	if at < 0 || at > now || cost == actual {
		return
	}
	s.newest = now
	p.algorithm.settle(s, now, at, cost, actual)
}

func (a *sliding) room(s *State, i int, at int64) int64 {
	g, l, limit := a.limit(s, i)
	return g.room(l, limit, at)
}

func (g *group) room(l log, limit *slidingLimit, at int64) int64 {
	if len(l) == 0 {
		return limit.hits
	}
	return limit.hits - (g.total(l) - g.sum(l, g.begin(l, at-limit.per, limit.hits)-1))
}

// limit is a limit, its group, and the log of that.
func (a *sliding) limit(s *State, i int) (*group, log, *slidingLimit) {
	place := &a.places[i]
	g := &a.groups[place.group]
	return g, *s.log(place.group), &g.limits[place.limit]
}

// begin is the first of the cells that start after the instant at, as startingAfter finds it, where no more than hits are
// likely to lie after at. Every cell has a hit, so as many of the newest cells are then enough. Of a key that is near its
// limit, the cell is near the first of these.
func (g *group) begin(l log, at, hits int64) int {
	n := g.len(l)
	lo := n - int(min(hits, int64(n)))
	slot := g.slotOf(at)
	if at < 0 || lo > 0 && g.slot(l, lo-1) > slot { // more was charged, or the limit was lowered
		return g.startingAfter(l, at)
	}

	hi := n
	for step := 1; lo+step < n; step *= 2 {
		if g.slot(l, lo+step-1) > slot {
			hi = lo + step - 1
			break
		}
		lo += step
	}
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); g.slot(l, mid) > slot {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

func (a *sliding) admits(s *State, i int, at, cost int64) int64 {
	g, l, limit := a.limit(s, i)
	return g.admits(l, limit, at, cost)
}

func (g *group) admits(l log, limit *slidingLimit, at, cost int64) int64 {
	room := limit.hits - cost
	if room < 0 {
		return Never
	}
	over := g.total(l) - room // so many of the oldest have to leave
	if over <= 0 {
		return at
	}

	// Every cell has a hit, so over is not reached before the cell that room cells follow.
	before := max(0, g.len(l)-1-int(min(room, int64(g.len(l))))) - 1
	return max(at, g.start(g.slot(l, g.reaching(l, before, over)))+limit.per)
}

func (a *sliding) settle(s *State, _, at, cost, actual int64) {
	for k := range a.groups {
		a.groups[k].settle(s.log(k), at, s.newest, actual-cost)
	}
}

// settle counts so many more hits in the slot of an instant, or fewer, if the slot can still answer a question.
func (sh *shape) settle(l *log, at, newest, more int64) {
	slot := sh.slotOf(at)
	if more > 0 {
		if sh.end(slot) > newest-sh.keep {
			sh.add(l, slot, newest, more)
		}
		return
	}

	i := sh.after(*l, slot) - 1
	if i < 0 || sh.slot(*l, i) != slot {
		return
	}
	has := sh.sum(*l, i) - sh.sum(*l, i-1)
	less := min(-more, has)
	for j := i; j < sh.len(*l); j++ {
		sh.set(*l, j, sh.slot(*l, j), sh.sum(*l, j)-less)
	}
	if less == has { // every cell has a hit
		*l = (*l)[:i<<sh.wide+copy((*l)[i<<sh.wide:], (*l)[(i+1)<<sh.wide:])]
	}
}

func (a *fixed) room(s *State, i int, at int64) int64 { return a.limits[i].Hits - a.count(s, i, at) }

func (a *fixed) admits(s *State, i int, at, cost int64) int64 {
	switch {
	case cost > a.limits[i].Hits:
		return Never
	case cost <= a.room(s, i, at):
		return at
	}
	return a.periods[i].end(a.periods[i].slotOf(at)) + 1
}

func (a *fixed) settle(s *State, _, at, cost, actual int64) {
	for i := range a.periods {
		a.periods[i].settle(s.log(i), at, s.newest, actual-cost)
	}
}

func (a *counter) room(s *State, i int, at int64) int64 { return a.limits[i].Hits - a.count(s, i, at) }

// admits searches, for what remains of the oldest sub-window only gets less.
func (a *counter) admits(s *State, i int, at, cost int64) int64 {
	if cost > a.limits[i].Hits {
		return Never
	}
	last := max(at, a.clear(s)) // nothing counts any more
	return at + int64(sort.Search(int(last-at), func(after int) bool { return a.room(s, i, at+int64(after)) >= cost }))
}

func (a *counter) settle(s *State, _, at, cost, actual int64) {
	for i := range a.parts {
		a.parts[i].settle(s.log(i), at, s.newest, actual-cost)
	}
}

func (a buckets) room(s *State, i int, at int64) int64 {
	return (a[i].holds - a.left(s, i, at)) / a[i].unit
}

// left is the drops in a bucket at the instant at, which no hit is newer than.
func (a buckets) left(s *State, i int, at int64) int64 {
	if len(s.first) == 0 {
		return 0
	}
	words := s.first[bucketWords*i:]
	return a[i].drained(int64(words[level]), at-int64(words[levelAt]))
}

func (a buckets) admits(s *State, i int, at, cost int64) int64 {
	b := &a[i]
	if cost > b.holds/b.unit {
		return Never
	}
	over := max(0, a.left(s, i, at)+cost*b.unit-b.holds)
	return at + (over+b.drain-1)/b.drain
}

func (a buckets) settle(s *State, now, at, cost, actual int64) {
	a.make(s)
	for i := range a {
		b, words := &a[i], s.first[bucketWords*i:bucketWords*(i+1)]
		drops := a.left(s, i, now)
		if actual > cost {
			drops = min(drops+b.drops(actual-cost), mostDrops)
		} else {
			drops -= min(drops, b.drops(cost-actual), b.drained(b.drops(cost), now-at))
		}
		if words[level], words[levelAt] = uint64(drops), uint64(now); drops == 0 {
			words[filledSince] = uint64(now)
		}
	}
}

// mostDrops is what a bucket can hold or owe at most: sums of a few stay within 64 bits.
const mostDrops = math.MaxInt64 / 4

// drops are those of some hits.
func (b *bucket) drops(hits int64) int64 {
	if hits > mostDrops/b.unit {
		return mostDrops
	}
	return hits * b.unit
}
