package backtest

import (
	"cmp"
	"slices"

	"weir/pkg/window"
)

// An offence is the record of a key that broke a limit.
type offence struct {
	first    int64 // when
	limit    int   // which limit
	refused  int64 // requests
	blocks   int64 // begun
	peak     peak
	values   *different    // of a rule that counts different values; else nil
	group    *groupOffence // of a group rule; else nil
	timeline *series       // from the first break on; nil if it is not kept
}

// newOffence begins with the outcome of the hit that broke the limit; before is the state just before it, or nil.
func newOffence(t *tally, o window.Outcome, before *window.State) *offence {
	per := t.limits[o.Limit].Per.Milliseconds()
	f := &offence{first: o.From, limit: o.Limit}
	f.peak = peak{per: per, before: before, policy: t.policy, limit: o.Limit}
	if t.distinct {
		f.values = newDifferent(per)
	}
	if before != nil {
		f.peak.beforeLeaves = before.Newest() + per
	}
	return f
}

// hit counts a hit of the key, the first break itself included.
func (f *offence) hit(at, cost int64, value uint64, o window.Outcome, refused bool) {
	switch {
	case f.values != nil:
		f.peak.now = max(f.values.hit(at, value), o.Count)
		f.peak.most = max(f.peak.most, f.peak.now)
	case f.blocks == 0 && f.peak.before == nil:
		f.peak.hit(at, max(cost, o.Count)) // the times of the hits that broke the limit are not known, only their number
	default:
		f.peak.hit(at, cost)
	}
	if refused {
		f.refused++
	}

	switch {
	case o.Event == window.Broke:
		f.blocks++
	// A late hit showed that the first break was earlier.
	case o.Event == window.Moved && f.blocks == 1:
		f.first, f.limit = o.From, o.Limit
	}
}

// begin counts a block that no hit began.
func (f *offence) begin(o window.Outcome) {
	f.blocks++
	f.peak.most = max(f.peak.most, o.Count)
}

// timelines keeps the timelines of the keys that were refused most. At most maxTimelines are kept at a time: when there
// are more, those of the less refused half are dropped. They begin again if these keys are hit again.
type timelines struct {
	kept []*offence
}

const (
	maxTimelines = 2048
	timelineBars = 160
)

// hit counts a hit in a key's timeline, the newest of its peak included.
func (t *timelines) hit(f *offence, at int64, refused bool) {
	if f.timeline == nil {
		t.begin(f)
	}
	b := f.timeline.at(at)
	b.requests++
	if refused {
		b.refused++
	}
	b.peak = max(b.peak, f.peak.now)
}

func (t *timelines) begin(f *offence) {
	// Half of them at once, so that the sorting is paid for by many new ones.
	if len(t.kept) >= maxTimelines {
		slices.SortFunc(t.kept, func(a, b *offence) int { return cmp.Compare(b.refused, a.refused) })
		for _, less := range t.kept[maxTimelines/2:] {
			less.timeline = nil
		}
		t.kept = t.kept[:maxTimelines/2]
	}
	f.timeline = newSeries(timelineBars)
	t.kept = append(t.kept, f)
}
