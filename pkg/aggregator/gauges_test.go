package aggregator

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/topic"
	"weir/pkg/aggregator/position"
	"weir/pkg/hit"
	"weir/test/metric"
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
	want := "# HELP weir_aggregator_lag_unknown_partitions Partitions whose lag is unknown.\n# TYPE weir_aggregator_lag_unknown_partitions gauge\nweir_aggregator_lag_unknown_partitions 1\n"
	if since == nil {
		want = strings.Replace(want, "partitions 1", "partitions 0", 1) +
			"# HELP weir_aggregator_lag_records Records that wait to be counted, where that is known.\n# TYPE weir_aggregator_lag_records gauge\nweir_aggregator_lag_records{partition=\"0\"} 0\n"
	}
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "weir_aggregator_lag_unknown_partitions", "weir_aggregator_lag_records"); err != nil {
		l.t.Error(err)
	}
}

// The status has a lag while it is known. While Kafka is away, or the partition's goroutine waits, it has since when it is
// not; and so it is before the log was read for the first time.
func TestALagThatIsNotKnown(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	r := prometheus.NewRegistry()
	registerGauges(r, 1, l.agg.statuses, l.agg.outside)
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

// The gauges count the windows of all our partitions, and none when these are another's.
func TestGaugesOfWindows(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	r := prometheus.NewRegistry()
	registerGauges(r, 1, l.agg.statuses, l.agg.outside)
	p := l.takes()
	l.agg.hold(p)
	hot := func(want float64) {
		t.Helper()
		if got, _ := metric.Value(t, r, "weir_aggregator_hot_keys"); got != want {
			t.Errorf("%v hot keys, want %v", got, want)
		}
	}

	hot(0)
	l.hits("192.0.2.1", 1)
	l.settle(p)
	hot(1)
	l.agg.release(p)
	hot(0)
}

// An aggregator outside the group, because Kafka hangs, has no partitions: then no lag is known.
func TestALagOutsideTheGroup(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	r := prometheus.NewRegistry()
	registerGauges(r, 1, l.agg.statuses, l.agg.outside)
	unknown := func(want string) {
		t.Helper()
		text := "# HELP weir_aggregator_lag_unknown_partitions Partitions whose lag is unknown.\n# TYPE weir_aggregator_lag_unknown_partitions gauge\nweir_aggregator_lag_unknown_partitions " + want + "\n"
		if err := testutil.GatherAndCompare(r, strings.NewReader(text), "weir_aggregator_lag_unknown_partitions"); err != nil {
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

// In a backlog of many keys, checkpoints are up to ten seconds apart. The group's commit follows the counting all the
// same, never goes back, and is at the end of the log only when the store has all.
func TestCommitsFollowABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1, newMemoryStore())
		l.hotKeys = 100_000
		l.start(labRules)
		committed := int64(0)
		commits := position.NewCommits(context.Background(), func(_ context.Context, offset int64) error {
			if offset < committed {
				t.Errorf("the commit goes back from %d to %d", committed, offset)
			}
			committed = offset
			return nil
		})
		defer commits.Close()
		l.log = &labLog{lab: l, most: 1}
		p := l.agg.newPartition(0, l.log, commits)
		if err := p.take(t.Context()); err != nil {
			t.Fatal(err)
		}

		const records = 200
		for r := range records {
			l.send("s", "few", func(w *hit.Writer) {
				for n := range 300 {
					w.Add(0, fmt.Appendf(nil, "2001:db8:%x::%x", r, n), l.newest().UnixMilli(), 1)
				}
			})
		}
		var counted []int64 // after each turn, which takes 0.3 s
		for committed < records {
			l.turn(p)
			l.list.deliver(len(l.list.waiting))
			synctest.Wait()
			counted = append(counted, p.position.At().Offset)
			if ago := len(counted) - 7; ago >= 0 && counted[ago] < records && committed < counted[ago] {
				t.Fatalf("turn %d: the commit is %d, but %d were counted two seconds ago", len(counted), committed, counted[ago])
			}
			if committed == records && !p.saver.Saved(records) {
				t.Error("all is committed before the store has it")
			}
			if len(counted) > 10*records {
				t.Fatal("the end is never committed")
			}
		}
		time.Sleep(time.Second)
	})
}
