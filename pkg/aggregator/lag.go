package aggregator

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
)

// A lagCollector tells how many records wait, when it is asked: a lag that is not known is none.
type lagCollector struct {
	statuses         func() map[int]*PartitionStatus
	records, unknown *prometheus.Desc
}

func (a *Aggregator) registerLag(r prometheus.Registerer) {
	telemetry.Register(r, &lagCollector{a.statuses,
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
