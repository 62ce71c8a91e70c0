package backtest

import "weir/pkg/window"

// maxInstants bounds what a peak remembers.
const maxInstants = 1 << 16

// A peak watches how many hits of a key lie in (t-W, t] of one limit, from the hit on that broke it, refused hits
// included. Before that hit there cannot be more.
//
// It keeps the instants of W and how many hits each has. Above maxInstants neighbours become one, at the earlier's
// time, so that the peak may then be too low, but never too high.
type peak struct {
	instants []instant // in order; those before head have left
	head     int
	per      int64 // W in milliseconds
	sum      int64 // of the hits from head on
	now      int64 // the hits that the window held at the newest hit
	most     int64

	// What the window held before the hit that broke the limit; nil once that has left it.
	before       *window.State
	policy       *window.Policy
	limit        int
	beforeLeaves int64
}

type instant struct{ at, hits int64 }

// hit counts and returns what the window then holds. A hit older than the newest is left out.
func (p *peak) hit(at, cost int64) int64 {
	if n := len(p.instants); n > 0 && at < p.instants[n-1].at {
		return 0
	}
	p.leave(at - p.per)
	p.append(at, cost)
	p.now = p.sum + p.held(at)
	p.most = max(p.most, p.now)
	return p.now
}

// held is how many of the hits before the break the window still holds.
func (p *peak) held(at int64) int64 {
	if p.before == nil {
		return 0
	}
	if at >= p.beforeLeaves {
		p.before = nil
		return 0
	}
	return p.policy.Count(p.before, p.limit, at)
}

func (p *peak) append(at, cost int64) {
	p.sum += cost
	if n := len(p.instants); n > p.head && p.instants[n-1].at == at {
		p.instants[n-1].hits += cost
		return
	}

	if len(p.instants) == cap(p.instants) && p.head > len(p.instants)/2 {
		p.instants = p.instants[:copy(p.instants, p.instants[p.head:])]
		p.head = 0
	}

	if len(p.instants)-p.head >= maxInstants {
		p.halve()
	}
	p.instants = append(p.instants, instant{at, cost})
}

// leave lets go what lies at or before the instant.
func (p *peak) leave(until int64) {
	for p.head < len(p.instants) && p.instants[p.head].at <= until {
		p.sum -= p.instants[p.head].hits
		p.head++
	}
}

// halve makes one instant of two.
func (p *peak) halve() {
	rest := p.instants[p.head:]
	halved := p.instants[:0]
	for len(rest) > 1 {
		halved = append(halved, instant{rest[0].at, rest[0].hits + rest[1].hits})
		rest = rest[2:]
	}
	halved = append(halved, rest...)
	p.instants, p.head = halved, 0
}
