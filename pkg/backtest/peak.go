package backtest

import "weir/pkg/window"

// maxInstants bounds the memory of a peak.
const maxInstants = 1 << 16

// A peak watches how many hits of a key lie in (t-W, t] of one limit, from the hit on that broke it, refused hits
// included. Before that hit there cannot be more.
//
// It keeps the instants of W and the number of hits of each. Above maxInstants neighbours are merged, at the earlier's
// time, so that the peak may then be too low, but never too high.
type peak struct {
	instants []instant // in order; those before head have left
	head     int
	per      int64 // W in milliseconds
	sum      int64 // of the hits from head on
	now      int64 // the hits in the window at the newest hit
	most     int64

	// The state of the window before the hit that broke the limit; nil once its hits have left the window.
	before       *window.State
	policy       *window.Policy
	limit        int
	beforeLeaves int64
}

type instant struct{ at, hits int64 }

// hit counts and returns the hits in the window after it. A hit older than the newest is left out.
func (p *peak) hit(at, cost int64) int64 {
	if n := len(p.instants); n > 0 && at < p.instants[n-1].at {
		return 0
	}

	// Drop the hits that are older than the period.
	until := at - p.per
	for p.head < len(p.instants) && p.instants[p.head].at <= until {
		p.sum -= p.instants[p.head].hits
		p.head++
	}

	p.append(at, cost)
	p.now = p.sum + p.held(at)
	p.most = max(p.most, p.now)
	return p.now
}

// held is how many of the hits before the break are still in the window.
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

	// Room is made from the instants that have left, before the memory grows.
	if len(p.instants) == cap(p.instants) && p.head > len(p.instants)/2 {
		p.instants = p.instants[:copy(p.instants, p.instants[p.head:])]
		p.head = 0
	}

	if len(p.instants)-p.head >= maxInstants {
		p.halve()
	}
	p.instants = append(p.instants, instant{at, cost})
}

// halve merges each two instants.
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
