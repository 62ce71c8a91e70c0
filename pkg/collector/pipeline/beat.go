package pipeline

import (
	"sync/atomic"
	"time"
)

// A beat groups the cuts of all live streams, so that they share a sync of the journal and a request to Kafka. It divides
// time into periods as long as the latency budget. A stream cuts at most once in a period: at its beginning what came
// during the period before, or at once when no stream has cut in this period yet. So a lone line does not wait, and the
// lines of busy logs wait for half a period on average and for one at most.
type beat struct {
	every time.Duration // 0: cuts are not grouped
	last  atomic.Int64  // the period in which a stream cut last
}

// beatSlack is the part of a period at whose beginning all streams may cut: they do not wake at the same instant.
const beatSlack = 4

// period is the number of the period of an instant.
func (b *beat) period(at time.Time) int64 { return at.UnixNano() / int64(b.every) }

// wait is how long a stream has to wait until it may cut what it has had since some period, when its last cut was in
// another; 0 is not at all.
func (b *beat) wait(now time.Time, cut, since int64) time.Duration {
	period, next := b.period(now), b.next(now)
	if cut != period && (since != period || b.last.Load() != period || next > b.every-b.every/beatSlack) {
		return 0
	}
	return next
}

// next is the time until the next period.
func (b *beat) next(now time.Time) time.Duration {
	if b.every == 0 {
		return 0
	}
	return b.every - time.Duration(now.UnixNano()%int64(b.every))
}
