package aggregator

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
	"weir/pkg/aggregator/position"
)

// A lagCollector tells how many records wait, when it is asked: a lag that is not known is none.
type lagCollector struct {
	*Aggregator
	records, unknown *prometheus.Desc
}

func (a *Aggregator) registerLag(r prometheus.Registerer) {
	telemetry.Register(r, &lagCollector{a,
		prometheus.NewDesc("weir_aggregator_lag_records", "Records that wait to be counted, where that is known.", []string{"partition"}, nil),
		prometheus.NewDesc("weir_aggregator_lag_unknown_partitions", "Partitions of which nobody knows how many records wait.", nil, nil),
	})
}

// Describe is for the registry.
func (l *lagCollector) Describe(to chan<- *prometheus.Desc) {
	to <- l.records
	to <- l.unknown
}

// Collect is for the registry.
func (l *lagCollector) Collect(to chan<- prometheus.Metric) {
	unknown := 0
	for number, s := range l.statuses() {
		if s == nil || s.LagUnknownSince != nil {
			unknown++
			continue
		}
		to <- prometheus.MustNewConstMetric(l.records, prometheus.GaugeValue, float64(s.Lag), strconv.Itoa(number))
	}
	if l.outside() {
		unknown = l.config.Partitions // any of them may be ours when Kafka is back
	}
	to <- prometheus.MustNewConstMetric(l.unknown, prometheus.GaugeValue, float64(unknown))
}

// statuses are those of our partitions by their numbers, nil for one that is being taken.
func (a *Aggregator) statuses() map[int]*PartitionStatus {
	now := a.config.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[int]*PartitionStatus{}
	for number, p := range a.held {
		all[number] = nil
		if shown := p.shown.Load(); shown != nil {
			s := *shown
			s.LagUnknownSince = s.seen.UnknownSince(now)
			all[number] = &s
		}
	}

	return all
}

// place notes whether this process has a place in its group.
func (a *Aggregator) place(has bool) {
	since := a.config.Now().UnixMilli()
	if has {
		since = 0
	}
	a.outsideSince.Store(since)
}

// outside says that the process has had no place in its group for a while, as when Kafka hangs: it has no partitions then,
// and nothing is counted. A place is lost for a moment whenever members come or go.
func (a *Aggregator) outside() bool {
	since := a.outsideSince.Load()
	return since != 0 && a.config.Now().Sub(time.UnixMilli(since)) >= position.LagPatience
}
