package aggregator

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/topic"
)

const lagPatience = 15 * time.Second

// lagIs checks what status and metrics say of the only partition: since when its lag is not known, nil while it is.
func (l *lab) lagIs(r *prometheus.Registry, since *time.Time) {
	l.t.Helper()
	s := l.agg.Status()
	got := s.Partitions[0].LagUnknownSince
	if (got == nil) != (since == nil) || got != nil && !got.Equal(*since) {
		l.t.Errorf("not known since %v, want %v", got, since)
	}
	if s.CaughtUp != (since == nil) {
		l.t.Errorf("caught up: %v", s.CaughtUp)
	}
	want := "# HELP weir_aggregator_lag_unknown_partitions Partitions of which nobody knows how many records wait.\n# TYPE weir_aggregator_lag_unknown_partitions gauge\nweir_aggregator_lag_unknown_partitions 1\n"
	if since == nil {
		want = strings.Replace(want, "partitions 1", "partitions 0", 1) +
			"# HELP weir_aggregator_lag_records Records that wait to be counted, where that is known.\n# TYPE weir_aggregator_lag_records gauge\nweir_aggregator_lag_records{partition=\"0\"} 0\n"
	}
	if err := testutil.GatherAndCompare(r, strings.NewReader(want)); err != nil {
		l.t.Error(err)
	}
}

// The status has a lag while it is known. While Kafka is away, or the partition's goroutine waits, it has since when it is
// not; and so it is before the log was read for the first time.
func TestALagThatIsNotKnown(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	r := prometheus.NewRegistry()
	registerLag(r, 1, l.agg.statuses, l.agg.outside)
	p := l.takes()
	l.agg.hold(p)
	taken := l.now
	l.lagIs(r, &taken)
	l.hits("192.0.2.1", 1)
	l.settle(p)
	l.lagIs(r, nil)
	seen := l.now
	l.log.instead = func(context.Context) ([]topic.Record, error) { return nil, topic.ErrUnreachable }
	for l.now.Before(seen.Add(lagPatience)) {
		l.lagIs(r, nil)
		l.turn(p)
	}
	l.lagIs(r, &seen)
	l.log.instead = nil
	l.turn(p)
	l.lagIs(r, nil)
	seen = l.now
	l.now = l.now.Add(lagPatience)
	l.lagIs(r, &seen)
	l.agg.release(p)
	if n, err := testutil.GatherAndCount(r, "weir_aggregator_lag_records"); n != 0 || err != nil {
		t.Errorf("%d lags of partitions that are not ours, %v", n, err)
	}
}

// An aggregator outside the group, because Kafka hangs, has no partitions: then no lag is known.
func TestALagOutsideTheGroup(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	r := prometheus.NewRegistry()
	registerLag(r, 1, l.agg.statuses, l.agg.outside)
	unknown := func(want string) {
		t.Helper()
		text := "# HELP weir_aggregator_lag_unknown_partitions Partitions of which nobody knows how many records wait.\n# TYPE weir_aggregator_lag_unknown_partitions gauge\nweir_aggregator_lag_unknown_partitions " + want + "\n"
		if err := testutil.GatherAndCompare(r, strings.NewReader(text)); err != nil {
			t.Error(err)
		}
		if got := l.agg.Status().CaughtUp; got != (want == "0") {
			t.Errorf("caught up: %v", got)
		}
	}

	l.agg.place(true) // all partitions may be those of others
	unknown("0")
	l.agg.place(false)
	unknown("0") // members come and go
	l.now = l.now.Add(lagPatience)
	unknown("1")
	l.agg.place(true)
	unknown("0")
}
