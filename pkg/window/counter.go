package window

import (
	"errors"
	"math/bits"
)

// counter is the sliding window counter: a window of W is n sub-windows and the part that it still covers of the one
// before them, whose hits are taken to be spread evenly. A hit at t breaks N per W when the estimate at t, with the hit,
// is more than N. With n = 1 these are the two counters that are widely used.
//
// The estimate differs from the sliding log by at most the hits of the oldest sub-window, either way: it may block who
// kept the limit and let through who did not, by what one nth of W holds.
//
// A late hit counts in the sub-window it belongs to, and is held against the estimate at its own instant. A state has
// a cell for each sub-window that had hits within Late and two W, the newest Config.Remember at most. A hit costs two
// binary searches among these a limit.
type counter struct {
	limits []Limit
	parts  []shape // of the limit's log: sub-windows
	n      int64
}

func newCounter(c *Config) (algorithm, error) {
	a := counter{limits: c.Limits, n: int64(c.Subwindows)}
	for _, l := range c.Limits {
		per := l.Per.Milliseconds()
		if per < a.n {
			return nil, errors.New("counter: a sub-window is shorter than a millisecond: want fewer")
		}
		a.parts = append(a.parts, newShape(c, per, a.n, 2*per, l.Hits))
	}
	return &a, nil
}

func (a *counter) hit(s *State, at, cost int64) broken {
	b := unbroken
	for i := range a.limits {
		p, l := &a.parts[i], s.log(i)
		whole, oldest := a.estimate(i, *l, at)
		p.add(l, p.slotOf(at), s.newest, cost)
		if a.exceeds(i, whole+cost, oldest, at) {
			b = b.or(broken{i, at, whole + cost + a.weighed(i, oldest, at)})
		}
	}
	return b
}

// estimate is the hits of the n sub-windows up to that of the instant at, and of the one before them.
func (a *counter) estimate(i int, l log, at int64) (whole, oldest int64) {
	p := &a.parts[i]
	slot := p.slotOf(at)
	before := p.sum(l, p.after(l, slot-a.n)-1)
	return p.sum(l, p.after(l, slot)-1) - before, p.hits(l, slot-a.n)
}

// left is how much of the oldest sub-window the window that ends at the instant at still covers, in parts of W/n/W.
func (a *counter) left(i int, at int64) (left, of int64) {
	per := a.parts[i].span
	return per - at*a.n%per, per
}

// exceeds says whether whole and the part left of oldest are more than the limit, without rounding.
func (a *counter) exceeds(i int, whole, oldest, at int64) bool {
	room := a.limits[i].Hits - whole
	if room < 0 {
		return true
	}
	left, of := a.left(i, at)
	high, low := bits.Mul64(uint64(oldest), uint64(left))
	roomHigh, roomLow := bits.Mul64(uint64(room), uint64(of))
	return high > roomHigh || high == roomHigh && low > roomLow
}

// weighed is what is left of oldest, rounded up to whole hits.
func (a *counter) weighed(i int, oldest, at int64) int64 {
	left, of := a.left(i, at)
	high, low := bits.Mul64(uint64(oldest), uint64(left))
	low, carry := bits.Add64(low, uint64(of-1), 0)
	hits, _ := bits.Div64(high+carry, low, uint64(of))
	return int64(hits)
}

func (a *counter) count(s *State, i int, at int64) int64 {
	whole, oldest := a.estimate(i, *s.log(i), at)
	return whole + a.weighed(i, oldest, at)
}

func (a *counter) clear(s *State) int64 {
	var clear int64
	for i := range a.parts {
		if l := *s.log(i); len(l) > 0 {
			clear = max(clear, a.parts[i].start(a.parts[i].newestSlot(l)+a.n+1))
		}
	}
	return clear
}

func (a *counter) forget(s *State, from int64) {
	for i := range a.parts {
		a.parts[i].dropBefore(s.log(i), from)
	}
}

func (a *counter) shapes() []shape { return a.parts }
