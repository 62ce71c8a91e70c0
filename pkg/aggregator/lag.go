package aggregator

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
)

// A lagCollector tells how many records wait, when it is asked: a lag that is not known is none.
type lagCollector struct {
	partitions       int
	statuses         func() map[int]*PartitionStatus
	outside          func() bool // there is no place in the group for us
	records, unknown *prometheus.Desc
}

func registerLag(r prometheus.Registerer, partitions int, statuses func() map[int]*PartitionStatus, outside func() bool) {
	telemetry.Register(r, &lagCollector{partitions, statuses, outside,
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
		unknown = l.partitions // any of them may be ours when Kafka is back
	}
	to <- prometheus.MustNewConstMetric(l.unknown, prometheus.GaugeValue, float64(unknown))
}
