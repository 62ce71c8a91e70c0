package aggregator

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/pkg/aggregator/windows"
)

// Keys of a new log are not looked up in the store; the next owner looks up only those that the store has.
func TestNewKeysAreNotLookedUp(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	send := func(p *partition, from, to int) (cold, fresh float64) {
		lookups := l.agg.metrics.lookups
		cold, fresh = testutil.ToFloat64(lookups.cold), testutil.ToFloat64(lookups.fresh)
		for n := from; n < to; n++ {
			l.hits(fmt.Sprint("192.0.2.", n), 1)
		}
		l.settle(p)
		return testutil.ToFloat64(lookups.cold) - cold, testutil.ToFloat64(lookups.fresh) - fresh
	}
	most := windows.SmallestSize
	if cold, fresh := send(l.takes(), 0, most); cold != 0 || fresh != float64(most) {
		t.Errorf("of a new log: %v looked up, %v new", cold, fresh)
	}
	l.start(labRules)
	if cold, fresh := send(l.takes(), most/2, 2*most); cold != float64(most/2) || fresh != float64(most) {
		t.Errorf("by the next owner: %v looked up, %v new", cold, fresh)
	}
}
