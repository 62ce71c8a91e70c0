package backtest

// A different watches how many different values of a key lie in (t-W, t] of one limit, from the hit on that broke it,
// refused hits included. The values before that hit are not known, only their number: so what is counted behind it may be
// too low, but never too high. Above maxInstants hits in W the oldest are left out.
type different struct {
	hits []valueAt // in order; those before head have left
	head int
	last map[uint64]int64 // of each value in the window, its newest hit
	per  int64            // W in milliseconds
}

type valueAt struct {
	at    int64
	value uint64
}

func newDifferent(per int64) *different { return &different{last: map[uint64]int64{}, per: per} }

// hit counts and returns the different values in the window after it. A hit older than the newest is left out.
func (d *different) hit(at int64, value uint64) int64 {
	if n := len(d.hits); n > 0 && at < d.hits[n-1].at {
		return int64(len(d.last))
	}
	for d.head < len(d.hits) && (d.hits[d.head].at <= at-d.per || len(d.hits)-d.head >= maxInstants) {
		// A value leaves with its newest hit.
		if left := d.hits[d.head]; d.last[left.value] == left.at {
			delete(d.last, left.value)
		}
		d.head++
	}
	if len(d.hits) == cap(d.hits) && d.head > len(d.hits)/2 {
		d.hits = d.hits[:copy(d.hits, d.hits[d.head:])]
		d.head = 0
	}
	if before, known := d.last[value]; !known || before < at {
		d.hits = append(d.hits, valueAt{at, value})
		d.last[value] = at
	}
	return int64(len(d.last))
}
