package aggregator

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/store"
	"weir/internal/telemetry"
	"weir/pkg/aggregator/publishing"
	"weir/pkg/aggregator/windows"
	"weir/pkg/hit"
)

const tryAgain = 500 * time.Millisecond // between tries of what fails

// ends reports whether an error ends the counting of a partition: going on would be wrong.
func ends(err error) bool { return windows.IsNewer(err) || errors.Is(err, hit.ErrNewer) }

// An outage is a moment in which a partition leaves the store alone, after a call to it failed or while one takes long.
type outage struct {
	own    *windows.Owned
	now    func() time.Time
	faults *telemetry.Faults // of all partitions: the store is away for all of them
	failed prometheus.Counter
	until  time.Time
	last   atomic.Pointer[failure]
}

// A failure is a call to the store that failed.
type failure struct {
	text string
	at   time.Time
}

// failureShown is how long a failure is shown. While the store is away, calls fail more often than that.
const failureShown = 10 * time.Second

// why describes the last failure of a while; empty when there was none. Any goroutine may ask.
func (o *outage) why() string {
	if last := o.last.Load(); last != nil && o.now().Sub(last.at) < failureShown {
		return last.text
	}
	return ""
}

// begin begins an outage, unless the error is another than that the store is away. It reports whether it did.
func (o *outage) begin(err error) bool {
	if errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrForeign) || ends(err) || errors.Is(err, publishing.ErrSend) ||
		errors.Is(err, context.Canceled) {
		return false
	}
	if errors.Is(err, windows.ErrSlow) {
		return true // it may yet succeed
	}
	o.failed.Inc()
	o.faults.Note("store", err)
	o.last.Store(&failure{err.Error(), o.now()})
	o.until = o.now().Add(tryAgain)
	return true
}

// lasts reports whether the store was away a moment ago, or has not answered yet.
func (o *outage) lasts() bool { return o.now().Before(o.until) || o.own.Busy() }

// forget forgets an outage: the partition is taken again.
func (o *outage) forget() { o.until = time.Time{} }
